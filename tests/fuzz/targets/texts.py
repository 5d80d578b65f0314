"""What people write: users, rights, configuration, rules of the uplink; and orders that come from the platform."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.config.errors import ConfigError
from iot_mqtt.app.config.reading import read_config
from iot_mqtt.auth.acl import decide, parse_rules
from iot_mqtt.auth.ban_index import BanIndex, Entry
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.users import parse_users
from iot_mqtt.devices.fields import Fields, read_object
from iot_mqtt.devices.order import read_order
from iot_mqtt.ports.access import Action, Principal
from iot_mqtt.ports.addresses import parsed
from iot_mqtt.ports.bans import Ban
from iot_mqtt.uplink.rules import MISSING, NAMES, ExpressionError, Facts, Rules, parse, rules_of
from tests.fuzz.target import Target, head

ROOT = Path(__file__).parents[3]


def run_users(data: bytes) -> None:
    """A file of users, or ``FileError``, which does not quote a line."""
    text = data.decode("utf-8", "replace")
    try:
        users = parse_users(text, "users")
    except FileError as error:
        assert error.path == "users"
        return
    for name in ("joe", "ann", "nobody"):
        users.hash_of(name)
        assert not (name in users and users.is_disabled(name))


_WHO = (
    Principal("c1", "joe"),
    Principal("+/#", "a/b"),
    Principal("", None, anonymous=True),
    Principal("c1", "joe", superuser=True),
)
_ASKED = (
    (Action.PUBLISH, "plant/1/x"),
    (Action.SUBSCRIBE, "$share/g/plant/+/#"),
    (Action.SUBSCRIBE, "#"),
    (Action.READ, "$SYS/x"),
    (Action.REPLAY, "plant/#"),
    (Action.CLIENT, "c1"),
    (Action.GATEWAY, "gw"),
)


def run_acl(data: bytes) -> None:
    """Rules that answer, or ``FileError``. Who may subscribe to everything may read whatever anybody publishes."""
    text = data.decode("utf-8", "replace")
    try:
        rules = parse_rules(text, "acl")
    except FileError as error:
        assert error.path == "acl"
        return
    for who in _WHO:
        of = rules.of(who)
        for action, asked in _ASKED:
            assert decide(of, who, action, asked) in (True, False)
        for filter, topic in (("plant/#", "plant/1/x"), ("plant/+", "plant/y"), ("#", "a")):
            if decide(of, who, Action.SUBSCRIBE, filter) and not any(not rule.allow for rule in of):
                assert decide(of, who, Action.READ, topic), f"{filter} may be subscribed to, but {topic} not read"


def run_bans(data: bytes) -> None:
    """Lines of client, user and address; the last one is who comes. The index finds what comparing each does."""
    lines = [line.split("|") for line in data.decode("utf-8", "replace").split("\n")]
    client_id, user, host = ([*lines[-1], "", "", ""])[:3]
    index = BanIndex()
    entries: list[Entry] = []
    for number, line in enumerate(lines[:-1]):
        client, who, address = ([one or None for one in line] + [None] * 3)[:3]
        if client is None and who is None and address is None:
            continue
        ban = Ban(str(number % 5), client, who, address, None, "operator", "", "", 0.0, exact=len(line) > 3)
        try:
            index.add(ban)
        except ValueError:
            assert address is not None
            continue
        entries = [entry for entry in entries if entry.ban.id != ban.id] + [Entry.of(ban)]
    found = [entry.ban for entry in entries if entry.fits(client_id, user, parsed(host), 0.0)]
    ban_found = index.find(client_id, user, host, 0.0)
    # An empty name is nobody's, whatever pattern fits it.
    found = [ban for ban in found if (client_id or ban.client is None) and (user or ban.user is None)]
    assert (ban_found in found) if found else ban_found is None
    plain = [ban for ban in found if ban.client is None and ban.user is None]
    assert index.bans_host(host, 0.0) == bool(plain)
    for entry in entries:
        index.remove(entry.ban.id)
    assert (len(index), index.find(client_id, user, host, 0.0)) == (0, None)


_FILE = Path(tempfile.gettempdir()) / f"iot-mqtt-fuzz-{os.getpid()}.yaml"


def run_configuration(data: bytes) -> None:
    """A configuration, or ``ConfigError``: as a file, as settings of a command line, or as environment."""
    choice, rest = head(data, 1)
    path: str | None = None
    sets: list[str] = []
    environment: dict[str, str] = {}
    if choice[0] % 3 == 0:
        _FILE.write_bytes(rest)
        path = str(_FILE)
    else:
        lines = rest.decode("utf-8", "surrogateescape").split("\n")
        if choice[0] % 3 == 1:
            sets = lines
        else:
            pairs = (line.partition("=") for line in lines)
            environment = {"IOT_MQTT__" + key.upper(): value for key, _, value in pairs}
    try:
        loaded = read_config(path, sets, environment)
        serving_problems(loaded)
    except ConfigError as error:
        assert error.problems
        assert str(error)
    finally:
        _FILE.unlink(missing_ok=True)


def _maps(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def run_rules(data: bytes) -> None:
    """Entries are rules or told as wrong, and rules take any message."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(told, dict):
        return
    rules, wrong = rules_of(_maps(told.get("rules")))
    assert all(isinstance(one, str) for one in wrong)
    if wrong or not rules:
        return
    made = Rules(rules, ("iot.dead",))
    reading = None
    if isinstance(values := told.get("values"), dict):
        # What a node says of a gateway's reading; the values are the codec's.
        reading = {"gateway": "g1", "device": "d1", "codec": "x", "schema": "1", "ts": 5, "seq": 7, "values": values}
    for topic in ("up/gw/d1", "a"):
        for qos in (0, 1, 2):
            facts = Facts(topic, "c1", qos, told.get("payload", MISSING), reading)
            made.of(topic.encode(), qos)
            made.asks(topic.encode(), qos)
            choice = made.choose(topic.encode(), facts)
            assert choice is None or (choice.to and len(choice.to) <= 249)
    assert all(rule.entry() for rule in rules)


def run_condition(data: bytes) -> None:
    """Any text is a condition that says yes or no, or ``ExpressionError`` with a place in it."""
    text, _, payload = data.decode("utf-8", "replace").partition("\n")
    try:
        condition = parse(text, NAMES)
    except ExpressionError as error:
        assert 1 <= error.column <= len(text) + 1
        return
    try:
        scope = {"topic": "a/b", "client": "c", "qos": 1, "payload": json.loads(payload or "null")}
    except (ValueError, RecursionError):
        scope = {"topic": "a/b", "values": {"t": 1.5, "s": "x"}, "device": "d"}
    assert condition.holds(scope) in (True, False)


def run_letter(data: bytes) -> None:
    """A letter is an order or ``ValueError``, whose words can be logged and written into a header."""
    try:
        new = read_order(Fields(read_object(data)), 1000.0)
    except ValueError as error:
        str(error).encode("utf-8", "replace")
        return
    assert new.target
    assert len(new.body) <= 4 * len(data) + 16
    for text in (new.target, new.id, new.idempotency_key, new.response_topic):
        text.encode()


# -- where it begins -------------------------------------------------------------------------------------

_HASH = "$argon2id$v=19$m=16,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"


def _user_seeds() -> Iterator[bytes]:
    yield f"# users\njoe:{_HASH}\n\nann:!{_HASH}\r\n".encode()
    yield b"joe:plain\n"
    yield f"joe:{_HASH}\njoe:{_HASH}".encode()


def _acl_seeds() -> Iterator[bytes]:
    yield (
        b"[all]\ndeny publish plant/+/locked/#\nallow subscribe plant/#\n[user joe]\nallow all up/%u/#\n"
        b"allow client gateway-*\nallow gateway %u\n[anonymous]\nallow read public/#\nallow replay plant/%c\n"
    )
    yield b"[all]\nallow all #\n"
    yield b"[user a b]\ndeny client ?x*\n# comment\n"


def _configuration_seeds() -> Iterator[bytes]:
    yield b"\0node:\n  id: n1\nlisteners:\n  mqtt: {host: 127.0.0.1, port: 1883}\n  plc: {port: 9601, codec: gateway}\n"
    yield b"\0mqtt: &a {max_qos: 1}\nauth:\n  allow_anonymous: true\n  acl_file: /x\n"
    yield b"\0uplink:\n  rules: [{filter: up/#}]\n"
    yield b"\0plugins:\n  x: {config: {a: [1, 2]}}\ngrid: {kind: ignite, ignite: {addresses: [a:1]}}\n"
    yield b"\1node.id=n2\nlisteners.mqtt={port: 0}\nmqtt.max_qos=7\nlog.level=debug"
    yield b"\2NODE__ID=n3\nMQTT__MAX_QUEUED_MESSAGES=5\nUPLINK__RULES=[{filter: a}]"
    yield b"\1uplink.rules=2026-99-99"
    for section in (ROOT / "application.yaml").read_text().replace("\n#", "\n").split("\n\n")[1:8]:
        yield b"\0" + section.encode()[:800]


def _rule_seeds() -> Iterator[bytes]:
    yield (
        b'{"rules": [{"filter": "up/#", "to": "iot.{gateway}", "key": "{device}", "when": "values.t > 20"},'
        b' {"filter": "a", "mode": "only", "qos": 1}], "payload": {"t": 1}, "values": {"t": 30}}'
    )
    yield b'{"rules": [{"gateway": "g*", "codec": "modbus", "when": "exists payload.x"}], "payload": [1, "x"]}'
    yield b'{"rules": [{"filter": "+/x", "to": "x{topic[1]}", "key": "{client}/{topic[2]}"}]}'


def _condition_seeds() -> Iterator[bytes]:
    for text in (
        "payload.t > 20 and not (qos == 0)",
        "payload['a b'] in ('x', 5, -1.5e3, true, null)",
        'exists payload.x or topic == "a/b"',
        "payload.x[0].y != 'z'",
    ):
        yield text.encode() + b'\n{"t": 21, "x": [{"y": 1}], "a b": 5}'


def _letter_seeds() -> Iterator[bytes]:
    yield b'{"target": "gw/press", "body": {"on": true}, "expires_in": 30, "retry": true, "id": "x"}'
    yield b'{"target": "gw/press", "body_base64": "AAE=", "deadline": 5, "wants_reply": true, "response_topic": "r"}'
    yield b'{"target": "", "body": "\\ud800"}'


_YAML = (
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"!!binary ",
    b"{",
    b"[",
    b"0x1",
    b"~",
    b"2026-99-99",
    b"<<: ",
    b"\n  ",
    b"? ",
    b"1_0",
)
_JSON = (b"null", b"true", b"[", b"{", b'"\\ud800"', b"1e999", b'"when": "', b'"to": "', b'{"filter": "#"}')


def _ban_seeds() -> Iterator[bytes]:
    yield b"press-7||\npress-?||10.0.0.0/8\n|ann|\n||192.0.2.0/24\n*|bob|2001:db8::/32\npress-7|ann|10.1.2.3"
    yield b"*a*a*a*a*a*a*a*b||\n[x]*||\n?||::ffff:0:0/96\n||0.0.0.0/0\n*||10.0.0.1|exact\n" + b"a" * 30 + b"||10.0.0.1"


TARGETS = (
    Target("bans", run_bans, _ban_seeds, (b"|", b"\n", b"*", b"?", b"/0", b"/32", b"::", b"10.0.0.1"), 600, 6000),
    Target("users", run_users, _user_seeds, (b"$argon2id$", b":", b"!", b"v=19$", b"m=4294967296"), 400, 10000),
    Target(
        "acl",
        run_acl,
        _acl_seeds,
        (b"allow ", b"deny ", b"[all]\n", b"[user ", b"%c", b"%u", b"subscribe ", b"all #"),
        400,
        25000,
    ),
    Target("configuration", run_configuration, _configuration_seeds, _YAML, 900, 400),
    Target("uplink-rules", run_rules, _rule_seeds, _JSON, 700, 10000),
    Target(
        "uplink-condition",
        run_condition,
        _condition_seeds,
        (b"and ", b"or ", b"not ", b"in (", b"exists ", b"'x'", b"["),
        300,
        30000,
    ),
    Target("letters", run_letter, _letter_seeds, _JSON, 500, 24000),
)
__all__ = ["TARGETS"]

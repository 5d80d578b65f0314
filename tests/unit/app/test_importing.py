"""Configurations, users and rules of other brokers."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from click.testing import CliRunner, Result

from iot_mqtt.app.cli import main
from iot_mqtt.app.config import load_config
from iot_mqtt.auth import passwd
from iot_mqtt.auth.acl import parse_brought, parse_rules
from iot_mqtt.auth.explaining import Question, answer
from iot_mqtt.auth.sections import Book
from iot_mqtt.ports.access import Principal

# Of mosquitto_passwd 2.0: joe, secret.
JOE = (
    "joe:$7$101$Uw9Bp9GHEHGDLUSg$JrUMgakg57vYkR/D"
    "EC1RTs67EulW0dPvA07x5YBtOtsHF7L8M6mQd3XxblhSZEiSDFmfU2rh2vmcNZjqI27Ihw==\n"
)
CONF = """\
# a site's broker
persistence_location /var/lib/mosquitto/
log_dest file {folder}/broker.log
allow_anonymous false
password_file {folder}/passwd
acl_file {folder}/acl
include_dir {folder}/conf.d
max_queued_messages 0
persistent_client_expiration 2w
listener 11911
max_connections 500
listener 11912 127.0.0.1
protocol websockets
listener 11913
certfile {folder}/cert.pem
keyfile {folder}/key.pem
tls_version tlsv1.3
listener 11914
tls_version tlsv1.1
mount_point site/
connection cloud
address cloud.example:8883
topic # out 1
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["import", *map(str, arguments)])


def may(path: Path, who: Principal, action: str, topic: str, **form: Any) -> bool:
    book = Book([parse_rules(path.read_text(), str(path))], parse_brought)
    return answer(book.of(who), who, Question(action, topic, **form)).allowed


@pytest.fixture
def mosquitto(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "more.conf").write_text("sys_interval 7\n")
    (tmp_path / "passwd").write_text(f"{JOE}no hash\n")
    (tmp_path / "acl").write_text("user joe\ntopic readwrite plant/#\npattern write up/%c/#\n")
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    (tmp_path / "mosquitto.conf").write_text(CONF.format(folder=tmp_path))
    return tmp_path


def test_a_mosquitto_becomes_a_configuration_that_can_be_served(mosquitto: Path) -> None:
    """Its ports, users, rules and limits; what cannot be taken over is told with its line."""
    result = run("mosquitto", mosquitto / "mosquitto.conf", "-o", mosquitto / "out")
    assert result.exit_code == 0, result.output
    config = load_config(str(mosquitto / "out" / "application.yaml"), (), {})
    ports = {name: (one.host, one.port, one.protocol) for name, one in config.enabled_listeners.items()}
    assert ports == {
        "mqtt": ("0.0.0.0", 11911, "mqtt"),
        "ws": ("127.0.0.1", 11912, "websocket"),
        "mqtts": ("0.0.0.0", 11913, "mqtt"),
    }
    assert config.listeners["mqtt"].max_connections == 500 and config.listeners["mqtts"].tls.min_version == "1.3"
    assert (config.mqtt.sys_interval, config.mqtt.session_expiry_interval) == (7, 14 * 86_400)
    assert not config.auth.allow_anonymous and config.auth.users_file == str(mosquitto / "out" / "users")
    assert passwd.verify(str(mosquitto / "out" / "users"), "joe", b"secret")
    joe = Principal("c", "joe")
    assert may(mosquitto / "out" / "acl", joe, "publish", "plant/1")
    assert not may(mosquitto / "out" / "acl", joe, "publish", "other")
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    file = mosquitto / "mosquitto.conf"
    for where, words in (
        (f"{file}:2: persistence_location", "iot-mqtt import sessions"),
        (f"{file}:8: max_queued_messages", "0 is no limit there"),
        (f"{file}:19: tls_version", "1.2 is the lowest"),
        (f"{file}:18: listener 11914 was left out", "mount_point: topics have no prefix"),
        (f"{file}:21: connection", "there are no bridges"),
        (f"{mosquitto / 'passwd'}:2: ", "this user has to be added"),
    ):
        assert any(where in note and words in note for note in notes), (where, notes)
    assert not any("address" in note or ":23:" in note for note in notes)


def test_nothing_is_overwritten_and_strictly_nothing_is_left_out(mosquitto: Path) -> None:
    """A second time there are files; with --strict notes are reasons to write none."""
    conf, out = mosquitto / "mosquitto.conf", mosquitto / "out"
    assert run("mosquitto", conf, "-o", out, "--strict").exit_code == 1 and not out.exists()
    assert run("mosquitto", conf, "-o", out).exit_code == 0
    before = (out / "users").read_text()
    result = run("mosquitto", conf, "-o", out)
    assert result.exit_code == 1 and "is there already" in result.output and (out / "users").read_text() == before


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="needs mosquitto_passwd")
def test_passwords_of_mosquitto_passwd_stay_what_they_are(tmp_path: Path) -> None:
    """As it writes them here."""
    file = tmp_path / "passwd"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(file), "joe", "secret"], check=True)
    conf = tmp_path / "mosquitto.conf"
    conf.write_text(f"allow_anonymous false\npassword_file {file}\n")
    result = run("mosquitto", conf, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    users = str(tmp_path / "out" / "users")
    assert passwd.verify(users, "joe", b"secret") and not passwd.verify(users, "joe", b"other")
    config = load_config(str(tmp_path / "out" / "application.yaml"), (), {})
    assert [(one.host, one.port) for one in config.enabled_listeners.values()] == [("127.0.0.1", 1883)]


RULES = [
    {
        "username": "joe",
        "rules": [
            {
                "topic": "plant/${clientid}/#",
                "permission": "allow",
                "action": "all",
                "qos": ["0", "1", "2"],
                "retain": "all",
            },
            {"topic": "fast/#", "permission": "allow", "action": "publish", "qos": ["0", "1"], "retain": "false"},
            {"topic": "near/#", "permission": "allow", "action": "publish", "ipaddr": "10.0.0.0/8"},
            {"topic": "wrong/#/x", "permission": "deny", "action": "subscribe"},
        ],
    }
]


def written(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_files_of_emqx_become_users_rules_and_bans(tmp_path: Path) -> None:
    """What cannot be said is narrower, and told."""
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(5)).decode()
    users = written(
        tmp_path,
        "users.json",
        [
            {"user_id": "joe", "password_hash": hashed, "salt": "", "is_superuser": True},
            {"user_id": "ann", "password_hash": "b6c743545a78", "salt": "de10", "is_superuser": False},
        ],
    )
    more = written(tmp_path, "more.csv", f"user_id,password_hash,salt,is_superuser\neve,{hashed},,false\n")
    rules = written(tmp_path, "rules.json", {"data": RULES, "meta": {"count": 1}})
    everybody = written(
        tmp_path, "all.json", {"rules": [{"topic": "news/#", "permission": "allow", "action": "subscribe"}]}
    )
    bans = written(
        tmp_path,
        "bans.json",
        {
            "data": [
                {"as": "clientid", "who": "c; rm", "by": "x", "reason": "it's bad", "until": "infinity"},
                {"as": "peerhost", "who": "10.0.0.1", "until": "2000-01-01T00:00:00+00:00"},
                {"as": "clientid_re", "who": "^a", "until": "infinity"},
            ]
        },
    )
    out = tmp_path / "out"
    result = run("emqx", users, more, rules, everybody, bans, "-o", out)
    assert result.exit_code == 0, result.output
    assert passwd.verify(str(out / "users"), "joe", b"secret") and passwd.verify(str(out / "users"), "eve", b"secret")
    assert "ann" not in (out / "users").read_text()
    joe, ann, acl = Principal("c", "joe"), Principal("c", "ann"), out / "acl"
    assert may(acl, joe, "publish", "plant/c/x") and not may(acl, joe, "publish", "plant/d/x")
    assert may(acl, joe, "publish", "fast/x", qos=1) and not may(acl, joe, "publish", "fast/x", qos=2)
    assert not may(acl, joe, "publish", "fast/x", qos=1, retain=True)
    assert not may(acl, joe, "publish", "near/x")
    # A rule that denies and cannot be said denies all behind it.
    assert may(acl, joe, "subscribe", "plant/c/x") and not may(acl, joe, "subscribe", "news/x")
    assert may(acl, ann, "subscribe", "news/x")
    assert (out / "bans.sh").read_text() == "iot-mqtt ctl bans add --client 'c; rm' --reason 'it'\"'\"'s bad'\n"
    told = result.stderr
    for words in ("'ann': its hash is no bcrypt", "is_superuser", "ipaddr cannot be said", "clientid_re '^a' cannot"):
        assert words in told


def test_passwords_that_emqx_hashed_with_a_salt_are_kept(tmp_path: Path) -> None:
    """--hash says how, as the file does not; what cannot be verified is told."""
    salt = "00112233445566778899aabbccddeeff"
    digest = hashlib.sha256(f"{salt}secret".encode()).hexdigest()
    file = written(
        tmp_path,
        "users.json",
        [
            {"user_id": "joe", "password_hash": digest.upper(), "salt": salt, "is_superuser": False},
            {"user_id": "short", "password_hash": digest[:32], "salt": salt, "is_superuser": False},
            {"user_id": "plain", "password_hash": "secret", "salt": "", "is_superuser": False},
            {"user_id": "unsalted", "password_hash": digest, "salt": "", "is_superuser": False},
        ],
    )
    result = run("emqx", file, "--hash", "sha256,prefix", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert passwd.verify(str(tmp_path / "out" / "users"), "joe", b"secret")
    assert not passwd.verify(str(tmp_path / "out" / "users"), "joe", b"secret ")
    assert len((tmp_path / "out" / "users").read_text().splitlines()) == 1
    for words in (
        "'short': its hash is no hash of EMQX",
        "'plain': its hash is not hexadecimal",
        "'unsalted': its hash",
    ):
        assert words in result.stderr
    result = run("emqx", file, "--hash", "md5,prefix", "-o", tmp_path / "other")
    assert result.exit_code == 2 and "none of EMQX's" in result.output


def test_a_name_makes_no_second_line(tmp_path: Path) -> None:
    """Of users, or of rules."""
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(5)).decode()
    users = written(tmp_path, "users.json", [{"user_id": f"eve:{hashed}\nroot", "password_hash": hashed}])
    topic = "a\nallow publish #"
    rules = written(tmp_path, "all.json", {"rules": [{"topic": topic, "permission": "allow", "action": "publish"}]})
    result = run("emqx", users, rules, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "users").read_text() == ""
    assert (tmp_path / "out" / "acl").read_text() == "[all]\n"
    assert "a name has no ':' in it" in result.stderr


@pytest.mark.parametrize("content", ["{", "[1]", '[{"a": 1}]', '{"data": 5}', '[{"username": "a", "rules": 3}]'])
def test_what_is_no_file_of_emqx_is_refused(tmp_path: Path, content: str) -> None:
    """In one line, and nothing is written."""
    result = run("emqx", written(tmp_path, "x.json", content), "-o", tmp_path / "out")
    assert result.exit_code == 1 and result.output.startswith("Error: ") and not (tmp_path / "out").exists()


def page(folder: Path, number: int, bans: range, count: int | None = 250, *, goes_on: bool | None = None) -> Path:
    """A page of bans as the API answers it."""
    meta = {"page": number, "limit": 100, "hasnext": number < 3 if goes_on is None else goes_on}
    data = [{"as": "clientid", "who": f"c{one}", "until": "infinity"} for one in bans]
    told = meta if count is None else meta | {"count": count}
    return written(folder, f"page-{number}.json", {"data": data, "meta": told})


def test_pages_of_an_answer_are_taken_when_all_of_them_are_there(tmp_path: Path) -> None:
    """Otherwise bans would vanish, and rules that deny: how many of how many, and how to get them."""
    pages = [page(tmp_path, 1, range(100)), page(tmp_path, 2, range(100, 200)), page(tmp_path, 3, range(200, 250))]
    behind = page(tmp_path, 4, range(0), goes_on=False)
    out = tmp_path / "out"
    for some in (pages[:1], pages[1:], [pages[0], pages[0], pages[0]], [behind]):
        result = run("emqx", *some, "-o", out)
        assert result.exit_code == 1 and not out.exists(), result.output
    result = run("emqx", *pages[:2], "-o", out)
    assert f"{pages[1]}: 200 of 250 are in it and its other pages: " in result.stderr, result.stderr
    assert "?limit=10000" in result.stderr
    result = run("emqx", behind, *pages, "-o", out)
    assert result.exit_code == 0, result.output
    assert len((out / "bans.sh").read_text().splitlines()) == 250


def test_an_answer_without_a_count_says_whether_it_goes_on(tmp_path: Path) -> None:
    """As that of a search does."""
    first, last = page(tmp_path, 1, range(100), None), page(tmp_path, 3, range(100, 110), None)
    result = run("emqx", first, "-o", tmp_path / "out")
    assert result.exit_code == 1 and "100 are in it and its other pages, and more follow" in result.stderr
    assert run("emqx", first, last, "-o", tmp_path / "out").exit_code == 0


def test_lists_of_users_and_of_clients_have_pages_of_their_own(tmp_path: Path) -> None:
    """A list that is whole makes up for nothing of another."""
    rules = [{"topic": "a", "permission": "deny", "action": "all"}]
    meta = {"count": 2, "page": 1, "limit": 1, "hasnext": True}
    files = [
        written(tmp_path, f"{key}.json", {"data": [{key: "a", "rules": rules}], "meta": meta})
        for key in ("username", "clientid")
    ]
    result = run("emqx", *files, "-o", tmp_path / "out")
    assert result.exit_code == 1 and "1 of 2 are in it" in result.stderr

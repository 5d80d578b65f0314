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


HASHED = bcrypt.hashpw(b"secret", bcrypt.gensalt(5)).decode()
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
    for words in (
        "'ann' was left out: its hash is no bcrypt",
        "is_superuser",
        "ipaddr cannot be said",
        "clientid_re '^a' cannot",
    ):
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
        "'short' was left out: its hash is no hash of EMQX",
        "'plain' was left out: its hash is not hexadecimal",
        "'unsalted' was left out: its hash",
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


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_a_byte_order_mark_is_passed_over(tmp_path: Path, suffix: str) -> None:
    """As editors and Excel write one."""
    text = f"user_id,password_hash\njoe,{HASHED}\n"
    if suffix == "json":
        text = json.dumps([{"user_id": "joe", "password_hash": HASHED}])
    result = run("emqx", written(tmp_path, f"users.{suffix}", f"\ufeff{text}"), "-o", tmp_path / "out", "--strict")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "users").read_text() == f"joe:{HASHED}\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("\ufeff \n", "is empty"),
        ("{", "is not JSON: Expecting property name"),
        ("5", "is no list of objects"),
        ("null", "is no list of objects"),
        ("[" * 100_000, "is nested more than 64 levels deep"),
        ("[1e999]", "holds a number that is too large"),
        ("1" * 5000, "holds a number with more than 4300 digits"),
        ('["\\ud800"]', "holds a surrogate"),
        ("[1]", "record 1: it is no object"),
        ('[{"a": 1}]', "record 1: it has none of user_id, rules and as"),
        ('{"data": 5}', "is no list of objects"),
        ('[{"username": "a", "rules": 3}]', "record 1: its rules are no list"),
        ('[{"user_id": "a", "is_superuser": false}]', "record 1: it has no password_hash"),
        ('[{"user_id": "a", "password": "secret"}]', "record 1: its password is in the clear, which is not taken over"),
    ],
)
def test_what_is_no_file_of_emqx_is_refused(tmp_path: Path, content: str, says: str) -> None:
    """In one line, and nothing is written."""
    file = written(tmp_path, "x.json", content)
    result = run("emqx", file, "-o", tmp_path / "out")
    assert result.exit_code == 1 and result.output.startswith(f"Error: {file}: {says}"), result.output
    assert result.output.count("\n") == 1 and "secret" not in result.output
    assert not (tmp_path / "out").exists()


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    """It was cut off, for a head is in the emptiest one."""
    result = run("emqx", written(tmp_path, "x.csv", ""), "-o", tmp_path / "out")
    assert result.exit_code == 1 and "x.csv: is empty" in result.output


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (None, "it is no object"),
        (7, "it is no object"),
        ([[[]]], "it is no object"),
        ({}, "it has none of user_id, rules and as"),
        ({"password_hash": HASHED}, "it has none of user_id, rules and as"),
        ({"user_id": None, "password_hash": HASHED}, "its user_id is no text"),
        ({"user_id": 5, "password_hash": HASHED}, "its user_id is no text"),
        ({"user_id": "bad"}, "it has no password_hash"),
        ({"user_id": "bad", "password": "secret"}, "its password is in the clear, which is not taken over"),
        ({"user_id": "bad", "password_hash": ["secret"]}, "its password_hash is no text"),
        ({"user_id": "bad", "password_hash": HASHED, "salt": {}}, "its salt is no text"),
        ({"username": ["a"], "rules": []}, "its username is no text"),
        ({"username": "bad", "clientid": "c", "rules": []}, "nothing says whose its rules are"),
        ({"user": "bad", "rules": []}, "nothing says whose its rules are"),
        ({"username": "bad", "rules": {"a": []}}, "its rules are no list"),
        ({"as": 5, "who": "c"}, "its as is no text"),
        ({"as": "clientid", "who": None}, "its who is no text"),
        ({"as": "clientid"}, "its who is no text"),
        ({"as": "clientid", "who": "bad", "until": "soon"}, "its until is no time"),
        ({"as": "clientid", "who": "bad", "until": True}, "its until is no time"),
        ({"as": "clientid", "who": "bad", "until": [1]}, "its until is no time"),
        ({"as": "clientid", "who": "bad", "until": 10**400}, "its until is no time"),
    ],
)
def test_a_bad_record_costs_the_others_nothing(tmp_path: Path, record: object, says: str) -> None:
    """It is named by its file and its number; with --strict nothing is written."""
    good = [
        {"user_id": "joe", "password_hash": HASHED},
        {"username": "joe", "rules": [{"topic": "a", "permission": "allow", "action": "publish"}]},
    ]
    file, out = written(tmp_path, "x.json", [*good, record, {"as": "clientid", "who": "c"}]), tmp_path / "out"
    result = run("emqx", file, "-o", out, "--strict")
    assert result.exit_code == 1 and not out.exists(), result.output
    result = run("emqx", file, "-o", out)
    assert result.exit_code == 0, result.output
    assert f"note: {file}: record 3: {says}" in result.stderr and "secret" not in result.stderr
    assert (out / "users").read_text() == f"joe:{HASHED}\n"
    assert may(out / "acl", Principal("c", "joe"), "publish", "a")
    assert (out / "bans.sh").read_text().endswith("iot-mqtt ctl bans add --client c\n")


def test_what_cannot_be_read_gives_nobody_more(tmp_path: Path) -> None:
    """Where rules cannot be read everything is denied; a ban whose end cannot be read is for good."""
    records = [
        {"rules": [{"topic": "#", "permission": "allow", "action": "all"}]},
        {"username": "joe", "rules": None},
        {"username": "ann", "rules": [None, {"topic": "a", "permission": "allow", "action": "all"}]},
        {"as": "clientid", "who": "c", "until": "soon"},
    ]
    out = tmp_path / "out"
    result = run("emqx", written(tmp_path, "x.json", records), "-o", out)
    assert result.exit_code == 0, result.output
    for user, allowed in (("joe", False), ("ann", False), ("eve", True)):
        for action in ("publish", "subscribe"):
            assert may(out / "acl", Principal("c", user), action, "a") is allowed
    assert (out / "bans.sh").read_text() == "iot-mqtt ctl bans add --client c\n"
    assert "record 2: its rules are no list: everything is denied to user 'joe'" in result.stderr
    assert "record 4: its until is no time: the ban is for good" in result.stderr


def test_a_name_that_no_acl_file_can_hold_is_left_out_with_what_it_may(tmp_path: Path) -> None:
    """But not with what it may not: somebody would get more."""
    records: list[dict[str, Any]] = [
        {"username": name, "rules": [{"topic": "a", "permission": "allow", "action": "all"}]} for name in ("a]", "joe")
    ]
    file, out = written(tmp_path, "x.json", records), tmp_path / "out"
    result = run("emqx", file, "-o", out)
    assert result.exit_code == 0 and "record 1: user 'a]' was left out" in result.stderr, result.output
    assert "a]" not in (out / "acl").read_text()
    records[0]["rules"][0]["permission"] = "deny"
    result = run("emqx", written(tmp_path, "x.json", records), "-o", tmp_path / "other")
    assert result.exit_code == 1 and not (tmp_path / "other").exists()
    assert f"Error: {file}: record 1: user 'a]': this name cannot stand in an ACL file" in result.stderr


def test_a_line_of_a_table_with_too_few_or_too_many_fields_is_a_bad_record(tmp_path: Path) -> None:
    """Unless what is missing may be."""
    lines = f"user_id,password_hash,salt\njoe,{HASHED}\nann\neve,{HASHED},,x\n"
    result = run("emqx", written(tmp_path, "x.csv", lines), "-o", tmp_path / "out")
    assert result.exit_code == 0 and (tmp_path / "out" / "users").read_text() == f"joe:{HASHED}\n"
    for says in ("2: its password_hash is no text", "3: it has more fields than the head of the table"):
        assert f"record {says}" in result.stderr


@pytest.mark.parametrize("files", [1, 2])
def test_of_a_user_who_is_there_twice_the_last_one_counts(tmp_path: Path, files: int) -> None:
    """As where EMQX imports users; it is told, unless both are the same."""
    other = bcrypt.hashpw(b"other", bcrypt.gensalt(5)).decode()
    first = [{"user_id": name, "password_hash": HASHED} for name in ("joe", "ann", "eve")]
    second = [
        {"user_id": "joe", "password_hash": other},
        {"user_id": "ann", "password_hash": HASHED},
        {"user_id": "eve", "password_hash": "md5"},
    ]
    lists = [first + second] if files == 1 else [first, second]
    paths = [written(tmp_path, f"{number}.json", users) for number, users in enumerate(lists)]
    result = run("emqx", *paths, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert sorted((tmp_path / "out" / "users").read_text().splitlines()) == [f"ann:{HASHED}", f"joe:{other}"]
    twice = [
        line for line in result.stderr.splitlines() if line.endswith("is there before: the last one counts, as in EMQX")
    ]
    number = 4 if files == 1 else 1
    assert twice == [
        f"note: {paths[-1]}: record {number}: user 'joe' is there before: the last one counts, as in EMQX",
        f"note: {paths[-1]}: record {number + 2}: user 'eve' is there before: the last one counts, as in EMQX",
    ]


@pytest.mark.parametrize("hashing", [(), ("--hash", "sha256,prefix"), ("--hash", "pbkdf2-sha256,4096")])
@pytest.mark.parametrize("password", ["hunter2", "deadbeef" * 8, "$2b$05$x"])
def test_a_password_in_the_clear_does_not_become_a_hash(
    tmp_path: Path, hashing: tuple[str, ...], password: str
) -> None:
    """``password_hash_algorithm: plain`` keeps it in the place of the hash, without a salt."""
    file = written(tmp_path, "x.json", [{"user_id": "joe", "password_hash": password, "salt": ""}])
    result = run("emqx", file, *hashing, "-o", tmp_path / "out")
    assert result.exit_code == 0 and (tmp_path / "out" / "users").read_text() == "", result.output
    assert "record 1: user 'joe' was left out: its hash " in result.stderr
    assert "it needs a new password (iot-mqtt passwd)" in result.stderr and password not in result.stderr


def test_hashes_that_cannot_be_verified_are_refused_with_the_way_out(tmp_path: Path) -> None:
    """Those users are left out where --hash is."""
    file = written(tmp_path, "x.json", [{"user_id": "joe", "password_hash": "hunter2"}])
    result = run("emqx", file, "--hash", "plain", "-o", tmp_path / "out")
    assert result.exit_code == 2
    words = "plain is none of EMQX's that can be verified here; without --hash its users are left out, and named"
    assert words in " ".join(result.output.split())


NO_MATCH = "note: what no rule speaks of is denied here; there authorization.no_match says so"
DENIED = (
    "note: a subscription that meets what is denied is refused here; EMQX accepts it, and sends what is denied, too"
)


def rule(permission: object, action: object, topic: object = "a", **more: object) -> dict[str, object]:
    return {"topic": topic, "permission": permission, "action": action, **more}


@pytest.mark.parametrize(
    ("one", "words", "lines"),
    [
        (rule("allow", "pub"), "was left out: action", []),
        (rule("deny", ["publish"]), "denies more than before: action", ["deny publish a", "deny read a"]),
        (rule("perhaps", "publish"), "denies more than before: permission", ["deny publish a"]),
        (rule("allow", "publish", qos=[3]), "was left out: qos or retain", []),
        (rule("allow", "publish", qos=[0, 7]), "was left out: qos or retain", []),
        (rule("allow", "publish", qos=[]), "was left out: qos or retain", []),
        (rule("allow", "publish", retain="some"), "was left out: qos or retain", []),
        (rule("deny", "publish", qos={}), "denies more than before: qos or retain", ["deny publish a"]),
        (rule("deny", "publish", retain=5), "denies more than before: qos or retain", ["deny publish a"]),
        (rule("allow", "subscribe", qos=[1]), "was left out for subscriptions: qos", []),
        (rule("deny", "subscribe", qos=[1]), "denies more than before: qos", ["deny read a"]),
        (rule("deny", "all", qos=[1]), "denies more than before: qos", ["deny publish qos=1 a", "deny read a"]),
        (rule("allow", "publish", "a/%c"), "was left out: topic", []),
        (rule("deny", "publish", "%u/a"), "denies more than before: topic", ["deny publish +/a"]),
        (rule("allow", "publish", "a/${clientid}-x"), "was left out: topic", []),
        (rule("allow", "publish", "eq a/+"), "was left out: topic", []),
        (rule("deny", "publish", "eq #"), "denies more than before: topic", ["deny publish #"]),
        (rule("allow", "publish", " a"), "its topic cannot be said", []),
        (rule("allow", "publish", "a "), "its topic cannot be said", []),
        (rule("allow", "publish", "retain a"), "its topic cannot be said", []),
        (rule("deny", "publish", "qos=1 a"), "its topic cannot be said", ["deny publish #"]),
        (rule("allow", "publish", 5), "was left out: topic", []),
        (rule("deny", "publish", None), "denies more than before: topic", ["deny publish #"]),
        (rule("deny", "publish", ipaddr="10.0.0.1"), "denies more than before: ipaddr", ["deny publish a"]),
    ],
)
def test_what_is_not_as_it_was_is_told_and_strictly_nothing_is_written(
    tmp_path: Path, one: object, words: str, lines: list[str]
) -> None:
    """Rules of EMQX: never wider, and never in silence."""
    file, out = written(tmp_path, "all.json", {"rules": [one]}), tmp_path / "out"
    result = run("emqx", file, "-o", out, "--strict")
    assert result.exit_code == 1 and not out.exists() and "nothing was written" in result.stderr
    result = run("emqx", file, "-o", out)
    assert result.exit_code == 0, result.output
    (note,) = {*result.stderr.splitlines()} - {NO_MATCH, DENIED}
    assert words in note and note.startswith(f"note: {file}: record 1: everybody: ")
    assert (out / "acl").read_text().splitlines() == ["[all]", *lines]


@pytest.mark.parametrize(
    ("one", "lines"),
    [
        (rule("allow", "all", "a/${username}", qos=None, retain=None), ["allow publish a/%u", "allow read a/%u"]),
        (rule("allow", "publish", "eq a/b c", retain="all"), ["allow publish a/b c"]),
        (rule("allow", "publish", "eq a/${clientid}"), ["allow publish a/${clientid}"]),
        (rule("allow", "subscribe", "${clientid}/#", qos=[0, 1, 2], retain=True), ["allow read %c/#"]),
        (rule("deny", "publish", qos="1", retain=True, zone=None), ["deny publish qos=1 retain a"]),
    ],
)
def test_of_what_is_as_it_was_nothing_is_told_but_who_decides_the_rest(
    tmp_path: Path, one: object, lines: list[str]
) -> None:
    """Which is different for all rules, and so is no reason to look for one that is."""
    result = run("emqx", written(tmp_path, "all.json", {"rules": [one]}), "-o", tmp_path / "out")
    assert result.exit_code == 0 and result.stderr.splitlines() == [NO_MATCH]
    assert (tmp_path / "out" / "acl").read_text().splitlines() == ["[all]", *lines]


def test_that_a_denied_topic_has_a_wider_subscription_refused_is_told(tmp_path: Path) -> None:
    """EMQX lets in a subscription to # where only a/b is denied."""
    one = rule("deny", "subscribe", "a/b")
    result = run("emqx", written(tmp_path, "all.json", {"rules": [one]}), "-o", tmp_path / "out")
    assert result.exit_code == 0 and DENIED in result.stderr.splitlines()


def test_users_of_a_namespace_and_bans_that_become_wider_are_told(tmp_path: Path) -> None:
    """A namespace is nothing here, and a client id with a sign is a pattern."""
    records = [
        {"user_id": "joe", "password_hash": HASHED, "namespace": "tenant"},
        {"user_id": "ann", "password_hash": HASHED, "namespace": None},
        {"as": "clientid", "who": "c*"},
        {"as": "username", "who": "u*"},
    ]
    file = written(tmp_path, "x.json", records)
    result = run("emqx", file, "-o", tmp_path / "out")
    assert result.exit_code == 0 and (tmp_path / "out" / "users").read_text() == f"ann:{HASHED}\n"
    assert result.stderr.splitlines() == [
        f"note: {file}: record 1: user 'joe' was left out: it is of the namespace tenant alone",
        f"note: {file}: record 3: the client id 'c*' is a pattern here, so that more clients are banned",
    ]


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

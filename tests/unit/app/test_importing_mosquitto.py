"""Listeners of mosquitto: nobody is let in, and nobody may do, what mosquitto refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.config import load_config
from iot_mqtt.auth.acl import parse_brought, parse_rules
from iot_mqtt.auth.building import names_of
from iot_mqtt.auth.explaining import Question, answer
from iot_mqtt.auth.sections import Book
from iot_mqtt.ports.access import Principal

# Of mosquitto_passwd 2.0: joe, secret.
JOE = (
    "joe:$7$101$Uw9Bp9GHEHGDLUSg$JrUMgakg57vYkR/D"
    "EC1RTs67EulW0dPvA07x5YBtOtsHF7L8M6mQd3XxblhSZEiSDFmfU2rh2vmcNZjqI27Ihw==\n"
)
STRANGER = Principal("c", anonymous=True)


class Taken:
    """What ``import mosquitto`` made of a configuration."""

    def __init__(self, folder: Path, conf: str) -> None:
        self._out = folder / f"out-{len(list(folder.iterdir()))}"
        file = folder / "mosquitto.conf"
        file.write_text(conf.format(folder=folder))
        command = ["import", "mosquitto", str(file), "-o", str(self._out)]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        self.notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
        strictly = CliRunner().invoke(main, [*command[:-1], str(folder / "strictly"), "--strict"])
        assert strictly.exit_code == bool(self.notes)
        self.text = (self._out / "application.yaml").read_text()

    @property
    def users(self) -> str:
        return (self._out / "users").read_text()

    @property
    def config(self) -> Any:
        return load_config(str(self._out / "application.yaml"), (), {})

    @property
    def doors(self) -> dict[int, tuple[str, ...]]:
        """The ports that are open, and whom each asks."""
        config = self.config
        return {one.port: names_of(config.auth, one.auth_chain) for one in config.enabled_listeners.values()}

    def may(self, who: Principal, action: str, asked: str) -> bool:
        acl = self._out / "acl"
        sources = [parse_rules(acl.read_text(), str(acl))] if acl.exists() else []
        book = Book(sources, parse_brought)
        return not sources or answer(book.of(who), who, Question(action, asked)).allowed

    def told(self, *words: str) -> bool:
        return any(all(word in note for word in words) for note in self.notes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "passwd").write_text(JOE)
    (tmp_path / "others").write_text(JOE.replace("joe", "ann"))
    (tmp_path / "plant").write_text("user joe\ntopic read a\npattern read up/%c/#\n")
    (tmp_path / "open").write_text("topic readwrite #\npattern read news/#\n")
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (tmp_path / name).touch()
    return tmp_path


TLS = "certfile {folder}/cert.pem\nkeyfile {folder}/key.pem\ncafile {folder}/ca.pem\n"
PLANT = """\
per_listener_settings true
listener 1001
allow_anonymous false
password_file {folder}/passwd
acl_file {folder}/plant
"""
LOCAL = """\
listener 1002 127.0.0.1
allow_anonymous true
acl_file {folder}/open
"""


def test_each_listener_lets_in_whom_mosquitto_lets_in_there(folder: Path) -> None:
    """Users with passwords at one, everybody at another: neither opens the other, nor gives its rules away."""
    taken = Taken(folder, PLANT + LOCAL)
    assert taken.doors == {1001: ("file",), 1002: ("anonymous",)}
    assert not taken.config.auth.allow_anonymous
    joe = Principal("c", "joe")
    assert taken.may(joe, "receive", "a") and taken.may(joe, "receive", "up/c/x")
    assert not taken.may(joe, "publish", "x") and not taken.may(joe, "receive", "news/x")
    assert taken.may(STRANGER, "publish", "x") and taken.may(STRANGER, "receive", "news/x")


def test_patterns_of_users_are_not_for_anonymous_clients_of_another_listener(folder: Path) -> None:
    """Nor is what only the file of the other listener gives to everybody."""
    (folder / "open").write_text("topic read open/#\npattern write in/%c\n")
    (folder / "plant").write_text("topic readwrite #\nuser joe\ntopic a\npattern readwrite up/%c\npattern read $x/%c\n")
    taken = Taken(folder, PLANT + LOCAL)
    assert taken.may(STRANGER, "receive", "open/x") and taken.may(STRANGER, "publish", "in/c")
    assert not taken.may(STRANGER, "publish", "up/c") and not taken.may(STRANGER, "receive", "$x/c")
    assert not taken.may(STRANGER, "publish", "x")
    joe = Principal("c", "joe")
    assert taken.may(joe, "publish", "up/c") and taken.may(joe, "receive", "$x/c")
    assert not taken.may(joe, "publish", "in/c") and not taken.may(joe, "receive", "open/x")


@pytest.mark.parametrize("first_is_open", [True, False])
def test_no_file_of_rules_at_one_listener_frees_nobody_at_another(folder: Path, first_is_open: bool) -> None:
    """Whoever has none there may do everything; the others may what theirs says."""
    without = "acl_file {folder}/plant\n" if first_is_open else "acl_file {folder}/open\n"
    taken = Taken(folder, (PLANT + LOCAL).replace(without, ""))
    joe = Principal("c", "joe")
    assert taken.may(joe, "publish", "x") is first_is_open
    assert taken.may(STRANGER, "publish", "x")
    assert taken.told("there is no acl_file of", "users" if first_is_open else "anonymous")


def test_a_listener_whose_users_or_rules_are_others_is_left_out(folder: Path) -> None:
    """There is one file of users, and one set of rules for them: the first listener's."""
    others = "listener {port}\npassword_file {{folder}}/{users}\nacl_file {{folder}}/{rules}\n"
    taken = Taken(
        folder,
        PLANT
        + others.format(port=1003, users="others", rules="plant")
        + others.format(port=1004, users="passwd", rules="open")
        + others.format(port=1005, users="passwd", rules="plant"),
    )
    assert taken.doors == {1001: ("file",), 1005: ("file",)}
    assert taken.told("listener 1003 was left out", "password_file") and taken.told("listener 1004 was left out")
    assert "# " in taken.text and "listener 1003 was left out" in taken.text
    assert taken.users == JOE


def test_a_listener_that_lets_nobody_in_is_left_out(folder: Path) -> None:
    """With no chain of its own it would ask the one of all listeners."""
    assert Taken(folder, PLANT + "listener 1006\nacl_file {folder}/plant\n").doors == {1001: ("file",)}


def test_without_a_listener_everybody_of_this_machine_is_let_in(folder: Path) -> None:
    """mosquitto's local mode; one line `listener`, and nobody is."""
    taken = Taken(folder, "persistence false\n")
    assert taken.doors == {1883: ("anonymous",)} and taken.config.listeners["mqtt"].host == "127.0.0.1"


OPEN = "allow_anonymous true\nlistener 1001\n"


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("psk_hint plant\n", "psk_hint"),
        ("mount_point site/\n", "mount_point"),
        ("bind_interface eth1\n", "bind_interface"),
        ("socket_domain ipv6\n", "socket_domain"),
        ("use_username_as_clientid 1\n", "use_username_as_clientid"),
        ("plugin /usr/lib/x.so\nplugin_opt_x y\n", "plugin"),
        ("auth_plugin /usr/lib/x.so\nauth_opt_x y\n", "auth_plugin"),
        ("global_plugin /usr/lib/x.so\n", "plugin"),
        (TLS + "require_certificate true\nuse_subject_as_username true\n", "use_subject_as_username"),
        (TLS + "use_identity_as_username true\n", "use_identity_as_username"),
        ("protocol websockets\n" + TLS + "require_certificate true\nuse_identity_as_username true\n", "websockets"),
        ("use_identity_as_username true\n", "use_identity_as_username"),
        ("require_certificate true\ncafile {folder}/ca.pem\n", "certfile"),
        ("clientid_prefixes a*b\n", "clientid_prefixes"),
    ],
)
def test_what_narrows_a_listener_and_cannot_be_said_leaves_it_out(folder: Path, lines: str, word: str) -> None:
    """Whoever mosquitto would refuse is not let in instead."""
    taken = Taken(folder, OPEN + lines)
    assert taken.doors == {}
    assert taken.told("listener 1001 was left out", word)


def test_options_of_a_listener_do_not_leave_out_others(folder: Path) -> None:
    """Those that are of one listener alone, and plugins where settings are per listener."""
    psk = "listener 1003\nallow_anonymous true\npsk_file {folder}/psk\npsk_hint x\n"
    plugin = "listener 1004\nallow_anonymous true\nplugin x.so\n"
    assert Taken(folder, PLANT + psk + plugin).doors == {1001: ("file",)}


def test_a_certificate_is_a_user_at_its_listener_only(folder: Path) -> None:
    """And no password is asked for there."""
    secure = "listener 1007\n" + TLS + "require_certificate true\n"
    taken = Taken(
        folder,
        "allow_anonymous false\npassword_file {folder}/passwd\n"
        + secure
        + "use_identity_as_username true\n"
        + secure.replace("1007", "1008"),
    )
    assert taken.doors == {1007: ("certificate",), 1008: ("file",)}
    assert taken.told("use_identity_as_username", "another user name")


def test_prefixes_of_client_ids_are_rules(folder: Path) -> None:
    """With a file of rules and without one; nobody gets an id that has no prefix."""
    for acl in ("", "acl_file {folder}/open\n"):
        taken = Taken(folder, f"allow_anonymous true\n{acl}listener 1001\nclientid_prefixes dev[-\n")
        assert taken.doors == {1001: ("anonymous",)}
        for client, may in (("dev[-1", True), ("dev[-", True), ("other", False)):
            assert taken.may(Principal(client, anonymous=True), "client", client) is may
        assert taken.may(Principal("dev[-1", anonymous=True), "publish", "x")
        assert not taken.config.mqtt.allow_empty_client_id
        assert not taken.told("clientid_prefixes")


def test_of_what_is_one_for_all_listeners_the_least_counts(folder: Path) -> None:
    """Whichever stands last."""
    one = "listener {}\nallow_anonymous true\nmax_qos {}\nmax_topic_alias {}\nallow_zero_length_clientid {}\n"
    one += "max_topic_alias_broker {}\n"
    first, second = one.format(1001, 0, 5, "false", 4), one.format(1002, 1, 9, 1, 3)
    taken = Taken(folder, f"per_listener_settings true\n{first}{second}")
    mqtt = taken.config.mqtt
    assert (mqtt.max_qos, mqtt.topic_alias_maximum, mqtt.allow_empty_client_id) == (0, 5, False)
    assert mqtt.topic_alias_maximum_outbound == 3
    assert taken.told("max_qos", "all listeners")


def test_a_file_that_is_included_speaks_of_no_listener_of_the_other_file(folder: Path) -> None:
    """mosquitto begins each file at its default listener, and includes from the first file only."""
    (folder / "more").mkdir()
    (folder / "deep").mkdir()
    (folder / "more" / "a.conf").write_text(f"allow_anonymous true\ninclude_dir {folder}/deep\n")
    (folder / "deep" / "b.conf").write_text("listener 1009\nallow_anonymous true\n")
    assert Taken(folder, PLANT + "include_dir {folder}/more\n").doors == {1001: ("file",)}


def test_port_and_bind_address_are_of_the_default_listener(folder: Path) -> None:
    """Wherever they stand."""
    taken = Taken(folder, OPEN.replace("1001", "1001 127.0.0.1") + "port 1010\nbind_address 127.0.0.2\n")
    places = {(one.host, one.port) for one in taken.config.enabled_listeners.values()}
    assert places == {("127.0.0.1", 1001), ("127.0.0.2", 1010)}


@pytest.mark.parametrize(
    "conf", ["allow_anonymous maybe\n", "allow_anonymous true\nper_listener_settings true\nlistener 1001\n"]
)
def test_what_mosquitto_does_not_start_with_is_refused(folder: Path, conf: str) -> None:
    """It says nothing about who was let in."""
    file = folder / "mosquitto.conf"
    file.write_text(conf)
    result = CliRunner().invoke(main, ["import", "mosquitto", str(file), "-o", str(folder / "out")])
    assert result.exit_code == 1 and f"{file}:" in result.output and not (folder / "out").exists()


def test_rules_of_users_whom_nobody_verifies_are_told(folder: Path) -> None:
    """mosquitto takes any name at its word where there is no password_file."""
    assert Taken(folder, "allow_anonymous true\nacl_file {folder}/plant\nlistener 1001\n").told(
        "plant", "no listener verifies names"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("queue_qos0_messages true", "QoS 0 is never kept"),
        ("max_keepalive 30", "mqtt.server_keep_alive"),
        ("max_inflight_bytes 100", "mqtt.max_inflight counts messages"),
        ("http_dir /srv/www", "nothing here is like it"),
    ],
)
def test_what_is_not_taken_over_is_told_with_what_there_is(folder: Path, line: str, words: str) -> None:
    """The note says what is true here, and what to do."""
    assert Taken(folder, f"{OPEN}{line}\n").told(line.split(maxsplit=1)[0], words)


def test_a_folder_that_is_not_there_is_no_empty_one(folder: Path) -> None:
    """mosquitto does not start; without its files everybody of this machine would be let in."""
    file = folder / "mosquitto.conf"
    file.write_text(f"listener 1001\ninclude_dir {folder}/conf.d\n")
    result = CliRunner().invoke(main, ["import", "mosquitto", str(file), "-o", str(folder / "out")])
    assert result.exit_code == 1 and f"{file}:2: include_dir: {folder}/conf.d is no directory" in result.output
    assert not (folder / "out").exists()


def test_a_listener_of_another_protocol_is_left_out(folder: Path) -> None:
    """It was opened for MQTT."""
    taken = Taken(folder, PLANT + "listener 1002\nprotocol http_api\nallow_anonymous true\n")
    assert taken.doors == {1001: ("file",)}
    assert taken.told("listener 1002 was left out", "protocol: http_api")

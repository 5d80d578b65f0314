"""``iot-mqtt ctl``: tables, JSON and exit codes, all through the API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt.admin.token import announce, load_token
from iot_mqtt.app.cli import main
from iot_mqtt.app.config.layers import DEFAULT_DATA_DIR
from iot_mqtt.app.config.sections import NodeConfig
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.target import Target
from iot_mqtt.app.ctl.why import STATES
from iot_mqtt.app.terminal import plain, size, span
from iot_mqtt.broker.facade import AttemptInfo
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.slow import CAUSES
from iot_mqtt.values import Message
from tests.unit.admin.adminkit import NOW
from tests.unit.app.ctl.ctlkit import Ctl


def test_clients_are_a_table(ctl: Ctl) -> None:
    """A heading and a line for each."""
    ctl.view.connect("plc-1")
    ctl.view.connect("a much longer name")
    lines = ctl.lines("clients", "list")
    assert " ".join(lines[0].split()) == "CLIENT USER PEER LISTENER PROTOCOL CONNECTED SUBS INFLIGHT QUEUED IN OUT NODE"
    assert [line[:18].rstrip() for line in lines[1:]] == ["a much longer name", "plc-1"]
    assert len({line.index("joe") for line in lines[1:]}) == 1


def test_json_is_the_items_themselves(ctl: Ctl) -> None:
    """For scripts; ``--json`` may stand before or after the command."""
    ctl.view.connect("c")
    after, before = ctl.run("clients", "list", "--json"), ctl.run("--json", "clients", "list")
    assert json.loads(after.stdout)[0]["client_id"] == "c"
    assert after.stdout == before.stdout


def test_listings_follow_all_pages_unless_limited(ctl: Ctl) -> None:
    """2500 sessions are three pages."""
    for number in range(2500):
        ctl.view.keep_session(f"{number:05}")
    assert len(ctl.lines("sessions", "list")) == 2501
    assert len(ctl.lines("sessions", "list", "--limit", "7")) == 8


def test_show_has_a_line_for_each_field(ctl: Ctl) -> None:
    """Times are readable."""
    ctl.view.connect("a/b")
    lines = ctl.lines("clients", "show", "a/b")
    assert any(line.split() == ["client", "id", "a/b"] for line in lines)
    assert any(line.startswith("connected at") and "1970-01-12" in line for line in lines)


@pytest.mark.parametrize(
    "command",
    [
        ("clients", "show", "x"),
        ("clients", "kick", "x"),
        ("sessions", "show", "x"),
        ("sessions", "purge", "x"),
        ("retained", "show", "x"),
        ("retained", "delete", "x"),
    ],
)
def test_what_is_not_there_is_exit_code_1(ctl: Ctl, command: tuple[str, ...]) -> None:
    """With one line that names it, on standard error."""
    result = ctl.run(*command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "'x'" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("clients",),
        ("clients", "nothing"),
        ("publish", "a"),
        ("publish", "a", "b", "--qos", "3"),
        ("shadow", "set", "gw/a", "speed"),
        ("limits", "set", "a", "=1"),
        ("users", "limits", "ann", "rate"),
        ("why",),
        ("why", "c", "--topic", ""),
        ("why", "--topic", ""),
        ("why", ""),
    ],
)
def test_a_wrong_command_is_exit_code_2(ctl: Ctl, command: tuple[str, ...]) -> None:
    """As everywhere."""
    assert ctl.run(*command).exit_code == 2


def test_kick_purge_and_delete_do_it(ctl: Ctl) -> None:
    """And say so."""
    ctl.view.connect("a/b")
    ctl.view.keep_session("a/b")
    ctl.view.retain("t/u")
    assert ctl.lines("clients", "kick", "a/b") == ["kicked a/b"]
    assert ctl.lines("sessions", "purge", "a/b") == ["purged a/b"]
    assert ctl.lines("retained", "delete", "t/u") == ["deleted t/u"]
    assert (ctl.view.by_client, ctl.view.by_session, ctl.view.kept) == ({}, {}, {})


def test_subscriptions_can_be_narrowed_to_a_client(ctl: Ctl) -> None:
    """By its id."""
    ctl.view.subscribe("a", "x/+")
    ctl.view.subscribe("b", "y")
    assert [line.split()[:2] for line in ctl.lines("subscriptions", "list", "--client", "a")[1:]] == [["a", "x/+"]]


def test_retained_messages_are_listed_by_filter(ctl: Ctl) -> None:
    """With their sizes."""
    ctl.view.retain("a/b", b"12345")
    ctl.view.retain("c")
    assert [line.split()[:2] for line in ctl.lines("retained", "list", "--filter", "a/#")[1:]] == [["a/b", "5"]]


def test_publish_sends_the_payload_byte_by_byte(ctl: Ctl) -> None:
    """From the command line or from standard input."""
    assert ctl.lines("publish", "t", "gr\u00fc\u00df", "--qos", "1", "--retain") == ["matched 3"]
    assert ctl.run("publish", "t", "-", input=b"\xff\x00\n").exit_code == 0
    assert ctl.lines("publish", "elsewhere", "") == ["matched 3 here, and others at other nodes"]
    ctl.view.done.pop()
    assert ctl.view.done == [Message(b"t", "gr\u00fc\u00df".encode(), 1, retain=True), Message(b"t", b"\xff\x00\n")]


def test_a_refusal_of_the_node_is_told_in_its_words(ctl: Ctl) -> None:
    """Exit code 1 and the detail."""
    ctl.view.failure = Unavailable("the store does not answer")
    result = ctl.run("publish", "t", "x")
    assert (result.exit_code, result.stderr) == (1, "Error: the store does not answer\n")


def test_why_is_one_screen(ctl: Ctl) -> None:
    """Last disconnect, queue, in flight, drops, denials: all that decides whether messages come."""
    ctl.view.keep_session("c")
    ctl.view.subscribe("c", "a/+", 1)
    lines = ctl.lines("why", "c")
    assert len(lines) < 26
    end = "nothing came from the client for one and a half times its keep-alive"
    assert lines[0].startswith(f"1. not connected: {end} [disconnected, n1, ")
    screen = {line[:15].strip(): line[17:] for line in lines[lines.index("") + 1 :]}
    assert screen["connected"].startswith("no, since 1970-01-12 13:46:10Z")
    assert screen["last disconnect"] == end
    assert screen["state"].startswith("offline: ")
    assert (screen["queue"], screen["dropped"], screen["denied"]) == ("3 messages, 3.0 kB", "queue_full 4", "publish 5")
    assert screen["subscriptions"] == "a/+ (QoS 1)"


def test_why_tells_what_is_remembered_of_a_client_that_is_not_there(ctl: Ctl) -> None:
    """Each attempt on a line, the newest first; without any of them it is an error."""
    ctl.view.remembered["c"] = [
        AttemptInfo("c", "refused", NOW - 5, "not_authorized", "not allowed", "joe", "10.0.0.1:5", "mqtt"),
        AttemptInfo("c", "ended", NOW - 9, "session_expired", "the session expired", None, "", ""),
    ]
    lines = ctl.lines("why", "c")
    assert lines[0].startswith("1. refused: not allowed (user 'joe', from 10.0.0.1:5 on mqtt) [not_authorized, n1, ")
    assert lines[1] == "   what would help: iot-mqtt ctl auth may"
    lines = lines[lines.index("") + 1 :]
    assert [line.split()[0] for line in lines] == ["client", "connected", "refused", "ended", "session"]
    assert lines[2].endswith("ago): not allowed (user joe, from 10.0.0.1:5 on mqtt)")
    assert lines[3].endswith("ago): the session expired (no user name)")
    result = ctl.run("why", "nobody")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "nobody of that name has been seen" in result.stdout


def test_why_of_a_connected_client_tells_from_where_and_the_outbox(ctl: Ctl) -> None:
    """Both halves on one screen."""
    ctl.view.connect("c")
    ctl.view.keep_session("c", connected=True, state="outbox_full")
    text = "\n".join(ctl.lines("why", "c"))
    assert "from 10.0.0.1:5 on mqtt (MQTT 5.0, user joe" in text
    assert "does not read from its connection fast enough" in text


def test_every_state_of_a_session_has_its_words() -> None:
    """Those that ``sessions list --state`` takes."""
    assert STATES.keys() == CAUSES.keys()


def test_why_counts_the_filters_that_do_not_fit(ctl: Ctl) -> None:
    """A thousand of them would be no screen."""
    ctl.view.keep_session("c", subscriptions=12)
    for number in range(12):
        ctl.view.subscribe("c", f"f/{number:02}")
    assert ctl.lines("why", "c")[-1].endswith("f/07 (QoS 0), and 4 more")


def test_why_in_json_has_all_three_parts(ctl: Ctl) -> None:
    """For scripts."""
    ctl.view.keep_session("c")
    found = json.loads(ctl.run("why", "c", "--json").stdout)
    assert (found["client"], found["session"]["queued"], found["subscriptions"]) == (None, 3, [])


def test_status_and_metrics(ctl: Ctl) -> None:
    """The node in one look, and as Prometheus sees it."""
    assert any(line.split() == ["node", "id", "n1"] for line in ctl.lines("status"))
    assert json.loads(ctl.run("status", "--json").stdout)["clients"] == 0
    assert ctl.lines("metrics") == ["up 1"]
    assert "bytes_sent" in json.loads(ctl.run("metrics", "--json").stdout)


def test_control_characters_do_not_reach_the_terminal(ctl: Ctl) -> None:
    """A client may call itself by an escape sequence."""
    ctl.view.connect("a\x1b[2Jb\nc")
    output = ctl.run("clients", "list").stdout
    assert "\x1b" not in output
    assert "a\\x1b[2Jb\\nc" in output


def test_the_node_is_found_through_its_data_directory(tmp_path: Path) -> None:
    """Token and address are where the node left them."""
    token = load_token(str(tmp_path))
    announce(str(tmp_path), "http://127.0.0.1:4711")
    node = Target(data_dir=str(tmp_path)).connect()
    assert (node.url, node._token) == ("http://127.0.0.1:4711", token)
    assert Target(data_dir=str(tmp_path), url="http://other/", token="t").connect().url == "http://other"


def test_the_node_is_found_through_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the directory that ``serve`` was started in, nothing need be named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "application.yaml").write_text("node: {data_dir: d}\nadmin: {host: '::', port: 9}")
    token = load_token(str(tmp_path / "d"))
    node = Target().connect()
    assert (node.url, node._token) == ("http://[::1]:9", token)


def test_no_configuration_is_read_where_none_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node and token are named: what lies in the working directory is of no interest."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "application.yaml").write_text("nonsense: 1")
    assert Target(url="http://node", token="t").connect().url == "http://node"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin.token").write_text("t")
    with pytest.raises(CtlError, match="nonsense"):
        Target().connect()  # nobody has left an address, so the configuration says it


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://node-1:18083", False),
        ("http://node-1:18083", True),
        ("https://node-1:18083", True),
        ("http://127.0.0.1:18084", False),
        ("http://localhost.example:18083", True),
        ("http://127.0.0.1@node-1:18083", True),
        ("http://node-1:18083/http://127.0.0.1:18083", True),
        ("http://[::ffff:10.0.0.1]:18083", True),
        ("http://[nonsense", True),
    ],
)
def test_the_token_of_a_directory_goes_to_no_other_node(
    url: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has another address is sent nothing of this node's, whether its directory was named or found."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    token = load_token(str(data))
    announce(str(data), "http://127.0.0.1:18083")
    with pytest.raises(CtlError, match=r"is not sent to.*--token") as refused:
        Target(url=url, data_dir=str(data) if named else None).connect()
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://127.0.0.1:18083", False),
        ("http://127.0.0.1:18083/", False),
        ("http://127.0.0.1:9", True),
        ("http://localhost:9", True),
        ("https://[::1]:9/", True),
    ],
)
def test_the_token_of_a_directory_goes_to_its_node(
    url: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that left its address there; or one of this machine, for which somebody named the directory."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    token = load_token(str(data))
    announce(str(data), "http://127.0.0.1:18083")
    node = Target(url=url, data_dir=str(data) if named else None).connect()
    assert (node.url, node._token) == (url.rstrip("/"), token)


def test_a_url_without_a_token_needs_no_directory_to_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is the token of that node, not a directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CtlError, match="--token"):
        Target(url="http://node-1:18083").connect()


def test_a_configuration_that_cannot_be_read_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data directory is in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "application.yaml").write_text("node: [")
    with pytest.raises(CtlError, match=r"application\.yaml:1:8.*YAML"):
        Target().connect()
    monkeypatch.setenv("IOT_MQTT__NODE__DATA_DIR", str(tmp_path / "d"))
    (tmp_path / "application.yaml").write_text("node: {data_dir: e}")
    load_token(str(tmp_path / "d"))
    announce(str(tmp_path / "d"), "http://there:1")
    assert Target().connect().url == "http://there:1"


def test_both_look_for_the_same_data_directory() -> None:
    """``serve`` by the sections of the configuration, ``ctl`` without them."""
    assert NodeConfig().data_dir == DEFAULT_DATA_DIR


def test_no_token_is_told_with_the_way_out(tmp_path: Path) -> None:
    """Rather than a 401."""
    with pytest.raises(CtlError, match="--data-dir"):
        Target(data_dir=str(tmp_path)).connect()


def test_a_node_that_does_not_run_is_exit_code_1(tmp_path: Path) -> None:
    """With the address that was tried."""
    command = ("ctl", "status", "--url", "http://127.0.0.1:1", "--token", "t", "--data-dir", str(tmp_path))
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "cannot reach http://127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x", "127.0.0.1:1"])
def test_only_http_is_spoken(url: str) -> None:
    """The token goes nowhere else."""
    with pytest.raises(CtlError):
        Node(url, "t")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (span(-5), "0 s"),
        (span(0), "0 s"),
        (span(61.9), "1 min 1 s"),
        (span(90_061), "1 d 1 h"),
        (size(999), "999 B"),
        (size(1500), "1.5 kB"),
        (size(5e12), "5000.0 GB"),
        (plain(None), "-"),
        (plain(True), "yes"),
        (plain({}), "-"),
        (plain([]), "-"),
        (plain(["a", "b"]), "a; b"),
        (plain({"b": 2, "a": 1}), "a 1, b 2"),
        (plain(1.5), "1.5"),
        (plain(2.0**53), "9007199254740992"),
        (plain(-(2.0**64)), "-1.8446744073709552e+19"),
    ],
)
def test_figures_for_people(shown: str, expected: str) -> None:
    """Two units at most."""
    assert shown == expected


@pytest.mark.parametrize(
    "command",
    [
        ("why", "\udcff"),
        ("sessions", "show", "\udcff"),
        ("publish", "\udcff", "x"),
        ("sessions", "list", "--prefix", "\udcff"),
    ],
)
def test_arguments_that_are_no_text_are_one_line(command: tuple[str, ...]) -> None:
    """As a shell passes bytes that are no UTF-8."""
    result = CliRunner().invoke(main, ["ctl", "--url", "http://127.0.0.1:1", "--token", "t", *command])
    assert (result.exit_code, isinstance(result.exception, SystemExit)) == (1, True)
    assert "is no text in UTF-8" in result.stderr


@pytest.mark.parametrize("name", ["admin.token", "admin.url"])
def test_a_directory_that_cannot_be_read_is_one_line(tmp_path: Path, name: str) -> None:
    """As of somebody else's node."""
    load_token(str(tmp_path))
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with pytest.raises(CtlError, match=rf"{name}: is a directory; .*--token"):
        Target(data_dir=str(tmp_path)).connect()

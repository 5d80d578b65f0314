"""What keeps a well-formed configuration from being served."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iot_mqtt.app.config.loopback import is_loopback
from tests.unit.app.config.configkit import refusals


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        (
            ["plugins.codecs=[{isolate: acme}]"],
            "plugins.codecs",
            "isolate: there is no such key; did you mean isolation?; name: is required (a text)",
        ),
        (["plugins.codecs=[{name: 'a b'}]"], "plugins.codecs", "entry 1: needs a name"),
        (
            ["plugins.codecs=[{name: a, isolation: none}]"],
            "plugins.codecs",
            "isolation: must be one of inline",
        ),
        (["plugins.codecs=[{name: a, enabled: 1}]"], "plugins.codecs", "enabled: must be true or false"),
        (["plugins.codecs=[{name: a, config: 3}]"], "plugins.codecs", "config: must be a mapping"),
        (["plugins.codecs=[{name: a, limits: {memori: 1}}]"], "plugins.codecs", "did you mean limits.memory?"),
        (
            ["plugins.codecs=[{name: a, limits: {memory: -1}}]"],
            "plugins.codecs",
            "limits.memory: must be greater",
        ),
        (["plugins.codecs=[{name: a}, {name: a}]"], "plugins.codecs", "entry 2: there is an entry for a before it"),
        (["listeners.plc.protocol=frames"], "listeners.plc.codec", "must be set where protocol is frames"),
        (["listeners.mqtt.codec=acme"], "listeners.mqtt.codec", "is for protocol frames only"),
    ],
)
def test_plugins_are_written_as_they_can_be_read(settings: list[str], key: str, words: str) -> None:
    """One line that names the entry and what to do about it."""
    (line,) = refusals(*settings)
    assert key in line
    assert words in line


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        (["grid.kind=ignite"], "registry.kind", "must be zookeeper or static"),
        (["registry.kind=zookeeper"], "registry.kind", "needs grid.kind: ignite"),
        (["grid.kind=ignite", "registry.kind=static"], "registry.static.nodes", "this one (node-1) included"),
        (
            ["grid.kind=ignite", "registry.kind=zookeeper", "registry.zookeeper.username=u"],
            "registry.zookeeper.password",
            "must be set where username is",
        ),
        (
            ["grid.kind=ignite", "registry.kind=zookeeper", "grid.ignite.gateway=nowhere"],
            "grid.ignite.gateway",
            "must be host:port, not 'nowhere'",
        ),
    ],
)
def test_nodes_that_share_a_grid_know_of_each_other(settings: list[str], key: str, words: str) -> None:
    """Half a cluster is worse than none."""
    (line,) = refusals(*settings)
    assert key in line
    assert words in line


def test_a_cluster_can_be_configured() -> None:
    """With ZooKeeper, or with a list of nodes."""
    assert refusals("grid.kind=ignite", "registry.kind=zookeeper") == []
    assert refusals("grid.kind=ignite", "registry.kind=static", "registry.static.nodes=[node-1, node-2]") == []


@pytest.mark.parametrize(
    "setting",
    [
        "grid.kind=memory",
        "listeners.gateway.port=0",
        "uplink.rules=[{filter: a, to: b}]",
    ],
)
def test_keys_of_what_comes_later_are_accepted(setting: str) -> None:
    """A file may be written for the next version."""
    assert refusals(setting) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "broker.example", "2001:db8::1"])
def test_beyond_loopback_without_authentication_is_refused(host: str) -> None:
    """Nobody opens a broker to the world by accident."""
    (line,) = refusals(f"listeners.mqtt.host={host}")
    assert line.startswith("--set listeners.mqtt.host: ")
    assert "auth.allow_anonymous" in line


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "::ffff:127.0.0.1"])
def test_loopback_needs_no_authentication(host: str) -> None:
    """That is the default."""
    assert is_loopback(host)
    assert refusals(f"listeners.mqtt.host={host}") == []


def test_anonymous_access_beyond_loopback_may_be_written_out() -> None:
    """Then it is no accident."""
    assert refusals("listeners.mqtt.host=0.0.0.0", "auth.allow_anonymous=true") == []


def test_a_file_of_users_is_authentication(tmp_path: Path) -> None:
    """And it is enough."""
    (tmp_path / "users").write_text("")
    assert refusals("listeners.mqtt.host=0.0.0.0", f"auth.users_file={tmp_path / 'users'}") == []


def test_refusing_anonymous_clients_is_authentication() -> None:
    """Even where nobody can get in."""
    assert refusals("listeners.mqtt.host=0.0.0.0", "auth.allow_anonymous=false") == []


def test_required_client_certificates_are_authentication(tmp_path: Path) -> None:
    """For that port; a plain one beside it is still refused."""
    (tmp_path / "pem").write_text("")
    pem = tmp_path / "pem"
    files = f"cert: {pem}, key: {pem}, ca: {pem}, require_client_certificate: true"
    tls = f"listeners.mqtts={{host: 0.0.0.0, tls: {{{files}}}}}"
    assert refusals(tls) == []
    assert len(refusals(tls, "listeners.ws.host=0.0.0.0")) == 1


def test_a_closed_listener_may_have_any_host() -> None:
    """Only ports that are opened count."""
    assert refusals("listeners.mqtt.host=0.0.0.0", "listeners.mqtt.enabled=false") == []


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (("listeners.mqtts.enabled=true",), "listeners.mqtts.tls.cert: must be set where the listener is enabled"),
        (("listeners.mqtts.tls.cert=/dev/null",), "listeners.mqtts.tls.key: must be set beside cert"),
        (("log.record=['a/#/b']",), "log.record: entry 1: filter 'a/#/b': '#' must be the whole last level"),
        (("log.record=['a', '$share/g/x']",), "log.record: entry 2: filter '$share/g/x': a shared subscription"),
        (("log.record=['']",), "log.record: entry 1: filter '': empty filter"),
        (("log.topics=[{filter: $share/g/x, retention: 1}]",), "log.topics: entry 1: filter '$share/g/x'"),
        (('node.data_dir="a\0b"',), "node.data_dir: must be a path, which has no NUL in it"),
        (("listeners.mqtt.tls.key=/dev/null",), "or the port would speak plain text"),
        (
            ("listeners.mqtt.tls.require_client_certificate=true",),
            "listeners.mqtt.tls.cert: must be set beside require_client_certificate, or the port would",
        ),
    ],
)
def test_half_a_tls_configuration_is_refused(sets: tuple[str, ...], said: str) -> None:
    """It never falls back to plain text."""
    assert any(said in line for line in refusals(*sets))


def test_files_that_are_not_there_are_named_with_the_way_to_make_them(tmp_path: Path) -> None:
    """Before the node starts, not when the first client connects."""
    (line,) = refusals(f"auth.users_file={tmp_path}/users")
    assert line.endswith(f"{tmp_path}/users does not exist; create it with: iot-mqtt passwd {tmp_path}/users USER")


def test_a_file_that_may_not_be_read_is_not_to_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there: what it needs is another owner or mode."""
    (tmp_path / "users").write_text("")
    monkeypatch.setattr(os, "access", lambda *_: False)
    (line,) = refusals(f"auth.users_file={tmp_path}/users")
    assert line.endswith(f"{tmp_path}/users is not readable for the user that the node runs as")


def test_two_listeners_on_one_port_are_refused() -> None:
    """Naming both; the admin port counts."""
    assert len(refusals("listeners.ws.port=1883")) == 1
    assert len(refusals("admin.port=8083")) == 1
    assert len(refusals("listeners.ws.host=0.0.0.0", "listeners.ws.port=1883", "auth.allow_anonymous=true")) == 1
    assert refusals("listeners.ws.port=0", "listeners.mqtt.port=0", "listeners.gateway.port=0", "admin.port=0") == []


def test_outbox_bounds_have_an_order() -> None:
    """low <= high <= limit."""
    (line,) = refusals("listeners.mqtt.outbox={low: 9000, high: 8000}")
    assert line.startswith("listeners.mqtt.outbox: must be low <= high <= limit")


@pytest.mark.parametrize(
    ("chain", "key", "words"),
    [
        ("auth.chain=[grid, ldap]", "auth.chain", "no link 'ldap'"),
        ("auth.chain=[grid, grid]", "auth.chain", "twice"),
        ("auth.chain=[file]", "auth.chain", "auth.users_file"),
        ("auth.chain=[grid, certificate, file]", "auth.chain", "beside each other"),
        ("auth.chain=[anonymous, grid]", "auth.chain", "at its end"),
        ("listeners.mqtt.auth_chain=[nobody]", "listeners.mqtt.auth_chain", "no link 'nobody'"),
        ("auth.chain=[jwt]", "auth.chain", "auth.jwt.secret_file"),
        ("auth.chain=[http]", "auth.chain", "auth.http.url"),
        ("auth.http.url=http://service.plant/", "auth.http.url", "https"),
        ("auth.jwt.jwks_url=http://idp.plant/", "auth.jwt.jwks_url", "https"),
        ("auth.jwt.jwks_url=http://[idp.plant/", "auth.jwt.jwks_url", "https"),
        ("auth.jwt.algorithms=[none]", "auth.jwt.algorithms", "HS256"),
        ("auth.certificate.pattern='('", "auth.certificate.pattern", "regular expression"),
    ],
)
def test_a_chain_that_cannot_work_is_refused(tmp_path: Path, chain: str, key: str, words: str) -> None:
    """With the key and what is wrong with it."""
    (tmp_path / "users").write_text("")
    more = [f"auth.users_file={tmp_path / 'users'}"] if "certificate, file" in chain else []
    assert any(key in line and words in line for line in refusals(chain, *more))


def test_a_chain_that_is_written_out_may_listen_everywhere() -> None:
    """Who wrote which links are asked has decided."""
    assert refusals("listeners.mqtt.host=0.0.0.0", "auth.chain=[grid]") == []
    assert refusals("listeners.mqtt.host=0.0.0.0", "listeners.mqtt.auth_chain=[grid]") == []


@pytest.mark.parametrize(
    ("hosts", "fine"),
    [("[]", True), ("[mqtt.example, '*.example.org', '*']", True), ("['http://x']", False), ("['x:80']", False)],
)
def test_the_admin_port_goes_by_names(hosts: str, fine: bool) -> None:
    """What no request could say is a mistake."""
    assert (not refusals(f"admin.hosts={hosts}")) is fine

"""Where ZooKeeper is: hosts, chroot, paths, and what is refused."""

from __future__ import annotations

import pytest

from iot_mqtt.cluster.registry.settings import ZooKeeperSettings


@pytest.mark.parametrize(
    ("hosts", "path", "servers", "members"),
    [
        ("zk:2181", "/services/ignite", "zk:2181", "/services/ignite"),
        ("a:1,b:2,c:3", "/nodes", "a:1,b:2,c:3", "/nodes"),
        ("a:1,b:2/iot", "/services/ignite", "a:1,b:2", "/iot/services/ignite"),
        ("[::1]:2181/iot/eu/", "/services/ignite/", "[::1]:2181", "/iot/eu/services/ignite"),
        ("zk:2181/", "/services/ignite", "zk:2181", "/services/ignite"),
    ],
)
def test_hosts_may_end_with_a_chroot(hosts: str, path: str, servers: str, members: str) -> None:
    """Under which everything is put; leases stand beside the nodes."""
    settings = ZooKeeperSettings(hosts, path)
    assert settings.servers == servers
    assert settings.members == members
    assert settings.leases == members + "-leases"


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"hosts": ""}, "host"),
        ({"hosts": "/iot"}, "host"),
        ({"path": ""}, "path"),
        ({"path": "/"}, "path"),
        ({"path": "services"}, "path"),
        ({"path": "/a//b"}, "path"),
        ({"session_timeout": 0.0}, "time-out"),
        ({"username": "iot"}, "password"),
        ({"password": "secret"}, "user name"),
    ],
)
def test_what_cannot_work_is_refused(fields: dict[str, object], word: str) -> None:
    """With what would be right."""
    with pytest.raises(ValueError, match=word):
        ZooKeeperSettings(**{"hosts": "zk:2181", **fields})  # type: ignore[arg-type]


def test_the_password_is_not_shown() -> None:
    """Settings end up in logs."""
    assert "secret" not in repr(ZooKeeperSettings("zk:2181", username="iot", password="secret"))

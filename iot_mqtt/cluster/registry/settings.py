"""Where ZooKeeper is, and how a node shows itself there."""

from __future__ import annotations

from dataclasses import dataclass, field

from iot_mqtt.pipeline.tls_client import ClientTls


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """What ``application.yaml`` says about the registry."""

    #: "host:port,host:port", and after that "/path" under which everything else is put (a chroot).
    hosts: str
    path: str = "/services/ignite"
    #: Seconds without a word after which a node counts as gone. ZooKeeper allows 2 to 20 of its ticks.
    session_timeout: float = 6.0
    #: With these, entries are written so that only this user may change them.
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    #: None: plain text.
    tls: ClientTls | None = None

    def __post_init__(self) -> None:
        if not self.servers:
            raise ValueError("the registry needs at least one ZooKeeper host:port")
        if not self.path.startswith("/") or len(self.path) < 2 or "" in self.path.strip("/").split("/"):
            raise ValueError(f"the registry's path is like /services/ignite, not {self.path!r}")
        if self.session_timeout <= 0:
            raise ValueError("the registry's session time-out is greater than 0")
        if (self.username is None) != (self.password is None):
            raise ValueError("the registry needs a user name and a password, or neither")

    @property
    def servers(self) -> str:
        """The hosts alone."""
        return self.hosts.partition("/")[0].strip()

    @property
    def members(self) -> str:
        """The path whose children are the nodes."""
        chroot = self.hosts.partition("/")[2].strip().strip("/")
        return ("/" + chroot if chroot else "") + "/" + self.path.strip("/")

    @property
    def leases(self) -> str:
        """The path whose children are leases: beside the nodes, for every child of theirs is a node."""
        return self.members + "-leases"

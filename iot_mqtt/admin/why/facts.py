"""What one node knows of a client, as values: all that a finding is made of. Payloads are not among it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iot_mqtt.admin.configuration import ListenerInfo
from iot_mqtt.admin.why.finding import FRESH, Weight
from iot_mqtt.admin.why.near import plain_filter
from iot_mqtt.auth.accounts import Kept
from iot_mqtt.auth.explaining import Answer
from iot_mqtt.broker.facade import AttemptInfo, ClientInfo, ClusterInfo, GroupShare, SessionInfo
from iot_mqtt.plugins.info import PluginInfo
from iot_mqtt.ports.addresses import host_of
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.bans import Ban
from iot_mqtt.ports.devices import StoredCommand
from iot_mqtt.ports.recent import Trouble
from iot_mqtt.ports.status import BrokerInfo, LogInfo, UplinkInfo
from iot_mqtt.topics import matches
from iot_mqtt.uplink.desk import RuleInfo
from iot_mqtt.values import Subscription

#: (action, topic or filter or name, QoS, retained) → what the rules say of this client now; None: that cannot be asked.
Rights = Callable[[str, str, int, bool], Answer | None]


@dataclass(frozen=True, slots=True)
class Home:
    """Where a session lives."""

    node: str
    #: "self", "up", "silent", "deaf", "dead".
    state: str


def _nothing(action: str, asked: str, qos: int, retain: bool) -> None:
    """Nobody can be asked."""


@dataclass(frozen=True, slots=True)
class Denied:
    """Somebody whose rights did not cover a topic."""

    client_id: str
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Publisher:
    """A connection that has published to a topic, as far as the flight recorder remembers."""

    client_id: str
    peer: str
    #: The last time, in seconds since 1970.
    at: float
    connected: bool
    #: The rate that it is held off by now; empty: one that is not remembered; None: it is held off by none.
    limited: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """At one moment, on one node."""

    node: str
    now: float
    #: A client id, or an address.
    asked: str
    client: ClientInfo | None = None
    session: SessionInfo | None = None
    subscriptions: tuple[Subscription, ...] = ()
    #: Of its shared subscriptions: who else is in the group.
    shares: tuple[GroupShare, ...] = ()
    #: The newest first.
    attempts: tuple[AttemptInfo, ...] = ()
    #: Connections from its addresses that ended before they said who they are.
    unnamed: tuple[AttemptInfo, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    bans: tuple[Ban, ...] = ()
    plugins: tuple[PluginInfo, ...] = ()
    commands: tuple[StoredCommand, ...] = ()
    #: What it spoke when it was here as a gateway.
    codec: str | None = None
    listeners: tuple[ListenerInfo, ...] = ()
    #: Of the listeners that it came to of late.
    codecs: frozenset[str] = frozenset()
    broker: BrokerInfo | None = None
    alarms: tuple[Alarm, ...] = ()
    log: LogInfo | None = None
    uplink: UplinkInfo | None = None
    cluster: ClusterInfo | None = None
    home: Home | None = None
    #: What it should get.
    topic: str | None = None
    #: Rules of the uplink that may take that topic, the first that counts first.
    rules: tuple[RuleInfo, ...] = ()
    #: Messages that it has published, and whose acknowledgements wait for the uplink.
    held: int = 0
    #: Others whose rights did not cover that topic.
    denied: tuple[Denied, ...] = ()
    #: Whether a message is retained there.
    retained: bool = False
    #: Who published to it; the last one first.
    publishers: tuple[Publisher, ...] = ()
    #: When the client first asked for that topic in its session, as far as the flight recorder remembers.
    subscribed_at: float | None = None
    #: Where nothing is known of it: a client id of which something is, and which looks the same.
    alike: str | None = None
    #: Topics that something was published to, and that nobody had subscribed to.
    unwanted: tuple[str, ...] = ()
    #: What the grid, or a file, did not answer in time.
    unanswered: tuple[str, ...] = ()
    rights: Rights = _nothing
    #: Listener, user → where the password is kept; None: nobody here knows.
    kept: Callable[[str, str], Kept | None] = field(default=lambda _listener, _user: None)

    @property
    def users(self) -> tuple[str, ...]:
        """Whose it is, or was said to be."""
        own = self.session.owner if self.session is not None else None
        said = [name for one in self.attempts for name in (one.username, one.claimed_user)]
        return tuple(dict.fromkeys(one for one in (own, self.client and self.client.username, *said) if one))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where it is, and was."""
        peers = [self.client.peer] if self.client is not None else []
        return tuple(dict.fromkeys(host_of(one) for one in (*peers, *(one.peer for one in self.attempts)) if one))

    @property
    def connected_at(self) -> float | None:
        """None: it is not connected here."""
        return None if self.client is None else self.client.connected_at

    def weight(self, trouble: Trouble) -> Weight:
        """Of something that was dropped or refused: it goes on, or it is over."""
        return Weight.LOSES if self.now - trouble.last < FRESH else Weight.WAS

    def matching(self, topic: str) -> list[Subscription]:
        """Its subscriptions that match the topic."""
        return [one for one in self.subscriptions if matches(plain_filter(one.filter), topic)]

    @property
    def known(self) -> bool:
        """Whether anything is known of it here."""
        return bool(self.client or self.session or self.attempts or self.troubles or self.home)

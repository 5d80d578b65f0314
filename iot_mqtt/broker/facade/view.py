"""``BrokerView``: everything that the admin side may ask of the broker, and have it do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from iot_mqtt.broker.facade.clients import AttemptInfo, ClientInfo, ClientsWanted
from iot_mqtt.broker.facade.cluster import ClusterPart
from iot_mqtt.broker.facade.sessions import BacklogInfo, SessionInfo, SessionsWanted
from iot_mqtt.broker.facade.subscriptions import SubscriptionInfo, SubscriptionPart
from iot_mqtt.broker.log_part import LogPart
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.status import BrokerInfo, UplinkInfo
from iot_mqtt.values import Message


class Published(NamedTuple):
    """Who gets a message that was published as the node."""

    #: Sessions of this node that it went to; a shared group counts for one, wherever its member is.
    matched: int
    #: Sessions of other nodes want it, and it went there, too. How many they are only those nodes know.
    elsewhere: bool


class BrokerView(Protocol):
    """The facade. ``after`` is the last key of the page before."""

    counters: Counters

    @property
    def serving(self) -> bool:
        """Every listener accepts, all that is stored is loaded, and newcomers are let in."""
        ...

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should know; cheap, for it is asked often."""
        ...

    @property
    def log(self) -> LogPart: ...

    @property
    def cluster(self) -> ClusterPart: ...

    def info(self) -> BrokerInfo: ...

    def uplink(self) -> UplinkInfo | None:
        """None: nothing leaves towards the data platform."""
        ...

    @property
    def subscribing(self) -> SubscriptionPart: ...

    async def clients(
        self, after: str | None = None, limit: int = 100, wanted: ClientsWanted | None = None
    ) -> Sequence[ClientInfo]:
        """``ValueError`` for an address that is none."""
        ...

    def client(self, client_id: str) -> ClientInfo | None: ...

    def attempts(self, client_id: str) -> list[AttemptInfo]:
        """What is remembered of a client that was refused, or whose session has ended; the newest first."""
        ...

    async def sessions(
        self, after: str | None = None, limit: int = 100, wanted: SessionsWanted | None = None
    ) -> Sequence[SessionInfo]: ...

    def session(self, client_id: str) -> SessionInfo | None: ...

    async def counted(self, sessions: Sequence[SessionInfo]) -> list[SessionInfo]:
        """The same with what waits for them in the logs of other nodes, which are read as far as is reasonable."""
        ...

    def counting(self) -> Callable[[Sequence[SessionInfo]], Awaitable[Sequence[SessionInfo]]]:
        """``counted`` of a list that is asked for in parts: what is reasonable is for all of them together."""
        ...

    async def backlog(self, client_id: str) -> BacklogInfo | None:
        """What waits for a session; reads the log for it, as far as is reasonable."""
        ...

    async def subscriptions(
        self,
        client_id: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
        topic: str | None = None,
    ) -> list[SubscriptionInfo]:
        """``topic``: only those that it matches."""
        ...

    def retained(self, filter: str = "#", after: bytes | None = None, limit: int = 100) -> list[Message]: ...

    async def publish(self, message: Message, user: str | None = None) -> Published:
        """Publish as the node itself, or in the name of a user, whose limits count; returns once it is committed."""
        ...

    async def publish_all(self, messages: Sequence[Message], user: str | None = None) -> list[Published | MqttError]:
        """The same of many, in their order, which are committed together."""
        ...

    async def kick(self, client_id: str) -> bool:
        """Close the client's connection (v5: 0x98); False if it has none."""
        ...

    async def purge(self, client_id: str) -> bool:
        """End the session and everything kept for it; False if there is none."""
        ...

    async def remove_retained(self, topic: bytes) -> bool: ...

    async def remove_all_retained(self, filter: str, limit: int) -> int:
        """Those that a filter matches, the first ones if there are more; how many that were."""
        ...

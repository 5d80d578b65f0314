"""The last stage of an MQTT connection's pipeline: packets in, a session's messages out.

::

    ClientWriter ◀─ AnswerWriter ◀─ Connection
    bytes           their order      what comes, who it is, and the end

It knows the connection (version, limits, aliases, what waits in this turn) and leaves what a packet means to
``handlers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from mypy_extensions import mypyc_attr

from iot_mqtt.broker.allowance import Allowance
from iot_mqtt.broker.connections.answers import AnswerWriter
from iot_mqtt.broker.connections.client_writer import Output
from iot_mqtt.broker.connections.closing import REFERRING, farewell
from iot_mqtt.broker.connections.fitting import fitting
from iot_mqtt.broker.connections.flow import Flow
from iot_mqtt.broker.connections.verdicts import Verdicts
from iot_mqtt.broker.driving import Driven
from iot_mqtt.broker.publishing.batches import flattened
from iot_mqtt.broker.session import Session
from iot_mqtt.errors import MqttError, ProtocolViolation, ReasonCode, shortened
from iot_mqtt.pipeline import CloseReason, Context, IdleWatch, MqttCodecStage, Timeout
from iot_mqtt.ports.access import Exchange
from iot_mqtt.ports.endings import by_client, by_node
from iot_mqtt.topics.memo import Classes
from iot_mqtt.topics.reserved import FIRST_BYTES, is_reserved
from iot_mqtt.values import NOBODY, CodecId, Origin, ProtocolVersion

#: What ``Connection.whose`` is.
WHO: Final = ("peer", "listener", "client", "user")
#: Seconds until it is asked again how long a proof is good for.
PROOF_LOOK: Final = 60.0


@mypyc_attr(allow_interpreted_subclasses=True)
class Inbound:
    """What serves the packets of all connections."""

    __slots__ = ()

    def read(self, connection: Connection, batch: list[object]) -> None:
        """Packets came."""
        raise NotImplementedError

    def pump(self, session: Session) -> None:
        """There is room again for a session's messages."""
        raise NotImplementedError


class Lives(Protocol):
    """What knows all connections."""

    def opened(self, connection: Connection) -> None: ...

    def leaving(self, connection: Connection, end: str, error: MqttError | None = None) -> None: ...

    def closed(self, connection: Connection, reason: CloseReason | None) -> None: ...

    @property
    def reference(self) -> Callable[[str], str]:
        """Listener → where clients are sent that are to use another server; empty: nowhere."""
        ...

    def note_error(self, connection: Connection, error: MqttError) -> None: ...

    def report(self, error: BaseException) -> None: ...


class Kind(NamedTuple):
    """What kind of clients a listener has."""

    #: Whether sessions that begin here are kept in the store, if they outlive their connection.
    durable_sessions: bool = True
    #: Gateways, behind whose codec nobody understands reason codes: their publishes wait for room on the disk rather
    #: than be refused, and they are not told that nobody has subscribed to them. Only their codec publishes here.
    patient: bool = False
    #: What that codec is called.
    codec: str | None = None


@dataclass(frozen=True, slots=True)
class Serving:
    """What the connections of one listener share. Not an ``Output`` with more: an object of a compiled dataclass tells
    the garbage collector twice of what another one has declared, and is never collected.
    """

    output: Output
    inbound: Inbound
    lives: Lives
    kind: Kind
    #: Of clients of whom nothing is said.
    allowance: Allowance

    def connection(self) -> Connection:
        """The next one."""
        return Connection(self)


class Connection(AnswerWriter):
    """One client's connection, from accept to close."""

    __slots__ = (
        "deciding",
        "flow",
        "verdicts",
        "origin",
        "exchange",
        "keep_alive",
        "heard",
        "problem_information",
        "codec_id",
        "serving",
        "stash",
        "_idle",
        "_proof",
    )

    def __init__(self, serving: Serving) -> None:
        super().__init__(serving.output, serving.allowance)
        self.serving = serving
        self.answers = None
        #: Which version of its codec a gateway uses, once it logs in.
        self.codec_id: CodecId | None = None
        #: Whoever is asked who the client is; None: nobody is, or nobody has to be waited for.
        self.deciding: Driven | None = None
        #: The rates that what it publishes has to keep to; None: there are none.
        self.flow: Flow | None = None
        self.verdicts: Verdicts | None = None
        #: Of what is published here.
        self.origin = NOBODY
        self.exchange: Exchange | None = None
        self.keep_alive = 0
        #: The wheel's tick when whole packets came last: only they keep a connection alive.
        self.heard = 0
        self.problem_information = True
        self._idle: IdleWatch | None = None
        #: Until what proves who the client is ends; None: it does not.
        self._proof: Timeout | None = None
        #: What has to wait, and is not read any further for; None: nothing has.
        self.stash: list[object] | None = None

    @property
    def durable_sessions(self) -> bool:
        """See ``Kind``."""
        return self.serving.kind.durable_sessions

    @property
    def patient(self) -> bool:
        """See ``Kind``."""
        return self.serving.kind.patient

    @property
    def peer(self) -> str:
        """Where the client is, or an empty text when it is gone."""
        return "" if self.ctx is None else self.ctx.channel.peer

    # Inbound events.

    def active(self, ctx: Context) -> None:
        self.ctx = ctx
        self.serving.lives.opened(self)

    def read(self, ctx: Context, batch: list[object]) -> None:
        self.heard = ctx.channel.settings.wheel.tick
        if self.stash is not None:
            self.hold(batch)
        elif self.flow is None:
            self.serving.inbound.read(self, batch)
        else:
            self.flow.read(batch)

    def writability_changed(self, ctx: Context, writable: bool) -> None:
        self.writable = writable and not self.closed
        if self.writable and self.session is not None:
            self.serving.inbound.pump(self.session)

    def event(self, ctx: Context, event: object) -> None:
        if isinstance(event, CodecId):
            self.codec_id = event
        else:
            ctx.fire_event(event)

    def failed(self, ctx: Context, error: BaseException) -> None:
        if self.version is None and isinstance(error, MqttError):
            # A CONNECT that is wrong behind its version can be answered in that version's words.
            codec = ctx.pipeline.get("mqtt")
            if isinstance(codec, MqttCodecStage):
                self.version = codec.decoder.version
        self.break_off(error, "internal error")

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        self.serving.lives.closed(self, reason)
        if self.verdicts is not None:
            self.verdicts.close()
        if self._idle is not None:
            self._idle.cancel()
        if self._proof is not None:
            self._proof.cancel()
        self.closed = True
        self.writable = False
        self.ctx = None
        if self.deciding is not None:
            self.deciding.cancel()

    # Keep-alive.

    def watch_keep_alive(self, seconds: int) -> None:
        """Expect packets so often from now on; 0: whenever they come."""
        self.keep_alive = seconds
        if seconds and self.ctx is not None:
            self._idle = IdleWatch(self, self.ctx.channel.wheel)

    @property
    def patience(self) -> float:
        """One and a half times the keep-alive [MQTT-3.1.2-22]."""
        return self.keep_alive * 1.5

    def fell_silent(self) -> None:
        """The keep-alive ran out; but while it is held it may be talking, and nobody listens."""
        if self.stash is None:
            self.fail(ProtocolViolation("keep-alive ran out", ReasonCode.KEEP_ALIVE_TIMEOUT))

    # What proves who the client is.

    def watch_proof(self) -> None:
        """Let the client go when the proof of its principal ends; what was watched before is watched no more."""
        if self._proof is not None:
            self._proof.cancel()
            self._proof = None
        if self.principal is None or self.principal.expires_at is None or self.ctx is None:
            return
        wheel = self.ctx.channel.wheel
        left = self.principal.expires_at - wheel.clock.wall()
        if left > 0:
            # Not for longer: the clock on the wall may be set.
            self._proof = wheel.schedule(min(left, PROOF_LOOK), self.watch_proof)
        else:
            self.disconnect(ReasonCode.NOT_AUTHORIZED, "the proof of who this client is has expired")

    # While CONNECT is being answered, or there is no room for more.

    def hold(self, items: list[object]) -> None:
        """Keep what has to wait, behind what waits already, and read no further. While CONNECT is being answered it is
        read on until something has to wait: else nobody would notice that the client hangs up.
        """
        items = flattened(items)
        if self.stash is None:
            self.stash = items
        else:
            self.stash.extend(items)
        if self.ctx is not None and (self.stash or not self.connecting):
            self.ctx.set_reading(False)

    @property
    def listens(self) -> bool:
        """Nothing waits, and it is not over."""
        return self.stash is None and not self.closed

    def proceed(self) -> None:
        """Go on with what was kept."""
        stash, self.stash = self.stash, None
        ctx = self.ctx
        if self.closed or ctx is None or stash is None:
            return
        # Nobody has listened: what it said meanwhile is read from now on.
        self.heard = ctx.channel.settings.wheel.tick
        if stash:
            self.read(ctx, stash)
        if self.listens:
            # Behind what was kept: a gateway's link may have more at hand.
            ctx.set_reading(True)

    # Who it is, and what it may do.

    @property
    def user(self) -> str | None:
        """The verified user; None: an anonymous client, or it is not let in yet."""
        return None if self.principal is None else self.principal.owner or None

    @property
    def claimed_user(self) -> str | None:
        """What the client calls itself, if that is not who it is, or not yet."""
        claimed = None if self.connect is None else self.connect.username or None
        return None if claimed == self.user else claimed

    def who(self) -> dict[str, str | None]:
        """Who and where the client is, for the log. Its name, and what it calls itself, are known before it is let in,
        and not to be believed then.
        """
        who: dict[str, str | None] = dict(zip(WHO, self.whose(), strict=True))
        claimed = self.claimed_user
        return who if claimed is None else {**who, "claimed_user": shortened(claimed)}

    def whose(self) -> tuple[str, str, str | None, str | None]:
        """The same without the names, which are ``WHO``."""
        connect, channel = self.connect, None if self.ctx is None else self.ctx.channel
        client_id = connect.client_id if connect is not None else None
        if self.session is not None:
            client_id = self.session.client_id
        return (
            "?" if channel is None else channel.peer,
            "?" if channel is None else channel.listener,
            client_id and shortened(client_id),
            self.user and shortened(self.user),
        )

    def note_origin(self) -> None:
        """The principal is known, or another one: it answers for what is published from now on."""
        user = "" if self.principal is None else self.principal.owner
        self.origin = Origin(user, self.codec_id) if user or self.codec_id else NOBODY

    def may_publish(self, topic: bytes, head: int) -> bool:
        """Whether this client may publish to a topic, with the QoS and RETAIN of a first byte; asked for every run, so
        the verdict is memoised.
        """
        permissions = self.permissions
        if permissions is None or (topic and topic[0] in FIRST_BYTES and is_reserved(topic)):
            return False
        return permissions.unrestricted or self._memory().may_publish(permissions, topic, head)

    def may_receive(self, topic: bytes) -> bool:
        """Whether a message that is the next to be sent may be: the right to it may be gone since it was taken for this
        client. Asked for every run, and memoised likewise.
        """
        permissions = self.permissions
        if permissions is None:
            return False
        return permissions.unrestricted or self._memory().may_receive(permissions, topic)

    def begin_verdicts(self) -> None:
        """The rights of its client are known, and are not to everything: batches have what may be published."""
        if self.permissions is not None and not self.permissions.unrestricted:
            self._memory().begin(self.permissions)

    def _memory(self) -> Verdicts:
        if self.verdicts is None:
            codec = self.ctx.pipeline.get("mqtt") if self.ctx is not None else None
            decoder = codec.decoder if isinstance(codec, MqttCodecStage) else None
            classes = decoder.routes if decoder is not None and isinstance(decoder.routes, Classes) else None
            self.verdicts = Verdicts(classes)
            if decoder is not None and classes is not None:
                # What was made into batches before is taken apart (``PublishGate.takes``).
                decoder.routes = self.verdicts
        return self.verdicts

    # The end.

    def fail(self, error: MqttError) -> None:
        """Close for an error, with the answer the specification has for it."""
        if self.closed:
            return
        self.output.counters.errors[error.reason.name] += 1
        self.serving.lives.note_error(self, error)
        self._leave(error)

    def break_off(self, error: BaseException, detail: str) -> None:
        """Close for whatever was raised: a verdict is answered, a fault is ours and is reported."""
        if isinstance(error, MqttError):
            self.fail(error)
        else:
            self.serving.lives.report(error)
            self.disconnect(ReasonCode.UNSPECIFIED_ERROR, detail)

    def disconnect(self, reason: ReasonCode, detail: str = "") -> None:
        """Close from our side: takeover, kick, shutdown."""
        if not self.closed:
            self._leave(MqttError(detail, reason))

    def leave_quietly(self, reason: ReasonCode) -> None:
        """The client said goodbye: close without a word, for it closes next [MQTT-3.14.4-2]."""
        self._close(by_client(reason), CloseReason("client_disconnected", ""))

    def _leave(self, error: MqttError) -> None:
        # The session may be open already while CONNACK waits for its commit.
        connected = self.session is not None and not self.connecting
        reference = ""
        if error.reason in REFERRING and self.ctx is not None:
            reference = self.serving.lives.reference(self.ctx.channel.listener)
        packet = farewell(
            error, self.version, connected=connected, connecting=self.connect is not None, reference=reference
        )
        if packet is not None:
            data = fitting(packet, self.version or ProtocolVersion.V311, self.max_packet_size)
            if data is not None:
                self.output.counters.others_sent[packet.type.name] += 1
                self.send(data)
        self._close(by_node(error.reason), CloseReason(error.reason.name, error.detail), error)

    def _close(self, end: str, reason: CloseReason, error: MqttError | None = None) -> None:
        self.write_out()
        self.closed = True
        self.writable = False
        ctx = self.ctx
        self.serving.lives.leaving(self, end, error)
        if ctx is not None:
            ctx.close(reason)

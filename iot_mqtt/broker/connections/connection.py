"""The last stage of an MQTT connection's pipeline: packets in, a session's messages out.

It knows the connection (version, limits, aliases, what waits in this turn) and leaves what a packet means
to ``handlers``. Bytes for the client gather in ``_out`` and leave as one write at the end of the turn;
acknowledgements that wait for a commit keep their order behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iot_mqtt.broker.connections.answers import Answers, Waiting
from iot_mqtt.broker.connections.closing import REFERRING, farewell
from iot_mqtt.broker.connections.fitting import fitting
from iot_mqtt.broker.publication import Publication, hop_properties
from iot_mqtt.broker.publishing.batches import flattened, takes
from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.broker.uplink.holding import HeldAnswer
from iot_mqtt.codec import Connect, Packet, PacketType, PublishBatch, encode_acks, encode_publish
from iot_mqtt.errors import MqttError, ProtocolViolation, ReasonCode, Refused
from iot_mqtt.pipeline import CloseReason, Context, IdleWatch, MqttCodecStage, Stage
from iot_mqtt.ports.access import Action, Exchange, Permissions, Principal
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.endings import by_client, by_node
from iot_mqtt.session import Delivery, InboundAliases, OutboundAliases, Piece
from iot_mqtt.topics.reserved import FIRST_BYTES, is_reserved
from iot_mqtt.values import NOBODY, CodecId, Origin, ProtocolVersion

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.session import Session

#: Bytes that gather for one client before they are written without waiting for the end of the turn.
EAGER_BYTES = 256 * 1024
#: Bytes that an alias adds at most: the property, and a longer length of the properties and of the packet.
ALIAS_COST = 5
#: Verdicts memoised per connection; beyond this they are asked again.
MAX_VERDICTS = 1024
#: Characters of a client id or user name that the log shows.
LONGEST_NAME = 128


def shortened(name: str | None) -> str | None:
    """A name that a client chose, as the log takes it."""
    return name if name is None or len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


class Connection(Stage):
    """One client's connection, from accept to close."""

    __slots__ = (
        "broker",
        "ctx",
        "session",
        "version",
        "five",
        "plain",
        "writable",
        "handlers",
        "connect",
        "connecting",
        "closed",
        "principal",
        "permissions",
        "rights_version",
        "origin",
        "exchange",
        "inbound_aliases",
        "outbound_aliases",
        "max_packet_size",
        "keep_alive",
        "heard",
        "connected_at",
        "problem_information",
        "durable_sessions",
        "patient",
        "codec",
        "codec_id",
        "_idle",
        "_verdicts",
        "_receivable",
        "verdicts_version",
        "_out",
        "_out_bytes",
        "_answers",
        "_stash",
    )

    def __init__(
        self, broker: Broker, *, durable_sessions: bool = True, patient: bool = False, codec: str | None = None
    ) -> None:
        self.broker = broker
        #: A gateway, behind whose codec nobody understands reason codes: its publishes wait for room on the disk rather
        #: than be refused, and it is not told that nobody has subscribed to them. Only its codec publishes here.
        self.patient = patient
        #: What that codec is called.
        self.codec = codec
        #: Which version of it, once the gateway logs in.
        self.codec_id: CodecId | None = None
        #: Whether sessions that begin here are kept in the store, if they outlive their connection.
        self.durable_sessions = durable_sessions
        self.ctx: Context | None = None
        self.session: Session | None = None
        self.version: ProtocolVersion | None = None
        self.five = False
        #: 3 or 5 when runs of that family may pass as they are, 0 when each must be looked at.
        self.plain = 0
        self.writable = False
        #: Packet type → function; only CONNECT and AUTH are served before there is a session.
        self.handlers = broker.early_handlers
        self.connect: Connect | None = None
        #: True while CONNECT is being answered; what comes meanwhile is stashed.
        self.connecting = False
        self.closed = False
        self.principal: Principal | None = None
        self.permissions: Permissions | None = None
        #: Of the rights that its subscriptions were held against.
        self.rights_version = -1
        #: Of what is published here.
        self.origin = NOBODY
        self.exchange: Exchange | None = None
        self.inbound_aliases: InboundAliases | None = None
        self.outbound_aliases: OutboundAliases | None = None
        self.max_packet_size = 0
        self.keep_alive = 0
        #: The wheel's tick when whole packets came last: only they keep a connection alive.
        self.heard = 0
        self.connected_at = 0.0
        self.problem_information = True
        self._idle: IdleWatch | None = None
        self._verdicts: dict[bytes, bool] | None = None
        self._receivable: dict[bytes, bool] | None = None
        #: Of the rights that they were asked of.
        self.verdicts_version = -1
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._answers: Answers | None = None
        self._stash: list[object] | None = None

    # Inbound events.

    def active(self, ctx: Context) -> None:
        self.ctx = ctx
        self.broker.connection_opened(self)

    def read(self, ctx: Context, batch: list[object]) -> None:
        self.heard = self.broker.wheel.tick
        if self._stash is not None:
            self._stash.extend(flattened(batch))
            return
        version = self.broker.routes.version
        try:
            for position, item in enumerate(batch):
                if self.closed:
                    return
                if isinstance(item, PublishBatch) and not takes(self, item, version):
                    self.read(ctx, flattened(batch[position:]))
                    return
                self.handlers[type(item)](self, item)
                if self._answers is not None and self.broker.budget.crowded and not self.connecting:
                    self.broker.budget.pause(self, Pause.UNCOMMITTED, [])
                if self.connecting or self._stash is not None:
                    self.hold(batch[position + 1 :])
                    return
            if self._answers is not None:
                self.broker.budget.weigh()
        except MqttError as error:
            self.fail(error)

    def writability_changed(self, ctx: Context, writable: bool) -> None:
        self.writable = writable and not self.closed
        if self.writable and self.session is not None:
            self.broker.outflow.pump(self.session)

    def event(self, ctx: Context, event: object) -> None:
        if isinstance(event, CodecId):
            self.codec_id = event
        else:
            ctx.fire_event(event)

    def watch_keep_alive(self, seconds: int) -> None:
        """Expect packets so often from now on; 0: whenever they come."""
        self.keep_alive = seconds
        if seconds:
            self._idle = IdleWatch(self, self.broker.wheel)

    @property
    def patience(self) -> float:
        """One and a half times the keep-alive [MQTT-3.1.2-22]."""
        return self.keep_alive * 1.5

    def fell_silent(self) -> None:
        """The keep-alive ran out; but while it is paused it may be talking, and nobody listens."""
        if self.broker.budget.paused(self) is None:
            self.fail(ProtocolViolation("keep-alive ran out", ReasonCode.KEEP_ALIVE_TIMEOUT))

    def failed(self, ctx: Context, error: BaseException) -> None:
        if isinstance(error, MqttError):
            if self.version is None:
                self._learn_version(ctx)
            self.fail(error)
        else:
            self.broker.report(self, error)
            self.disconnect(ReasonCode.UNSPECIFIED_ERROR, "internal error")

    def who(self) -> dict[str, str | None]:
        """What the client says of itself and where it is, for the log: known before it is let in, and not to be
        believed then.
        """
        connect, channel = self.connect, None if self.ctx is None else self.ctx.channel
        client_id = connect.client_id if connect is not None else None
        if self.session is not None:
            client_id = self.session.client_id
        return {
            "peer": "?" if channel is None else channel.peer,
            "listener": "?" if channel is None else channel.listener,
            "client": shortened(client_id),
            "user": shortened(None if connect is None else connect.username),
        }

    def _learn_version(self, ctx: Context) -> None:
        """A CONNECT that is wrong behind its version can be answered in that version's words."""
        codec = ctx.pipeline.get("mqtt")
        if isinstance(codec, MqttCodecStage):
            self.version = codec.decoder.version

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        self.broker.connection_closed(self, reason)
        if self._idle is not None:
            self._idle.cancel()
        self.closed = True
        self.writable = False
        self.ctx = None

    # While CONNECT is being answered, or there is no room for more.

    def hold(self, items: list[object]) -> None:
        """Keep what has to wait, behind what waits already, and read no further."""
        items = flattened(items)
        if self._stash is None:
            self._stash = items
        else:
            self._stash.extend(items)
        if self.ctx is not None:
            self.ctx.set_reading(False)

    def proceed(self) -> None:
        """Go on with what was kept."""
        stash, self._stash = self._stash, None
        if self.closed or self.ctx is None:
            return
        if stash is not None:
            self.ctx.set_reading(True)
            if stash:
                self.read(self.ctx, stash)

    # Rights.

    def take_batches(self) -> None:
        """The session is open: packets that go the same way are served together from now on, to topics that were asked
        for where not all are allowed.
        """
        codec = self.ctx.pipeline.get("mqtt") if self.ctx is not None else None
        if isinstance(codec, MqttCodecStage):
            codec.decoder.routes = self.broker.routes.classes
            codec.decoder.allowed = self._verdicts

    def note_origin(self) -> None:
        """The principal is known, or another one: it answers for what is published from now on."""
        user = "" if self.principal is None else self.principal.owner
        self.origin = Origin(user, self.codec_id) if user or self.codec_id else NOBODY

    def may_publish(self, topic: bytes) -> bool:
        """Whether this client may publish to a topic; asked for every run, so the verdict is memoised."""
        permissions = self.permissions
        if permissions is None or (topic and topic[0] in FIRST_BYTES and is_reserved(topic)):
            return False
        if permissions.unrestricted:
            return True
        if self._verdicts is None or self.verdicts_version != permissions.version or len(self._verdicts) > MAX_VERDICTS:
            self._forget_verdicts(permissions.version)
        assert self._verdicts is not None
        verdict = self._verdicts.get(topic)
        if verdict is None:
            verdict = self._verdicts[topic] = permissions.allows(Action.PUBLISH, topic.decode("utf-8", "replace"))
        return verdict

    def may_receive(self, topic: bytes) -> bool:
        """Whether a message that is the next to be sent may be: the right to it may be gone since it was taken for this
        client. Asked for every run, and memoised likewise.
        """
        permissions = self.permissions
        if permissions is None or permissions.unrestricted:
            return permissions is not None
        if (
            self._receivable is None
            or self.verdicts_version != permissions.version
            or len(self._receivable) > MAX_VERDICTS
        ):
            self._forget_verdicts(permissions.version)
        assert self._receivable is not None
        verdict = self._receivable.get(topic)
        if verdict is None:
            verdict = self._receivable[topic] = permissions.allows(Action.READ, topic.decode("utf-8", "replace"))
        return verdict

    def _forget_verdicts(self, version: int) -> None:
        if self._verdicts is None or self._receivable is None:
            self._verdicts, self._receivable = {}, {}
            self.take_batches()
        # Not replaced: the decoder looks at it.
        self._verdicts.clear()
        self._receivable.clear()
        self.verdicts_version = version

    # Outbound: the session's messages.

    def send(self, data: bytes) -> None:
        """Add bytes to this turn's write."""
        out = self._out
        if not out:
            self.broker.turn.mark_dirty(self)
        out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes > EAGER_BYTES:
            self.write_out()

    def send_packet(self, packet: Packet) -> None:
        """Add a packet to this turn's write; an error when it is larger than the client takes."""
        data = self.written_to_fit(packet)
        self.broker.counters.packets_sent[packet.type.name] += 1
        self.send(data)

    def written_to_fit(self, packet: Packet) -> bytes:
        """A packet that the client waits for; without it there is no way on but to close [MQTT-3.1.2-24]."""
        assert self.version is not None
        data = fitting(packet, self.version, self.max_packet_size)
        if data is None:
            raise Refused(f"{packet.type.name} is larger than the client takes", ReasonCode.PACKET_TOO_LARGE)
        return data

    def send_qos0(self, publication: Publication, retain: bool, identifiers: tuple[int, ...]) -> None:
        """A run in a form of its own."""
        if self.max_packet_size or self.outbound_aliases is not None:
            self._send_one_by_one(publication, retain, identifiers)
            return
        self.send(publication.at_qos0(self.five, retain, identifiers))
        self._count_delivered(publication.count)

    def _send_one_by_one(self, publication: Publication, retain: bool, identifiers: tuple[int, ...]) -> None:
        """For clients with a Maximum Packet Size or with topic aliases."""
        sent = 0
        for message in publication.messages:
            if self.send_delivery(Delivery(message, 0, retain=retain, identifiers=identifiers)):
                sent += 1
        if publication.count > sent and self.session is not None:
            self.session.count_drop(Drop.TOO_LARGE, publication.count - sent)
            self.broker.counters.dropped[Drop.TOO_LARGE] += publication.count - sent
        self._count_delivered(sent)

    def _count_delivered(self, count: int) -> None:
        self.broker.counters.messages_delivered += count
        if self.session is not None:
            self.session.delivered += count

    def send_now(self, publication: Publication, qos: int, retain: bool, identifiers: tuple[int, ...]) -> int:
        """As much of a QoS 1 or 2 run as window and outbox take, for a session that keeps nothing."""
        session = self.session
        if session is None or not self.writable or session.sending or self.max_packet_size or self.outbound_aliases:
            return 0
        outbound = session.outbound
        count = min(publication.count, outbound.room)
        if count <= 0:
            return 0
        ids = outbound.reserve(count)
        outbound.mark(ids, qos)
        self.send(publication.with_ids(self.five, qos, retain, identifiers, ids))
        return count

    def send_delivery(self, delivery: Delivery) -> bool:
        """One message; False when it is larger than the client takes."""
        message = delivery.message
        topic = message.topic
        properties = b""
        if self.five:
            expiry = None
            if message.expires_at is not None:
                expiry = max(1, round(message.expires_at - self.broker.clock.wall()))  # [MQTT-3.3.2-6]
            properties = hop_properties(message.properties, expiry=expiry, identifiers=delivery.identifiers)
        data = self._publish(topic, delivery, properties)
        if self.max_packet_size and len(data) > self.max_packet_size:
            return False
        if self.outbound_aliases is not None:
            data = self._aliased(data, delivery, properties)
        self.send(data)
        return True

    def send_piece(self, piece: Piece, *, dup: bool) -> list[int]:
        """Messages of a flight; returns the packet ids of those that are larger than the client takes."""
        flight, start = piece.flight, piece.offset - piece.base
        publication: Publication = piece.publication
        wall = self.broker.clock.wall() if publication.run.raw_properties else None
        if not self.max_packet_size and self.outbound_aliases is None:
            self.send(
                publication.with_ids(
                    self.five, flight.qos, flight.retain, flight.identifiers, piece.ids, start, dup=dup, wall=wall
                )
            )
            return []
        too_large = []
        for packet_id, message in zip(piece.ids, publication.messages[start : start + len(piece)], strict=True):
            delivery = Delivery(message, flight.qos, retain=flight.retain, identifiers=flight.identifiers)
            delivery.packet_id, delivery.sent = packet_id, dup
            if not self.send_delivery(delivery):
                too_large.append(packet_id)
        return too_large

    def _aliased(self, data: bytes, delivery: Delivery, properties: bytes) -> bytes:
        """The same packet with an alias for its topic, unless that makes it too large for the client."""
        aliases, topic, limit = self.outbound_aliases, delivery.message.topic, self.max_packet_size
        assert aliases is not None
        if limit and len(data) + ALIAS_COST > limit and not aliases.knows(topic):
            return data
        alias, known = aliases.assign(topic)
        aliased = self._publish(b"" if known else topic, delivery, hop_properties(properties, alias=alias))
        return data if limit and len(aliased) > limit else aliased

    def _publish(self, topic: bytes, delivery: Delivery, properties: bytes) -> bytes:
        return encode_publish(
            topic,
            delivery.message.payload,
            five=self.five,
            qos=delivery.qos,
            retain=delivery.retain,
            dup=delivery.sent and delivery.qos > 0,
            packet_id=delivery.packet_id,
            properties=properties,
        )

    def send_pubrel(self, ids: list[int]) -> None:
        """PUBREL for exchanges whose PUBREC is safely noted."""
        self.send(self._written(PacketType.PUBREL, ids, ReasonCode.SUCCESS))

    # Outbound: answers.

    def answer(
        self,
        type: PacketType,
        ids: list[int],
        ticket: int = 0,
        reason: ReasonCode = ReasonCode.SUCCESS,
        position: int = 0,
    ) -> None:
        """Acknowledge once ``ticket`` is committed, and what is before ``position`` safe in the uplink's sink, in order
        behind earlier answers.
        """
        holding = self.broker.holding
        if holding is None or not holding.hold(self, HeldAnswer(position, ticket, type, ids, reason)):
            self.answer_after(ticket, type, ids, reason)

    def answer_after(self, ticket: int, type: PacketType, ids: list[int], reason: ReasonCode) -> None:
        """The same where nothing but a commit is to be waited for."""
        assert self.version is not None
        if self._answers is None and ticket <= self.broker.store.committed:
            self.send(self._written(type, ids, reason))
            return
        if type is PacketType.PUBACK and self.session is not None:
            self.session.inbound.unacknowledged += len(ids)
        self._waiting().acknowledge(ticket, type, ids, reason)

    def _written(self, type: PacketType, ids: list[int], reason: ReasonCode) -> bytes:
        assert self.version is not None
        self.broker.counters.packets_sent[type.name] += len(ids)
        return encode_acks(type, ids, self.version, reason)

    def reply(self, packet: Packet, ticket: int = 0) -> None:
        """Answer with a packet once ``ticket`` is committed, in order behind earlier answers."""
        data = self.written_to_fit(packet)
        self.broker.counters.packets_sent[packet.type.name] += 1
        if self._answers is None and ticket <= self.broker.store.committed:
            self.send(data)
        else:
            self._waiting().append(Waiting(ticket, packet.type, [], data=data))

    def after_commit(self, ticket: int, call: Callable[[], None]) -> None:
        """Do something once ``ticket`` is committed, in order behind earlier answers."""
        if self._answers is None and ticket <= self.broker.store.committed:
            call()
        else:
            self._waiting().append(Waiting(ticket, PacketType.CONNACK, [], call=call))

    def _waiting(self) -> Answers:
        if self._answers is None:
            self._answers = Answers()
            self.broker.turn.await_commit(self)
        return self._answers

    def committed(self) -> None:
        """A commit is over: let the answers go that waited for it."""
        answers = self._answers
        if answers is None:
            return
        for answer in answers.due(self.broker.store.committed):
            if self.closed:
                return
            if answer.call is not None:
                answer.call()
                continue
            if answer.type is PacketType.PUBACK and self.session is not None:
                self.session.inbound.unacknowledged -= len(answer.ids)
            self.send(answer.data or self._written(answer.type, answer.ids, answer.reason))
        if answers:
            self.broker.turn.await_commit(self)
        else:
            self._answers = None

    def write_out(self) -> None:
        """Write what gathered; once per turn."""
        out = self._out
        if not out:
            return
        self._out = []
        self._out_bytes = 0
        if self.ctx is not None:
            self.ctx.send(out)

    # The end.

    def fail(self, error: MqttError) -> None:
        """Close for an error, with the answer the specification has for it."""
        if self.closed:
            return
        self.broker.counters.errors[error.reason.name] += 1
        self.broker.note_error(self, error)
        self._leave(error)

    def disconnect(self, reason: ReasonCode, detail: str = "") -> None:
        """Close from our side: takeover, kick, shutdown."""
        if not self.closed:
            self._leave(MqttError(detail, reason))

    def leave_quietly(self, reason: ReasonCode) -> None:
        """The client said goodbye: close without a word."""
        self.write_out()
        self.closed = True
        self.writable = False
        self.broker.connection_leaving(self, by_client(reason))
        if self.ctx is not None:
            self.ctx.close(CloseReason("client_disconnected", ""))

    def _reference(self, reason: ReasonCode) -> str:
        """Where else the client can go, if it is told to."""
        if reason not in REFERRING or self.ctx is None:
            return ""
        return self.broker.references(self.ctx.channel.listener)

    def _leave(self, error: MqttError) -> None:
        # The session may be open already while CONNACK waits for its commit.
        connected = self.session is not None and not self.connecting
        packet = farewell(
            error,
            self.version,
            connected=connected,
            connecting=self.connect is not None,
            reference=self._reference(error.reason),
        )
        if packet is not None:
            data = fitting(packet, self.version or ProtocolVersion.V311, self.max_packet_size)
            if data is not None:
                self.broker.counters.packets_sent[packet.type.name] += 1
                self.send(data)
        self.write_out()
        self.closed = True
        self.writable = False
        ctx = self.ctx
        self.broker.connection_leaving(self, by_node(error.reason), error)
        if ctx is not None:
            ctx.close(CloseReason(error.reason.name, error.detail))

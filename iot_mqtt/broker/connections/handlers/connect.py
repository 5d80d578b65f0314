"""CONNECT, as one list: what it does, in this order. It may have to wait at three places, marked with ``…``.

::

    on_connect   what the client speaks and takes is noted; its first packet is there: no connect time-out any more
                 is anybody let in now?   is its id one?
        …        who is it, and what may it do?              a password, a file, challenges (``access``)
    admit        may it have this name?   may it have this will?   can it be told of its session?
        …        the session comes from the node that has it         only among several nodes (``homes``)
    _open        is the session somebody else's?
                 whoever is connected to it is disconnected; it is ended, or resumed, or begun, and written down
                 subscriptions without a right are withdrawn; the client counts as connected
                 its window, its will, its keep-alive
        …        all of that is committed                    only what would survive a crash
    _welcome     CONNACK, then what waits for the client, then what it sent meanwhile

An error at any place is the answer (``Connection.fail``): nothing of what comes behind it is done.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.connections.access import authenticate, begin_exchange
from iot_mqtt.codec import NO_PROPERTIES, Connack, Connect, ConnectWill, Properties, encode
from iot_mqtt.codec.properties import passed_on
from iot_mqtt.errors import ProtocolViolation, ReasonCode, Refused
from iot_mqtt.ports.access import Action, Permissions, Principal
from iot_mqtt.session import InboundAliases, OutboundAliases
from iot_mqtt.topics import RESERVED, is_reserved, validate_topic
from iot_mqtt.values import Message, ProtocolVersion, Will

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.session import Session

ABSENT_RECEIVE_MAXIMUM = 65_535


def on_connect(connection: Connection, connect: Connect) -> None:
    """The first packet, and the only one of its kind; the decoder's order table has seen to that."""
    broker, method = connection.broker, connect.properties.authentication_method
    broker.counters.packets_received["CONNECT"] += 1
    connection.connect = connect
    connection.version = connect.version
    connection.five = connect.version is ProtocolVersion.V5
    connection.connecting = True
    if method is None:
        broker.first_packet_came(connection)
    if broker.refusing is not None:
        # An exception keeps the frames of every place that it was raised at.
        raise Refused(broker.refusing.detail, broker.refusing.reason)
    _remember_client_limits(connection, connect)
    _check_client_id(connection, connect)
    if method is None:
        authenticate(connection, admit)
    else:
        # The client may have to answer challenges: what it sends now must be read.
        connection.connecting = False
        begin_exchange(connection, connect.properties.authentication_data)


def admit(connection: Connection, principal: Principal, permissions: Permissions, data: bytes | None) -> None:
    """The client is who it says: check its name and its will, and open its session once no other node has it."""
    broker, connect = connection.broker, connection.connect
    assert connect is not None
    connection.principal, connection.permissions = principal, permissions
    client_id = connect.client_id
    if client_id and not permissions.unrestricted:
        broker.owners.check_name(connection, client_id)
    will = None if connect.will is None else _will(connection, connect.will)
    assigned = None if client_id else broker.new_client_id()
    if connection.max_packet_size:
        # Before anything is done for a client that could not be told.
        connection.written_to_fit(_connack_with(connection, _particular(connection, assigned, data), present=False))
    if broker.clustering is None or (assigned and not broker.sessions.interval(connect)):
        _open(connection, will, assigned, data)
    else:
        broker.clustering.claims.claim(
            connection, assigned or client_id, partial(_open, connection, will, assigned, data)
        )


def _open(connection: Connection, will: Will | None, assigned: str | None, data: bytes | None) -> None:
    """Open the session, at home here, and answer once that is safe."""
    broker, connect = connection.broker, connection.connect
    assert connect is not None and connection.permissions is not None
    client_id = assigned or connect.client_id
    before = broker.sessions.get(client_id)
    foreign = before is not None and broker.owners.check(connection, client_id)
    replaces = before is not None and before.durable
    connection.connected_at = broker.clock.wall()
    session, present = broker.attaching.open(connection, connect, client_id, anew=foreign)
    connection.session = session
    connection.handlers = broker.handlers
    connection.take_batches()
    if not connection.permissions.unrestricted:
        broker.rights.recheck(connection)
    if connect.properties.authentication_method is not None:
        broker.first_packet_came(connection)
    broker.client_connected(connection)
    session.outbound.limit = min(
        connect.properties.receive_maximum or ABSENT_RECEIVE_MAXIMUM, broker.settings.max_inflight
    )
    session.inbound.unacknowledged = 0
    broker.wills.set(session, will)
    connection.watch_keep_alive(broker.settings.server_keep_alive or connect.keep_alive)
    broker.counters.connects_accepted += 1
    if session.durable or replaces or will is not None:
        # What CONNACK says of the session must be true after a crash as well.
        connection.after_commit(broker.store.latest, partial(_welcome, connection, session, present, assigned, data))
    else:
        _welcome(connection, session, present, assigned, data)


def _welcome(connection: Connection, session: Session, present: bool, assigned: str | None, data: bytes | None) -> None:
    """CONNACK, then what waits for the client, then what the client sent meanwhile."""
    connection.writable = connection.ctx is not None and connection.ctx.channel.writable
    _connack(connection, present, assigned, data)
    connection.connecting = False
    if present:
        connection.broker.outflow.resume(session)
    connection.proceed()


def _remember_client_limits(connection: Connection, connect: Connect) -> None:
    properties = connect.properties
    if connection.five:
        connection.max_packet_size = properties.maximum_packet_size or 0
        connection.problem_information = properties.request_problem_information is not False
        settings = connection.broker.settings
        connection.inbound_aliases = InboundAliases(settings.topic_alias_maximum)
        aliases = min(properties.topic_alias_maximum or 0, settings.topic_alias_maximum_outbound)
        if aliases:
            connection.outbound_aliases = OutboundAliases(aliases)
    if not connection.max_packet_size and connection.outbound_aliases is None:
        connection.plain = 5 if connection.five else 3


def _check_client_id(connection: Connection, connect: Connect) -> None:
    settings = connection.broker.settings
    if connect.client_id:
        if len(connect.client_id) > settings.max_client_id_length:
            raise Refused("client id too long", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
        return
    # [MQTT-3.1.3-8] 3.1.1 without an id must be clean; 3.1 must have one.
    allowed = settings.allow_empty_client_id and connect.version is not ProtocolVersion.V31
    if not allowed or (connect.version is ProtocolVersion.V311 and not connect.clean_start):
        raise Refused("a client id is needed", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)


def _will(connection: Connection, will: ConnectWill) -> Will:
    """The will as a message; it must be allowed and offered like any publish."""
    settings, permissions = connection.broker.settings, connection.permissions
    assert permissions is not None
    topic = will.topic.decode()
    validate_topic(topic, max_levels=settings.max_topic_levels)
    if will.qos > settings.max_qos:  # [MQTT-3.2.2-12]
        raise ProtocolViolation(f"QoS {will.qos} is not offered here", ReasonCode.QOS_NOT_SUPPORTED)
    if will.retain and not settings.retain_available:  # [MQTT-3.2.2-13]
        raise ProtocolViolation("retain is not offered here", ReasonCode.RETAIN_NOT_SUPPORTED)
    if is_reserved(will.topic):
        connection.broker.counters.denied["will"] += 1
        raise Refused(f"the will's topic: {RESERVED}", ReasonCode.NOT_AUTHORIZED)
    if not permissions.unrestricted and not permissions.allows(Action.PUBLISH, topic):
        connection.broker.counters.denied["will"] += 1
        raise Refused("not allowed to publish the will's topic", ReasonCode.NOT_AUTHORIZED)
    message = Message(
        will.topic,
        will.payload,
        will.qos,
        retain=will.retain,
        properties=passed_on(will.properties),
    )
    return Will(
        message,
        delay=will.properties.will_delay_interval or 0,
        expiry=will.properties.message_expiry_interval,
    )


def _connack(connection: Connection, present: bool, assigned: str | None, data: bytes | None) -> None:
    """Nearly every CONNACK of a version is the same; those are written once, at start."""
    broker = connection.broker
    if connection.five:
        particular = _particular(connection, assigned, data)
        if connection.max_packet_size or any(value is not None for value in particular.values()):
            connection.send_packet(_connack_with(connection, particular, present=present))
            return
    broker.counters.packets_sent["CONNACK"] += 1
    assert connection.version is not None
    connection.send(broker.usual_connacks[connection.version, present])


def _connack_with(connection: Connection, particular: dict[str, object], *, present: bool) -> Connack:
    properties = replace(connection.broker.announcement, **particular)  # type: ignore[arg-type]
    return Connack(session_present=present, reason=ReasonCode.SUCCESS, properties=properties)


def _particular(connection: Connection, assigned: str | None, data: bytes | None) -> dict[str, object]:
    """What this v5 client is told beside what all are told."""
    settings, connect = connection.broker.settings, connection.connect
    assert connect is not None
    properties = connect.properties
    asked = properties.session_expiry_interval or 0
    granted = connection.broker.sessions.interval(connect)
    return {
        "session_expiry_interval": granted if asked != granted else None,
        "assigned_client_identifier": assigned,  # [MQTT-3.1.3-7]
        "server_keep_alive": settings.server_keep_alive or None,  # [MQTT-3.1.2-21]
        "response_information": (settings.response_information or None)
        if properties.request_response_information
        else None,
        "authentication_method": properties.authentication_method,
        "authentication_data": data,
    }


def usual_connacks(announcement: Properties) -> dict[tuple[ProtocolVersion, bool], bytes]:
    """(version, session present?) → the CONNACK of a client that is told nothing of its own."""
    return {
        (version, present): encode(
            Connack(
                session_present=present,
                reason=ReasonCode.SUCCESS,
                properties=announcement if version is ProtocolVersion.V5 else NO_PROPERTIES,
            ),
            version,
        )
        for version in ProtocolVersion
        for present in (False, True)
    }

"""CONNECT, as one list: what it does, in this order. It may have to wait at three places, marked with ``…``.

::

    ConnectHandler  what the client speaks and takes is noted; its first packet is there: no connect time-out any more
                    is anybody let in now?   is its id one?   is it banned?
        …           who is it, and what may it do?              a password, a file, challenges (``access``)
    Admission       is its user banned?   may it have this name, this will?   can it be told of its session?
        …           the session comes from the node that has it         only among several nodes (``homes``)
    Opening         is the session somebody else's?
                    whoever is connected to it is disconnected; it is ended, or resumed, or begun, and written down
                    subscriptions without a right are withdrawn; the client counts as connected; its will
        …           all of that is committed                    only what would survive a crash
    Welcome         its window, its keep-alive; CONNACK, then what waits for the client, then what it sent meanwhile

An error at any place is the answer (``Connection.fail``): nothing of what comes behind it is done.
"""

from __future__ import annotations

from typing import Final

from iot_mqtt.broker.connections.access import Access
from iot_mqtt.broker.connections.bouncer import Bouncer
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.door import Door
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import NO_PROPERTIES, Connect
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.counters import Counters
from iot_mqtt.session import OutboundAliases
from iot_mqtt.values import ProtocolVersion

_V5: Final = ProtocolVersion.V5


class ConnectHandler:
    """The first packet, and the only one of its kind; the decoder's order table has seen to that."""

    __slots__ = ("_settings", "_door", "_bouncer", "_access", "_connections", "_counters")

    def __init__(
        self,
        settings: MqttSettings,
        door: Door,
        bouncer: Bouncer,
        access: Access,
        connections: Connections,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._door = door
        self._bouncer = bouncer
        self._access = access
        self._connections = connections
        self._counters = counters

    def serve(self, connection: Connection, connect: Connect) -> None:
        """CONNECT came."""
        method = connect.properties.authentication_method
        self._counters.packets_received["CONNECT"] += 1
        connection.connect = connect
        connection.version = connect.version
        connection.five = connect.version is _V5
        connection.connecting = True
        if method is None:
            self._connections.identified(connection)
        refusing = self._door.refusing or self._door.busy
        if refusing is not None:
            # An exception keeps the frames of every place that it was raised at.
            raise Refused(refusing.detail, refusing.reason)
        if connection.five:
            self._remember_limits(connection, connect)
        else:
            connection.plain = 3
        if not connect.client_id or len(connect.client_id) > self._settings.max_client_id_length:
            self._check_client_id(connect)
        # Before its password costs anything.
        self._bouncer.check(connection, connect.username)
        if method is None:
            self._access.authenticate(connection)
        else:
            # The client may have to answer challenges: what it sends now must be read.
            connection.connecting = False
            self._access.begin_exchange(connection, connect.properties.authentication_data)

    def _remember_limits(self, connection: Connection, connect: Connect) -> None:
        properties, settings = connect.properties, self._settings
        if properties is NO_PROPERTIES:
            connection.plain = 5
            return
        connection.max_packet_size = properties.maximum_packet_size or 0
        connection.problem_information = properties.request_problem_information is not False
        aliases = min(properties.topic_alias_maximum or 0, settings.topic_alias_maximum_outbound)
        if aliases:
            connection.outbound_aliases = OutboundAliases(aliases)
        elif not connection.max_packet_size:
            connection.plain = 5

    def _check_client_id(self, connect: Connect) -> None:
        """There is none, or it is too long."""
        settings = self._settings
        if connect.client_id:
            raise Refused("client id too long", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
        # [MQTT-3.1.3-8] 3.1.1 without an id must be clean; 3.1 must have one.
        allowed = settings.allow_empty_client_id and connect.version is not ProtocolVersion.V31
        if not allowed or (connect.version is ProtocolVersion.V311 and not connect.clean_start):
            raise Refused("a client id is needed", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)

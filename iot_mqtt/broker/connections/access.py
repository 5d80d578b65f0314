"""Letting a client in: password or enhanced authentication, then its rights.

Both ways end in ``admitted``. Asking may take a while (hashing, another service), so the connection holds what arrives
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.driving import done, drive
from iot_mqtt.broker.sessions.owners import is_foreign
from iot_mqtt.codec import Auth, Properties
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.ports.access import (
    NO_NAMES,
    AuthenticationMethod,
    Authenticator,
    Authorizer,
    Challenge,
    ConnectAttempt,
    Denied,
    Exchange,
    Granted,
    Permissions,
    Principal,
)
from iot_mqtt.ports.addresses import host_of
from iot_mqtt.ports.named import made

#: The rest of a CONNECT: who the client is, what it may do, and what its exchange has for it.
Admitted = Callable[[Connection, Principal, Permissions, bytes | None], None]


class Access:
    """Who clients are, and what they may do. ``recheck`` holds a session's subscriptions against new rights."""

    __slots__ = ("_authenticator", "_authorizer", "_methods", "_admitted", "_recheck")

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        methods: Mapping[str, AuthenticationMethod],
        admitted: Admitted,
        recheck: Callable[[Connection], None],
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._methods = methods
        self._admitted = admitted
        self._recheck = recheck

    def authenticate(self, connection: Connection) -> None:
        """Decide on a CONNECT without an authentication method."""
        connection.deciding = drive(self._decide(connection), done, partial(_failed, connection))

    async def _decide(self, connection: Connection) -> None:
        verdict = await self._authenticator.authenticate(attempt_of(connection))
        if isinstance(verdict, Denied):
            raise Refused(verdict.detail, verdict.reason)
        verdict = placed(verdict, connection)
        permissions = await self._authorizer.permissions(verdict)
        connection.deciding = None
        if not connection.closed:
            self._admitted(connection, verdict, permissions, None)

    def begin_exchange(self, connection: Connection, data: bytes | None) -> None:
        """Start an enhanced-authentication exchange, at CONNECT or for a re-authentication."""
        connect = connection.connect
        assert connect is not None
        method = self._methods.get(connect.properties.authentication_method or "")
        if method is None:  # [MQTT-4.12.0-1]
            raise Refused("this authentication method is not offered here", ReasonCode.BAD_AUTHENTICATION_METHOD)
        connection.exchange = method.begin(attempt_of(connection))
        self.continue_exchange(connection, data)

    def continue_exchange(self, connection: Connection, data: bytes | None) -> None:
        """One round: hand the client's data to the method and act on its verdict."""
        exchange = connection.exchange
        assert exchange is not None
        act = guarded(connection, partial(self._act, connection, exchange))
        drive(self._step(connection, exchange, data), act, partial(_failed, connection))

    async def _step(
        self, connection: Connection, exchange: Exchange, data: bytes | None
    ) -> tuple[Challenge | Granted | Denied, Permissions | None]:
        verdict = await exchange.step(data)
        if isinstance(verdict, Granted):
            verdict = replace(verdict, principal=placed(verdict.principal, connection))
            return verdict, await self._authorizer.permissions(verdict.principal)
        return verdict, None

    def _act(
        self,
        connection: Connection,
        exchange: Exchange,
        result: tuple[Challenge | Granted | Denied, Permissions | None],
    ) -> None:
        verdict, permissions = result
        if connection.exchange is not exchange:
            return
        if isinstance(verdict, Challenge):
            connection.send_packet(
                _auth(connection, ReasonCode.CONTINUE_AUTHENTICATION, verdict.data)  # [MQTT-4.12.0-2]
            )
            return
        connection.exchange = None
        if isinstance(verdict, Denied):
            raise Refused(verdict.detail, verdict.reason)  # [MQTT-4.12.0-4]
        assert permissions is not None
        if connection.session is None:
            self._admitted(connection, verdict.principal, permissions, verdict.data)
            return
        if is_foreign(connection.session, verdict.principal.identity):
            # It began as somebody's, and stays that.
            raise Refused("re-authentication cannot make another user of a client", ReasonCode.NOT_AUTHORIZED)
        connection.principal, connection.permissions = verdict.principal, permissions
        connection.watch_proof()
        self._recheck(connection)
        connection.note_origin()
        connection.send_packet(_auth(connection, ReasonCode.SUCCESS, verdict.data))


def placed(principal: Principal, connection: Connection) -> Principal:
    """The same with the address that it comes from, whoever vouched for it."""
    return principal if principal.address else principal._replace(address=host_of(connection.peer))


def attempt_of(connection: Connection) -> ConnectAttempt:
    """What an authenticator gets to see of a CONNECT."""
    connect, ctx = connection.connect, connection.ctx
    assert connect is not None and ctx is not None
    channel = ctx.channel
    return made(
        ConnectAttempt,
        (
            connect.client_id,
            connect.username,
            connect.password,
            channel.peer,
            channel.listener,
            int(connect.version),
            channel.certificate_name,
            channel.certificate or NO_NAMES,
        ),
    )


def _auth(connection: Connection, reason: ReasonCode, data: bytes | None) -> Auth:
    assert connection.connect is not None
    method = connection.connect.properties.authentication_method
    return Auth(reason=reason, properties=Properties(authentication_method=method, authentication_data=data))


class Guarded(Protocol):
    """A connection whose CONNECT is being answered."""

    @property
    def closed(self) -> bool: ...

    def fail(self, error: MqttError) -> None: ...


def guarded(connection: Guarded, call: Callable[..., None]) -> Callable[..., None]:
    """Run the rest of a CONNECT only while its connection is still there, and turn refusals into answers."""

    def wrapped(*values: object) -> None:
        if connection.closed:
            return
        try:
            call(*values)
        except MqttError as error:
            connection.fail(error)

    return wrapped


def _failed(connection: Connection, error: BaseException) -> None:
    if not connection.closed:
        connection.break_off(error, "authentication is not available")

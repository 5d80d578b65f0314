"""Letting a client in: password or enhanced authentication, then its rights.

Both ways end in ``connecting.admit``. Asking may take a while (hashing, another service), so the
connection holds what arrives meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.sessions.owners import is_foreign
from iot_mqtt.codec import Auth, Properties
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.ports.access import Challenge, ConnectAttempt, Denied, Exchange, Granted, Permissions, Principal

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection

Admitted = Callable[["Connection", Principal, Permissions, bytes | None], None]


def attempt_of(connection: Connection) -> ConnectAttempt:
    """What an authenticator gets to see of a CONNECT."""
    connect, ctx = connection.connect, connection.ctx
    assert connect is not None and ctx is not None
    channel = ctx.channel
    return ConnectAttempt(
        connect.client_id,
        connect.username,
        connect.password,
        channel.peer,
        channel.listener,
        int(connect.version),
        channel.certificate_name,
    )


def authenticate(connection: Connection, admitted: Admitted) -> None:
    """Decide on a CONNECT without an authentication method."""
    drive(_decide(connection), partial(_decided, connection, admitted), partial(connection_failed, connection))


async def _decide(connection: Connection) -> tuple[Principal, Permissions]:
    verdict = await connection.broker.authenticator.authenticate(attempt_of(connection))
    if isinstance(verdict, Denied):
        raise Refused(verdict.detail, verdict.reason)
    return verdict, await connection.broker.authorizer.permissions(verdict)


def _decided(connection: Connection, admitted: Admitted, result: tuple[Principal, Permissions]) -> None:
    if not connection.closed:
        try:
            admitted(connection, *result, None)
        except MqttError as error:
            connection.fail(error)


def begin_exchange(connection: Connection, data: bytes | None) -> None:
    """Start an enhanced-authentication exchange, at CONNECT or for a re-authentication."""
    connect = connection.connect
    assert connect is not None
    method = connection.broker.methods.get(connect.properties.authentication_method or "")
    if method is None:  # [MQTT-4.12.0-1]
        raise Refused("this authentication method is not offered here", ReasonCode.BAD_AUTHENTICATION_METHOD)
    connection.exchange = method.begin(attempt_of(connection))
    continue_exchange(connection, data)


def continue_exchange(connection: Connection, data: bytes | None) -> None:
    """One round: hand the client's data to the method and act on its verdict."""
    exchange = connection.exchange
    assert exchange is not None
    broker = connection.broker

    async def step() -> tuple[Challenge | Granted | Denied, Permissions | None]:
        verdict = await exchange.step(data)
        if isinstance(verdict, Granted):
            return verdict, await broker.authorizer.permissions(verdict.principal)
        return verdict, None

    def done(result: tuple[Challenge | Granted | Denied, Permissions | None]) -> None:
        _act(connection, exchange, *result)

    drive(step(), guarded(connection, done), partial(connection_failed, connection))


def _act(
    connection: Connection,
    exchange: Exchange,
    verdict: Challenge | Granted | Denied,
    permissions: Permissions | None,
) -> None:
    if connection.exchange is not exchange:
        return
    if isinstance(verdict, Challenge):
        connection.send_packet(_auth(connection, ReasonCode.CONTINUE_AUTHENTICATION, verdict.data))  # [MQTT-4.12.0-2]
        return
    connection.exchange = None
    if isinstance(verdict, Denied):
        raise Refused(verdict.detail, verdict.reason)  # [MQTT-4.12.0-4]
    assert permissions is not None
    if connection.session is None:
        connection.broker.admit(connection, verdict.principal, permissions, verdict.data)
        return
    if is_foreign(connection.session, verdict.principal.owner):
        # It began as somebody's, and stays that.
        raise Refused("re-authentication cannot make another user of a client", ReasonCode.NOT_AUTHORIZED)
    connection.principal, connection.permissions = verdict.principal, permissions
    connection.broker.rights.recheck(connection)
    connection.note_origin()
    connection.send_packet(_auth(connection, ReasonCode.SUCCESS, verdict.data))


def _auth(connection: Connection, reason: ReasonCode, data: bytes | None) -> Auth:
    assert connection.connect is not None
    method = connection.connect.properties.authentication_method
    return Auth(reason=reason, properties=Properties(authentication_method=method, authentication_data=data))


def guarded(connection: Connection, call: Callable[..., None]) -> Callable[..., None]:
    """Run the rest of a CONNECT only while its connection is still there, and turn refusals into answers."""

    def wrapped(*values: object) -> None:
        if connection.closed:
            return
        try:
            call(*values)
        except MqttError as error:
            connection.fail(error)

    return wrapped


def connection_failed(connection: Connection, error: BaseException) -> None:
    """What a failed coroutine does to its connection: a verdict closes it, a fault is ours and is reported."""
    if connection.closed:
        return
    if isinstance(error, MqttError):
        connection.fail(error)
    else:
        connection.broker.report(connection, error)
        connection.disconnect(ReasonCode.UNSPECIFIED_ERROR, "authentication is not available")

"""How a connection or a session ended: names for programs, and the one text of each for people.

The names are labels of ``iot_mqtt_disconnects_total``, and ``last_disconnect`` in the API. Where a reason code or a
close reason has no text here, its name is text enough.
"""

from __future__ import annotations

from typing import Final

from iot_mqtt.errors import ReasonCode

__all__ = [
    "CLEAN_START",
    "CLIENT_DISCONNECTED",
    "DISCONNECTED_WITH_WILL",
    "NODE_LOST",
    "NODE_RESTARTED",
    "SESSION_EXPIRED",
    "SESSION_PURGED",
    "WENT_ELSEWHERE",
    "WITH_CONNECTION",
    "by_client",
    "by_node",
    "end_text",
    "end_with",
    "ends_apart",
]

CLIENT_DISCONNECTED: Final = "client_disconnected"
DISCONNECTED_WITH_WILL: Final = "client_disconnected_with_will"
NODE_RESTARTED: Final = "node_restarted"
NODE_LOST: Final = "node_lost"
SESSION_EXPIRED: Final = "session_expired"
SESSION_PURGED: Final = "session_purged"
#: Of sessions alone: why one ended while messages waited for it.
CLEAN_START: Final = "clean_start"
WITH_CONNECTION: Final = "with_connection"
WENT_ELSEWHERE: Final = "went_elsewhere"

_TEXTS: Final = {
    CLIENT_DISCONNECTED: "disconnected by the client",
    DISCONNECTED_WITH_WILL: "disconnected by the client, which asked for its will to be published",
    NODE_RESTARTED: "the node was restarted",
    NODE_LOST: "the node had lost its place in the cluster: it ended, stood still or was cut off",
    SESSION_EXPIRED: "the session expired",
    "peer_closed": "the client closed the connection without DISCONNECT",
    "peer_reset": "the connection was lost",
    "connection_lost": "the connection was lost",
    "keep_alive_timeout": "nothing came from the client for one and a half times its keep-alive",
    "session_taken_over": "another connection came with the same client id",
    "administrative_action": "closed by an operator",
    SESSION_PURGED: "an operator ended the session, and all that waited for it",
    CLEAN_START: "a new one began in its place (clean start)",
    WITH_CONNECTION: "it was kept as long as the connection, and no longer",
    WENT_ELSEWHERE: "the client connected to another node, and the session was kept nowhere",
    "server_shutting_down": "the node was stopped",
    "use_another_server": "sent to another node",
    "server_moved": "sent to another node, for good",
    "outbox_limit": "the client did not read",
    "outbox_total": "too much waited for all clients, and most for this one, which did not read",
    "unfinished_total": "too much was held of packets that were not complete, and the client's had begun first",
    "failed": "an error of the node",
}
_SUCCESS: Final = ReasonCode.SUCCESS


def by_client(reason: ReasonCode) -> str:
    """The name of an end that the client asked for, with its reason."""
    if reason is _SUCCESS:
        return CLIENT_DISCONNECTED
    if reason is ReasonCode.DISCONNECT_WITH_WILL:
        return DISCONNECTED_WITH_WILL
    return f"client_said_{reason.name.lower()}"


def by_node(reason: ReasonCode) -> str:
    """The name of an end that the node decided on."""
    return reason.name.lower()


def end_text(name: str, detail: str = "") -> str:
    """What people read; ``detail``: what was said of this one."""
    return _TEXTS.get(name) or detail or name.replace("_", " ")


def end_with(name: str, detail: str) -> str:
    """The name, with what was said of this one where people read that; for the flight recorder, which has one text."""
    return f"{name}: {detail}" if detail and name not in _TEXTS else name


def ends_apart(end: str) -> tuple[str, str]:
    """The name again, and what people read."""
    name, _, detail = end.partition(": ")
    return name, end_text(name, detail)

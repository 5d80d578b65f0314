"""Why a connection ended: the value that travels with ``close`` and ``inactive``.

``name`` is a short word that is safe as a metric label; ``detail`` is for the log. ``code`` is what a v5 peer
may be told, where there is something to tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.errors import ReasonCode

__all__ = ["CloseReason"]


@dataclass(frozen=True, slots=True)
class CloseReason:
    """One reason, by name; two with the same name count as the same kind of ending."""

    name: str
    detail: str = ""
    code: ReasonCode | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}" if self.detail else self.name


PEER_CLOSED = CloseReason("peer_closed")
PEER_RESET = CloseReason("peer_reset")
CLOSED = CloseReason("closed")
ABORTED = CloseReason("aborted")
CONNECT_TIMEOUT = CloseReason("connect_timeout", "no CONNECT in time", ReasonCode.MAXIMUM_CONNECT_TIME)
BEFORE_LOGIN = CloseReason("before_login", "more bytes than may come before the login", ReasonCode.QUOTA_EXCEEDED)
TLS_HANDSHAKES = CloseReason("tls_handshakes", "too many TLS handshakes are under way", ReasonCode.QUOTA_EXCEEDED)
HALF_OPEN = CloseReason("half_open", "others wait for its place, and it says nothing", ReasonCode.QUOTA_EXCEEDED)
OUTBOX_LIMIT = CloseReason("outbox_limit", "the peer does not read", ReasonCode.QUOTA_EXCEEDED)
OUTBOX_TOTAL = CloseReason(
    "outbox_total", "too much waits for all peers, and most for this one", ReasonCode.QUOTA_EXCEEDED
)
UNFINISHED_TOTAL = CloseReason(
    "unfinished_total", "too much of packets that are not complete, and this one began first", ReasonCode.QUOTA_EXCEEDED
)
SHUTTING_DOWN = CloseReason("shutting_down", "", ReasonCode.SERVER_SHUTTING_DOWN)


def failed(error: BaseException) -> CloseReason:
    """The reason for an exception that no stage handled."""
    return CloseReason("failed", f"{type(error).__name__}: {error}", ReasonCode.UNSPECIFIED_ERROR)

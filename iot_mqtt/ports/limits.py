"""What an identity may use up: one value, whoever says it, and what it is called in documents and configuration.

::

    {"message_rate": 100, "inflight": 20, "class": "device"}

What is not said is left to whoever says less particular things, in the end to the keys of ``mqtt``. ``auth`` finds out
who says what of a client; the broker keeps to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

#: "class" is a word of Python's.
_NAMES: Final = {"class": "client_class"}
CLASSES: Final = ("device", "application")
ACTIONS: Final = ("pause", "disconnect")


class NoRoom(StrEnum):
    """What refuses a client another subscription."""

    CLIENT = "it has as many as mqtt.max_subscriptions_per_client allows"
    LIMITS = "it has as many as the limits document allows"
    NODE = "all clients together have as many as mqtt.max_subscriptions allows"
    NODE_BYTES = "those of all clients take as many bytes as mqtt.max_subscription_bytes allows"


@dataclass(frozen=True, slots=True)
class Limits:
    """None: nothing is said of it. ``RANGES`` has what numbers may be."""

    #: Longest, in seconds.
    session_expiry: int | None = None
    #: Messages and bytes that wait in memory for one session.
    queue_messages: int | None = None
    queue_bytes: int | None = None
    #: QoS 1 and 2 messages under way, in either direction.
    inflight: int | None = None
    #: Of PUBLISH, a second, from each client; and how many may come at once.
    message_rate: float | None = None
    message_burst: float | None = None
    byte_rate: float | None = None
    byte_burst: float | None = None
    #: The same from all clients of the user together.
    user_message_rate: float | None = None
    user_byte_rate: float | None = None
    #: What becomes of a client that sends more: its socket is not read for a while, or it is closed.
    rate_action: Literal["pause", "disconnect"] | None = None
    #: Clients of the user that are connected, and its sessions, connected or not.
    connections: int | None = None
    sessions: int | None = None
    #: Of one session.
    subscriptions: int | None = None
    #: Messages that are retained by the user, and their bytes.
    retained_messages: int | None = None
    retained_bytes: int | None = None
    client_class: Literal["device", "application"] | None = None


#: Nothing is said of anything.
NO_LIMITS: Final = Limits()

#: Lowest, highest, and whether it is counted (a whole number).
RANGES: Final[Mapping[str, tuple[float, float, bool]]] = {
    "session_expiry": (0, 0xFFFF_FFFF, True),
    "queue_messages": (0, 100_000_000, True),
    "queue_bytes": (0, 2**40, True),
    "inflight": (1, 65_535, True),
    "message_rate": (0.001, 1e9, False),
    "message_burst": (1, 1e9, False),
    "byte_rate": (1, 1e12, False),
    "byte_burst": (1, 1e12, False),
    "user_message_rate": (0.001, 1e9, False),
    "user_byte_rate": (1, 1e12, False),
    "connections": (0, 10_000_000, True),
    "sessions": (0, 10_000_000, True),
    "subscriptions": (0, 1_000_000, True),
    "retained_messages": (0, 100_000_000, True),
    "retained_bytes": (0, 2**40, True),
}
_CHOICES: Final = {"rate_action": ACTIONS, "class": CLASSES}
#: By the name that documents have.
ATTRIBUTES: Final = {
    next((word for word, attribute in _NAMES.items() if attribute == one.name), one.name): one.name
    for one in fields(Limits)
}
#: What is counted over all clients of a user: nothing that is said of a client id can change it.
OF_USERS: Final = frozenset(
    {"user_message_rate", "user_byte_rate", "connections", "sessions", "retained_messages", "retained_bytes"}
)


#: Over what a limit is counted, for people; any other one is of each client or session by itself.
COUNTED: Final = {
    "user_message_rate": "the user's clients on each node",
    "user_byte_rate": "the user's clients on each node",
    "connections": "the user's clients on each node",
    "sessions": "the user's sessions on each node",
    "retained_messages": "the user, in the whole cluster",
    "retained_bytes": "the user, in the whole cluster",
}
EACH: Final = {
    "message_rate": "each client, on its node",
    "message_burst": "each client, on its node",
    "byte_rate": "each client, on its node",
    "byte_burst": "each client, on its node",
}


def counted(limit: str) -> str:
    """Over what a limit is counted."""
    return COUNTED.get(limit) or EACH.get(limit) or "each session"


class Said(NamedTuple):
    """One limit of a client, and where it comes from."""

    limit: str
    value: int | float | str
    source: str


def read_limits(written: Mapping[str, Any]) -> Limits:
    """The limits that somebody wrote, by the names of documents; ``ValueError`` says what is wrong with them."""
    found: dict[str, Any] = {}
    for name, value in written.items():
        if name not in ATTRIBUTES:
            raise ValueError(f"there is no limit {name!r}; there are {', '.join(ATTRIBUTES)}")
        if value is not None:
            _check(name, value)
            found[ATTRIBUTES[name]] = value
    for burst, rate in (("message_burst", "message_rate"), ("byte_burst", "byte_rate")):
        if found.get(burst) is not None and found.get(rate) is None:
            raise ValueError(f"{burst} says nothing without {rate} beside it")
    return Limits(**found)


def known_limits(written: Mapping[str, Any]) -> tuple[Limits, list[str]]:
    """What this version understands of limits that another one may have written, and what is wrong with the rest."""
    found, wrong = NO_LIMITS, []
    for name, value in written.items():
        try:
            if name in ATTRIBUTES and value is not None:
                _check(name, value)
                found = replace(found, **{ATTRIBUTES[name]: value})
            elif name not in ATTRIBUTES:
                wrong.append(f"there is no limit {name!r}")
        except ValueError as error:
            wrong.append(str(error))
    return found, wrong


def written_limits(limits: Limits) -> dict[str, Any]:
    """What is said, by the names of documents."""
    said = ((name, getattr(limits, attribute)) for name, attribute in ATTRIBUTES.items())
    return {name: value for name, value in said if value is not None}


def _check(name: str, value: object) -> None:
    if name in _CHOICES:
        if value not in _CHOICES[name] or not isinstance(value, str):
            raise ValueError(f"{name} is one of {', '.join(_CHOICES[name])}, not {value!r}")
        return
    lowest, highest, whole = RANGES[name]
    kind = "a whole number" if whole else "a number"
    fits = isinstance(value, int) if whole else isinstance(value, int | float)
    # NaN is in no range.
    if isinstance(value, bool) or not fits or not lowest <= value <= highest:  # type: ignore[operator]
        raise ValueError(f"{name} must be {kind} from {lowest:g} to {highest:.15g}, not {value!r}")

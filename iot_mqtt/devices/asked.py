"""What somebody asks for: a command that is not accepted yet, however it came, and reading one off a message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.codec import Properties
from iot_mqtt.codec.properties import read_publish
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.devices import OPERATOR, StoredCommand
from iot_mqtt.values import Message

#: User properties of a command.
COMMAND_ID: Final = "command-id"
RETRY: Final = "retry"
IDEMPOTENCY_KEY: Final = "idempotency-key"
WANTS_REPLY: Final = "wants-reply"

_OURS = (COMMAND_ID, RETRY, IDEMPOTENCY_KEY, WANTS_REPLY)

MAX_KEY: Final = 128
#: Of a refusal, which says no more: what has the id is perhaps none of the sender's business.
IN_USE: Final = "the command id is in use"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
#: As ``letters.place_id`` makes them.
_MADE_ID = re.compile(r"kafka-[0-9a-f]{8}-[0-9]+-[0-9]+-[0-9]+")
_YES = frozenset({"yes", "true", "1"})
_YES_OR_NO = _YES | {"no", "false", "0"}


@dataclass(frozen=True, slots=True)
class NewCommand:
    """What a sender says; everything but the target has a default."""

    #: What stands behind ``down/``.
    target: str
    body: bytes = b""
    #: Seconds since 1970 after which it must not be sent any more.
    deadline: float | None = None
    #: Whether it may be sent again when nobody knows whether it has arrived.
    retry: bool = False
    #: An MQTT device has done it when it says so on ``reply/<id>``, not when it confirms the message.
    wants_reply: bool = False
    #: One of the sender's own, or "": it is given one.
    id: str = ""
    #: The id was made here, of where the command comes from.
    made: bool = False
    idempotency_key: str = ""
    response_topic: str = ""
    correlation: bytes = b""
    qos: int = 1
    #: In whose name it is sent, where that is not a client's: each of these users must have the right to it.
    users: tuple[str, ...] = ()
    #: When it was written, if that was before it came here or a clock is ahead; None: when it came.
    written: float | None = None
    #: Raw properties that are passed on to the device; ``carried``: the id is among them.
    properties: bytes = b""
    carried: bool = False
    #: Why it is not clear what is asked for, in words; "": it is.
    unclear: str = ""

    @property
    def user(self) -> str:
        """Who answers for it, where no client sent it: whoever holds a token for one user cannot act for another."""
        return self.users[0] if self.users else OPERATOR


class Lets(Protocol):
    """Says whether the rules of this moment let a user do something (``auth.explaining.QUESTIONS``)."""

    def __call__(self, user: str, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool: ...


class NotHis(Refused):
    """The user in whose name it is has no right to it."""

    default = ReasonCode.NOT_AUTHORIZED


def repeats(new: NewCommand, user: str, before: StoredCommand) -> bool:
    """Whether it is the same command again. Nobody repeats what is another user's, or hides his own behind it."""
    return before.target == new.target and (new.made or before.is_by(user))


def bad_id(command_id: str) -> bool:
    """Whether this cannot be the id of a command: it is part of a topic."""
    return _ID.fullmatch(command_id) is None


def is_made(command_id: str) -> bool:
    """Whether only a record of Kafka without an id has such a one: nobody else takes the ids of records to come."""
    return _MADE_ID.fullmatch(command_id) is not None


def command_id_of(properties: Properties) -> str | None:
    """The id that a message carries."""
    return next(iter(properties.named(COMMAND_ID)), None)


def read(message: Message, properties: Properties) -> NewCommand:
    """The command that a message to ``down/…`` is."""
    said = {name: properties.named(name) for name in _OURS}
    command_id = _first(said[COMMAND_ID])
    return NewCommand(
        target=message.topic[len(DOWN) :].decode(),
        body=message.payload,
        deadline=message.expires_at,
        retry=_first(said[RETRY]).lower() in _YES,
        wants_reply=_first(said[WANTS_REPLY]).lower() in _YES,
        id=command_id,
        idempotency_key=_first(said[IDEMPOTENCY_KEY]),
        response_topic=properties.response_topic or "",
        correlation=properties.correlation_data or b"",
        qos=message.qos,
        properties=message.properties,
        carried=bool(command_id),
        unclear=_unclear(said),
    )


def check_answer(lets: Lets, user: str, topic: str) -> None:
    """Raise unless a user may have the states of a command told there, if anywhere: what he may not publish himself
    nobody says for him.
    """
    for action in ("subscribe", "publish") if topic else ():
        if not lets(user, action, topic):
            raise NotHis(f"{user} may not {action} to {topic!r}")


def answered_at(message: Message) -> str:
    """Where a message asks for the states of a command to be told; empty: nowhere, or it is none."""
    if not message.topic.startswith(DOWN) or not message.qos or message.retain:
        return ""
    return read_publish(message.properties, from_client=False).response_topic or ""


def _first(values: Sequence[str]) -> str:
    return values[0] if values else ""


def _unclear(said: Mapping[str, Sequence[str]]) -> str:
    """What is wrong with the properties that are a command's, if anything."""
    for name, values in said.items():
        if len(set(values)) > 1:
            return f"{name} stands twice, with other values"
    for name in (RETRY, WANTS_REPLY):
        if any(value.lower() not in _YES_OR_NO for value in said[name]):
            return f"{name} must be yes or no"
    return ""

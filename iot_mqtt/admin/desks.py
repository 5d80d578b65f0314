"""What resources over a desk share: documents by name that are listed, shown, written and deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.errors import bad_request_if, existing, not_found

Value = TypeVar("Value")


class Named(Protocol):
    """A document as operators see it."""

    @property
    def name(self) -> str: ...


Info_co = TypeVar("Info_co", bound=Named, covariant=True)


class Desk(Protocol[Info_co]):
    """Writes raise ``ValueError`` for what cannot be kept."""

    def page(self, after: str | None, limit: int) -> Sequence[Info_co]: ...

    def find(self, name: str) -> Info_co | None: ...

    async def delete(self, name: str) -> bool: ...


def page_of(desk: Desk[Named], call: Call) -> Page:
    """As many as were asked for, by name."""
    return call.page(desk.page(call.after, call.limit + 1), lambda one: one.name)


def one_of(desk: Desk[Info_co], call: Call, otherwise: str) -> Info_co:
    """The one that the path names."""
    return existing(desk.find(call.path["name"]), otherwise)


async def delete_of(desk: Desk[Named], call: Call, otherwise: str) -> None:
    """Delete the one that the path names."""
    if not await checked(desk.delete(call.path["name"])):
        raise not_found(otherwise)


async def checked(write: Awaitable[Value]) -> Value:
    """What cannot be kept is a bad request."""
    with bad_request_if(ValueError):
        return await write

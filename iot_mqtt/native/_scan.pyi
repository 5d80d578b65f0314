"""What the compiled module offers: what ``_pure`` offers."""

from collections.abc import Callable, Sequence
from typing import Any

from iot_mqtt.native._pure_scan import RoutesByForm

FIVE: int
FROM_CLIENT: int
IN_ORDER: int
NAMES: int

class Scanner:
    def __init__(
        self,
        run: type[Any],
        batch: Callable[..., Any],
        ack: type[Any],
        ack_types: Sequence[Any],
        success: Any,
        no_properties: Any,
        read_properties: Callable[[bytes, bool], Any],
        check_topic: Callable[[bytes], None],
    ) -> None: ...
    def scan(
        self,
        data: bytes,
        pos: int,
        items: list[Any],
        limit: int,
        mode: int,
        routes: dict[bytes, Any] | RoutesByForm | None = None,
    ) -> int: ...

class PageReader:
    def __init__(self, scanner: Scanner, logged: type[Any], reference: type[Any], nobody: Any) -> None: ...
    def read(
        self, page: bytes, generation: int, stream: int, base: int, wanted: tuple[bytes, ...] = ()
    ) -> Sequence[Any] | None: ...

class Messages:
    def __init__(self, kind: type[Any], read: Callable[[bytes, float], tuple[bytes, float | None]]) -> None: ...
    def last(
        self, data: bytes, begin: int, count: int, five: bool, publisher: str, wall: float
    ) -> tuple[dict[bytes, Any], int] | None: ...

def named(data: bytes, pos: int, names: dict[int, bytes], maximum: int, limit: int, most: int) -> tuple[bytes, int]: ...
def pairs(raw: bytes, at: int) -> tuple[int, int]: ...
def values(run: bytes, name: bytes) -> list[str]: ...
def payloads(wire: bytes, count: int, prefix: int) -> list[bytes]: ...
def locate(wire: bytes, start: int, stop: int) -> tuple[int, int, int]: ...
def patch(wire: bytes, count: int, offset: int, head: int, ids: Sequence[int]) -> bytes: ...
def recode(wire: bytes, count: int, prefix: int, head: int, before: bytes, after: bytes, ids: Sequence[int]) -> bytes: ...
def rewrite(
    data: bytes, at: int, count: int, five: bool, head: int, to_five: bool, identifiers: bytes, ids: Sequence[int]
) -> bytes: ...
def acks(first: int, ids: Sequence[int]) -> bytes: ...
def publish(head: int, topic: bytes, packet_id: int, block: bytes, payload: bytes) -> bytes: ...

from collections.abc import Callable, Sequence
from typing import Any

from iot_mqtt.native._pure_appending import Written

class RowWriter:
    def __init__(
        self,
        logged: type[Any],
        reference: type[Any],
        run: type[Any],
        place: type[Any],
        stream: type[Any],
        generation: type[Any],
        *,
        nobody: Any,
        version: int,
    ) -> None: ...
    def append(
        self,
        runs: Sequence[Any],
        found: list[Any],
        places: dict[bytes, Any],
        gathering: dict[Any, list[Any]],
        shard: int,
        publisher: str,
        arrived: float,
        origin: Any,
        turn: int,
        position: int,
        usable: int,
    ) -> int: ...
    def stage(
        self,
        gathered: dict[Any, list[Any]],
        end: bytes,
        cache: Any,
        operations: list[Any],
        encode: Callable[[Sequence[Any]], bytes],
        ticket: int,
    ) -> Written: ...

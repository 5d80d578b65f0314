from collections.abc import Callable, Mapping, Sequence
from typing import Any

def merge(
    changes: dict[bytes, bytes | None], operations: Sequence[tuple[Any, bytes, bytes | None]], tags: Mapping[Any, bytes]
) -> int: ...
def record(salt: bytes, lsn: int, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes]) -> bytes: ...
def put_all(
    changes: dict[bytes, bytes | None], put: Callable[[bytes, bytes], object], remove: Callable[[bytes], object]
) -> None: ...

"""What the compiled module offers: what ``_pure_connecting`` offers."""

from collections.abc import Callable
from typing import Any

class ConnectReader:
    def __init__(
        self,
        connect: type[Any],
        version_311: Any,
        version_5: Any,
        no_properties: Any,
        read_properties: Callable[[bytes], Any],
        make_will: Callable[[int, bytes, bytes, bytes], Any],
    ) -> None: ...
    def read(self, data: bytes, limit: int) -> Any: ...

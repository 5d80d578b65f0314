from collections.abc import Callable
from select import epoll
from typing import Any

def receive(descriptor: int, room: int) -> bytes | None: ...
def send(descriptor: int, data: bytes | memoryview) -> int: ...

class Turns:
    interrupted: bool
    @property
    def ready(self) -> int: ...
    def __init__(
        self,
        poller: epoll,
        selectables: dict[int, Any],
        at_end: list[Callable[[], None]],
        over: Callable[[Any, BaseException], None],
        raised: Callable[[Any, Exception], None],
        other: Callable[[Any, int, int], None],
        failed: Callable[[Exception], None],
    ) -> None: ...
    def run(self, until: float) -> None: ...
    def turn(self, seconds: float) -> None: ...

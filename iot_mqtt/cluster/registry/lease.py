"""A lease of any registry: over at once when the registry says so."""

from __future__ import annotations

from collections.abc import Callable


class Lease:
    """Held until it is released, or its registry has taken it away (``valid``), or cannot be relied on for any time.

    ``certain`` says, by the clock too, whether the registry can; ``give_back`` is called once at most.
    """

    __slots__ = ("number", "name", "valid", "_certain", "_give_back")

    def __init__(
        self, name: str, number: int, certain: Callable[[], bool], give_back: Callable[[Lease], object]
    ) -> None:
        self.name = name
        self.number = number
        self.valid = True
        self._certain = certain
        self._give_back = give_back

    @property
    def held(self) -> bool:
        return self.valid and self._certain()

    def release(self) -> None:
        if self.valid:
            self.valid = False
            self._give_back(self)

"""What the embedded grid has its engine do in the order of its commits, as one physical batch of several of them.

Each adds its part to the batch where it comes in that order: changes, prefixes that are removed before them, or a step
that needs what was committed before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from iot_mqtt import native
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.grid import Operation

Done = Callable[[BaseException | None], None]


class Commit:
    """A batch on its way; the thread sets ``error``, the reactor calls ``finish``."""

    __slots__ = ("operations", "done", "fence", "error")

    def __init__(self, operations: Sequence[Operation], done: Done, fence: int) -> None:
        self.operations = operations
        self.done = done
        self.fence = fence
        self.error: BaseException | None = None

    def merge(self, changes: dict[bytes, bytes | None], prefixes: list[bytes], engine: Engine) -> None:
        """Add to the physical batch, which removes the prefixes first; a later operation on a key takes the place
        of an earlier one.
        """
        native.merge(changes, self.operations, TAGS)

    def finish(self) -> None:
        self.done(self.error)


class Swap(Commit):
    """A compare-and-set: decided in its place in the order, against the batch that it becomes part of."""

    __slots__ = ("expected", "swapped")

    def __init__(self, operation: Operation, expected: bytes | None, done: Done, fence: int) -> None:
        super().__init__((operation,), done, fence)
        self.expected = expected
        self.swapped = False

    def merge(self, changes: dict[bytes, bytes | None], prefixes: list[bytes], engine: Engine) -> None:
        cache, key, _ = self.operations[0]
        tagged = TAGS[cache] + key
        if tagged in changes:
            present = changes[tagged]
        else:
            present = None if tagged.startswith(tuple(prefixes)) else engine.get(tagged)
        self.swapped = present == self.expected
        if self.swapped:
            super().merge(changes, prefixes, engine)


class Removal(Commit):
    """Everything under a prefix, in its place in the order: what the batch has put there so far goes too."""

    __slots__ = ("prefix",)

    def __init__(self, prefix: bytes, done: Done, fence: int) -> None:
        super().__init__((), done, fence)
        self.prefix = prefix

    def merge(self, changes: dict[bytes, bytes | None], prefixes: list[bytes], engine: Engine) -> None:
        for key in [key for key in changes if key.startswith(self.prefix)]:
            del changes[key]
        prefixes.append(self.prefix)


class Copy(Commit):
    """Everything that was committed before it, as a database of its own."""

    __slots__ = ("target",)

    def __init__(self, target: Path, done: Done, fence: int) -> None:
        super().__init__((), done, fence)
        self.target = target

    def merge(self, changes: dict[bytes, bytes | None], prefixes: list[bytes], engine: Engine) -> None:
        try:
            engine.copy(self.target)
        except OSError as error:  # nothing of what is committed with it suffers
            self.error = error


class Merge(Commit):
    """A step of giving room back; ``after`` is then where the next one begins, None: there is none."""

    __slots__ = ("after",)

    def __init__(self, after: bytes, done: Done, fence: int) -> None:
        super().__init__((), done, fence)
        self.after: bytes | None = after

    def merge(self, changes: dict[bytes, bytes | None], prefixes: list[bytes], engine: Engine) -> None:
        assert self.after is not None
        self.after = engine.merge(self.after)


class Renewal(Commit):
    """Another log in the place of one that was removed."""

    __slots__ = ()

    def merge(self, changes: dict[bytes, bytes | None], prefixes: list[bytes], engine: Engine) -> None:
        engine.renew_log()


class Following(Commit):
    """A synced batch that is in the log alone, because RocksDB would have had to wait: readable when it is over."""

    __slots__ = ()

    def merge(self, changes: dict[bytes, bytes | None], prefixes: list[bytes], engine: Engine) -> None:
        engine.follow()

"""A grid that is cut off."""

from __future__ import annotations

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.logkit import Between


class Failing(Between):
    """Takes so many writes; then it, or its answer, is lost."""

    left = 1 << 30
    answers_lost = False

    async def commit(self, batch: WriteBatch) -> None:
        if self._over():
            raise Unavailable("cut off")
        await super().commit(batch)
        self._lost()

    async def compare_and_set(self, cache: CacheName, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        if self._over():
            raise Unavailable("cut off")
        swapped = await super().compare_and_set(cache, key, expected, value)
        self._lost()
        return swapped

    def _over(self) -> bool:
        self.left -= 1
        return self.left < (-1 if self.answers_lost else 0)

    def _lost(self) -> None:
        if self.left < 0:
            raise Unavailable("the answer is lost")

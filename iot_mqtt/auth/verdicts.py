"""Recent verdicts about passwords, so that a thousand clients that come back at once cost no thousand hashes.

A verdict is found by a keyed digest of (name, hash, password) with a key that is made anew in each process: no
password is kept, and a verdict dies with the hash it was about. Good and bad ones live apart, so that
guessing cannot push the good ones out.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable

from iot_mqtt.auth.hashing import HashPool, Question


class Verifier:
    """Asks the pool, unless the same was asked ``seconds`` ago or less."""

    def __init__(self, pool: HashPool, monotonic: Callable[[], float], *, seconds: float, size: int) -> None:
        self._pool = pool
        self._monotonic = monotonic
        self._seconds = seconds
        self._size = size if seconds > 0 else 0
        self._key = secrets.token_bytes(32)
        #: verdict → digest → when it is forgotten; oldest first, because every entry lives equally long.
        self._verdicts: dict[bool, OrderedDict[bytes, float]] = {True: OrderedDict(), False: OrderedDict()}

    async def verify(self, question: Question, source: str) -> bool:
        """True if the password fits the hash. Raises what ``HashPool.verify`` raises."""
        if not self._size:
            return await self._pool.verify(question, source)
        digest = self._digest(question)
        now = self._monotonic()
        for verdict, known in self._verdicts.items():
            if known.get(digest, now) > now:
                return verdict
        verdict = await self._pool.verify(question, source)
        self._remember(self._verdicts[verdict], digest)
        return verdict

    def forget(self) -> None:
        """Drop every verdict."""
        for known in self._verdicts.values():
            known.clear()

    def _remember(self, known: OrderedDict[bytes, float], digest: bytes) -> None:
        now = self._monotonic()
        known.pop(digest, None)
        known[digest] = now + self._seconds
        while len(known) > self._size or next(iter(known.values())) <= now:
            known.popitem(last=False)

    def _digest(self, question: Question) -> bytes:
        mac = hashlib.blake2b(key=self._key, digest_size=32)
        name = question.name.encode("utf-8", "surrogatepass")
        for part in (name, question.encoded.encode(), question.password):
            mac.update(len(part).to_bytes(4, "big"))
            mac.update(part)
        return mac.digest()

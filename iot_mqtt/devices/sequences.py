"""The highest sequence of each gateway whose readings are safe, so that what it sends again after a reconnect is
recognised, wherever it connects.

It belongs to the user whose gateway it is: a name that was used by somebody else before says nothing of the frames of
this one. Written with the readings.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from iot_mqtt.devices.changes import Changes
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.access import user_of
from iot_mqtt.ports.devices import NO_SEQUENCE, DeviceStore, StoredSequence, replace
from iot_mqtt.ports.questions import Asking

if TYPE_CHECKING:
    from iot_mqtt.broker.sessions.sessions import Sessions

log = logging.getLogger(__name__)

FORGET: Final = "devices.sequence"


class Sequences:
    """Of the gateways that this node has seen."""

    def __init__(self, store: DeviceStore, changes: Changes, sessions: Sessions) -> None:
        self._store = store
        self._changes = changes
        self._sessions = sessions
        self._known: dict[str, StoredSequence] = {}
        self._asking: Asking | None = None

    def join(self, asking: Asking) -> None:
        """There are other nodes."""
        self._asking = asking
        asking.answers[FORGET] = self._asked_to_forget

    def __contains__(self, gateway: str) -> bool:
        return gateway in self._known

    async def read(self, gateway: str) -> None:
        """What the store has, unless more is known here."""
        stored = await self._store.sequence(gateway)
        if stored is not None:
            have = self._known.get(gateway)
            self._known[gateway] = stored if have is None else self._better(have, stored, self._owner(gateway))

    @staticmethod
    def _better(have: StoredSequence, stored: StoredSequence, owner: str | None) -> StoredSequence:
        """That of the present user, or else the higher one."""
        if have.is_anothers(owner) != stored.is_anothers(owner):
            return stored if have.is_anothers(owner) else have
        return stored if have.epoch == stored.epoch and have.highest < stored.highest else have

    def begin(self, gateway: str, epoch: int) -> int:
        """The gateway was let in: the highest number that is safe, or ``NO_SEQUENCE``. ``epoch``: of its numbering;
        with another one than before, or as another user's gateway, it begins anew.
        """
        owner, have = self._owner(gateway), self._known.get(gateway)
        if have is not None and have.is_anothers(owner):
            told = {"gateway": gateway, "user": user_of(owner or "")}
            log.info("the gateway was another user's: its frames are numbered anew", extra=told)
            have = None
        if have is None or have.epoch != epoch:
            have = StoredSequence(epoch, NO_SEQUENCE, owner)
        elif have.owner is None:
            have = replace(have, owner=owner)
        self._known[gateway] = have
        return have.highest

    def highest(self, gateway: str) -> int:
        have = self._known.get(gateway)
        return NO_SEQUENCE if have is None else have.highest

    def put(self, gateway: str, sequence: int) -> None:
        """This is the highest one, or there is none, from the commit of this turn on."""
        have = self._known.get(gateway) or StoredSequence(0, NO_SEQUENCE, self._owner(gateway))
        self._known[gateway] = found = replace(have, highest=sequence)
        if sequence == NO_SEQUENCE:
            self._changes.forget_sequence(gateway)
        else:
            self._changes.sequence(gateway, found)

    def _owner(self, gateway: str) -> str | None:
        session = self._sessions.get(gateway)
        return None if session is None else session.owner

    # Forgetting.

    def drop(self, gateway: str) -> None:
        """Out of the memory."""
        self._known.pop(gateway, None)

    def forget(self, gateway: str) -> None:
        """It is not remembered any more."""
        self.drop(gateway)
        self._changes.forget_sequence(gateway)

    async def find(self, gateway: str) -> StoredSequence | None:
        """What is committed."""
        return await self._store.sequence(gateway)

    async def forget_everywhere(self, gateway: str) -> bool:
        """It begins anew, on all nodes; False if nothing was known. Committed when this returns."""
        found = await self._store.sequence(gateway) is not None or gateway in self._known
        answers = {} if self._asking is None else await self._asking.ask_all(FORGET, gateway.encode())
        silent = [str(number) for number, answer in sorted(answers.items()) if isinstance(answer, str)]
        if silent:
            raise Unavailable(f"it may be known there: no answer from node {', '.join(silent)}")
        found = found or b"yes" in answers.values()
        if found:
            self.forget(gateway)
            await self._changes.settled()
        return found

    def _asked_to_forget(self, body: bytes) -> bytes:
        gateway = body.decode()
        if gateway not in self._known:
            return b""
        # With what is staged of it here.
        self.forget(gateway)
        return b"yes"

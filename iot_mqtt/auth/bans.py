"""The bans of all nodes: documents of the directory, and what this node makes of them.

    {"client": "press-*", "user": null, "address": null, "until": 1700000000.0, "cause": "operator", …}

What a node imposes by itself holds here at once, whether the grid takes it or not, and elsewhere once it has.
"""

from __future__ import annotations

import hashlib
import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from twisted.internet.defer import ensureDeferred

from iot_mqtt.auth.ban_index import BanIndex
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.ports.bans import BANS, Ban, Cause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.directory import Directory, Document

log = logging.getLogger(__name__)

#: Bans of operators, and those that nodes impose; of the former, patterns that begin with a sign.
MOST: Final = 10_000
MOST_IMPOSED: Final = 1_000
MOST_OPEN: Final = 100
#: Characters of a name, and of a reason.
LONGEST: Final = 256
#: Documents of bans that are over, taken away at one look, and seconds between two.
AT_ONCE: Final = 100
SWEEP_SECONDS: Final = 5.0
WHOM: Final = ("client", "user", "address")
_LONGEST_LIFE: Final = 10 * 366 * 24 * 3600.0


class BanBook:
    """``ports.bans.Bans``, and what operators do with them. Writes of theirs raise ``ValueError``, ``Refused``,
    ``TooMuch`` and ``Unavailable``.
    """

    def __init__(self, directory: Directory, clock: Clock, node_id: str) -> None:
        self._directory = directory
        self._clock = clock
        self._node_id = node_id
        self._index = BanIndex()
        self._imposed = 0
        #: Called with bans that are new here.
        self.on_added: Callable[[list[Ban]], None] = _nobody_listens
        self._changed(frozenset(directory.of(BANS)))
        directory.watch(BANS, self._changed)

    # Asked by the doors.

    def __len__(self) -> int:
        return len(self._index)

    def find(self, client_id: str, user: str, host: str) -> Ban | None:
        return self._index.find(client_id, user, host, self._clock.wall())

    def all_of(self, client_id: str, users: Iterable[str], hosts: Iterable[str]) -> list[Ban]:
        """Those that concern a client by its name, by one of these users, or at one of these addresses."""
        whom = [(client_id, user, host) for user in ("", *users) for host in ("", *hosts)]
        found = (self.find(*one) for one in whom)
        return list({ban.id: ban for ban in found if ban is not None}.values())

    def bans_host(self, host: str) -> bool:
        """Whether nobody is let in from an address."""
        return self._index.bans_host(host, self._clock.wall())

    def impose(self, cause: Cause, client_id: str, address: str, seconds: float, reason: str) -> None:
        if self._imposed >= MOST_IMPOSED or len(client_id) > LONGEST:
            return
        now = self._clock.wall()
        ban = Ban(
            id_of(client_id, cause, address),
            client_id,
            None,
            address,
            now + seconds,
            cause,
            reason,
            self._node_id,
            now,
            exact=True,
        )
        log.warning("banned: %s", reason, extra={"client": client_id, "peer": address, "seconds": seconds})
        self._add(ban)
        ensureDeferred(self._write(ban)).addErrback(
            lambda failure: log.warning("a ban is known to this node alone: %s", failure.getErrorMessage())
        )

    # Asked by operators.

    def page(self, after: str | None, limit: int) -> list[Ban]:
        """By id: those that hold, and documents of others."""
        documents = self._directory.of(BANS)
        ids = sorted({*documents, *(ban.id for ban in self._index)})
        begin = bisect_right(ids, after) if after else 0
        return [self._index.get(id) or _shown(documents[id]) for id in ids[begin : begin + limit]]

    def get(self, id: str) -> Ban | None:
        """The ban of an id."""
        return self._index.get(id)

    async def add(
        self,
        *,
        client: str | None,
        user: str | None,
        address: str | None,
        seconds: float | None,
        reason: str,
        by: str,
    ) -> Ban:
        """Ban whom all of it fits, in place of what there is about exactly them."""
        if client is None and user is None and address is None:
            raise ValueError("one of client, user and address has to be there")
        for one in (client, user, address):
            if one is not None and not 0 < len(one) <= LONGEST:
                raise ValueError(f"client, user and address have 1 to {LONGEST} characters")
        if len(reason) > LONGEST:
            raise ValueError(f"a reason has at most {LONGEST} characters")
        if seconds is not None and not 0 < seconds <= _LONGEST_LIFE:
            raise ValueError(f"a ban is for up to {_LONGEST_LIFE:.0f} seconds, or for good")
        now = self._clock.wall()
        until = None if seconds is None else now + seconds
        ban = Ban(id_of(client, user, address), client, user, address, until, Cause.OPERATOR, reason, by, now)
        BanIndex().add(ban)  # it can be understood
        if self._index.get(ban.id) is None:
            self._require_room(ban)
        await self._write(ban)
        return ban

    async def remove(self, id: str) -> bool:
        """False if there is none."""
        known = self._index.get(id) is not None
        self._remove(id)
        return await self._directory.delete(BANS, id) or known

    # In time.

    async def sweep(self) -> None:
        """Take away what is over; to be called every ``SWEEP_SECONDS``. Raises ``Unavailable``."""
        now = self._clock.wall()
        over = [ban for ban in self._index if ban.until is not None and ban.until <= now]
        for ban in over:
            self._remove(ban.id)
        for ban in over[:AT_ONCE]:
            document = self._directory.get(BANS, ban.id)
            if document is not None and _until(document.body) == ban.until:
                try:
                    await self._directory.delete(BANS, ban.id, document.version)
                except Refused:
                    continue  # somebody has made it longer, or another node was first

    def _changed(self, ids: frozenset[str]) -> None:
        """Documents of bans are others now, here or at another node."""
        added = []
        for id in ids:
            document = self._directory.get(BANS, id)
            if document is None:
                self._remove(id)
                continue
            try:
                ban = _ban(document)
                if ban != self._index.get(id) and not (ban.until is not None and ban.until <= self._clock.wall()):
                    self._file(ban)
                    added.append(ban)
            except (TypeError, ValueError) as error:
                log.error("ban %s is not understood and holds for nobody: %s", id, error)
        if added:
            self.on_added(added)

    def _add(self, ban: Ban) -> None:
        self._file(ban)
        self.on_added([ban])

    def _file(self, ban: Ban) -> None:
        self._remove(ban.id)
        self._index.add(ban)
        self._imposed += ban.cause != Cause.OPERATOR

    def _remove(self, id: str) -> None:
        known = self._index.get(id)
        if known is not None:
            self._index.remove(id)
            self._imposed -= known.cause != Cause.OPERATOR

    async def _write(self, ban: Ban) -> None:
        body = asdict(ban)
        del body["id"]
        try:
            await self._directory.put(BANS, ban.id, body)
        except MqttError:
            raise
        except ValueError as error:
            raise ValueError(f"it cannot be kept: {error}") from error

    def _require_room(self, ban: Ban) -> None:
        known = [one for one in self._index if one.cause == Cause.OPERATOR]
        if len(known) >= MOST:
            raise Refused(f"there are {MOST} bans already", ReasonCode.QUOTA_EXCEEDED)
        if _is_open(ban) and sum(map(_is_open, known)) >= MOST_OPEN:
            text = f"there are {MOST_OPEN} bans already whose pattern begins with * or ?"
            raise Refused(text, ReasonCode.QUOTA_EXCEEDED)


def id_of(client: str | None, user: str | None, address: str | None) -> str:
    """The id of the ban of exactly them."""
    return hashlib.sha256(json.dumps([client, user, address]).encode()).hexdigest()[:16]


def _ban(document: Document) -> Ban:
    """``ValueError`` or ``TypeError`` if it says nothing of the kind."""
    body = document.body
    client, user, address = (None if (one := body.get(name)) is None else str(one) for name in WHOM)
    return Ban(
        document.name,
        client,
        user,
        address,
        _until(body),
        str(body.get("cause")),
        str(body.get("reason")),
        str(body.get("made_by")),
        float(body.get("made_at", 0.0)),
        bool(body.get("exact")),
    )


def _shown(document: Document) -> Ban:
    """As it is listed where it does not hold: over, or nobody's who understands it here."""
    try:
        return _ban(document)
    except (TypeError, ValueError):
        return Ban(document.name, None, None, None, None, "not understood", "", "", 0.0)


def _until(body: Mapping[str, Any]) -> float | None:
    until = body.get("until")
    return None if until is None else float(until)


def _is_open(ban: Ban) -> bool:
    return ban.client is not None and ban.client[:1] in ("*", "?")


def _nobody_listens(_: list[Ban]) -> None:
    """Until there is a broker."""

"""Commands among several nodes: the one that accepts a command need not be the one that brings it.

The node that has the session of the target decides, and no other: it learns of a command from the node that accepted
it, as soon as that is committed, or else when it reads the message itself. A look through the store now and then
finds what nobody told of, because a node died at the wrong moment, and what no session is there for, in the grid
neither: its target was never there, which nobody could know while its node was not heard, or is not any more. That is
ended by whoever swaps the record first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from iot_mqtt.broker.driving import done, drive
from iot_mqtt.broker.kept_session import SESSIONS
from iot_mqtt.broker.sending.commands import DOWN
from iot_mqtt.devices.asked import bad_id
from iot_mqtt.devices.book import told_last
from iot_mqtt.errors import MqttError, Unavailable
from iot_mqtt.ports.devices import DeviceStore, State, StoredCommand, owner_of, replace
from iot_mqtt.ports.directory import Conflict
from iot_mqtt.ports.questions import Asking
from iot_mqtt.ports.store import StoredSession

if TYPE_CHECKING:
    from iot_mqtt.broker.session import Session
    from iot_mqtt.broker.sessions.sessions import Sessions
    from iot_mqtt.devices.book import Book
    from iot_mqtt.devices.changes import Changes
    from iot_mqtt.ports.clock import Clock
    from iot_mqtt.topics import Match, Routes

log = logging.getLogger(__name__)

ACCEPTED = "commands.accepted"
CANCEL = "commands.cancel"
#: Seconds between two looks through the store, and how long after its time a command counts as nobody's.
LOOK_SECONDS = 30.0
NOBODYS = 60.0
#: Seconds that a node has to tell what it has committed, before others do it.
TELLING = 10.0


class Others(Asking, Protocol):
    """The other nodes."""

    def all_heard(self) -> bool:
        """Whether it is known of every node on the list what it wants; if not, all commands are in the log."""
        ...


class KeptSessions(Protocol):
    """What the grid has of sessions; ``ports.store.Store`` is one."""

    def sessions(self, client_id: str | None = None) -> AsyncIterator[StoredSession]: ...


class Elsewhere:
    """Does nothing on a sole node."""

    def __init__(
        self,
        store: DeviceStore,
        changes: Changes,
        book: Book,
        sessions: Sessions,
        kept: KeptSessions,
        routes: Routes[Session],
        clock: Clock,
    ) -> None:
        self._store = store
        self._changes = changes
        self._book = book
        self._sessions = sessions
        self._kept = kept
        self._routes = routes
        self._clock = clock
        self._asking: Others | None = None
        #: (owner, id) of what was committed in this turn.
        self._news: list[tuple[str, str]] = []
        self._looking = False

    @property
    def clustered(self) -> bool:
        """Whether there are other nodes."""
        return self._asking is not None

    def wants(self, match: Match[Session]) -> bool:
        """Whether another node wants what is sent there, or may, as far as is known here."""
        if self._asking is None:
            return False
        return not self._asking.all_heard() or any(route.receiver.__class__ not in SESSIONS for route in match.plain)

    def is_home(self, owner: str) -> bool:
        """Whether this node decides what becomes of a client's commands."""
        return self._asking is None or self._sessions.get(owner) is not None

    def place_of(self, target: str, command_id: str) -> tuple[str, str] | None:
        """Owner and id under which the grid may have a command that another node accepted; None: nobody has to ask."""
        if not self.clustered or not command_id or bad_id(command_id):
            return None
        owner = owner_of(target)
        return (owner, command_id) if owner and self._book.get(owner, command_id) is None else None

    def join(self, asking: Others) -> None:
        """There are other nodes."""
        self._asking = asking
        asking.answers[ACCEPTED] = self._heard
        asking.answers[CANCEL] = self._asked_to_cancel

    # Accepted here, for a target that is at home elsewhere.

    def accepted(self, record: StoredCommand, ticket: int) -> None:
        """Tell the others when it is committed."""
        self._changes.after(ticket, partial(self._committed, record))

    def _committed(self, record: StoredCommand) -> None:
        if not self._news:
            self._changes.after(0, self._tell)
        self._news.append((record.owner, record.id))

    def _tell(self) -> None:
        news, self._news = self._news, []
        if self._asking is not None:
            drive(self._ask(ACCEPTED, json.dumps(news).encode()), done, _unheard)
        # Its target may have come here meanwhile.
        self._look_at([(owner, command_id) for owner, command_id in news])

    async def _ask(self, name: str, body: bytes) -> Mapping[int, bytes | str]:
        return {} if self._asking is None else await self._asking.ask_all(name, body)

    def _heard(self, body: bytes) -> bytes:
        self._look_at([(str(owner), str(command_id)) for owner, command_id in json.loads(body)])
        return b""

    def _look_at(self, news: list[tuple[str, str]]) -> None:
        here = [(owner, one) for owner, one in news if self._sessions.get(owner) is not None]
        if here:
            drive(self._read(here), done, _unheard)

    async def _read(self, news: list[tuple[str, str]]) -> None:
        for owner, command_id in news:
            home = self._sessions.get(owner)
            if home is not None and self._book.get(owner, command_id) is None:
                record = await self._store.command(owner, command_id)
                if record is not None:
                    self.found(record, home)

    def found(self, record: StoredCommand, home: Session) -> None:
        """A command of a client that is at home here, accepted elsewhere or before; unless it is known. ``home``: its
        session when reading began. If it has another one now, the client was elsewhere meanwhile, and the record may be
        older than what became of it there.
        """
        if self._book.get(record.owner, record.id) is not None or self._sessions.get(record.owner) is not home:
            return
        same = self._book.same(record.target, record.idempotency_key, record.user)
        tracked = self._book.add(record)
        if record.untold:
            self._book.tell(record)
        if same is not None and record.state is State.QUEUED:
            self._book.fail(tracked, f"it repeats {same.record.id}, which is {same.record.state.value}")

    # Clients come from other nodes.

    def session_came(self, client_id: str, *, inherited: bool) -> None:
        """Its session is here now; ``inherited``: the node that had it is dead."""
        drive(self._load(client_id, inherited), done, partial(_not_loaded, client_id))

    async def _load(self, client_id: str, inherited: bool) -> None:
        home = self._sessions.get(client_id)
        if home is None:
            return
        records = [record async for record in self._store.commands(client_id)]
        for record in records:
            self.found(record, home)
        if inherited and self.is_home(client_id):
            # The dead node may have committed these and not told them. What waits was told by whoever accepted it,
            # perhaps long after that death.
            for record in told_last(
                record for record in records if record.state is not State.QUEUED and not record.untold
            ):
                self._book.tell(record)

    # Cancelling.

    async def cancel(self, record: StoredCommand) -> None:
        """Have the node that decides take it back. Raises ``Conflict``."""
        # An earlier release, which looks for the id alone, knows no such id, and takes back nobody else's.
        answers = await self._ask(CANCEL, f"{record.id}\n{record.owner}".encode())
        words = [answer.decode() for answer in answers.values() if isinstance(answer, bytes)]
        if "cancelled" in words:
            return
        why = next((word for word in words if word), None)
        if why is None:
            raise Unavailable("no node answers for its target now; try again")
        raise Conflict(why)

    def _asked_to_cancel(self, body: bytes) -> bytes:
        command_id, _, owner = body.decode().partition("\n")
        named = self._book.named(command_id)
        if not owner and len(named) == 1:
            # An earlier release asks.
            owner = named[0].record.owner
        if self._book.get(owner, command_id) is None:
            return b""
        try:
            self._book.cancel(owner, command_id)
        except MqttError as error:
            return error.detail.encode()
        return b"cancelled"

    # What nobody told of, and what is nobody's.

    def look(self) -> None:
        """Called now and then; never two at once."""
        if self.clustered and not self._looking:
            self._looking = True
            drive(self._look(), self._looked, self._not_looked)

    def _looked(self, _: None) -> None:
        self._looking = False

    def _not_looked(self, error: BaseException) -> None:
        self._looking = False
        log.warning("commands cannot be looked through now: %s", error)

    async def _look(self) -> None:
        async for record in self._store.commands():
            if self._book.get(record.owner, record.id) is not None:
                continue
            if self._sessions.get(record.owner) is not None:
                # Once more: the client may have come here since the page was read.
                await self._read([(record.owner, record.id)])
            else:
                await self._end(record)

    async def _end(self, record: StoredCommand) -> None:
        """Its target has no session here; nobody else has dealt with it in time."""
        now = self._clock.wall()
        if record.state.final:
            if self._book.kept_until(record) + NOBODYS <= now:
                self._changes.forget_command(record)
            elif record.untold and record.changed_at + TELLING <= now:
                self._book.tell(record)
            return
        if self._book.ends_at(record) + NOBODYS <= now:
            state, why = State.UNCERTAIN if record.attempts else State.EXPIRED, "nobody answers for its target"
        elif record.state is State.QUEUED and await self._is_nobodys(record):
            state, why = State.FAILED, no_session(record.owner)
        else:
            return
        times = {**record.times, state.value: now}
        after = replace(record, state=state, detail=why, times=times, untold=True)
        if await self._store.swap_command(record, after):
            self._book.tell(after)

    async def _is_nobodys(self, record: StoredCommand) -> bool:
        """Whether its target has no session: none that ends with its connection, which its node would tell of, and none
        that is kept, wherever that is, or will be when its node's death is noticed.
        """
        if self.wants(self._routes.find(DOWN + record.target.encode())):
            return False
        async for _ in self._kept.sessions(record.owner):
            return False
        return True


def no_session(owner: str) -> str:
    """Why a command has failed."""
    return f"{owner} has no session here: it has never come, or its session is over"


def _not_loaded(client_id: str, error: BaseException) -> None:
    what = "the commands of a client cannot be read; they are looked for again: %s"
    log.error(what, error, extra={"client": client_id})


def _unheard(error: BaseException) -> None:
    log.warning("other nodes were not told of commands; they find them by themselves: %s", error)

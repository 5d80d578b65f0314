"""The publish path: what happens with a publication, in one list, whoever it comes from.

::

    clients, gateways ─┐
    wills, API ────────┤ publish:  room on the disk? ─▶ more than a message? (``Step.take``)
    commands ──────────┤ hand_on:  ─▶ counted ─▶ ``Step.before`` ─▶ receivers ─▶ ``Step.after`` ─▶ retained
    $SYS, $events ─────┘ quietly:                                └─▶ receivers, retained
    other nodes ───────▶ fan_out:                                └─▶ receivers

What is staged by that is in the turn's one batch. ``Outcome.ticket`` says which commit an answer waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iot_mqtt.broker.kept_session import SESSIONS, KeptSession
from iot_mqtt.broker.publication import Publication, publication_of
from iot_mqtt.broker.publishing.batches import publications_of
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.publishing.outcome import DISK_FULL, Outcome
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.publishing.steps import Sender
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.turn import Turn
from iot_mqtt.codec import PublishBatch, PublishRun
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import outline
from iot_mqtt.topics import MIXED, Match, Route, Routes
from iot_mqtt.values import NOBODY, Message, Origin

#: Fewer are handed on one by one.
MIN_ROW = 2
#: Handed on one after the other, after so many it is asked whether that has taken too long.
LOOKS = 8
#: The first byte of what is kept together.
QOS1 = 0x32


class Publishing:
    """The one way in for every publication of this node."""

    __slots__ = ("routes", "fan_out", "_session_of", "_retention", "_budget", "_groups", "_turn", "_clock")

    def __init__(
        self,
        routes: Routes[Session],
        session_of: Callable[[str], Session | None],
        fan_out: FanOut,
        retention: Retention,
        budget: Budget,
        groups: SharedGroups,
        turn: Turn,
        clock: Clock,
    ) -> None:
        self.routes = routes
        self.fan_out = fan_out
        self._session_of = session_of
        self._retention = retention
        self._budget = budget
        self._groups = groups
        self._turn = turn
        self._clock = clock

    def publish(self, publication: Publication, source: Session | None = None, sender: Sender | None = None) -> Outcome:
        """A publication that may be refused, or be more than a message; ``source`` published it, over ``sender``."""
        match = self.routes.match(publication.topic)
        if publication.qos and self.refuses(publication):
            return self._refuse(publication)
        for step in match.steps:
            taken: Outcome | None = step.take(publication, sender)
            if taken is not None:
                return taken
        return self._hand_on(publication, source, match)

    def hand_on(self, publication: Publication, source: Session | None = None) -> Outcome:
        """One of which nobody has to be asked whether it is a message: to everybody who is to have it."""
        return self._hand_on(publication, source, self.routes.match(publication.topic))

    def _hand_on(self, publication: Publication, source: Session | None, match: Match[Session]) -> Outcome:
        self._turn.plan()
        if source is None and publication.publisher:
            source = self._session_of(publication.publisher)
        counters = self.fan_out.counters
        counters.messages_received += publication.count
        wanted = True
        for step in match.steps:
            wanted = step.before(publication) and wanted
        outcome = self.fan_out.fan_out(publication, match, source) if wanted else Outcome()
        for step in match.steps:
            step.after(publication, outcome)
        if outcome.nobody:
            counters.messages_unmatched += publication.count
        if publication.run.retain and wanted:
            self._retain(publication, outcome)
        return outcome

    def keep_each(self, runs: Sequence[PublishRun], source: Session, origin: Origin) -> Outcome | None:
        """Several of QoS 1 that are for sessions whose clients are away, and for nothing else: there is no more to do
        than to keep them. None: they are others, and nothing was done.
        """
        match, first = self.routes.match, runs[0]
        # Mostly the first one tells.
        if first.head != QOS1 or len(runs) < MIN_ROW or match(first.topic).above is not MIXED:
            return None
        topics, counts = outline(runs)
        matches: list[Match[Session]] = []
        for topic in topics:
            found = match(topic)
            if found.above is not MIXED or found.steps:
                return None
            matches.append(found)
        outcome = self.fan_out.owe_row(runs, counts, matches, source.client_id, origin)
        if outcome is not None:
            self._turn.plan()
            self.fan_out.counters.messages_received += sum(counts)
        return outcome

    def hand_on_each(
        self, publications: Sequence[Publication], source: Session, over: Callable[[], bool] | None = None
    ) -> list[Outcome]:
        """Several of which nobody has to be asked anything; those at the end are left while there is no room, or when
        ``over`` says that it has taken long enough.
        """
        outcomes: list[Outcome] = []
        looked = 0
        while len(outcomes) < len(publications) and not self._budget.full:
            begin = len(outcomes)
            if over is not None and begin - looked >= LOOKS:
                looked = begin
                if over():
                    break
            matches = self._row(publications, begin)
            if len(matches) < MIN_ROW:
                outcomes.append(self.hand_on(publications[begin], source))
                continue
            self._turn.plan()
            outcomes += self.fan_out.fan_out_row(publications[begin : begin + len(matches)], matches)
            self.fan_out.counters.messages_received += sum([one.count for one in publications[begin : len(outcomes)]])
        return outcomes

    def _row(self, publications: Sequence[Publication], begin: int) -> list[Match[Session]]:
        """Of those from the one at ``begin`` on, as far as they are for sessions and nothing else: who gets each."""
        matches: list[Match[Session]] = []
        run = publications[begin].run
        if run.qos == 1 and not run.retain:
            match = self.routes.match
            for publication in publications[begin:] if begin else publications:
                found = match(publication.topic)
                if found.above is not MIXED or found.steps:
                    break
                matches.append(found)
        return matches

    def send(self, message: Message, user: str = "", sender: Sender | None = None) -> Outcome:
        """Publish a message that no connection brought: a will, the API's. ``user``: who answers for it."""
        publication = publication_of(message, self._clock.wall(), Origin(user) if user else NOBODY)
        return self.publish(publication, None, sender)

    def quietly(self, message: Message) -> None:
        """Publish what the node says about itself; it is not counted as a message of anybody."""
        if message.retain:
            self._retention.retain(message)
        match = self.routes.match(message.topic)
        if match.plain or match.shared:
            publication = publication_of(message, self._clock.wall())
            if message.qos and self.refuses(publication):
                self._refuse(publication)
                return
            self._turn.plan()
            self.fan_out.fan_out(publication, match, None)

    def awaited(self, publication: Publication) -> int | None:
        """What the answer to a repeated message waits for besides its commit: it may have gone up and not be safe.
        None: it does not go up, or nobody waits for that.
        """
        positions = [step.awaited(publication) for step in self.routes.match(publication.topic).steps]
        return max((one for one in positions if one is not None), default=None)

    def refuses(self, publication: Publication) -> bool:
        """Whether it would be stored, and there is no room for that."""
        return self._budget.full and self._takes_room(self.routes.match(publication.topic), publication)

    def _takes_room(self, match: Match[Session], publication: Publication) -> bool:
        if _is_kept(publication) or any(step.records(publication.topic, publication.qos) for step in match.steps):
            return True
        if not publication.qos:
            return False
        if any(self._groups.keeps(shared.group) for shared in match.shared):
            return True
        routes: Sequence[Route[Any]] = match.plain
        for route in routes:
            receiver = route.receiver
            # What is no session is a replay.
            if receiver.__class__ not in SESSIONS:
                return True
            if isinstance(receiver, KeptSession) and receiver.cursor is not None and route.qos:
                return True
        return False

    def _refuse(self, publication: Publication) -> Outcome:
        """The disk has no room for it: nobody gets it, and a publisher of v5 is told so."""
        counters = self.fan_out.counters
        counters.messages_refused[Pause.DISK_FULL] += publication.count
        counters.recent.note(publication.publisher, "refused_disk_full", publication.topic, publication.count)
        outcome = Outcome()
        for position in range(publication.count):
            outcome.deny(position, DISK_FULL)
        return outcome

    def may_retain(self, publication: Publication) -> bool:
        """Whether there is room for it among the retained messages, and among those of its user."""
        return not self._retention.over_quota(publication.messages[-1], publication.origin.user)

    def may_retain_all(self, batch: PublishBatch, user: str) -> bool:
        """The same of several; False also where each of them is to be asked for."""
        return user not in self._retention.use.limits and self._retention.takes(batch)

    def retain_batch(self, batch: PublishBatch, origin: Origin, source: Session, outcome: Outcome) -> None:
        """A batch with RETAIN that its receivers have."""
        wall = self._clock.wall()
        if self._retention.retain_batch(batch, source.client_id, wall):
            outcome.ticket = self.fan_out.store.latest
        else:
            for publication in publications_of(batch, origin, source, wall):
                self._retain(publication, outcome)

    def _retain(self, publication: Publication, outcome: Outcome) -> None:
        counters = self.fan_out.counters
        if self._budget.full and not publication.qos and _is_kept(publication):
            # It has gone to its receivers all the same. Anything else was refused before, or will be confirmed: there
            # was room when it was taken, and what came with it has used that up.
            counters.messages_refused[Pause.DISK_FULL] += publication.count
            counters.recent.note(publication.publisher, "unretained_disk_full", publication.topic, publication.count)
        elif self._retention.retain(publication.messages[-1], publication.origin.user):
            outcome.ticket = self.fan_out.store.latest
        else:
            counters.dropped[Drop.RETAINED_QUOTA] += publication.count
            user = publication.origin.user
            counters.recent.note(
                publication.publisher, Drop.RETAINED_QUOTA, publication.topic, publication.count, f"user {user!r}"
            )


def _is_kept(publication: Publication) -> bool:
    """Whether it becomes its topic's retained message; an empty one only removes that."""
    return publication.run.retain and bool(publication.run.payloads()[-1])

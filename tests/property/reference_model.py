"""Sessions in the simplest words: who is to get which message, how often, and in which order.

The model knows nothing of packet ids, windows, stores or commits. It is told what clients did and what they were
told, and says whether what a client got was allowed. Where a killed node leaves two outcomes open, it allows both:

* what was acknowledged to its publisher *must* come, the rest *may*;
* a subscription whose SUBACK did not come is there or is not;
* a session that began, changed or ended without being safe is *doubtful*: its client has to start clean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

#: Seconds that the sessions of the test outlive their connection, and how late their end may be noticed.
INTERVAL = 100.0
SLACK = 2.0
FOR_EVER = float("inf")

#: The QoS a subscription may have just now; None: it may not be there.
Options = frozenset[int | None]
ABSENT: Options = frozenset({None})
EITHER = frozenset({False, True})
ONLY_OLD = frozenset({True})


def covers(filter: str, topic: str) -> bool:
    """Enough of topic matching for topics of two levels."""
    return filter in (topic, "#") or (filter.endswith("/+") and topic.startswith(filter[:-1]))


@dataclass(slots=True)
class Sent:
    """A message as its publisher knows it."""

    publisher: str
    topic: str
    qos: int
    acknowledged: bool = False
    #: Killed before it was acknowledged: the node may have it or not, until it is sent again.
    shaky: bool = False


@dataclass(slots=True)
class Expected:
    """What one session is to get of one message."""

    options: frozenset[int]
    must: bool
    #: The session was certainly subscribed when the message was sent first.
    sure: bool
    #: How often it may come as new: once, and again for each time a QoS 0 or 1 publisher sent it again.
    copies: int = 1
    fresh: int = 0
    came: bool = False
    #: It is owed only because it was sent again, after later ones perhaps: its place is not known.
    late: bool = False
    delivered: int = 0
    #: The client refused it: whether the node remembers that after a crash is open.
    refused: bool = False


@dataclass(slots=True)
class Session:
    """One client's session, from one clean start to the next."""

    durable: bool
    #: It has a connection; ``online`` once that got its CONNACK, which may say one of ``present``.
    attached: bool = True
    online: bool = False
    present: frozenset[bool] = frozenset({False})
    #: It ends at some moment between these two.
    ends_after: float = 0.0
    ends_before: float = 0.0
    survived_crash: bool = False
    #: False while the node has not made sure that it began, or that it became durable or ceased to be.
    safe: bool = False
    filters: dict[str, Options] = field(default_factory=dict)
    unanswered: list[tuple[str, Options]] = field(default_factory=list)
    expected: dict[int, Expected] = field(default_factory=dict)
    #: (publisher, topic, QoS sent, QoS received) → the newest message that came.
    newest: dict[tuple[str, str, int, int], int] = field(default_factory=dict)

    @property
    def unclear(self) -> bool:
        """CONNACK has not said whether it had expired: it may be the empty one that CONNECT has begun."""
        return self.attached and not self.online and self.present == EITHER

    def options(self, topic: str) -> Options:
        """The QoS at which a message to this topic may reach it: the highest of what matches."""
        matching = [options for filter, options in self.filters.items() if covers(filter, topic)]
        found: set[int | None] = set()
        for chosen in product(*matching):
            there = [qos for qos in chosen if qos is not None]
            found.add(max(there) if there else None)
        return frozenset(found)


class Model:
    """Everything that is allowed."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.sent: dict[int, Sent] = {}
        #: Clients whose session may have come back from the dead, or may be gone: they must start clean.
        self.doubtful: set[str] = set()
        self._ended: set[str] = set()

    # What clients do.

    def connects(self, client: str, *, clean: bool, durable: bool, now: float) -> bool:
        """CONNECT was sent; it counts at once, for whoever had the session before. True if it begins a new one."""
        old = self.sessions.get(client)
        replaced = old is not None and (clean or (old.attached and not old.durable))
        if old is None or replaced or (not old.attached and now > old.ends_before):
            self._end(client)
            self.sessions[client] = Session(durable)
            return True
        old.present = ONLY_OLD if old.attached or now < old.ends_after else EITHER
        old.safe &= old.durable == durable
        old.attached, old.online, old.durable = True, False, durable
        return False

    def welcomed(self, client: str, *, present: bool) -> None:
        """CONNACK came: what it says holds, whatever happens from now on."""
        session = self.sessions[client]
        assert present in session.present, "a session that should not be there, or none that should"
        if not present and True in session.present:
            session = self.sessions[client] = Session(session.durable)
        session.online = session.safe = True
        session.ends_after = FOR_EVER
        self.doubtful.discard(client)
        if session.durable:
            self._ended.discard(client)

    def is_doubtful(self, client: str) -> bool:
        """Whether it must start clean. So it must when it comes again while its session is unclear: "present" may then
        mean the empty one.
        """
        session = self.sessions.get(client)
        return client in self.doubtful or (session is not None and session.unclear)

    def leaves(self, client: str, *, now: float, for_good: bool = False) -> None:
        """The connection is over; ``for_good``: it said that the session is, too."""
        session = self.sessions[client]
        if session.unclear:
            self.doubtful.add(client)
            for_good = True
        if for_good or not session.durable:
            self._end(client)
            return
        # Without a CONNACK, what the node has safe may be the time of the farewell before.
        session.ends_after = now + INTERVAL if session.online else min(session.ends_after, now + INTERVAL)
        session.ends_before = now + INTERVAL + SLACK
        session.attached = session.online = False

    def _end(self, client: str) -> None:
        """Of one that is doubtful, too, there may be something to end."""
        if self.sessions.pop(client, None) is not None or client in self.doubtful:
            self._ended.add(client)

    def subscribes(self, client: str, filter: str, qos: int | None) -> None:
        """SUBSCRIBE was sent, or UNSUBSCRIBE with None; it counts at once."""
        session = self.sessions[client]
        session.unanswered.append((filter, session.filters.get(filter, ABSENT)))
        session.filters[filter] = frozenset({qos})

    def publishes(self, publisher: str, topic: str, qos: int, number: int, *, now: float) -> None:
        """PUBLISH was sent: whoever is subscribed is to get it, at QoS 0 only who is there."""
        self.sent[number] = Sent(publisher, topic, qos)
        for session in self.sessions.values():
            self._expect(session, number, self.sent[number], now)

    def _expect(self, session: Session, number: int, sent: Sent, now: float) -> None:
        options = session.options(sent.topic)
        qos = frozenset(min(option, sent.qos) for option in options if option is not None)
        if not session.online:
            qos -= {0}
        if not qos:
            return
        # A QoS that depends on what a crash left may be one that is lost while nobody is connected.
        must = None not in options and (len(options) == 1 or session.online)
        # One that is over may come back with a crash, without what it missed.
        must &= session.attached or now < session.ends_after
        known = session.expected.get(number)
        if known is None:
            session.expected[number] = Expected(qos, must, sure=must)
        else:
            known.must = must and (sent.qos < 2 or known.sure)
            known.copies += sent.qos < 2 or 0 in qos | known.options
            known.late |= known.options != qos
            known.options |= qos

    def publishes_again(self, number: int, *, now: float) -> None:
        """The same with DUP: new for the node at QoS 1; at QoS 2 only if a crash made it forget the first."""
        sent = self.sent[number]
        if sent.qos == 2 and not sent.shaky:
            return
        for session in self.sessions.values():
            known = number in session.expected
            self._expect(session, number, sent, now)
            if not known and number in session.expected:
                session.expected[number].late = True
                session.expected[number].must &= sent.qos == 1
        sent.shaky = False

    def refuses(self, client: str, number: int) -> None:
        """PUBACK or PUBREC said no."""
        self.sessions[client].expected[number].refused = True

    # What the node does.

    def acknowledges(self, number: int) -> None:
        """PUBACK or PUBREC: from now on nothing may lose it."""
        self.sent[number].acknowledged = True

    def answers(self, client: str, count: int) -> None:
        """SUBACK or UNSUBACK for the oldest ``count`` changes."""
        del self.sessions[client].unanswered[:count]

    def settles(self) -> None:
        """Nothing is waiting to be written."""
        self._ended.clear()
        for session in self.sessions.values():
            session.safe = True

    def crashes(self, now: float) -> None:
        """Killed and started again."""
        self.doubtful |= self._ended | {
            client for client, session in self.sessions.items() if session.unclear or not session.safe
        }
        self._ended.clear()
        for client, session in list(self.sessions.items()):
            if client in self.doubtful or not session.durable:
                del self.sessions[client]
                continue
            session.ends_after = min(session.ends_after, now + INTERVAL)
            session.attached = session.online = False
            session.survived_crash = True
            session.ends_before = now + INTERVAL + SLACK
            for filter, before in session.unanswered:
                session.filters[filter] |= before
            session.unanswered.clear()
            for number, expected in session.expected.items():
                expected.must &= self.sent[number].acknowledged and not expected.refused
        for sent in self.sent.values():
            sent.shaky |= not sent.acknowledged

    # What clients get.

    def comes(self, client: str, number: int, topic: str, qos: int, *, dup: bool) -> None:
        """PUBLISH came to a client."""
        session = self.sessions[client]
        expected, sent = session.expected.get(number), self.sent[number]
        assert expected is not None, "it was not subscribed to that"
        assert topic == sent.topic
        assert qos in expected.options, "the wrong QoS"
        if dup:
            assert expected.came or session.survived_crash, "DUP on what never came"  # [MQTT-3.3.1-1]
        else:
            expected.fresh += 1
            assert expected.fresh <= expected.copies, "it came twice as new"
        if not expected.came:
            # [MQTT-4.6.0-5] [MQTT-4.6.0-6]
            key = (sent.publisher, sent.topic, sent.qos, qos)
            assert expected.late or session.newest.get(key, 0) < number, "overtaken by a later message"
            session.newest[key] = max(number, session.newest.get(key, 0))
            expected.came = True

    def delivers(self, client: str, number: int) -> None:
        """A client hands a QoS 2 message to its application [MQTT-4.3.3-1]."""
        expected = self.sessions[client].expected[number]
        expected.delivered += 1
        twice = self.sent[number].qos == 2 and expected.delivered > 1 and not expected.refused
        assert not twice, "delivered twice at QoS 2"

    def missing(self, client: str, *, at_qos: frozenset[int] = frozenset({0, 1, 2})) -> Iterator[int]:
        """Messages that have to have come by now and have not."""
        for number, expected in self.sessions[client].expected.items():
            if expected.must and not expected.came and expected.options <= at_qos:
                yield number

"""For each entry of the table what it makes equal. An entry is tried only where two notes differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from iot_mqtt.topics import matches
from tests.fuzz.differential.comparing import IDS, PAYLOAD, QOS, RETAIN, TOPIC, Course, Explain, Pair
from tests.fuzz.differential.playing import Event, Note
from tests.fuzz.differential.script import Connect, Publish, Subscribe, Wrong
from tests.wire.packets import V5

MESSAGES: Final = ("PUBLISH", "OLD PUBLISH")


def _each(note: Note, change: Callable[[Event], Event | None]) -> Note:
    """The note with every event changed; None takes it away."""
    found = {who: [new for event in events if (new := change(event)) is not None] for who, events in note.items()}
    return {who: events for who, events in found.items() if events}


def _put(event: Event, place: int, value: object) -> Event:
    return (*event[:place], value, *event[place + 1 :])


def _carried(note: Note) -> set[str]:
    """What messages carry."""
    return {event[PAYLOAD] for events in note.values() for event in events if event[0] in MESSAGES}


def no_matching_subscribers(ours: Note, theirs: Note, course: Course) -> Pair:
    def plain(event: Event) -> Event:
        return (event[0], 0) if event[0] in ("PUBACK", "PUBREC") and event[1] == 0x10 else event

    return _each(ours, plain), _each(theirs, plain)


def unknown_release(ours: Note, theirs: Note, course: Course) -> Pair:
    def plain(event: Event) -> Event:
        return (event[0], 0) if event[0] == "PUBCOMP" and event[1] == 0x92 else event

    return _each(ours, plain), theirs


def closed_without_disconnect(ours: Note, theirs: Note, course: Course) -> Pair:
    def silent(event: Event) -> Event | None:
        return None if event[0] in ("DISCONNECT", "OLD DISCONNECT") else event

    return _each(ours, silent), _each(theirs, silent)


def overlapping(ours: Note, theirs: Note, course: Course) -> Pair:
    """One copy of each message for a client: the greatest QoS, all identifiers.

    Of several copies only those that are not of QoS 0 come again, or come later, when the client is back; so what the
    others say (RETAIN, identifiers) does not count then.
    """
    ours, theirs = _one_copy(ours), _one_copy(theirs)
    step = course.step
    if not isinstance(step, Connect):
        return ours, theirs
    filters = [name.removeprefix("g:") for one in course.asked() if one.who == step.who for name, _ in one.requests]

    def plain(event: Event) -> Event:
        if event[0] != "PUBLISH" or sum(matches(filter, event[TOPIC]) for filter in filters) < 2:
            return event
        return _put(_put(event, RETAIN, value=False), IDS, ())

    def back(note: Note) -> Note:
        return {who: [plain(one) if who == step.who else one for one in events] for who, events in note.items()}

    return back(ours), back(theirs)


def _one_copy(note: Note) -> Note:
    found: Note = {}
    for who, events in note.items():
        kept: dict[object, Event] = {}
        for place, event in enumerate(events):
            if event[0] not in MESSAGES:
                kept[place] = event
                continue
            key = event[0], event[TOPIC], event[PAYLOAD]
            before = kept.get(key)
            if before is not None:
                event = _put(event, QOS, max(event[QOS], before[QOS]))
                event = _put(event, RETAIN, event[RETAIN] or before[RETAIN])
                event = _put(event, IDS, tuple({*event[IDS], *before[IDS]}))
            kept[key] = _put(event, IDS, tuple(sorted(set(event[IDS]))))
        found[who] = list(kept.values())
    return found


def overlapping_before_5(ours: Note, theirs: Note, course: Course) -> Pair:
    """Of clients of 3.1.1 that have several subscriptions: the QoS of the one copy does not count.

    Where one of them is of QoS 0 and another is not, only we owe the message: only we send it when the client is back.
    """

    def plain(note: Note) -> Note:
        return {
            who: [
                _put(event, QOS, 0) if event[0] in MESSAGES and _is_old_with_many(who, course) else event
                for event in events
            ]
            for who, events in _one_copy(note).items()
        }

    step = course.step
    if isinstance(step, Connect) and _is_old_with_many(step.who, course):
        ours = _without_what_only_we_owe(step.who, ours, theirs, course)
    return plain(ours), plain(theirs)


def _without_what_only_we_owe(who: str, ours: Note, theirs: Note, course: Course) -> Note:
    there = {(event[TOPIC], event[PAYLOAD]) for event in theirs.get(who, ()) if event[0] == "PUBLISH"}
    requests = [request for step in course.asked() if step.who == who for request in step.requests]

    def only_ours(event: Event) -> bool:
        if event[0] != "PUBLISH" or (event[TOPIC], event[PAYLOAD]) in there:
            return False
        levels = {bits & 3 for name, bits in requests if matches(name.removeprefix("g:"), event[TOPIC])}
        return 0 in levels and len(levels) > 1

    return {one: [event for event in events if one != who or not only_ours(event)] for one, events in ours.items()}


def _is_old_with_many(who: str, course: Course) -> bool:
    many = sum(len(step.requests) for step in course.asked() if step.who == who) > 1
    return many and course.version_of(who) == 4


def shared_member(ours: Note, theirs: Note, course: Course) -> Pair:
    """Whoever of a group gets it: that it was delivered counts, not to whom. What a member that is away, or does not
    acknowledge, may have been given is apart, also when its session ends now and another member gets it.
    """
    filters = [filter for step in course.asked() for filter in _shared_by(step)]
    if not filters:
        return ours, theirs

    def is_shared(event: Event) -> bool:
        return event[0] in MESSAGES and any(matches(filter, event[TOPIC]) for filter in filters)

    def nobody(note: Note) -> Note:
        found = {(event[TOPIC], event[PAYLOAD]) for events in note.values() for event in events if is_shared(event)}
        rest = _each(note, lambda event: None if is_shared(event) else event)
        rest["the group"] = [("PUBLISH", topic, payload, 0, False, False, (), ()) for topic, payload in sorted(found)]
        return rest

    if any(course.is_slow(step.who) or course.was_slow(step.who) for step in course.asked() if _shared_by(step)):
        course.apart |= _carried(nobody(ours)) ^ _carried(nobody(theirs))
    return nobody(ours), nobody(theirs)


def _shared_by(step: Subscribe) -> list[str]:
    return [name.removeprefix("g:") for name, _ in step.requests if name.startswith("g:")]


def retained_for_shared(ours: Note, theirs: Note, course: Course) -> Pair:
    """What is retained and only mosquitto sends; who does not acknowledge it gets it again when it is back, also if
    another subscription of his brought it, too.
    """
    step = course.step
    if not isinstance(step, Subscribe) or not _shared_by(step):
        return ours, theirs
    mine, filters = _carried(ours), _shared_by(step)

    def unasked(event: Event) -> bool:
        if event[0] != "PUBLISH" or not event[RETAIN] or event[PAYLOAD] in mine:
            return False
        return any(matches(filter, event[TOPIC]) for filter in filters)

    if course.is_slow(step.who):
        retained = [event for event in theirs.get(step.who, ()) if event[0] == "PUBLISH" and event[RETAIN]]
        course.apart |= {event[PAYLOAD] for event in retained if any(matches(one, event[TOPIC]) for one in filters)}
    return ours, _each(theirs, lambda event: None if unasked(event) else event)


def wills(ours: Note, theirs: Note, course: Course) -> Pair:
    """Wills that only we publish when a connection is taken over, or a session ends with it.

    They may show later, to who was away, or as what is retained.
    """
    alone = {
        payload
        for payload in _carried(ours) - _carried(theirs)
        if payload.startswith("will ") and course.has_will_due(int(payload.split()[1]))
    }
    for number in (int(payload.split()[1]) for payload in alone):
        step = course.script[number]
        if isinstance(step, Connect) and step.will is not None and step.will.retain:
            course.topics.add(step.will.topic)
    course.apart |= alone
    return ours, theirs


def own_will(ours: Note, theirs: Note, course: Course) -> Pair:
    """Wills that are delivered on a connection while it is taken over, unless another member of its group got it."""
    filters = [filter for step in course.asked() for filter in _shared_by(step)]
    elsewhere = _carried(_each(theirs, lambda event: None if event[0] == "OLD PUBLISH" else event))
    given = _carried(ours) - elsewhere

    def plain(event: Event) -> Event | None:
        if event[0] != "OLD PUBLISH" or not event[PAYLOAD].startswith("will "):
            return event
        member = event[PAYLOAD] in given and any(matches(filter, event[TOPIC]) for filter in filters)
        return event if member else None

    return _each(ours, plain), _each(theirs, plain)


def repeated_subscription(ours: Note, theirs: Note, course: Course) -> Pair:
    """Of who has subscribed to a filter twice, with other options: RETAIN, and what he published himself."""

    def plain(note: Note) -> Note:
        found: Note = {}
        for who, events in note.items():
            mine = [
                (at, step) for at, step in enumerate(course.script) if isinstance(step, Publish) and step.who == who
            ]
            own = {f"m {at}" for at, _ in mine}
            removals = {step.topic for _, step in mine if step.empty}
            found[who] = []
            for event in events:
                if event[0] in MESSAGES and any(matches(filter, event[TOPIC]) for filter in changed.get(who, ())):
                    if event[PAYLOAD] in own or (not event[PAYLOAD] and event[TOPIC] in removals):
                        continue
                    event = _put(event, RETAIN, value=False)
                found[who].append(event)
        return {who: events for who, events in found.items() if events}

    options: dict[tuple[str, str], set[int]] = {}
    for step in course.asked():
        for name, bits in step.requests:
            # Before version 5 there are no options: the same as none.
            options.setdefault((step.who, name), set()).add(bits & 12 if course.version_at(step) == V5 else 0)
    changed: dict[str, list[str]] = {}
    for (who, name), several in options.items():
        if len(several) > 1:
            changed.setdefault(who, []).append(name.removeprefix("g:"))
    return plain(ours), plain(theirs)


def repeated_in_one(ours: Note, theirs: Note, course: Course) -> Pair:
    """Of who has just asked for a filter twice in one SUBSCRIBE: one copy of what is retained, of whichever QoS."""
    step = course.step
    names = [name for name, _ in step.requests] if isinstance(step, Subscribe) else []
    twice = [name for name in names if names.count(name) > 1 and not name.startswith("g:")]
    if not twice:
        return ours, theirs

    def plain(event: Event) -> Event:
        if event[0] != "PUBLISH" or not event[RETAIN] or not any(matches(name, event[TOPIC]) for name in twice):
            return event
        return _put(event, QOS, 0)

    return _one_copy(_each(ours, plain)), _one_copy(_each(theirs, plain))


def lenient(ours: Note, theirs: Note, course: Course) -> Pair:
    """What is wrong on purpose, is refused by us and taken by mosquitto."""
    step = course.step
    if isinstance(step, Wrong):
        mine, other = (("CLOSED",) in note.get(step.who, ()) for note in (ours, theirs))
        course.over = mine and not other
    return ours, theirs


EXPLANATIONS: Final[dict[str, Explain]] = {
    "no-matching-subscribers": no_matching_subscribers,
    "unknown-release": unknown_release,
    "closed-without-disconnect": closed_without_disconnect,
    "wills": wills,
    "retained-for-shared": retained_for_shared,
    "repeated-in-one": repeated_in_one,
    "overlapping": overlapping,
    "overlapping-before-5": overlapping_before_5,
    "own-will": own_will,
    "repeated-subscription": repeated_subscription,
    "shared-member": shared_member,
    "lenient": lenient,
}

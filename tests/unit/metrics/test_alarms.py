"""Alarms of a node: new, going on with other figures, over, and bounded."""

from __future__ import annotations

from iot_mqtt.metrics.alarms import KEPT, LONGEST, MOST, AlarmBook
from iot_mqtt.ports.alarms import Alarm, AlarmKind

BUSY = Alarm(AlarmKind.BUSY, "the node is busy")


def test_figures_that_change_are_the_same_alarm() -> None:
    """It began when it was first seen, and its text is the last one."""
    book = AlarmBook()
    raised, over = book.look([Alarm(AlarmKind.ROOM, "disk alarm: 85 of 100 bytes used (85 %)")], 10.0)
    assert ([one.code for one in raised], over) == (["room"], [])
    assert book.look([Alarm(AlarmKind.ROOM, "disk alarm: 90 of 100 bytes used (90 %)")], 11.0) == ([], [])
    (found,) = book.items()
    assert (found.since, found.until, found.text) == (10.0, None, "disk alarm: 90 of 100 bytes used (90 %)")
    assert found.helps is not None


def test_a_figure_with_its_unit_is_a_figure() -> None:
    """Whether there is room between them or not; letters that are no unit are part of a name."""
    book = AlarmBook()
    for text in ("no answer (after 302ms, 1.5s, 7MiB)", "no answer (after 4ms, 20s, 12MiB)"):
        book.look([Alarm(AlarmKind.OTHER, text)], 1.0)
    assert len(book.items()) == 1
    raised, _ = book.look([Alarm(AlarmKind.CODEC, f"codec {name} fails") for name in ("3com", "4com")], 2.0)
    assert len(raised) == 2


def test_an_alarm_that_is_over_stays_with_its_end() -> None:
    """Behind those that go on; the same one may come again."""
    book = AlarmBook()
    book.look([BUSY], 1.0)
    _, (ended,) = book.look([], 2.0)
    book.look([BUSY], 3.0)
    assert (ended.since, ended.until) == (1.0, 2.0)
    assert [(one.since, one.until) for one in book.items()] == [(3.0, None), (1.0, 2.0)]


def test_names_with_digits_are_different_alarms() -> None:
    """press-7 is not press-8."""
    book = AlarmBook()
    raised, _ = book.look([Alarm(AlarmKind.CODEC, f"codec press-{number} fails") for number in (7, 8)], 1.0)
    assert [one.code for one in raised] == ["codec", "codec"]


def test_another_cause_is_the_same_alarm() -> None:
    """An outage has one begin, whatever the last attempt met; what stands around the cause tells alarms apart."""
    book = AlarmBook()
    for now, cause in enumerate(("no answer in 5 s", "no welcome in 10 s", "refused")):
        alarms = [
            Alarm(AlarmKind.ACCESS_SERVICE, f"{service} does not answer ({cause}): nobody gets in", cause)
            for service in ("auth.http", "auth.jwt")
        ]
        raised, over = book.look(alarms, float(now))
        assert (len(raised), over) == (0 if now else 2, [])
    first, second = book.items()
    assert first.since == second.since == 0.0
    assert first.text == "auth.http does not answer (refused): nobody gets in"


def test_what_helps_is_known_by_the_kind_whatever_the_text_says() -> None:
    """Each has a hint but the one of which nothing is known."""
    for kind in AlarmKind:
        (found,), _ = AlarmBook().look([Alarm(kind, "the grid is damaged: no certificate")], 1.0)
        assert (found.code, found.helps) == kind.value
        assert (found.helps is None) == (kind is AlarmKind.OTHER)


def test_neither_texts_nor_their_number_grow_without_end() -> None:
    """However many alarms there are, and however long they are."""
    book = AlarmBook()
    book.look([Alarm(AlarmKind.OTHER, f"a{number} {'x' * 1000}") for number in range(2 * MOST)], 1.0)
    assert len(book.items()) == MOST
    assert all(len(one.text) == LONGEST for one in book.items())
    book.look([], 2.0)
    assert len(book.items()) == KEPT

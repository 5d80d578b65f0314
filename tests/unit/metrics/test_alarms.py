"""Alarms by their texts: new, going on with other figures, over, and bounded."""

from __future__ import annotations

import pytest

from iot_mqtt.metrics.alarms import KEPT, LONGEST, MOST, AlarmBook

UPLINK = "the uplink does not take messages: /up"


def test_figures_that_change_are_the_same_alarm() -> None:
    """It began when it was first seen, and its text is the last one."""
    book = AlarmBook()
    raised, over = book.look(["disk alarm: 85 of 100 bytes used (85 %)"], 10.0)
    assert ([one.code for one in raised], over) == (["room"], [])
    assert book.look(["disk alarm: 90 of 100 bytes used (90 %)"], 11.0) == ([], [])
    (found,) = book.items()
    assert (found.since, found.until, found.text) == (10.0, None, "disk alarm: 90 of 100 bytes used (90 %)")
    assert found.helps is not None


def test_a_figure_with_its_unit_is_a_figure() -> None:
    """Whether there is room between them or not; letters that are no unit are part of a name."""
    book = AlarmBook()
    for text in ("no answer (after 302ms, 1.5s, 7MiB)", "no answer (after 4ms, 20s, 12MiB)"):
        book.look([text], 1.0)
    assert len(book.items()) == 1
    raised, _ = book.look(["codec 3com fails", "codec 4com fails"], 2.0)
    assert len(raised) == 2


def test_an_alarm_that_is_over_stays_with_its_end() -> None:
    """Behind those that go on; the same one may come again."""
    book = AlarmBook()
    book.look(["the node is busy"], 1.0)
    _, (ended,) = book.look([], 2.0)
    book.look(["the node is busy"], 3.0)
    assert (ended.since, ended.until) == (1.0, 2.0)
    assert [(one.since, one.until) for one in book.items()] == [(3.0, None), (1.0, 2.0)]


def test_names_with_digits_are_different_alarms() -> None:
    """press-7 is not press-8."""
    book = AlarmBook()
    raised, _ = book.look(["codec press-7 takes no connections: x", "codec press-8 takes no connections: x"], 1.0)
    assert [one.code for one in raised] == ["codec", "codec"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("the grid does not take writes: no space left", "grid"),
        ("the grid's log was damaged, and batches may be lost: it is kept as x", "grid_log_damaged"),
        ("the grid is damaged: 000009.sst cannot be read; what is there is lost, and counted", "grid_damaged"),
        ("disk full: 5 bytes free, and 70 have to stay free; the node itself takes 3", "room"),
        ("disk alarm: 850 of 1000 inodes used (85 %), 32 have to stay free", "inodes"),
        ("disk full: 999 of 1000 inodes used (99 %), 32 have to stay free", "inodes"),
        ("7000 bytes wait for a commit: publishers are held off", "commit"),
        ("the node is busy: its loop is later than 0.5 s, and newcomers are refused", "busy"),
        ("the uplink does not take messages: refused; 5 wait in the log", "uplink_trouble"),
        (
            f"{UPLINK}: the files take 7 bytes, and what comes next 9: that is more than uplink.file.limit 12; 5 wait",
            "uplink_room",
        ),
        (
            f"{UPLINK}: what comes next has 9 bytes, 5 are free, and uplink.file.reserve keeps 7 of them; 5 wait",
            "uplink_room",
        ),
        ("the uplink falls behind: 7 messages wait in the log, and more every second", "uplink_behind"),
        ("the uplink has lost 5 messages: the log's retention was over before they were taken", "uplink_lost"),
        ("sessions have lost 5 messages: the log's retention was over before they were read", "retention"),
        ("the platform has rejected 3 records that could not be put among its dead letters", "uplink_rejected"),
        ("listener mqtts goes on with its certificates of before: the files of now cannot be used", "certificate"),
        ("access rules were not reloaded, the old ones stay: /etc/certificate/users: cannot be read", "access"),
        ("the service of auth.http does not answer: the certificate has expired", "access"),
        ("keys for tokens cannot be fetched, those of before stay: the certificate has expired", "access"),
        ("nothing is changed by the API until the audit log can be written: no such file", "audit"),
        ("the log goes on in its file of before: /var/log/certificate.log: is no plain file", "log_file"),
        ("the clock of certificate-1 is 3.0 s ahead of those of the other nodes: what expires there", "clock"),
        ("commands do not come from Kafka: no route", "commands"),
        ("webhook 1 (127.0.0.1) does not take events as fast as they come: the oldest are dropped", "webhook"),
        ("connections are refused: there is room for 24 clients, by the limit of open files (64)", "descriptors"),
        ("the configuration was not reloaded, and may keep …: no certificate; 5 wait for a commit", "configuration"),
        ("something else", "other"),
    ],
)
def test_what_helps_is_known_by_the_text(text: str, code: str) -> None:
    """Each has a hint but those that nobody knows."""
    ((found,), _) = AlarmBook().look([text], 1.0)
    assert (found.code, found.helps is None) == (code, code == "other")


def test_neither_texts_nor_their_number_grow_without_end() -> None:
    """However many alarms there are, and however long they are."""
    book = AlarmBook()
    book.look([f"a{number} {'x' * 1000}" for number in range(2 * MOST)], 1.0)
    assert len(book.items()) == MOST
    assert all(len(one.text) == LONGEST for one in book.items())
    book.look([], 2.0)
    assert len(book.items()) == KEPT

"""What waits for a webhook, in its file: nothing is called kept that is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from iot_mqtt.app.node.webhook_spool import MOST_JOBS, Entry, Spool, SpoolFile


class Thread:
    """Does what it was given when it is told to."""

    def __init__(self) -> None:
        self._jobs: list[Callable[[], Callable[[], None] | None]] = []

    def put(self, job: Callable[[], Callable[[], None] | None]) -> None:
        self._jobs.append(job)

    def run(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            after = job()
            if after is not None:
                after()


def test_what_happens_while_the_file_is_written_anew_is_in_it_before_all_is_well(tmp_path: Path) -> None:
    """The disk came back between an event and the writing of what had waited before it."""
    thread, folder = Thread(), tmp_path / "webhooks"
    folder.write_text("in the way")
    spool = Spool(folder / "a.events", thread.put, most=10)
    assert spool.open() == ([], 0) and spool.trouble is not None
    # What there was has been posted: the file is to be written anew, with nothing in it.
    spool.settle(1, list)
    late = Entry(2, "life", "{}")
    spool.add([late], lambda: [late], sync=False)
    folder.unlink()
    folder.mkdir()
    thread.run()
    assert spool.trouble is not None
    spool.sync(lambda: [late])
    thread.run()
    assert spool.trouble is None
    assert SpoolFile(folder / "a.events").open() == ([late], 0)


def test_what_there_was_no_room_for_is_in_it_before_all_is_well(tmp_path: Path) -> None:
    """The thread was busy with so much that it was given no more; that was written in the end, and was not all."""
    thread = Thread()
    spool = Spool(tmp_path / "webhooks" / "a.events", thread.put, most=MOST_JOBS)
    spool.open()
    entries = [Entry(number, "life", "{}") for number in range(1, MOST_JOBS + 1)]
    # Made anew for the second time: the whole of it is on its way, too.
    spool.add(entries[:1], lambda: entries[:1], sync=False)
    spool._replace(entries[:1])
    for number in range(1, MOST_JOBS):
        spool.add(entries[number : number + 1], list, sync=False)
    assert spool.trouble is not None
    thread.run()
    assert spool.trouble is not None
    spool.sync(lambda: entries)
    thread.run()
    assert spool.trouble is None
    assert SpoolFile(tmp_path / "webhooks" / "a.events").open() == (entries, 0)

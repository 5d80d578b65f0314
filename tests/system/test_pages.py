"""Every command of every page is run, or its page says who runs it, or why nobody can (``systemkit.pages``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit.pages import PAGES, ROOT, Block, Command, Desk, blocks, unlike
from systemkit.process import MOSQUITTO
from systemkit.starting import brokers

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="our own pages")

#: Blocks that nobody runs: a page that has a further one has to say so here, too.
NOT_RUN = 13


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with brokers(tmp_path_factory.mktemp("pages")) as start:
        broker = start()
        yield Desk(tmp_path_factory.mktemp("desk"), broker)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_it_says(page: Path, desk: Desk) -> None:
    """In its order; each ends well, and prints what the page shows."""
    faults = []
    for block in blocks(page):
        if not (block.marked("not run") or block.marked("run by")):
            faults += desk.run(block)
    assert not faults, "\n".join(faults)


def every_block() -> list[Block]:
    return [block for page in PAGES for block in blocks(page)]


def test_few_blocks_are_run_by_nobody() -> None:
    """Each with its reason."""
    left = {block.place: block.marked("not run") for block in every_block() if block.marked("not run")}
    assert len(left) <= NOT_RUN, left


def test_who_is_named_as_running_a_block_exists() -> None:
    """Under that name."""
    for block in every_block():
        for test in block.marked("run by"):
            path, _, name = test.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), (block.place, test)


def test_what_is_printed_is_held_against_the_page() -> None:
    """A page that shows something else is found out."""
    printed = "NAME  COUNT\na  7\n\nstate  up\nlog  4 kB\n"
    assert unlike(["NAME  COUNT", "b  8"], printed) == []
    assert unlike(["state  down", "log  9 MB"], printed) == []
    assert unlike(["NAME  SIZE"], printed) == ["NAME  SIZE"]
    assert unlike(["rubbish"], printed) == ["rubbish"]


def test_a_subscriber_that_gets_nothing_and_a_command_that_fails_are_found_out(desk: Desk) -> None:
    """What finds nothing proves nothing."""
    page = ROOT / "docs" / "not-there.md"
    typed = ("mosquitto_sub -t nothing/comes/here", "iot-mqtt ctl clients show nobody")
    silent = Block(page, 1, [Command(text) for text in typed], [])
    faults = "\n".join(desk.run(silent))
    assert "nothing came: mosquitto_sub" in faults
    assert "'iot-mqtt ctl clients show nobody' fails" in faults

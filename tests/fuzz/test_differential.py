"""Random scripts on our broker and on mosquitto: whatever differs is in the table of explained differences."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.differential.__main__ import search
from tests.fuzz.differential.comparing import Course, compare, normal, read_table
from tests.fuzz.differential.explaining import EXPLANATIONS
from tests.fuzz.differential.match import Match
from tests.fuzz.differential.playing import Note
from tests.fuzz.differential.script import Connect, Leave, Publish, Step, Subscribe, Will
from tests.seeds import seed_of

#: Scripts of a run of the tests.
SCRIPTS = 60


@pytest.fixture(scope="module")
def match() -> Iterator[Match]:
    """Both brokers."""
    if shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists():
        pytest.skip("mosquitto is not installed")
    with Match() as both:
        yield both


def test_no_difference_is_unexplained(match: Match) -> None:
    """Fresh scripts in each run."""
    found = search(match, seed_of("differential"), SCRIPTS, match.counts)
    assert found is None, found
    assert match.counts["scripts"] >= SCRIPTS


#: Scripts that found a fault of ours once, or show an entry of the table.
SCRIPTS_THAT_FOUND: dict[str, list[Step]] = {
    "wills of connections that are taken over": [
        Connect("bob", 5, clean=False, expiry=100, will=Will("a/b", 2, retain=True), acks=True),
        Connect("cid", 5, clean=True, expiry=0, will=None, acks=True),
        Connect("bob", 4, clean=False, expiry=100, will=None, acks=True),
        Subscribe("cid", (("a/b", 26),), None),
    ],
    "a will for the connection that is taken over": [
        Connect("bob", 5, clean=True, expiry=0, will=Will("b", 1, retain=False), acks=True),
        Subscribe("bob", (("+", 2),), 7),
        Connect("bob", 5, clean=False, expiry=100, will=None, acks=True),
    ],
    "a subscription that is made again with other options": [
        Connect("bob", 4, clean=True, expiry=0, will=Will("a", 2, retain=True), acks=True),
        Connect("cid", 4, clean=False, expiry=0, will=None, acks=True),
        Subscribe("cid", (("#", 2),), None),
        Connect("cid", 5, clean=False, expiry=100, will=None, acks=True),
        Subscribe("cid", (("#", 46),), None),
        Leave("bob", "drop"),
    ],
    "what is retained for a group that is asked for twice, with other options": [
        Connect("ann", 5, clean=True, expiry=0, will=None, acks=True),
        Publish("ann", "a/b", 1, retain=True, empty=False, extra=""),
        Subscribe("ann", (("g:#", 18), ("g:#", 8), ("b", 2)), 1),
    ],
    "what is retained for a group, to one who does not acknowledge and comes back": [
        Connect("ann", 5, clean=True, expiry=0, will=None, acks=True),
        Publish("ann", "a/b", 1, retain=True, empty=False, extra=""),
        Connect("cid", 5, clean=True, expiry=100, will=None, acks=False),
        Subscribe("cid", (("g:a/b", 10),), None),
        Connect("cid", 5, clean=False, expiry=100, will=None, acks=True),
    ],
    "what is retained for a filter that stands twice in one packet": [
        Connect("ann", 5, clean=True, expiry=0, will=None, acks=True),
        Publish("ann", "a/b", 1, retain=True, empty=False, extra=""),
        Subscribe("ann", (("a/b", 9), ("a/b", 0), ("g:b", 0)), None),
    ],
    "wills of connections that are taken over, retained where a group was": [
        Connect("cid", 5, clean=True, expiry=0, will=None, acks=True),
        Connect("ann", 4, clean=False, expiry=0, will=Will("a/b", 1, retain=True), acks=True),
        Connect("ann", 5, clean=True, expiry=100, will=Will("a/b", 0, retain=True), acks=True),
        Subscribe("cid", (("g:a/+", 32),), 1),
        Connect("ann", 5, clean=False, expiry=100, will=None, acks=True),
        Subscribe("cid", (("a/+", 5),), 7),
    ],
    "what a member of a group publishes, who has changed another subscription": [
        Connect("cid", 5, clean=True, expiry=0, will=None, acks=True),
        Connect("bob", 5, clean=True, expiry=0, will=None, acks=True),
        Subscribe("cid", (("g:+", 10), ("b", 32)), 7),
        Subscribe("cid", (("b", 4),), 1),
        Subscribe("bob", (("g:+", 10),), 1),
        Publish("cid", "a", 2, retain=True, empty=False, extra=""),
        Publish("cid", "a", 2, retain=True, empty=False, extra=""),
    ],
    "a will for the group of the connection that is taken over": [
        Connect("cid", 5, clean=False, expiry=0, will=Will("a/b/c", 1, retain=True), acks=True),
        Connect("ann", 5, clean=True, expiry=0, will=None, acks=True),
        Subscribe("cid", (("g:a/b/c", 2),), 7),
        Subscribe("ann", (("g:a/b/c", 2),), 7),
        Connect("cid", 4, clean=False, expiry=0, will=None, acks=True),
    ],
    "an empty message of who has asked for no local in the same packet": [
        Connect("cid", 5, clean=True, expiry=0, will=None, acks=True),
        Subscribe("cid", (("a/#", 2), ("a/#", 5)), 7),
        Publish("cid", "a", 0, retain=False, empty=True, extra=""),
    ],
    "a client in a group and by itself": [
        Connect("ann", 4, clean=True, expiry=0, will=None, acks=True),
        Subscribe("ann", (("g:a", 1), ("a", 0)), None),
        Publish("ann", "a", 2, retain=False, empty=False, extra=""),
    ],
}


@pytest.mark.parametrize("name", SCRIPTS_THAT_FOUND)
def test_scripts_that_found_something_are_explained(match: Match, name: str) -> None:
    """Each of them again."""
    verdict = match.play(SCRIPTS_THAT_FOUND[name])
    assert verdict.unexplained is None, verdict.unexplained


def test_what_one_broker_alone_delivers_is_a_difference() -> None:
    """The comparison can fail: no entry of the table explains a message that is lost, or one at another QoS."""
    script: list[Step] = [Publish("ann", "a", 1, retain=False, empty=False, extra="")]
    got: Note = {"bob": [("PUBLISH", "a", "m 0", 1, False, False, (), ())]}
    lower: Note = {"bob": [("PUBLISH", "a", "m 0", 0, False, False, (), ())]}
    table = read_table(EXPLANATIONS)
    assert compare(script, [got], [got], table).unexplained is None
    for other in ({}, lower):
        assert compare(script, [got], [other], table).unexplained is not None
        assert compare(script, [other], [got], table).unexplained is not None
    assert normal(got, Course(script)) != normal(lower, Course(script))

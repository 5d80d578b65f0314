"""Shares of descriptors: nobody takes what is another's own, and what nobody owns goes to whoever comes first."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from iot_mqtt.pipeline.descriptors import ENOUGH, RESERVE, Descriptors


def _takes(share: object, count: int) -> int:
    return sum(share.take() for _ in range(count))  # type: ignore[attr-defined]


def test_a_flood_of_one_kind_leaves_the_others_their_own() -> None:
    """100 descriptors, two shares with 16 of their own each: one takes 84 at most, the other always gets 16."""
    every = Descriptors(100)
    flooded, quiet = every.share(1000, among=2), every.share(1000, among=2)
    assert _takes(flooded, 200) == 84
    assert _takes(quiet, 200) == 16
    assert (flooded.refused, quiet.refused) == (116, 184)


def test_what_is_given_back_can_be_taken_again() -> None:
    """By anybody, where it was nobody's own."""
    every = Descriptors(10)
    first, second = every.share(100, among=2), every.share(100, among=2)
    assert _takes(first, 20) == 8
    assert not first.take()
    first.give_back()
    assert _takes(second, 20) == 3
    assert not first.take()
    for _ in range(7):
        first.give_back()
    for _ in range(3):
        second.give_back()
    assert every.claimed == 4
    assert _takes(second, 20) == 8


def test_a_share_never_holds_more_than_its_most() -> None:
    """However much there is."""
    share = Descriptors(1000).share(3, among=1)
    assert _takes(share, 5) == 3


def test_a_process_keeps_a_reserve() -> None:
    """Files and the grid need descriptors, too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < Descriptors.of_process().limit < (soft if soft != resource.RLIM_INFINITY else 1 << 30)


@pytest.mark.parametrize(
    ("files", "most", "limit", "bound", "short"),
    [
        (64, 0, 32, "the limit of open files (64; LimitNOFILE of the unit, or ulimit -n)", True),
        (64, 20, 20, "doors.max_connections (20)", False),
        (64, 40, 32, "the limit of open files (64; LimitNOFILE of the unit, or ulimit -n)", True),
        (resource.RLIM_INFINITY, 0, ENOUGH - RESERVE, f"the limit of open files ({ENOUGH};", False),
    ],
)
def test_what_the_limit_comes_from_is_known(
    files: int, most: int, limit: int, bound: str, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that may open few files has few connections, whatever the configuration says."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    every = Descriptors.of_process(most)
    assert (every.limit, every.short) == (limit, short)
    assert every.bound.startswith(bound)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_table_of_descriptors_is_long_before_it_is_needed() -> None:
    """And nothing stays open for it."""
    program = (
        "import os\n"
        "from iot_mqtt.pipeline.descriptors import make_room\n"
        "before = len(os.listdir('/proc/self/fd'))\n"
        "make_room(900)\n"
        "print(open('/proc/self/status').read().split('FDSize:')[1].split()[0])\n"
        "print(len(os.listdir('/proc/self/fd')) - before)\n"
        "make_room(2**30)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert (int(told[0]) >= 900, told[1]) == (True, "0")

"""Memory that was freed is used again, and not asked for again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource
from iot_mqtt.app.node.collector import keep_freed
if {kept}:
    keep_freed()
def turns():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        parts = [b"x" * 300_000 for _ in range(4)]
        del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
turns()
print(turns())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_large_buffers_of_a_turn_cost_no_pages() -> None:
    """A hundred turns of four buffers: as it begins, each is pages that the system has to clear."""
    faults = [
        int(subprocess.run([sys.executable, "-c", SCRIPT.format(kept=kept)], stdout=subprocess.PIPE, check=True).stdout)
        for kept in (True, False)
    ]
    assert faults[0] < 1000 < faults[1]

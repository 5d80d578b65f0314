"""What codecs call the reasons of bad frames: labels of a metric, of which there is no end unless it is made."""

from __future__ import annotations

from iot_mqtt.devices.link.counters import MAX_REASONS, LinkCounters


def test_there_are_so_many_reasons_of_bad_frames_and_no_more() -> None:
    """Those that are known go on being counted; ours have their place in any case."""
    counters = LinkCounters()
    for number in range(900):
        counters.bad_frame(f"reason_{number}")
    counters.bad_frame("reason_0")
    counters.refused["no_login"] += 1
    assert len(counters.refused) == MAX_REASONS + 2
    assert counters.refused["reason_0"] == 2
    assert counters.refused["other"] == 900 - MAX_REASONS
    assert counters.refused["no_login"] == 1

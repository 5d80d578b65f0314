"""The environment switch of the native module, and that both twins offer the same."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest

from iot_mqtt import native
from iot_mqtt.native import _choose, _pure


@pytest.mark.parametrize(
    ("setting", "have", "used"),
    [("auto", True, True), ("auto", False, False), ("off", True, False), ("require", True, True)],
)
def test_the_switch_decides_what_is_used(setting: str, have: bool, used: bool) -> None:
    """By what was built."""
    assert _choose(setting, have) is used


@pytest.mark.parametrize(("setting", "have"), [("require", False), ("yes", True)])
def test_a_demand_that_cannot_be_met_fails_loudly(setting: str, have: bool) -> None:
    """Required but absent; and words that are none."""
    with pytest.raises(ImportError, match="IOT_MQTT_NATIVE"):
        _choose(setting, have)
    with pytest.raises(ImportError, match="mypyc"):
        _choose("require", have=True, ours=False)


def test_off_is_the_pure_twin() -> None:
    """In a process of its own, where the switch is read."""
    code = "from iot_mqtt import native; print(native.USE_NATIVE, native.Scanner.__module__)"
    environment = {**os.environ, "IOT_MQTT_NATIVE": "off"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "iot_mqtt.native._pure_scan"]


@pytest.mark.compiled
def test_both_twins_offer_the_same() -> None:
    """Every exported name, and the mode bits. Where nothing was compiled this fails: both have to be tested."""
    from iot_mqtt.native import (
        _appending,
        _changes,
        _connecting,
        _lines,
        _pure_appending,
        _pure_changes,
        _pure_connecting,
        _pure_lines,
        _pure_records,
        _pure_rows,
        _pure_sockets,
        _pure_syncing,
        _records,
        _rows,
        _scan,
        _sockets,
        _syncing,
    )

    elsewhere = {
        "ConnectReader",
        "PacketRing",
        "RowReader",
        "RowWriter",
        "message_record",
        "lines",
        "object_line",
        "NotRead",
        "decode",
        "decode_once",
        "decoded",
        "is_deep",
        "image_of",
        "NOT_JSON",
        "serve",
        "write_at",
        "NUMBER",
        "merge",
        "record",
        "put_all",
        "Turns",
        "accept",
        "receive",
        "send",
        "send_end",
    }
    assert native.ConnectReader in (_connecting.ConnectReader, _pure_connecting.ConnectReader)
    assert native.lines in (_lines.lines, _pure_lines.lines)
    assert native.object_line in (_lines.object_line, _pure_lines.object_line)
    assert native.serve in (_syncing.serve, _pure_syncing.serve)
    assert native.merge in (_changes.merge, _pure_changes.merge)
    assert native.record in (_changes.record, _pure_changes.record)
    assert native.put_all in (_changes.put_all, _pure_changes.put_all)
    assert native.write_at in (_syncing.write_at, _pure_syncing.write_at)
    assert native.accept in (_sockets.accept, _pure_sockets.accept)
    assert native.send_end in (_sockets.send_end, _pure_sockets.send_end)
    assert native.receive in (_sockets.receive, _pure_sockets.receive)
    assert native.send in (_sockets.send, _pure_sockets.send)
    assert native.Turns in (_sockets.Turns, _pure_sockets.Turns)
    assert native.RowWriter in (_appending.RowWriter, _pure_appending.RowWriter)
    assert native.RowReader in (_rows.RowReader, _pure_rows.RowReader)
    assert native.message_record in (_records.message_record, _pure_records.message_record)
    for name in native.__all__:
        if name in elsewhere or "NATIVE" in name:
            continue
        assert hasattr(_scan, name)
        assert hasattr(_pure, name)
    assert (_scan.FIVE, _scan.FROM_CLIENT) == (_pure.FIVE, _pure.FROM_CLIENT)
    assert inspect.isclass(_scan.Scanner)

"""What is damaged beside the grid, and what whoever reads that can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.admin.audit_beginnings import Beginnings
from iot_mqtt.admin.audit_chain import read
from iot_mqtt.admin.token import read_token
from iot_mqtt.app.data_lock import holding
from iot_mqtt.grid.faults import OpenFault


def test_a_line_that_is_no_record_is_shown_with_a_way_out(tmp_path: Path) -> None:
    """Without that file the node starts, and verify tells what is gone."""
    (tmp_path / "0000000001.jsonl").write_text("noise\n")
    with pytest.raises(ValueError, match=r"0000000001\.jsonl .*b'noise'.*move the file away.*ctl audit verify"):
        list(read(tmp_path))


def test_a_beginning_that_cannot_be_read_can_be_moved_away(tmp_path: Path) -> None:
    """As the documentation says."""
    (tmp_path / "audit.json").write_text("noise")
    with pytest.raises(ValueError, match=r"audit\.json .*move it away"):
        Beginnings(tmp_path / "audit")


def test_a_token_that_is_none_can_be_moved_away(tmp_path: Path) -> None:
    """The next start makes another."""
    (tmp_path / "admin.token").write_bytes(b"\xff\xfe")
    with pytest.raises(OSError, match="is not UTF-8: move it away"):
        read_token(str(tmp_path))


def test_a_directory_in_the_place_of_the_lock_can_be_moved_away(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "LOCK").mkdir()
    with pytest.raises(OpenFault, match="LOCK is a directory: move it away"), holding(tmp_path, "a test"):
        pass

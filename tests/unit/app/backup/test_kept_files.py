"""Files of a node that runs, copied as they were at one moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.backup import files
from iot_mqtt.app.backup.files import files_below


def test_what_is_written_while_files_are_copied_is_in_none_of_them(tmp_path: Path) -> None:
    """A record of the audit log names one that may be in another file: a copy that had only that one has a gap."""
    grown = [tmp_path / "audit" / "1.jsonl", tmp_path / "audit" / "messages" / "2.jsonl"]
    for path in grown:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"old\n")
    copied = {}
    for name, content in files_below(tmp_path):
        copied[name] = content
        for path in grown:
            path.write_bytes(path.read_bytes() + b"new\n")
    assert copied == {"audit/1.jsonl": b"old\n", "audit/messages/2.jsonl": b"old\n"}


def test_a_moment_is_one_at_which_no_file_grew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that are looked at one after the other may be of two moments."""
    path = tmp_path / "audit" / "1.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"old\nnew\n")
    looked, sizes = [{path: 4}], files._sizes
    monkeypatch.setattr(files, "_sizes", lambda data_dir: looked.pop() if looked else sizes(data_dir))
    assert dict(files_below(tmp_path)) == {"audit/1.jsonl": b"old\nnew\n"}


def test_where_the_audit_log_begins_is_read_behind_its_records(tmp_path: Path) -> None:
    """It is noted before they are removed: so it knows of all that the copy has not."""
    path = tmp_path / "audit" / "1.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"old\n")
    (tmp_path / "audit.json").write_bytes(b"before")
    copied = {}
    for name, content in files_below(tmp_path):
        copied[name] = content
        (tmp_path / "audit.json").write_bytes(b"behind them")
    assert copied == {"audit/1.jsonl": b"old\n", "audit.json": b"behind them"}

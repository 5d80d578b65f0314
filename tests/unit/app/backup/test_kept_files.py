"""Files of a node that runs, copied as they were at one moment."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt.app.backup import files
from iot_mqtt.app.backup.cli import backup_group
from iot_mqtt.app.backup.files import Restored, files_below, kept_files
from iot_mqtt.app.backup.work import read
from iot_mqtt.app.config import load_config
from iot_mqtt.app.config.changed import write_changed
from iot_mqtt.grid.archive import ArchiveWriter, BadArchive, Header


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


def test_what_was_changed_while_the_node_ran_is_copied_and_comes_back(tmp_path: Path) -> None:
    """Listeners that were opened would else be gone behind a restore, and nobody told."""
    node, other = tmp_path / "node", tmp_path / "other"
    node.mkdir()
    config = load_config(None, [f"node.data_dir={node}"], {})
    assert dict(kept_files(config)) == {}
    write_changed(str(node), {"log.level": "debug", "listeners.line7.port": 9700})
    restored = Restored(other)
    for name, content in kept_files(config):
        restored.take(name, content)
    path = other / "changed.yaml"
    assert path.read_bytes() == (node / "changed.yaml").read_bytes()
    assert (path.stat().st_mode & 0o777, restored.written, restored.named) == (0o600, 1, [])


def test_what_was_changed_since_is_left_alone(tmp_path: Path) -> None:
    """And named, as any file that is there already."""
    write_changed(str(tmp_path), {"log.level": "debug"})
    restored = Restored(tmp_path)
    restored.take("changed.yaml", b"log: {level: info}")
    assert (restored.kept, restored.written) == ([tmp_path / "changed.yaml"], 0)
    assert "debug" in (tmp_path / "changed.yaml").read_text()


def backup_of(*names: str) -> BytesIO:
    file = BytesIO()
    writer = ArchiveWriter(file, Header("embedded", "9.9.9", 1_700_000_000.0), None)
    for name in names:
        writer.add_file(name, b"content")
    writer.close()
    return BytesIO(file.getvalue())


def test_files_of_a_later_release_are_passed_over_and_named(tmp_path: Path) -> None:
    """What is not known says nothing against the rest; ``check`` says the same as ``restore``."""
    later = ["later.json", "later/1.bin", "audit", "changed.yaml/1"]
    restored = Restored(tmp_path)
    for name in ("audit/1.jsonl", *later):
        restored.take(name, b"content")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["audit", "audit/1.jsonl"]
    assert restored.unknown == later == read(backup_of("audit/1.jsonl", *later), None).unknown


@pytest.mark.parametrize("name", ["../evil", "later/../../evil", "/evil", "", "later\0"])
def test_a_file_that_would_be_elsewhere_is_refused_before_that(name: str) -> None:
    with pytest.raises(BadArchive):
        read(backup_of(name), None)


def test_a_folder_that_is_not_there_is_told_by_the_name_that_was_given(tmp_path: Path) -> None:
    result = CliRunner().invoke(backup_group, ["make", str(tmp_path / "nowhere" / "x.imqb")])
    assert result.exit_code == 1
    assert result.output == f"Error: {tmp_path}/nowhere/x.imqb: No such file or directory\n"

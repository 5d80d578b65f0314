"""What goes over a link is written down, and nothing else is changed by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.devices.link import CaptureError, capturing
from iot_mqtt.sdk.capture import read_header, read_records
from tests.unit.devices.link.linkkit import World


def test_a_capture_of_a_codec_has_every_byte_and_what_was_made_of_it(tmp_path: Path) -> None:
    """From the first byte of a connection to its end."""
    world = World(captures=tmp_path)
    begun = world.captures.start("lines", None, 60, 1 << 20)
    gateway = world.gateway("line-1")
    gateway.say('r press {"t": 1} 7', "safe 7")
    assert gateway.heard() == ["safe 7"]
    gateway.hang_up()
    ended = world.captures.stop(begun.id)
    assert ended.state == "stopped" and ended.connections == 1
    first, *rest = Path(ended.file).read_bytes().splitlines(keepends=True)
    found = list(read_records(rest))
    assert read_header(first).codec == "lines"
    up = b"".join(one.data for one in found if one.kind == "up")
    down = b"".join(one.data for one in found if one.kind == "down")
    assert up == b'login line-1\nr press {"t": 1} 7\nsafe 7\n' and down == b"welcome\nsafe 7\n"
    assert len([one for one in found if one.kind == "event"]) == 3
    assert found[0].kind == "opened" and found[-1].kind == "closed"


def test_a_capture_of_a_gateway_leaves_its_password_out(tmp_path: Path) -> None:
    """And what others say."""
    world = World(captures=tmp_path)
    world.gateway("other")
    begun = world.captures.start("lines", "line-1", 60, 1 << 20)
    gateway = world.gateway("line-1", "user")
    gateway.say("beat")
    world.gateway("third").say("beat")
    text = Path(world.captures.stop(begun.id).file).read_text()
    assert b"beat\n".hex() in text and b"user".hex() not in text and text.count('"opened"') == 1


def test_a_capture_ends_by_itself(tmp_path: Path) -> None:
    """After its time, or at its size; the link goes on."""
    world = World(captures=tmp_path)
    gateway = world.gateway("line-1")
    world.captures.start("lines", None, 5, 1 << 20)
    world.node.advance(6)
    world.captures.start("lines", None, 60, 2000)
    gateway.say("beat")
    world.gateway("line-2").say(*["beat"] * 100)
    assert [one.state for one in world.captures.info()] == ["time", "size"]
    assert max(one.bytes for one in world.captures.info()) <= 2000
    gateway.say("beat")
    assert gateway.heard() == ["beat", "beat"]


def test_there_are_bounds(tmp_path: Path) -> None:
    """Of number, time and size."""
    world = World(captures=tmp_path)
    with pytest.raises(CaptureError, match="at most"):
        world.captures.start("lines", None, 0, 1)
    for _ in range(8):
        world.captures.start("lines", None, 60, 1 << 20)
    with pytest.raises(CaptureError, match="running already"):
        world.captures.start("lines", None, 60, 1 << 20)
    with pytest.raises(CaptureError, match="no capture"):
        world.captures.stop("x")
    world.captures.close()


def test_a_capture_is_read_while_it_is_written(tmp_path: Path) -> None:
    """From where one has read to, whole lines only; a line that is too long is passed over, and nothing behind it."""
    world = World(captures=tmp_path)
    begun = world.captures.start("lines", None, 60, 1 << 20)
    gateway = world.gateway("line-1")
    _, first, place = world.captures.read(begun.id, 0)
    assert next(one["kind"] for one in first if "kind" in one) == "opened"
    gateway.say("beat")
    info, more, end = world.captures.read(begun.id, place)
    assert info.state == "running" and end > place
    assert {one["kind"] for one in more} == {"up", "event", "down"}
    assert world.captures.read(begun.id, end)[1:] == ([], end)
    gateway.say("beat " + "x" * capturing.READ_BYTES, "beat")
    found = list(more)
    while end < Path(info.file).stat().st_size:
        _, more, end = world.captures.read(begun.id, end)
        found += more
    assert found[-1]["kind"] in ("event", "closed", "down", "up")
    assert {} in found, "the rest of the long line"
    with pytest.raises(CaptureError, match="there is no capture"):
        world.captures.read("nothing", 0)


def test_files_of_captures_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go when one begins, those of earlier lives, too; what runs, and what others put there, stays."""
    for number in range(40):
        (tmp_path / f"16000000{number:02}000-1.jsonl").write_bytes(b"before")
    (tmp_path / "monday.jsonl").write_bytes(b"somebody's")
    world = World(captures=tmp_path)
    running = world.captures.start("lines", None, 60, 1 << 20)
    kept = sorted(one.name for one in tmp_path.iterdir())
    assert len(kept) == capturing.KEPT + 2 and kept[0] == "1600000008000-1.jsonl"
    assert {"monday.jsonl", Path(running.file).name} <= {*kept}
    monkeypatch.setattr(capturing, "KEPT_BYTES", 100)
    world.gateway("line-1").say("beat")
    world.captures.stop(running.id)
    assert running.id in [one.id for one in world.captures.info()]
    last = world.captures.start("lines", None, 60, 1 << 20)
    assert [one.id for one in world.captures.info()] == [last.id], "what has no file is not shown"
    assert sorted(one.name for one in tmp_path.iterdir()) == [Path(last.file).name, "monday.jsonl"]

"""``uplink.*`` as it can be written."""

from __future__ import annotations

import pytest

from tests.unit.app.config.configkit import refusals


def test_one_key_is_enough() -> None:
    """The rules have a default."""
    assert refusals("uplink.kind=file") == []


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        (["uplink.rules=[{filter: a}, {filter: 'a/#/b'}]"], "uplink.rules", "entry 2: filter 'a/#/b'"),
        (["uplink.rules=[{topic: a}]"], "uplink.rules", "unknown key 'topic'"),
        (["uplink.kind=file", "uplink.rules=[]"], "uplink.rules", "must say what goes up with uplink.kind: file"),
        (
            ["uplink.kind=file", "uplink.ack=kafka"],
            "uplink.ack",
            "needs uplink.kind: kafka; with file, records are safe",
        ),
        (
            ["uplink.kind=kafka", "uplink.rules=[{filter: a, to: iot.readings}, {filter: 'b/#', to: iot_commands}]"],
            "uplink.rules",
            "'b/#': to is iot_commands, which is uplink.commands.topic",
        ),
        (
            ["uplink.kind=kafka", "uplink.commands.topic=iot.other", "uplink.rules=[{filter: a, to: 'iot.{client}'}]"],
            "uplink.rules",
            "'a': to is iot.{client}, which may be uplink.commands.topic",
        ),
        (
            ["uplink.kind=kafka", "uplink.rules=[{filter: a, to: iot.dead}]", "uplink.commands.dead_letters=null"],
            "uplink.rules",
            "'a': to is iot.dead, which is uplink.kafka.dead_letters",
        ),
        (
            ["uplink.kind=kafka", "uplink.rules=[{filter: a, to: my.dead}]", "uplink.commands.dead_letters=my.dead"],
            "uplink.rules",
            "'a': to is my.dead, which is uplink.commands.dead_letters",
        ),
        (["uplink.rules=[{filter: a, to: $SYS/x}]"], "uplink.rules", "entry 1: to must be letters, digits"),
        (["uplink.rules=[{filter: $share/g/a}]"], "uplink.rules", "entry 1: filter '$share/g/a': what begins with $"),
        (["uplink.kind=none", "uplink.ack=kafka"], "uplink.ack", "needs uplink.kind: kafka, not none"),
        (["uplink.file.rotate_bytes=1"], "uplink.file.rotate_bytes", "must be 4096 or more"),
    ],
)
def test_a_mistake_is_named(settings: list[str], key: str, words: str) -> None:
    """In one line, with the way out."""
    (line,) = refusals(*settings)
    assert key in line
    assert words in line

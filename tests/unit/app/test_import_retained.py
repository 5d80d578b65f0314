"""``mosquitto.db`` of all its versions, and what becomes of retained messages on their way to another broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.importing import retained
from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.app.importing.mosquitto_db import Database, opened, portions
from iot_mqtt.codec import Properties, Publish
from tests.cases import mosquitto_files as db

NOW = 1_700_000_000.0


def read(data: bytes) -> list[Publish]:
    return list(Database(data).messages(NOW))


def kept(topic: bytes, payload: bytes, qos: int = 1, properties: Properties | None = None) -> Publish:
    return Publish(topic, payload, qos, retain=True, properties=properties or Properties())


@pytest.mark.parametrize("version", [5, 6])
def test_what_is_retained_is_read(version: int) -> None:
    """And nothing else that a file has: queued messages, clients, subscriptions."""
    data = db.file(
        version,
        (db.CONFIGURATION, bytes(16)),
        db.message(1, b"plant/a", b"21", 2),
        db.message(2, b"plant/queued", b"x"),
        db.message(3, "plant/ü".encode(), b"\x00\xff", 0, client=b"", user=b""),
        (db.CLIENT, bytes(24)),
        db.retained(3),
        db.retained(1),
        (99, b"of a later version"),
    )
    assert read(data) == [kept("plant/ü".encode(), b"\x00\xff", 0), kept(b"plant/a", b"21", 2)]


@pytest.mark.parametrize("version", [3, 4])
def test_files_of_mosquitto_1_are_read(version: int) -> None:
    """Their messages have another form."""
    data = db.file(
        version, db.old_message(version, 5, b"a/b", b"payload", 2), db.retained(5), (6, b"\x00\x01c\x00\x01")
    )
    assert read(data) == [kept(b"a/b", b"payload", 2)]


def test_properties_are_taken_over() -> None:
    """Those of a message; none of a hop."""
    raw = b"\x03\x00\x04text\x26\x00\x01k\x00\x01v\x0b\x07"
    data = db.file(6, db.message(1, b"t", b"p", properties=bytes((len(raw),)) + raw), db.retained(1))
    assert read(data) == [kept(b"t", b"p", 1, Properties(content_type="text", user_properties=(("k", "v"),)))]


def test_messages_that_are_over_stay_away() -> None:
    """Expired ones, the broker's own, and what names a message that the file does not have."""
    data = db.file(
        6,
        db.message(1, b"late", b"x", expires=int(NOW) - 1),
        db.message(2, b"soon", b"x", expires=int(NOW) + 60),
        db.message(3, b"$SYS/broker/version", b"x"),
        db.message(4, b"empty", b""),
        *map(db.retained, (1, 2, 3, 4, 5)),
    )
    assert read(data) == [kept(b"soon", b"x", 1, Properties(message_expiry_interval=60))]


GOOD = db.file(6, db.message(1, b"plant/a", b"21"), db.retained(1))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no mosquitto.db"),
        (b"SQLite format 3\x00" + bytes(40), "no mosquitto.db"),
        (db.file(2), "version 2"),
        (db.file(7), "version 7"),
        (GOOD[:-1], "cut off, or damaged, at byte"),
        (GOOD[:25], "cut off at byte 23"),
        (db.file(6, db.message(1, b"a/#", b"x"), db.retained(1)), "the message at byte 31: topic 'a/#': it contains"),
        (db.file(6, db.message(1, b"a", b"x", 3), db.retained(1)), "has QoS 3"),
        (db.file(6, db.message(1, b"a", b"x", properties=b"\x01\x77"), db.retained(1)), "property 0x77"),
        (db.file(6, (db.MESSAGE, bytes(8)), db.retained(0)), "damaged: the message"),
        (db.file(6, (db.RETAINED, b"")), "damaged at byte 31"),
        (db.file(6, (db.MESSAGE, bytes(16) + b"\xff" * 16), db.retained(0)), "beyond its end"),
    ],
)
def test_a_damaged_file_is_refused(data: bytes, says: str) -> None:
    """With the place."""
    with pytest.raises(Refused, match=says):
        read(data)


def test_a_file_is_named(tmp_path: Path) -> None:
    """Where something is wrong with it."""
    (tmp_path / "mosquitto.db").write_bytes(b"")
    with pytest.raises(Refused, match=r"mosquitto\.db: this is no mosquitto\.db"):
        opened(tmp_path / "mosquitto.db")
    with pytest.raises(Refused, match="No such file"):
        opened(tmp_path / "gone")


def test_portions_are_small() -> None:
    """So many names, and so many bytes of names; so many messages, and so many bytes of payloads."""
    names = [b"a/%d" % number for number in range(retained.PORTION * 2 + 1)]
    assert [len(some) for some in retained.portions(names)] == [retained.PORTION, retained.PORTION, 1]
    long = [bytes((65 + number,)) * 60_000 for number in range(5)]
    assert list(retained.portions(long)) == [[one] for one in long]
    messages = [kept(b"t", b"x" * 10) for _ in range(7)]
    assert [len(some) for some in portions(iter(messages), 3, 1000)] == [3, 3, 1]
    assert [len(some) for some in portions(iter(messages), 5, 20)] == [2, 2, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "either --from URL or --file FILE"),
        (("--from", "mqtt://a", "--file", "{db}"), "either --from URL or --file FILE"),
        (("--from", "http://a"), "mqtt://HOST"),
        (("--from", "mqtt://a", "-t", "a/#/b"), "is no filter"),
        (("--file", "{folder}/none"), "does not exist"),
    ],
)
def test_a_wrong_command_is_told(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """Before anything is connected to."""
    (tmp_path / "db").write_bytes(GOOD)
    words = [one.format(db=tmp_path / "db", folder=tmp_path) for one in arguments]
    result = CliRunner().invoke(main, ["import", "retained", *words])
    assert result.exit_code == 2 and says in result.output, result.output


def test_a_file_is_counted(tmp_path: Path) -> None:
    """Without a broker, by --dry-run; filters choose."""
    path = tmp_path / "mosquitto.db"
    path.write_bytes(db.file(6, db.message(1, b"a/b", b"1"), db.message(2, b"c", b"2"), db.retained(1), db.retained(2)))
    runner = CliRunner()
    command = ["import", "retained", "--file", str(path), "--dry-run"]
    assert runner.invoke(main, command).output == "2 retained messages\n"
    assert runner.invoke(main, [*command, "-t", "a/+"]).output == "1 retained messages\n"

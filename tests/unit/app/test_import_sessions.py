"""The sessions of ``mosquitto.db``: what is read, and what becomes of each message of theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.app.importing.mosquitto_db import Database
from iot_mqtt.app.importing.mosquitto_sessions import OldSession, OldSessions, Phase
from iot_mqtt.app.importing.session_transfer import Outcome, Transfer
from iot_mqtt.grid.log import GridLog, LogSettings
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.grid.store import GridStore
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.values import NEVER, Subscription
from tests.cases import mosquitto_files as db
from tests.reactor import run

T = TypeVar("T")
NOW = 1_700_000_000


def read(*chunks: tuple[int, bytes], version: int = 6) -> dict[str, OldSession]:
    return OldSessions(Database(db.file(version, *chunks))).by_client


def transferred(*chunks: tuple[int, bytes]) -> Outcome:
    transfer = Transfer(OldSessions(Database(db.file(6, *chunks))), NOW)
    transfer.read()
    return transfer.outcome


@pytest.mark.parametrize("padding", [4, 0])
def test_a_session_is_read(padding: int) -> None:
    """Of version 6, whatever the machine that wrote it pads with: its user, its time, and options of subscriptions."""
    found = read(
        db.client(b"plc-1", interval=3600, ends=NOW + 60, user=b"ann", padding=padding),
        db.client("ü".encode(), padding=padding),
        db.subscription(b"plc-1", b"plant/+/t", 2, 0x0C, 7),
        db.subscription("ü".encode(), b"/a//b", 0),
    )
    assert [(one.client_id, one.user, one.interval, one.ends) for one in found.values()] == [
        ("plc-1", "ann", 3600, NOW + 60),
        ("ü", "", db.NEVER, 0),
    ]
    assert found["plc-1"].subscriptions == {"plant/+/t": Subscription("plant/+/t", 2, True, True, identifier=7)}
    assert found["ü"].subscriptions == {"/a//b": Subscription("/a//b", 0)}


def test_sessions_of_mosquitto_1_are_read() -> None:
    """Version 5 has no users, versions 3 and 4 have another form."""
    newer = read(db.client(b"plc", interval=5, version=5), db.subscription(b"plc", b"a"), version=5)["plc"]
    assert (newer.user, newer.interval, list(newer.subscriptions)) == (None, 5, ["a"])
    for version in (3, 4):
        older = read(
            db.old_message(version, 9, b"a", b"x"),
            db.old_client(b"plc"),
            db.old_client_message(b"plc", 9, 2, db.WAIT_FOR_PUBREC, 17),
            db.old_subscription(b"plc", b"a/#", 2),
            version=version,
        )["plc"]
        (exchange,) = older.exchanges
        assert (older.user, older.interval, older.subscriptions["a/#"].qos) == (None, db.NEVER, 2)
        assert (exchange.number, exchange.packet_id, exchange.qos, exchange.phase) == (9, 17, 2, Phase.SENT)


@pytest.mark.parametrize(
    ("direction", "state", "phase"),
    [
        (db.OUT, db.QUEUED, Phase.WAITS),
        (db.OUT, db.WAIT_FOR_PUBACK, Phase.SENT),
        (db.OUT, db.WAIT_FOR_PUBREC, Phase.SENT),
        (db.OUT, db.WAIT_FOR_PUBCOMP, Phase.RELEASED),
        (db.OUT, 6, Phase.RELEASED),
        (db.IN, db.WAIT_FOR_PUBREL, Phase.RECEIVED),
        (db.IN, db.QUEUED, Phase.UNTOLD),
    ],
)
def test_states_are_told_apart(direction: int, state: int, phase: Phase) -> None:
    """By what the client was told."""
    raw = b"\x02\x0b\x05"
    chunk = db.client_message(b"c", 1, 2, state, packet_id=3, direction=direction, retain=True, properties=raw)
    (exchange,) = read(db.client(b"c"), chunk)["c"].exchanges
    assert (exchange.phase, exchange.packet_id, exchange.retain, exchange.identifiers) == (phase, 3, True, (5,))


def test_what_is_over_is_counted_and_stays_away() -> None:
    """Sessions and messages whose time is over, what mosquitto has removed, and QoS 0."""
    found = transferred(
        db.message(1, b"a", b"x"),
        db.message(2, b"a", b"late", expires=NOW - 1),
        db.client(b"ended", interval=60, ends=NOW - 1),
        db.client(b"with its connection", interval=0),
        db.client(b"here", interval=60, ends=NOW + 1),
        db.client_message(b"here", 2),
        db.client_message(b"here", 3),
        db.client_message(b"here", 1, 0),
        db.client_message(b"here", 1),
        db.client_message(b"ended", 1),
    )
    assert (found.sessions, found.ended) == (1, 2)
    assert (found.messages, found.expired, found.qos_0) == (1, 2, 1)


def test_what_nobody_has_is_told() -> None:
    """Chunks of clients without a session, shared subscriptions, and what was to be retained."""
    found = transferred(
        db.message(1, b"kept", b"x", 2),
        db.client(b"c"),
        db.subscription(b"nobody", b"a"),
        db.subscription(b"c", b"$share/g/a"),
        db.client_message(b"nobody", 1),
        db.client_message(b"c", 1, 2, db.WAIT_FOR_PUBREL, packet_id=1, direction=db.IN),
    )
    assert (found.sessions, found.subscriptions, found.messages) == (1, 0, 0)
    assert [note.partition(":")[0] for note in found.notes] == ["client nobody", "client c", "client nobody", "kept"]


GOOD = (db.message(1, b"a", b"x"), db.client(b"c"), db.subscription(b"c", b"a"), db.client_message(b"c", 1))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (db.file(7, *GOOD), "version 7"),
        (db.file(6, *GOOD)[:-1], "cut off, or damaged"),
        (db.file(6, (db.CLIENT, bytes(10))), "damaged at byte 31"),
        (db.file(6, db.client(b"")), "a client without an id"),
        (db.file(6, (db.CLIENT, bytes(14) + b"\xff" * 10)), "beyond its end"),
        (db.file(6, db.client(b"\xff")), "damaged at byte 31"),
        (db.file(6, db.client(b"c"), db.subscription(b"c", b"a/#/b")), "damaged at byte 64"),
        (db.file(6, db.client(b"c"), db.subscription(b"c", b"a", 3)), "QoS 3"),
        (db.file(6, db.client(b"c"), (db.SUBSCRIPTION, b"\xff" * 14)), "beyond its end"),
        (db.file(6, *GOOD, db.client_message(b"c", 1, 3)), "QoS 3 and state 11"),
        (db.file(6, *GOOD, db.client_message(b"c", 1, 1, 12)), "QoS 1 and state 12"),
        (db.file(6, *GOOD, (db.CLIENT_MESSAGE, bytes(10) + b"\xff" * 6)), "beyond its end"),
        (db.file(6, *GOOD, db.client_message(b"c", 1, properties=b"\x01\x77")), "property 0x77"),
        (db.file(6, db.message(1, b"a/#", b"x"), *GOOD[1:]), "the message at byte 31"),
    ],
)
def test_a_damaged_file_is_refused(data: bytes, says: str) -> None:
    """With the place, before anything is written: the messages are looked at, too."""
    with pytest.raises(Refused, match=says):
        Transfer(OldSessions(Database(data)), NOW).read()


def written(*chunks: tuple[int, bytes], any_user: bool = False) -> tuple[GridStore, list[set[CacheName]]]:
    """The store afterwards, and the caches of each batch in their order."""
    grid, clock, batches = MemoryGrid(), ManualClock(), []
    run(grid.open())
    store = GridStore(grid, clock, Counters())
    log = GridLog(grid, store, clock, LogSettings())
    commit = grid.commit_soon

    def watched(batch: WriteBatch, done: Callable[[BaseException | None], None]) -> None:
        batches.append({cache for cache, _, _ in batch.operations})
        commit(batch, done)

    grid.commit_soon = watched  # type: ignore[method-assign]
    transfer = Transfer(OldSessions(Database(db.file(6, *chunks))), NOW, any_user=any_user)
    transfer.read()
    run(log.open())
    run(transfer.write(store, log))
    return store, batches


def taken(records: AsyncIterator[T]) -> list[T]:
    async def gathered() -> list[T]:
        return [one async for one in records]

    return run(gathered())


def test_a_session_has_its_owner_and_the_time_that_is_left() -> None:
    """Also where mosquitto ends what would be kept for ever; --any-user leaves the owner open."""
    clients = (
        db.client(b"timed", interval=3600, ends=NOW + 60, user=b"ann"),
        db.client(b"for ever"),
        db.client(b"bounded", ends=NOW + 50),
        db.client(b"connected", interval=7),
    )
    store, _ = written(*clients)
    found = {one.client_id: one for one in taken(store.sessions())}
    assert {name: one.owner for name, one in found.items()} == {
        "timed": "ann",
        "for ever": "",
        "bounded": "",
        "connected": "",
    }
    ends = {name: (one.disconnected_at or 0) + one.expiry_interval - NOW for name, one in found.items()}
    assert (ends["timed"], ends["bounded"], ends["connected"]) == (60, 50, 7)
    assert found["for ever"].expiry_interval == NEVER and found["timed"].expiry_interval == 3600
    store, _ = written(*clients, any_user=True)
    assert {one.owner for one in taken(store.sessions())} == {None}


def test_sessions_are_written_last_and_together() -> None:
    """What an import that was cut off has left is of no session, and goes when the node starts."""
    chunks = [db.message(number, b"a", b"x" * 2_000_000) for number in range(1, 6)]
    chunks += [db.client(b"c"), db.client(b"d"), db.subscription(b"c", b"a", 2), db.subscription(b"d", b"a")]
    chunks += [db.client_message(b"c", number) for number in range(1, 5)]
    chunks += [db.client_message(b"c", 5, 2, db.WAIT_FOR_PUBREC, packet_id=9)]
    chunks += [db.client_message(b"c", 5, 2, db.WAIT_FOR_PUBCOMP, packet_id=8)]
    store, batches = written(*chunks)
    assert len(batches) > 2 and all(one == {CacheName.QUEUE} for one in batches[:-1])
    assert {CacheName.SESSIONS, CacheName.SUBSCRIPTIONS, CacheName.PROGRESS, CacheName.PUBREL} <= batches[-1]
    assert [(name, one.sequence, one.packet_id) for name, one in taken(store.deliveries())] == [
        ("c", number, 9 if number == 5 else 0) for number in range(1, 6)
    ]
    assert [(name, packet_id) for name, packet_id, _ in taken(store.pubrels())] == [("c", 8)]


def test_a_file_is_counted(tmp_path: Path) -> None:
    """Without a grid, by --dry-run."""
    path = tmp_path / "mosquitto.db"
    path.write_bytes(db.file(6, *GOOD))
    command = ["import", "sessions", "--file", str(path)]
    result = CliRunner().invoke(main, [*command, "--dry-run"])
    assert result.output == "1 sessions with 1 subscriptions and 1 messages\n", result.output
    result = CliRunner().invoke(main, [*command, "--set", "grid.kind=ignite"])
    assert result.exit_code == 1 and "iot-mqtt migrate" in result.output, result.output
    path.write_bytes(db.file(7))
    result = CliRunner().invoke(main, [*command, "--set", f"node.data_dir={tmp_path / 'data'}"])
    assert result.exit_code == 1 and "it has version 7" in result.output, result.output
    assert not (tmp_path / "data").exists()

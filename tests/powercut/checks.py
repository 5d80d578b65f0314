"""What a power cut has left is started, and has to have everything that was acknowledged before."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from systemkit.process import BrokerProcess, Options
from systemkit.waiting import all_connected, run_all, stop_all, until

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.faults import OpenFault
from iot_mqtt.grid.records.keys import client_prefix, packet_key, retained_key, session_key
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.grid import CacheName
from tests.powercut.load import AWAY, PUBLISHERS, RETAINED_TOPIC, RETAINING, SETTINGS, TOKEN, Books, Reader

#: Seconds for a broker to hand everything out.
PATIENCE = 60.0


class Promises:
    """What was promised when the power went: before that moment its clients knew of it."""

    def __init__(self, books: Books, moment: int) -> None:
        self._acked = {what for what, when in books.acked.items() if when < moment}
        self.held = [(client, number) for client, number, since, to in books.held if since < moment < to]
        self.sessions = [name for name, when in books.subscribed.items() if when < moment]
        self.retained = max((number for name, number in self._acked if name == RETAINING), default=0)
        self.messages = {what for what in self._acked if what[0] in PUBLISHERS}
        self.uplinked = {what for what in self.messages if PUBLISHERS[what[0]][2].startswith("cut/up")}

    def __len__(self) -> int:
        return len(self._acked)


def check_grid(data: Path, promises: Promises) -> list[str]:
    """Open the grid of a data directory as a broker does, and look for all of it."""
    engine = Engine(data / "grid")
    try:
        engine.open()
    except (OpenFault, Unavailable, OSError) as error:
        return [f"the grid does not start: {error}"]
    try:
        return list(_missing(engine, promises))
    finally:
        engine.close()


def _missing(engine: Engine, promises: Promises) -> Iterator[str]:
    found: set[tuple[str, int]] = set()
    start, tag = TAGS[CacheName.LOG], TAGS[CacheName.LOG]
    while page := engine.page(tag, start, 1000, 0):
        for _, value in page:
            found.update((name.decode(), int(number)) for name, number in TOKEN.findall(value))
        start = page[-1][0] + b"\0"
    if lost := sorted(promises.messages - found):
        yield f"{len(lost)} of {len(promises)} acknowledged messages are lost: {lost[:5]}"
    if promises.retained:
        value = engine.get(TAGS[CacheName.RETAINED] + retained_key(RETAINED_TOPIC.encode())) or b""
        number = int(kept[2]) if (kept := TOKEN.search(value)) else 0
        if number < promises.retained:
            yield f"retained is {number}, acknowledged was {promises.retained}"
    for client, packet_id in promises.held:
        if engine.get(TAGS[CacheName.RECEIVED] + packet_key(client_prefix(client), packet_id)) is None:
            yield f"packet id {packet_id} of {client} is not known any more"
    for name in promises.sessions:
        if engine.get(TAGS[CacheName.SESSIONS] + session_key(name)) is None:
            yield f"the session of {name} is gone"


def check_broker(folder: Path, promises: Promises) -> list[str]:
    """Start a whole broker, let a session that was away read everything, and read the files of the uplink."""
    broker = BrokerProcess(folder, Options(settings=SETTINGS))
    try:
        broker.start(60)
    except AssertionError as error:
        broker.reap()
        return [f"the broker does not start: {error}"]
    try:
        faults = asyncio.run(_read_all(broker, promises))
    except BaseException:
        broker.reap()
        raise
    try:
        broker.close()
    except AssertionError as error:
        faults.append(str(error))
    return faults


async def _read_all(broker: BrokerProcess, promises: Promises) -> list[str]:
    got: list[tuple[str, int]] = []

    def delivered(_: str, topic: str, payload: bytes) -> None:
        if (token := TOKEN.search(payload)) is not None and topic.startswith("cut/"):
            got.append((token[1].decode(), int(token[2])))

    reader = Reader(AWAY, broker.ports["mqtt"], delivered, known=AWAY in promises.sessions)
    tasks = run_all([reader])
    try:
        await all_connected([reader])
        await until(lambda: promises.messages <= set(got), PATIENCE)
        await until(lambda: promises.uplinked <= {what for _, what in uplinked(broker.data_dir)}, PATIENCE)
    finally:
        await stop_all(tasks)
    return [*reader.faults, *_misdelivered(got, promises), *_misfiled(list(uplinked(broker.data_dir)), promises)]


def _misdelivered(got: list[tuple[str, int]], promises: Promises) -> Iterator[str]:
    """A message at QoS 1 that was sent again may be there twice; none else may."""
    if lost := sorted(promises.messages.difference(got)):
        yield f"{len(lost)} messages do not come: {lost[:5]}"
    if twice := [what for what, times in Counter(got).items() if times > 1 and PUBLISHERS[what[0]][0] == 2]:
        yield f"twice at QoS 2: {twice[:5]}"
    for name in PUBLISHERS:
        numbers = list(dict.fromkeys(number for publisher, number in got if publisher == name))
        if numbers != sorted(numbers):
            yield f"out of order: {name}"


def _misfiled(records: list[tuple[str, tuple[str, int]]], promises: Promises) -> Iterator[str]:
    if lost := sorted(promises.uplinked.difference(what for _, what in records)):
        yield f"{len(lost)} records are not in the files: {lost[:5]}"
    if twice := [number for number, times in Counter(number for number, _ in records).items() if times > 1]:
        yield f"{len(twice)} records are twice in the files: {twice[:5]}"


def uplinked(data: Path) -> Iterator[tuple[str, tuple[str, int]]]:
    """From the finished files: the id of each record, and what message it is."""
    for path in sorted((data / "uplink").glob("*/dt=*/*.jsonl")):
        for line in path.read_bytes().splitlines():
            if (found := TOKEN.search(line)) is not None:
                yield json.loads(line)["id"], (found[1].decode(), int(found[2]))

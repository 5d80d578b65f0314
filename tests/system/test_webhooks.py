"""Webhooks of a real node that is killed while nobody takes its events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from systemkit.plain import Plain
from systemkit.starting import StartBroker


class Receiver(ThreadingHTTPServer):
    """Takes nothing until ``taking``."""

    taking = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        #: (life, number, client) of what was taken, and how often something was refused.
        self.taken: list[tuple[str, int, str]] = []
        self.refused = 0


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.taking:
            self.server.taken += [(said["life"], one["number"], one["client"]) for one in said["events"]]
        else:
            self.server.refused += 1
        self.send_response(204 if self.server.taking else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_events_survive_kill_9(start_broker: StartBroker, receiver: Receiver) -> None:
    """All that happened in the life before is posted by the next one, in order, and each once."""
    hook = {"url": f"http://127.0.0.1:{receiver.server_address[1]}/", "kinds": ["client.connected"]}
    broker = start_broker(settings={"events.webhooks": json.dumps([hook])})
    for number in range(150):
        with Plain(broker.ports["mqtt"], version=5, timeout=60) as client:
            client.connect(f"press-{number}")
    until(lambda: receiver.refused, "nothing was posted")
    (file,) = (broker.folder / "data" / "webhooks").iterdir()
    until(lambda: file.read_bytes().count(b'"number"') == 150, "not all of it is written")
    broker.kill()
    receiver.taking = True
    broker.start()
    with Plain(broker.ports["mqtt"], version=5, timeout=60) as client:
        client.connect("after")
    until(lambda: len(receiver.taken) >= 151, "not all of it was posted again")
    assert [client for _, _, client in receiver.taken] == [*(f"press-{number}" for number in range(150)), "after"]
    lives = [life for life, _, _ in receiver.taken]
    assert len(set(lives[:150])) == 1 and lives[150] != lives[0]

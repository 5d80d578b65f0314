"""Events that are posted: in batches, signed, again when nobody took them, and never more than there is room for."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from iot_mqtt.app.config import read_config
from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.config.webhooks import webhook_of
from iot_mqtt.app.node import webhooks
from iot_mqtt.app.node.webhooks import AT_ONCE, GATHER, MOST_BYTES, MOST_WAITING, Webhook, Webhooks
from iot_mqtt.auth.web import AgentWeb
from iot_mqtt.metrics.collectors import WebhooksCollector
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.pipeline.clock import ReactorClock
from iot_mqtt.ports.alarms import AlarmKind
from iot_mqtt.ports.events import CLIENT_CONNECTED, KINDS, SESSION_ENDED, Events
from tests.reactor import reactor, run, turn, until


class Receiver(Resource):
    """Takes what is posted, and answers with the statuses of a list, then 204."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.isLeaf = True
        self.got: list[tuple[dict[str, Any], str | None, bytes]] = []
        self.statuses: list[int] = []

    def render_POST(self, request: Request) -> bytes:
        assert request.content is not None
        body = request.content.read()
        self.got.append((json.loads(body), request.getHeader("X-Iot-Mqtt-Signature"), body))
        request.setResponseCode(self.statuses.pop(0) if self.statuses else 204)
        return b""

    @property
    def batches(self) -> list[list[int]]:
        """Numbers of the events of each."""
        return [[event["number"] for event in said["events"]] for said, _, _ in self.got]


class Rig:
    """A receiver, and events that go there. The time of the webhook goes by hand, that of HTTP by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.receiver = Receiver()
        self.port = reactor.listenTCP(0, Site(self.receiver), interface="127.0.0.1")
        self.number = self.port.getHost().port
        self.url = f"http://127.0.0.1:{self.number}/hook?key=1"
        self.events = Events(self.clock.wall)
        self.all: list[Webhooks] = []

    def start(self, **more: object) -> Webhook:
        made = Webhooks(
            "n1",
            [{"url": self.url, **more}],
            lambda: AgentWeb(reactor, ReactorClock(reactor)),
            self.clock,
            self.folder,
            reactor.callFromThread,
        )
        made.begin(self.events)
        self.all.append(made)
        return made.hooks[0]

    def happen(self, count: int, kind: str = CLIENT_CONNECTED, **fields: object) -> None:
        for _ in range(count):
            self.events.publish(kind, {"client": "c", **fields})

    def wait(self, requests: int, seconds: float = GATHER) -> None:
        """Let time pass, and so many requests be answered."""
        hook = self.all[0].hooks[0]
        self.clock.advance(seconds)

        def settled() -> int:
            return sum(hook.failures.values()) + sum(hook.dropped.values()) + hook.sent

        before = settled()
        until(lambda: len(self.receiver.got) >= requests and settled() > before, 20)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "webhooks")
    yield made
    for one in made.all:
        one.close()
    run(made.port.stopListening())
    turn()


def test_a_batch_has_what_happened_in_half_a_second(rig: Rig) -> None:
    """In order, with what the stream says of it, and each event once."""
    hook = rig.start()
    rig.happen(2)
    rig.happen(1, SESSION_ENDED, user=None)
    assert hook.waiting == 3
    rig.wait(1)
    ((said, signature, _),) = rig.receiver.got
    assert (said["node"], said["life"], signature) == ("n1", rig.events.life, None)
    last = {"number": 3, "at": rig.events.after(2, 1)[0][0].at, "kind": SESSION_ENDED, "client": "c", "user": None}
    assert said["events"][2] == last
    rig.happen(1)
    rig.wait(2)
    assert rig.receiver.batches == [[1, 2, 3], [4]]
    assert (hook.sent, hook.waiting, hook.dropped, hook.failures) == (4, 0, {}, {})


def test_a_full_batch_does_not_wait(rig: Rig) -> None:
    """And has a hundred events; nor has any more bytes than it may."""
    hook = rig.start()
    rig.happen(AT_ONCE + 1)
    rig.wait(1, 0)
    rig.wait(2)
    assert [len(batch) for batch in rig.receiver.batches] == [AT_ONCE, 1]
    rig.happen(4, text="x" * (MOST_BYTES // 3))
    rig.happen(1, text="x" * MOST_BYTES)
    rig.wait(3)
    rig.wait(4)
    assert [len(batch) for batch in rig.receiver.batches[2:]] == [2, 2]
    assert max(len(body) for _, _, body in rig.receiver.got) <= MOST_BYTES
    rig.happen(1)
    rig.wait(5)
    assert (hook.sent, hook.waiting, hook.dropped) == (AT_ONCE + 6, 0, {"too_large": 1})


def test_kinds_are_chosen_by_patterns(rig: Rig) -> None:
    """What nobody wants does not wait."""
    hook = rig.start(kinds="session.*")
    rig.happen(3)
    rig.happen(1, SESSION_ENDED)
    assert hook.waiting == 1
    rig.wait(1)
    assert rig.receiver.batches == [[4]]
    assert webhook_of({"url": "https://a/", "kinds": []}).wanted == frozenset(KINDS)


def test_a_request_is_signed(rig: Rig, tmp_path: Path) -> None:
    """With what stands in the file."""
    file = tmp_path / "secret"
    file.write_text("sesame\n")
    rig.start(secret_file=str(file))
    rig.happen(1)
    rig.wait(1)
    ((_, signature, body),) = rig.receiver.got
    assert signature == "sha256=" + hmac.new(b"sesame", body, "sha256").hexdigest()


def test_what_is_not_taken_is_posted_again_and_later_each_time(rig: Rig) -> None:
    """The same batch, before any other."""
    hook = rig.start()
    rig.receiver.statuses = [503, 429, 500]
    rig.happen(2)
    rig.wait(1)
    rig.happen(1)
    for number, pause in enumerate((1.0, 2.0, 4.0), start=2):
        rig.clock.advance(pause - 0.1)
        turn()
        assert len(rig.receiver.got) == number - 1 and hook.waiting == 3
        rig.wait(number, 0.1)
    rig.wait(5)
    assert rig.receiver.batches == [[1, 2]] * 4 + [[3]]
    assert hook.failures == {"server_error": 2, "too_many_requests": 1}
    assert (hook.sent, hook.dropped) == (3, {})


def test_nobody_there_is_no_answer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again, and pauses do not grow for ever."""
    monkeypatch.setattr(webhooks, "LONGEST_PAUSE", 2.0)
    hook = rig.start()
    run(rig.port.stopListening())
    rig.happen(1)
    rig.wait(0)
    for pause in (1.0, 2.0, 2.0):
        rig.wait(0, pause)
    assert hook.failures == {"network": 4} and hook.waiting == 1
    rig.port = reactor.listenTCP(rig.number, Site(rig.receiver), interface="127.0.0.1")
    rig.wait(1, 2.0)
    assert (hook.sent, rig.receiver.batches) == (1, [[1]])


@pytest.mark.parametrize("status", [400, 404, 302])
def test_a_refusal_is_not_asked_twice(rig: Rig, status: int) -> None:
    """It is counted, and the next batch is tried."""
    hook = rig.start()
    rig.receiver.statuses = [status]
    rig.happen(2)
    rig.wait(1)
    rig.happen(1)
    rig.wait(2)
    assert rig.receiver.batches == [[1, 2], [3]]
    assert (hook.sent, hook.dropped, hook.failures) == (1, {"refused": 2}, {})


def test_a_full_queue_drops_the_oldest_and_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as it lasts; what is under way stays."""
    monkeypatch.setattr(webhooks, "MOST_WAITING", 200)
    assert MOST_WAITING == 10_000
    hook = rig.start()
    rig.receiver.statuses = [503]
    rig.happen(AT_ONCE)
    rig.wait(1)
    assert rig.all[0].alarms() == ()
    rig.happen(150)
    assert (hook.waiting, hook.dropped) == (200, {"queue_full": 50})
    (alarm,) = rig.all[0].alarms()
    assert alarm.kind is AlarmKind.WEBHOOK
    assert alarm.text.startswith("webhook 1 (127.0.0.1) does not take events") and "key" not in alarm.text
    registry = CollectorRegistry()
    registry.register(WebhooksCollector(rig.all[0].facts))
    labels = {"webhook": "1", "reason": "queue_full"}
    assert registry.get_sample_value("iot_mqtt_webhook_dropped_events_total", labels) == 50
    assert registry.get_sample_value("iot_mqtt_webhook_waiting_events", {"webhook": "1"}) == 200
    rig.wait(2, 1.0)
    rig.wait(3, 0)
    assert rig.receiver.batches[2] == list(range(AT_ONCE + 51, AT_ONCE + 151))
    rig.happen(1)
    rig.wait(4)
    assert rig.all[0].alarms() == () and hook.sent == 201


def test_nothing_is_posted_after_the_end(rig: Rig) -> None:
    """Neither what is gathered nor what is tried again."""
    hook = rig.start()
    rig.receiver.statuses = [503]
    rig.happen(1)
    rig.wait(1)
    rig.happen(1)
    hook.close()
    rig.happen(1)
    rig.clock.advance(120)
    turn()
    assert len(rig.receiver.got) == 1 and rig.clock.waiting == 0


def lives(rig: Rig) -> list[tuple[str, list[int]]]:
    """Of each batch: the life, and the numbers."""
    return [
        (said["life"], numbers) for (said, _, _), numbers in zip(rig.receiver.got, rig.receiver.batches, strict=True)
    ]


def again(rig: Rig) -> Webhook:
    """The next life of the node."""
    rig.clock.advance(1)
    rig.events = Events(rig.clock.wall)
    rig.all.pop().close()
    return rig.start()


def test_what_waits_is_posted_by_the_next_life(rig: Rig) -> None:
    """With the life in which it happened, before what happens now, and no more once it was taken."""
    first = rig.events.life
    rig.receiver.statuses = [204, 503]
    rig.start()
    rig.happen(2)
    rig.wait(1)
    rig.happen(3)
    rig.wait(2)
    rig.happen(1)
    hook = again(rig)
    second = rig.events.life
    assert second != first and hook.waiting == 4
    rig.happen(1)
    rig.wait(3)
    rig.wait(4)
    assert lives(rig)[2:] == [(first, [3, 4, 5, 6]), (second, [1])]
    assert again(rig).waiting == 0


def test_a_killed_node_leaves_what_it_wrote(rig: Rig) -> None:
    """A line that was being written is none, others that cannot be read are counted, and the rest is posted."""
    rig.receiver.statuses = [503]
    rig.start()
    rig.happen(3)
    rig.wait(1)
    rig.all.pop().close()
    (file,) = rig.folder.glob("*.events")
    assert file.stat().st_mode & 0o777 == 0o600 and rig.folder.stat().st_mode & 0o777 == 0o700
    file.write_bytes(b"rubbish\n7\tx\t[]\n" + file.read_bytes() + b'4\t19c\t{"number":4,"')
    hook = rig.start()
    assert (hook.waiting, hook.dropped) == (3, {"unreadable": 2})
    rig.wait(2)
    assert rig.receiver.batches[1] == [1, 2, 3]


def test_the_file_has_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long nobody takes anything; the newest stay."""
    monkeypatch.setattr(webhooks, "MOST_WAITING", 200)
    rig.start()
    rig.receiver.statuses = [503]
    rig.happen(AT_ONCE)
    rig.wait(1)
    for _ in range(50):
        rig.happen(50)
        rig.clock.advance(0)
    rig.all.pop().close()
    (file,) = rig.folder.glob("*.events")
    assert file.read_bytes().count(b"\n") <= 400
    hook = rig.start()
    assert hook.waiting == 200
    rig.wait(2)
    rig.wait(3)
    posted = rig.receiver.batches[1] + rig.receiver.batches[2]
    assert posted == sorted(posted) and posted[-100:] == list(range(2501, 2601))


def test_a_file_that_cannot_be_written_is_told(rig: Rig) -> None:
    """Events go on, in memory, and are kept again as soon as that is possible."""
    rig.folder.parent.mkdir(exist_ok=True)
    rig.folder.write_text("in the way")
    hook = rig.start()
    (alarm,) = rig.all[0].alarms()
    assert "is in memory alone" in alarm.text
    rig.happen(1)
    rig.wait(1)
    assert hook.sent == 1
    rig.folder.unlink()
    rig.receiver.statuses = [503]
    rig.happen(1)
    rig.folder.mkdir()
    rig.wait(2)
    until(lambda: not rig.all[0].alarms(), 20)
    assert again(rig).waiting == 1


def test_addresses_have_files_of_their_own(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """And who is not there any more is named."""
    rig.receiver.statuses = [503]
    rig.start()
    rig.happen(1)
    rig.wait(1)
    rig.all.pop().close()
    rig.url += "2"
    assert rig.start().waiting == 0
    assert "has events for an address that is not in events.webhooks" in caplog.text


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{url: 'http://hooks.example/'}", "url: must begin with https://, or be http:// on this machine"),
        ("{url: 'https://'}", "url: must be an address such as"),
        ("{url: 'https://a:b@c/'}", "url: must not have a user and a password"),
        ("{url: 'https://a:x/'}", "Port"),
        ("{url: 'https://a/', kinds: [rates]}", "kinds: no event is of the kind 'rates'; there are client.connected"),
        ("{url: 'https://a/', secret_file: nowhere}", "secret_file: ******: cannot be read: No such file or directory"),
        ("{uri: 'https://a/'}", "uri"),
    ],
)
def test_a_mistake_is_named(entry: str, words: str) -> None:
    """With the place in the list."""
    problems = serving_problems(read_config(None, [f"events.webhooks=[{{url: 'https://fine/'}}, {entry}]"], {}))
    assert len(problems) == 1, problems
    assert "events.webhooks: entry 2: " in str(problems[0]) and words in str(problems[0])


def test_a_secret_is_beside_the_file_that_names_it(tmp_path: Path) -> None:
    """As other paths are; and nothing else of an entry is a path."""
    file = tmp_path / "application.yaml"
    file.write_text("events:\n  webhooks: [{url: 'https://a/', kinds: ['client.*'], secret_file: secret}]\n")
    (tmp_path / "secret").write_text("s")
    loaded = read_config(str(file), [], {})
    assert serving_problems(loaded) == []
    (entry,) = loaded.config.events.webhooks
    assert entry == {"url": "https://a/", "kinds": ["client.*"], "secret_file": str(tmp_path / "secret")}

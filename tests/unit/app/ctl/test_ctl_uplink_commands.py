"""Commands from Kafka as an operator sees them: ``ctl uplink commands``, the API, ``/metrics``."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from prometheus_client import CollectorRegistry

from iot_mqtt.app.config import ConfigError, load_config
from iot_mqtt.metrics.collectors import InboxCollector
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.devices.letterkit import LetterNode


@pytest.fixture
def node() -> LetterNode:
    """One command was accepted, one came too late, one was none."""
    node = LetterNode()
    node.device()
    node.order(id="c1")
    node.order(id="c2", expires_in=0)
    node.inbox.write(node.clock.wall(), b"?")
    node.bring()
    node.accompanied.letters = node.letters
    return node


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch, node: LetterNode) -> Ctl:
    return Ctl(monkeypatch, make_browser(FakeView(), devices=node.accompanied))


def form(lines: list[str]) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition("  ") for line in lines)}


def test_commands_are_a_form(ctl: Ctl, node: LetterNode) -> None:
    """What keeps them stands where one looks first."""
    found = form(ctl.lines("uplink", "commands"))
    assert (found["topic"], found["state"]) == ("iot.commands, in the group group", "ok")
    assert found["since the start"] == "3 read: 1 accepted, 0 known before, 1 too late, 1 dead letters"
    node.inbox.trouble = "Kafka has not answered for 4 s"
    found = form(ctl.lines("uplink", "commands"))
    assert found["state"] == "ALARM"
    assert found["alarm"] == "commands do not come from Kafka: Kafka has not answered for 4 s"
    assert json.loads(ctl.run("uplink", "commands", "--json").stdout)["received"] == 3


def test_the_api_has_every_figure(node: LetterNode) -> None:
    """And says how to get them where there are none."""
    browser = make_browser(FakeView(), devices=node.accompanied)
    answer = browser.get("/api/v1/uplink/commands").json
    assert answer == {**asdict(node.letters.info()), "alarms": [], "partitions": [0], "node": "n1"}
    node.accompanied.letters = None
    missing = browser.get("/api/v1/uplink/commands")
    assert (missing.status, "uplink.commands.topic" in missing.json["detail"]) == (404, True)


def test_metrics_have_every_figure(node: LetterNode) -> None:
    """None at all where no commands come."""
    registry = CollectorRegistry()
    registry.register(InboxCollector(lambda: node.accompanied.letters and node.letters.info()))  # type: ignore[arg-type, return-value]
    assert registry.get_sample_value("iot_mqtt_inbox_received_records_total") == 3
    assert registry.get_sample_value("iot_mqtt_inbox_dead_letters_total") == 1
    assert registry.get_sample_value("iot_mqtt_inbox_alarm") == 0
    node.accompanied.letters = None
    assert list(registry.collect()) == []


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        (["devices.commands=false"], "uplink.commands.topic", "must be null where devices.commands is false"),
        (["devices.keep_commands=60"], "uplink.commands.max_age", "must be devices.keep_commands (60) at most"),
        (["uplink.commands.dead_letters=iot.commands"], "uplink.commands.dead_letters", "must be another topic"),
        (["uplink.commands.topic=with space"], "uplink.commands.topic", "a topic of Kafka"),
        (["uplink.commands.max_age=0"], "uplink.commands.max_age", "must be 1 or more"),
    ],
)
def test_a_mistake_is_named(settings: list[str], key: str, words: str) -> None:
    """Only where commands come from Kafka at all."""
    with pytest.raises(ConfigError) as error:
        load_config(None, ["uplink.kind=kafka", *settings], {})
    (problem,) = error.value.problems
    assert key in str(problem)
    assert words in str(problem)


@pytest.mark.parametrize("settings", [["uplink.kind=kafka", "uplink.commands.topic=null"], ["uplink.kind=file"]])
def test_without_commands_from_kafka_nothing_of_that_matters(settings: list[str]) -> None:
    """No commands at all are fine then."""
    assert load_config(None, [*settings, "devices.commands=false", "devices.keep_commands=0"], {}).uplink is not None

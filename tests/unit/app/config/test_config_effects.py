"""Keys that are written where nobody reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from iot_mqtt.app.config import read_config
from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.config.effects import notes
from iot_mqtt.app.config.limits import KEYS, SECTIONS
from iot_mqtt.app.config.schema import find
from iot_mqtt.app.config.sections import known_listeners

#: What is written, what decides that it does nothing, and what decides that it does something.
CASES = {
    "log.disk_limit=1000000": ("grid.kind=memory", "grid.kind=embedded"),
    "log.disk_reserve=1": ("grid.kind=memory", "grid.kind=embedded"),
    "grid.ignite.token=x": ("grid.kind=embedded", None),
    "registry.static.timeout=3": ("registry.kind=none", None),
    "registry.zookeeper.hosts=a:1": ("registry.kind=none", None),
    "uplink.kafka.bootstrap_servers=a:1": ("uplink.kind=file", "uplink.kind=kafka"),
    "uplink.kafka.options={socket.timeout.ms: 5000}": ("uplink.kind=none", "uplink.kind=kafka"),
    "uplink.kafka.compression=none": ("uplink.kind=file", "pipeline.source=kafka"),
    "uplink.kafka.security.username=x": (
        "uplink.kafka.security.protocol=ssl uplink.kind=kafka",
        "uplink.kafka.security.protocol=sasl_ssl uplink.kind=kafka",
    ),
    "uplink.commands.user=x": (
        "uplink.commands.topic=null uplink.kind=kafka",
        "uplink.commands.topic=t uplink.kind=kafka",
    ),
    "grid.ignite.tls.cert=x": ("grid.ignite.tls.ca=null grid.kind=ignite", "grid.ignite.tls.ca=x grid.kind=ignite"),
    "listeners.mqtt.connect_burst=5": ("listeners.mqtt.connect_rate=0", "listeners.mqtt.connect_rate=1"),
    "listeners.mqtt.tls.ciphers=ECDHE": ("listeners.mqtt.tls.cert=null", "listeners.mqtt.tls.cert=x"),
    "doors.flapping_ban=5": ("doors.flapping_count=0", "doors.flapping_count=5"),
    "auth.jwt.issuer=x": ("auth.chain=[anonymous]", "listeners.mqtt.auth_chain=[jwt]"),
    "auth.http.timeout=1": ("auth.chain=[]", "auth.chain=[http]"),
    "uplink.commands.group=x": ("uplink.kind=file", "uplink.kind=kafka"),
    "uplink.file.limit=0": ("uplink.kind=none", "uplink.kind=file"),
    "listeners.mqtt.path=/x": ("listeners.mqtt.protocol=mqtt", "listeners.mqtt.protocol=websocket"),
    "listeners.ws.heartbeat=5": ("listeners.ws.protocol=websocket", None),
    "listeners.mqtt.command_expiry=5": ("listeners.mqtt.protocol=mqtt", None),
}


def ineffective(*sets: str) -> list[str]:
    lines = [str(problem) for problem in serving_problems(read_config(None, sets, {}))]
    return [line for line in lines if "has no effect" in line]


@pytest.mark.parametrize("written", CASES)
def test_a_key_without_effect_is_refused(written: str) -> None:
    """It names the key, why, and the ways out; and is accepted where it does something."""
    without, within = CASES[written]
    key, decided_by = written.partition("=")[0], without.partition("=")[0]
    (line,) = (line for line in ineffective(written, *without.split()) if line.startswith(f"--set {key}: "))
    assert line.startswith(f"--set {key}: has no effect with {decided_by}: ") and line.endswith(", or leave it out")
    if within is not None:
        assert ineffective(written, *within.split()) == []


def test_a_higher_layer_may_pass_over_a_file(tmp_path: Path) -> None:
    """Kafka in the file, and a node for trying things out without it."""
    file = tmp_path / "application.yaml"
    file.write_text("uplink:\n  kind: kafka\n  kafka: {bootstrap_servers: [a:1]}\nlog:\n  disk_limit: 5\n")
    assert serving_problems(read_config(str(file), ["uplink.kind=none", "grid.kind=memory"], {})) == []
    file.write_text("uplink:\n  kind: file\n  kafka: {bootstrap_servers: [a:1]}\n")
    (problem,) = serving_problems(read_config(str(file), [], {}))
    assert str(problem).startswith(f"{file}:3:11: uplink.kafka.bootstrap_servers: has no effect")


def test_a_listener_that_its_certificate_opens_is_not_configured_for_nothing() -> None:
    """Its port would stay closed without a word."""
    (problem,) = serving_problems(read_config(None, ["listeners.mqtts.port=8899"], {}))
    assert "is of a listener that is not opened; set listeners.mqtts.tls.cert and key" in str(problem)
    assert serving_problems(read_config(None, ["listeners.mqtts.port=8899", "listeners.mqtts.enabled=false"], {})) == []


def test_a_key_that_means_something_else_than_it_seems_is_explained(tmp_path: Path) -> None:
    """With the place where it stands, and with what to write in its place."""
    file = tmp_path / "application.yaml"
    file.write_text("mqtt:\n  max_queued_messages: 5\n")
    (note,) = notes(read_config(str(file), [], {}))
    assert str(note).startswith(f"{file}:2:3: mqtt.max_queued_messages: ") and "log.retention_bytes" in str(note)
    assert list(notes(read_config(str(file), ["durable_sessions.enable=false"], {}))) == []


def test_who_publishes_what_happens_hears_who_may_read_it() -> None:
    """Everybody, where clients need not name a user and there are no rules; and nothing is said of what is off."""
    (note,) = notes(read_config(None, ["events.topics=true"], {}))
    assert "events.topics: clients that name no user are let in" in str(note)
    assert list(notes(read_config(None, ["events.topics=false"], {}))) == []
    assert list(notes(read_config(None, ["events.topics=true", "auth.allow_anonymous=false"], {}))) == []


def test_who_traces_nobody_hears_of_it() -> None:
    """One of three keys says whose messages are traced; nothing is said where one of them does, or traces are off."""
    on = "telemetry.traces.enabled=true"
    (note,) = notes(read_config(None, [on], {}))
    assert "telemetry.traces.enabled: no client of this node is traced" in str(note)
    assert len(list(notes(read_config(None, [on, "telemetry.traces.share=0"], {})))) == 1
    for whose in ("clients=[press]", "share=0.1", "trusted_users=[mes]"):
        assert list(notes(read_config(None, [on, f"telemetry.traces.{whose}"], {}))) == []
    assert list(notes(read_config(None, ["telemetry.traces.enabled=false"], {}))) == []


def test_conditions_are_about_keys_that_there_are() -> None:
    """A renamed key takes its condition along."""
    names = known_listeners()
    conditions = [
        one
        for known in (*KEYS.values(), *SECTIONS.values())
        for one in (known.needs, known.hint_with, known.hint_without)
        if one
    ]
    assert len(conditions) > 30
    for condition in conditions:
        for decided_by, values in condition.any_of.items():
            hint = find(decided_by.replace("*", "mqtt"), names)
            assert hint is not None, decided_by
            origin: object = get_origin(hint)
            choices = get_args(hint) if origin is Literal else None
            assert values and (choices is None or set(values) <= {*choices, "set"}), decided_by

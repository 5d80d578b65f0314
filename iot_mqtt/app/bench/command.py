"""The command: its bounds, the connections, and the report."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import click

from iot_mqtt.app.bench.load import LEAST, Found, Load, Plan
from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.errors import ClientError
from iot_mqtt.app.client.options import MosquittoCommand, Setup, connection_options, failing, setup
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.target import Target
from iot_mqtt.app.terminal import NumberRange, plain, print_form, print_json, size

#: What one process may do to a broker that others use, without --beyond.
_BOUNDS: Final = {"connections": 500, "rate": 10_000, "seconds": 60, "size": 65_536}
#: Of the broker's status.
_COUNTERS: Final = ("messages_received", "messages_delivered", "dropped", "denied")
#: A process that is busier than this measures itself.
_BUSY: Final = 0.9


@click.command("bench", cls=MosquittoCommand)
@click.option("--publishers", type=click.IntRange(1), default=4, show_default=True)
@click.option("--subscribers", type=click.IntRange(0), default=4, show_default=True)
@click.option("--idle", type=click.IntRange(0), default=0, help="Further connections that do nothing.")
@click.option("--topics", type=click.IntRange(1, 100_000), default=16, show_default=True, help="Topics, in turn.")
@click.option("--prefix", default="bench", show_default=True, help="What topics and client ids begin with.")
@click.option(
    "--size", "sizes", default="64", show_default=True, help="Bytes of a payload, or a range such as 64-1024."
)
@click.option("-q", "--qos", type=click.IntRange(0, 2), default=1, show_default=True)
@click.option(
    "--rate", type=NumberRange(0, min_open=True), default=1000.0, show_default=True, help="A second, all together."
)
@click.option("--closed-loop", is_flag=True, help="No rate: as fast as the broker acknowledges.")
@click.option("--seconds", type=NumberRange(0.1), default=10.0, show_default=True)
@click.option("--fanout", is_flag=True, help="Every subscriber gets every message; else each gets its share.")
@click.option(
    "--patience",
    type=NumberRange(0.1),
    default=5.0,
    show_default=True,
    help="Seconds to wait for what is missing.",
)
@click.option("--data-dir", type=click.Path(file_okay=False), help="Of a node whose counters are compared.")
@click.option("--beyond", is_flag=True, help="Go beyond the bounds.")
@connection_options
def bench(**options: Any) -> None:
    """Put a bounded load on a broker, and say what became of it.

    Messages are due at fixed times, and latency counts from then: what the broker holds up is seen. Without --beyond
    there are at most 500 connections, 10000 messages a second, 60 seconds and payloads of 64 kB, and QoS 0 has a rate.

    Exit codes: 0 everything arrived, or QoS is 0; 1 something was lost; 5 something was refused; others as those of
    `iot-mqtt pub`.
    """
    smallest, largest = _sizes(options["sizes"])
    _check(options, largest)
    chosen = setup("bench", options)
    run = secrets.token_bytes(8)
    rate = None if options["closed_loop"] else options["rate"]
    plan = Plan(
        f"{options['prefix']}/{run.hex()}", options["topics"], smallest, largest, options["qos"], rate,
        options["seconds"], options["fanout"], run, options["patience"],
    )  # fmt: skip
    counters = _Counters(options["data_dir"])
    clients: list[Client] = []
    try:
        began = time.monotonic()
        clients.extend(_clients(chosen, options, run))
        connecting = time.monotonic() - began
        publishers, subscribers = options["publishers"], options["subscribers"]
        load = Load(
            plan,
            clients[:publishers],
            clients[publishers : publishers + subscribers],
            clients[publishers + subscribers :],
        )
        load.subscribe()
        counters.before()
        found = load.run()
        for client in clients:
            client.close()  # which acknowledges what came last, so that the broker has counted it
        counters.after()
    except ClientError as error:
        for client in clients:
            client.drop()
        raise failing(chosen.quiet, error) from error
    report = _report(found, plan, len(clients), connecting, counters)
    if options["as_json"]:
        print_json(report)
    else:
        print_form(_screen(report))
    if found.refused:
        raise SystemExit(5)
    if plan.qos and found.lost:
        raise SystemExit(1)


def _clients(chosen: Setup, options: dict[str, Any], run: bytes) -> Iterator[Client]:
    name = options["client_id"] or f"{options['prefix']}-{run.hex()}"
    for number in range(options["publishers"] + options["subscribers"] + options["idle"]):
        yield replace(chosen, connect=replace(chosen.connect, client_id=f"{name}-{number}")).open().client


def _sizes(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    try:
        smallest, largest = int(low), int(high or low)
    except ValueError:
        raise click.UsageError("--size is a number of bytes, or two with a dash between") from None
    if not LEAST <= smallest <= largest:
        raise click.UsageError(f"a payload has at least {LEAST} bytes: who sent it, its number and when it was due")
    return smallest, largest


def _check(options: dict[str, Any], largest: int) -> None:
    """What is beyond the bounds has to be asked for by name."""
    asked = {
        "connections": options["publishers"] + options["subscribers"] + options["idle"],
        "rate": 0 if options["closed_loop"] else options["rate"],
        "seconds": options["seconds"],
        "size": largest,
    }
    beyond = [f"{name} {asked[name]:g} (at most {most})" for name, most in _BOUNDS.items() if asked[name] > most]
    if options["closed_loop"] and not options["qos"]:
        beyond.append("QoS 0 without a rate, which nothing holds back")
    if beyond and not options["beyond"]:
        raise click.UsageError(f"{', '.join(beyond)}: others may be using this broker; --beyond if that is meant")


class _Counters:
    """What the broker counted meanwhile, if its admin port can be asked."""

    def __init__(self, data_dir: str | None) -> None:
        self._data_dir = data_dir
        self._before: Mapping[str, int] | None = None
        self.meanwhile: dict[str, int] | None = None
        self.why_not: str | None = None

    def before(self) -> None:
        self._before = self._ask()

    def after(self) -> None:
        after = self._ask()
        if after is not None and self._before is not None:
            self.meanwhile = {name: after[name] - self._before[name] for name in _COUNTERS}

    def _ask(self) -> Mapping[str, int] | None:
        try:
            url, token = os.environ.get("IOT_MQTT_CTL_URL"), os.environ.get("IOT_MQTT_CTL_TOKEN")
            node = Target(url=url, token=token, data_dir=self._data_dir).connect()
            counters = node.get("status")["counters"]
            return {name: int(_total(counters[name])) for name in _COUNTERS}
        except (CtlError, OSError, KeyError, ValueError) as error:
            self.why_not = str(error)
            return None


def _total(value: Any) -> Any:
    return sum(value.values()) if isinstance(value, Mapping) else value


def _report(found: Found, plan: Plan, connections: int, connecting: float, counters: _Counters) -> dict[str, Any]:
    return {
        "connections": connections,
        "connected_per_second": round(connections / max(connecting, 1e-6), 1),
        "qos": plan.qos,
        "seconds": round(found.seconds, 3),
        "wanted_per_second": plan.rate,
        "sent": found.sent,
        "sent_per_second": round(found.sent / found.seconds, 1),
        "sent_bytes": found.sent_bytes,
        "acknowledged": found.acknowledged,
        "refused": found.refused,
        "expected": found.expected,
        "received": found.received,
        "lost": found.lost,
        "repeated": found.repeated,
        "latency_ms": found.latency.milliseconds(),
        "acknowledgement_ms": found.acks.milliseconds(),
        "client_cpu": round(found.cpu, 3),
        "broker": counters.meanwhile,
        "broker_not_asked": None if counters.meanwhile is not None else counters.why_not,
    }


def _screen(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "connections", f"{report['connections']}, opened at {report['connected_per_second']:.0f} a second"
    wanted = (
        "as fast as acknowledged" if report["wanted_per_second"] is None else f"{report['wanted_per_second']:g} wanted"
    )
    amount = f"{size(report['sent_bytes'])} in {report['seconds']:.1f} s"
    yield "sent", f"{report['sent']} messages, {report['sent_per_second']:.0f} a second ({wanted}), {amount}"
    if report["qos"]:
        yield "acknowledged", f"{report['acknowledged']}, {report['refused']} refused"
    yield "received", f"{report['received']} of {report['expected']}; lost {report['lost']}, again {report['repeated']}"
    yield "latency", _milliseconds(report["latency_ms"])
    if report["qos"]:
        yield "acknowledged in", _milliseconds(report["acknowledgement_ms"])
    yield "broker", _compared(report)
    if report["client_cpu"] > _BUSY:
        share = f"{report['client_cpu'] * 100:.0f} %"
        yield "note", f"this process was busy for {share} of the time: the figures are of it as much as of the broker"


def _milliseconds(found: Mapping[str, float | None]) -> str:
    if found["max"] is None:
        return "-"
    return ", ".join(f"{name} {plain(value)}" for name, value in found.items()) + " ms"


def _compared(report: dict[str, Any]) -> str:
    counted = report["broker"]
    if counted is None:
        return f"not asked: {plain(report['broker_not_asked'])}"
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in counted.items())
    if counted["messages_received"] == report["sent"] and counted["messages_delivered"] == report["received"]:
        return f"counted the same: {text}"
    if counted["messages_received"] < report["sent"] - report["refused"]:
        return f"counted less than was sent (is this the admin port of the same broker?): {text}"
    return f"counted (with what others sent meanwhile): {text}"

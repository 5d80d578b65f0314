"""What there is to see on the dashboard, and the Chromium that looks at it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from iot_mqtt.custom_protocols.gateway.wire import Type
from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.gateways import Gateway
from systemkit.plain import Plain
from systemkit.process import BrokerProcess
from systemkit.users import call
from systemkit.waiting import wait_until
from tests.doubles import gateway as told

ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
CHROMIUM = shutil.which("chromium")
#: Kept when the tests are over: screenshots, for people to look at.
SHOTS = ROOT / "build" / "screenshots"
#: A name that would be a script where names are not text.
XSS = "<img src=x onerror=alert(1)>"
#: The same as a gateway: it is a client as others are, and needs an id of its own.
XSS_GATEWAY = "<img src=y onerror=alert(2)>"
#: Seconds that a browser may take for all that it is told.
PATIENCE = 240.0


def buildable() -> bool:
    """Whether this machine has what the dashboard is built and driven with."""
    return shutil.which("node") is not None and (WEB / "node_modules").is_dir()


def person(broker: BrokerProcess, name: str, role: str = "operator") -> dict[str, Any]:
    """Somebody who may log in, as the browser is told it."""
    password = f"of-{name}-1234"
    status, answer = call(broker, "POST", "admins", {"name": name, "role": role, "password": password})
    assert status == 200, answer
    return {
        "base": f"http://localhost:{broker.ports['admin']}",
        "name": name,
        "password": password,
        "chromium": CHROMIUM,
        "shots": str(SHOTS),
    }


def browse(program: str, settings: dict[str, Any], folder: Path = WEB / "tests" / "browser") -> str:
    """Run a program of ``web/tests/browser``, or of another folder; it must end well. What it printed."""
    command = ["node", str(folder / f"{program}.mjs"), json.dumps(settings)]
    run = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def client(broker: BrokerProcess, client_id: str, user: str | None = None) -> Plain:
    """A client that is let in, whatever it is called, and may be silent."""
    made = Plain(broker.ports["mqtt"], version=5)
    made.send(wire.connect(client_id, version=5, keep_alive=0, user=user))
    assert made.expect(wire.CONNACK).reason() == 0
    return made


@contextmanager
def bad_names(broker: BrokerProcess) -> Iterator[str]:
    """The name everywhere: client, user, filter, topic, payload, gateway, device, tag, value, command and its answer.

    Gives the id of the command.
    """
    with ExitStack() as stack:
        named = stack.enter_context(client(broker, XSS, XSS))
        named.subscribe((XSS, 1))
        named.publish(XSS, XSS.encode(), qos=1, packet_id=1, retain=True)
        gateway = stack.enter_context(Gateway(broker, XSS_GATEWAY, "", "", heartbeat=0).let_in())
        reading = (XSS, [(XSS, Type.STRING, XSS)])
        gateway.socket.sendall(told.data([reading], sequence=1, wants_ack=True))
        assert gateway.receive() == told.Ack(1)
        target = f"{XSS_GATEWAY}/{XSS}"
        status, sent = call(broker, "POST", "commands", {"target": target, "body": XSS, "wants_reply": True})
        assert status == 200, sent
        gateway.socket.sendall(told.answer(gateway.ordered().number, False, XSS))
        wait_until(lambda: call(broker, "GET", f"commands/{sent['id']}")[1]["state"] == "failed")
        yield sent["id"]
        named.publish(XSS, b"", qos=1, packet_id=2, retain=True)
        call(broker, "DELETE", f"shadows/{quote(target, safe='')}")


@contextmanager
def traffic(broker: BrokerProcess, publisher: Plain, name: str) -> Iterator[dict[str, Any]]:
    """A message that was larger than its receiver takes, a group of two, and a session that is away while three come.

    Gives what the journeys look for. ``publisher`` publishes, and is called ``name``.
    """
    small, away = "terminal-small", "logger-of-hall-3"
    group = {"name": "evaluation", "topics": "shared/#", "members": ["worker-1", "worker-2"]}
    kept = {"client": away, "filter": "hall/3/#", "payloads": ["21.25", "21.5", "21.75"]}
    with ExitStack() as stack:
        terminal = stack.enter_context(Plain(broker.ports["mqtt"], version=5))
        most = b"\x27" + (64).to_bytes(4, "big")
        terminal.send(wire.connect(small, version=5, properties=most))
        assert terminal.expect(wire.CONNACK).reason() == 0
        terminal.subscribe(("camera/#", 0))
        publisher.publish("camera/large", b"x" * 200)
        for member in group["members"]:
            stack.enter_context(client(broker, member)).subscribe((f"$share/{group['name']}/{group['topics']}", 0))
        for number in range(8):
            publisher.publish(f"shared/{number}", b"work")
        with Plain(broker.ports["mqtt"], version=5) as logger:
            logger.connect(away, clean=False, expiry=3600)
            logger.subscribe((str(kept["filter"]), 1))
        for number, payload in enumerate(kept["payloads"]):
            publisher.publish("hall/3/temperature", payload.encode(), qos=1, packet_id=100 + number)
        dropped = {"client": small, "topic": "camera/large"}
        wait_until(lambda: call(broker, "GET", "dropped?reason=too_large")[1]["items"])
        yield {"dropped": {**dropped, "publisher": name}, "group": group, "kept": kept}


@contextmanager
def retained(broker: BrokerProcess, count: int) -> Iterator[None]:
    """So many retained messages, ``hall/line-<n>/press-<n>/temperature``, a thousand of a line."""
    topics = [f"hall/line-{number // 1000}/press-{number % 1000}/temperature" for number in range(count)]
    with client(broker, "line-recorder") as recorder:
        for payload in (b"21.5", b""):
            for topic in topics:
                recorder.publish(topic, payload, retain=True)
            recorder.ping()
            if payload:
                yield


@contextmanager
def example_gateway(broker: BrokerProcess, name: str) -> Iterator[None]:
    """The example in Node: eight devices that know one command."""
    program = ROOT / "examples" / "gateway-node" / "gateway.mjs"
    command = ["node", str(program), "127.0.0.1", str(broker.ports["gateway"]), name]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=clean_environment())
    try:
        target = quote(f"{name}/plc-3", safe="")
        wait_until(lambda: call(broker, "GET", f"devices/{target}")[0] == 200, 30)
        yield
    finally:
        process.kill()
        process.wait(10)

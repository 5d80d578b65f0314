"""Codecs in the broker's process: whatever they raise, return or take in time is told in the right words."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.plugins.running import NotAvailable
from iot_mqtt.sdk import Command
from tests.reactor import reactor, run, until
from tests.unit.plugins.plugkit import PLAIN, FakeSink, House, settings, vendors, write_plugin

COMMAND = Command(1, "d", {"v": 1}, b"", None)


#: However busy the machine is, nothing that a codec does is slow.
PATIENT: dict[str, Any] = {"slow_call": 60.0, "slow_frame": 60.0}


def connected(here: House, deed: str, **limits: Any) -> tuple[Any, FakeSink]:
    """A connection to a codec that does this with a frame that is b"x"."""
    source = PLAIN.replace(
        "        from {package}.lazy", f"        if frame == b'x': {deed}\n        from {{package}}.lazy"
    )
    write_plugin(here.site, "acme", "1.0", source)
    here.start(acme=settings("inline", **limits))
    opened, sink = here.connect("acme")
    return opened.runner, sink


DEEDS = {
    "raise BadFrame('checksum', 'no')": ("bad_frame", "checksum", "no"),
    "raise BadFrame('Any Words!', 'no')": ("bad_frame", "other", "no"),
    "raise KeyError(5)": ("codec_failed", "exception"),
    "raise SystemExit(5)": ("codec_failed", "exception"),
    "raise KeyboardInterrupt": ("codec_failed", "exception"),
    "raise BaseException(5)": ("codec_failed", "exception"),
    "yield from self.decode(frame)": ("codec_failed", "exception"),
    "yield 5": ("codec_failed", "garbage"),
    "yield Readings('d', dict(a=object()))": ("codec_failed", "garbage"),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_what_came_before_a_bad_frame_is_not_lost(here: House, deed: str) -> None:
    """Unless it is garbage, of which nothing is believed, or no ``Exception``; and nothing is decoded afterwards."""
    expected = DEEDS[deed]
    lost = any(word in deed for word in ("SystemExit", "KeyboardInterrupt", "BaseException"))
    runner, sink = connected(here, deed, **PATIENT)
    assert runner.decode([b"1", b"2", b"x", b"3"])
    runner.decode([b"4"])
    runner.encode(COMMAND)
    assert sink.told == [expected]
    assert len(sink.readings) == (0 if expected[-1] == "garbage" or lost else 2)
    info = vendors(here.plugins)[0]
    assert info.connections == (expected[0] == "bad_frame")
    assert info.faults == ({} if expected[0] == "bad_frame" else {expected[1]: 1})


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_behind_a_bad_frame_the_codec_says_what_is_safe_and_why_it_ends(here: House, isolation: str) -> None:
    """It decodes and encodes nothing any more, and counts as a connection until it is closed."""
    source = PLAIN.replace("def decode(self, frame):", "def decode(self, frame):\n        if frame == b'x': {deed}")
    source += """
    def safe(self, token):
        return b"safe %d" % token

    def refuse(self, reason):
        return reason.encode()
"""
    write_plugin(here.site, "acme", "1.0", source.replace("{deed}", "raise BadFrame('checksum', 'no')"))
    plugins = here.start(acme=settings(isolation))
    opened, sink = here.connect("acme")
    runner = opened.runner
    runner.decode([b"1", b"x", b"2"])
    runner.encode(COMMAND)
    until(lambda: sink.failure is not None)
    runner.decode([b"3"])
    runner.encode(COMMAND)
    runner.idle()
    runner.safe(7)
    runner.refuse("bad_frame: checksum")
    settled: list[None] = []
    runner.settle(lambda: settled.append(None))
    until(lambda: bool(settled))
    assert sink.told == [("bad_frame", "checksum", "no"), ("send", b"safe 7"), ("send", b"bad_frame: checksum")]
    assert len(sink.readings) == 1
    assert vendors(plugins)[0].connections == 1
    runner.close()
    assert vendors(plugins)[0].connections == 0


def test_a_call_that_holds_everybody_up_is_a_quarantine_at_once(here: House) -> None:
    """It could not be interrupted, but it need not happen again."""
    runner, sink = connected(here, "import time; time.sleep(0.05)", slow_call=0.02, slow_frame=0.001)
    _, other = here.connect("acme")
    runner.decode([b"x"])
    assert sink.failure == other.failure == ("codec_failed", "quarantined")
    with pytest.raises(NotAvailable, match="in quarantine"):
        here.connect("acme")
    info = vendors(here.plugins)[0]
    assert (info.state, info.quarantines, info.faults) == ("quarantined", 1, {"slow": 1})
    assert run(here.plugins.reload("acme")).state == "ready"


ENCODING = """if command.body: exec(command.body.decode())
        if "give" in command.values: return command.values["give"]
        if "nothing" in command.values: return b""
        return f\""""


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_a_command_that_cannot_be_encoded_has_failed_and_the_connection_goes_on(here: House, isolation: str) -> None:
    """Whether the codec says so or fails on it; the sender is told of nothing that may be of the command. The gateway
    cannot help it, and is not held off.
    """
    write_plugin(here.site, "acme", "1.0", PLAIN.replace('return f"', ENCODING))
    here.start(acme=settings(isolation, **PATIENT))
    opened, sink = here.connect("acme")
    until(lambda: bool(sink.got))
    opened.runner.welcome()
    deeds: list[tuple[dict[str, Any], bytes]] = [
        ({}, b"raise CannotEncode('no such tag')"),
        ({}, b"raise ValueError('a secret')"),
        ({}, b"raise BadFrame('a', 'secret')"),
        ({"give": "a secret"}, b""),
        ({"give": None}, b""),
        ({"nothing": 1}, b""),
        *[({}, b"1/0")] * 20,
        ({"v": 1}, b""),
    ]
    for number, (values, body) in enumerate(deeds):
        opened.runner.encode(Command(number, "d", values, body, None))
    until(lambda: len(sink.told) > len(deeds))
    assert sink.told.pop(0) == ("send", b"hello")
    fails = "the gateway's codec fails on it:"
    assert [one[:2] for one in sink.told] == [("not_encoded", number) for number in range(26)] + [("encoded", 26)]
    reasons = [one[2] for one in sink.told]
    assert reasons[0] == "no such tag"
    assert reasons[1].startswith(f"{fails} ValueError (<string>:1)") and reasons[2].startswith(f"{fails} BadFrame (")
    assert reasons[3:5] == [f"{fails} encode returned {kind}, not bytes" for kind in ("str", "NoneType")]
    assert reasons[5] == f"{fails} encode returned no bytes"
    info = vendors(here.plugins)[0]
    assert (info.state, info.held_off, info.faults) == ("ready", [], {"exception": 22, "garbage": 3})


@pytest.mark.parametrize(
    ("deed", "why"),
    [("import os; os._exit(3)", "its worker ended: exit code 3"), ("bytearray(1 << 40)", "its worker ended")],
    ids=["exit", "memory"],
)
def test_a_command_that_kills_the_worker_has_failed_and_no_other(here: House, deed: str, why: str) -> None:
    """It would kill the next one as well."""
    write_plugin(here.site, "acme", "1.0", PLAIN.replace('return f"', ENCODING))
    here.start(acme=settings("process"))
    opened, sink = here.connect("acme")
    until(lambda: bool(sink.got))
    for number, body in ((1, b""), (2, deed.encode()), (3, b"")):
        opened.runner.encode(Command(number, "d", {"v": 1}, body, None))
    until(lambda: sink.failure is not None)
    (failed,) = (one for one in sink.told if one[0] == "not_encoded")
    assert failed[1] == 2 and failed[2].startswith(f"the gateway's codec fails on it: {why}")
    assert sink.told[-1] == ("codec_failed", "died")
    assert [one.name for one in vendors(here.plugins)[0].held_off] == ["g10.0.0.1"]


def test_a_codec_that_fails_as_it_is_made_closes_that_connection(here: House) -> None:
    """And after five of them its address is held off."""
    fails = "    def __init__(self, host): host.peer.startswith('10.') and 1 / 0\n    def opened"
    write_plugin(here.site, "acme", "1.0", PLAIN.replace("    def opened", fails))
    here.start(acme=settings("inline"))
    for _ in range(5):
        _, sink = here.connect("acme")
        assert sink.told == [("codec_failed", "exception")]
        assert "ZeroDivisionError" in sink.details[0]
    with pytest.raises(NotAvailable, match=r"address 10\.0\.0\.1 is held off by acme for 10 s"):
        here.connect("acme")
    here.connect("acme", "10.0.0.2:1")
    assert vendors(here.plugins)[0].turned_away == {"held_off": 1}


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_what_a_codec_counts_is_bounded(here: House, isolation: str) -> None:
    """32 names, whole numbers."""
    deed = "[self.host.count(f'n{{i}}', 2) for i in range(40)]"
    source = PLAIN.replace("        from {package}.lazy", f"        {deed}\n        from {{package}}.lazy")
    write_plugin(here.site, "acme", "1.0", source)
    here.start(acme=settings(isolation))
    opened, sink = here.connect("acme")
    opened.runner.decode([b"x"])
    until(lambda: bool(sink.readings))
    if isolation == "process":  # told once a second
        end = reactor.seconds() + 1.1
        until(lambda: reactor.seconds() > end)
        opened.runner.decode([b"x"])
        until(lambda: bool(vendors(here.plugins)[0].counters))
    counters = vendors(here.plugins)[0].counters
    assert len(counters) == 32 and counters["n0"] in (2, 4)

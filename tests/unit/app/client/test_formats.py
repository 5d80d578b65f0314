"""How messages are printed."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.app.client.formats import BadFormat, compiled, printable, printer
from iot_mqtt.codec import Properties, Publish

_AT = 1_600_000_000.25
_PROPERTIES = Properties(
    content_type="text/plain",
    response_topic="re/x",
    correlation_data=b"\x01c",
    message_expiry_interval=7,
    payload_format_indicator=1,
    subscription_identifiers=(4, 5),
    user_properties=(("a", "1"), ("a", "2")),
)
MESSAGE = Publish(b"plant/1", b"hello", 1, retain=True, packet_id=9, properties=_PROPERTIES)


@pytest.mark.parametrize(
    ("format", "printed"),
    [
        ("%t %p", b"plant/1 hello"),
        ("%q%r%d%m%l", b"11095"),
        ("%C|%R|%D|%E|%F|%S|%P", b"text/plain|re/x|\x01c|7|1|4 5|a:1 a:2"),
        ("%x %X", b"68656c6c6f 68656C6C6F"),
        ("%10t|%-10t|%4.4t|%05l|%-5l|", b"   plant/1|plant/1   |plan|00005|5    |"),
        ("100%% @@ \\\\ \\t\\n\\0", b"100% @ \\ \t\n\0"),
        ("@Y @N %U", b"2020 250000000 1600000000.250000000"),
        ("as it is", b"as it is"),
    ],
)
def test_a_format_is_filled_in(format: str, printed: bytes) -> None:
    """As mosquitto_sub does it."""
    assert compiled(format, safe=False)(MESSAGE, _AT) == printed


@pytest.mark.parametrize("format", ["%k", "%", "a@", "b\\", "\\q", "%99999t"])
def test_a_format_that_nobody_can_follow_is_refused(format: str) -> None:
    """When the command starts, not when a message comes."""
    with pytest.raises(BadFormat):
        compiled(format, safe=False)


def test_json_of_mosquitto_has_its_names() -> None:
    """``%j`` with the payload as text, ``%J`` with the payload as the JSON that it is."""
    found = json.loads(compiled("%j", safe=False)(MESSAGE, _AT))
    assert (found["topic"], found["payload"], found["payloadlen"], found["mid"]) == ("plant/1", "hello", 5, 9)
    assert found["properties"]["content-type"] == "text/plain"
    inner = Publish(b"a", b'{"x": [1]}')
    assert json.loads(compiled("%J", safe=False)(inner, _AT))["payload"] == {"x": [1]}
    assert json.loads(compiled("%J", safe=False)(MESSAGE, _AT))["payload"] is None


def test_json_has_the_names_of_the_api_always() -> None:
    """A line for each message; what is no text is there as base64 alone."""
    write = printer(None, verbose=False, json_lines=True, ends=True, safe=False)
    full, plain = (json.loads(write(message, _AT)) for message in (MESSAGE, Publish(b"a", b"\xff")))
    assert full.keys() == plain.keys()
    assert full["properties"].keys() == plain["properties"].keys()
    assert (full["payload"], full["payload_base64"]) == ("hello", "aGVsbG8=")
    assert (plain["payload"], plain["payload_base64"], plain["packet_id"]) == (None, "/w==", None)
    assert (full["properties"]["user_properties"], full["received_at"]) == ([["a", "1"], ["a", "2"]], _AT)


def test_a_terminal_is_not_controlled_by_messages() -> None:
    """Escape sequences are spelled out; those of the format are the user's own."""
    message = Publish(b"a\x1bc", b"x\x1b[2Jy\tz\nw\xff")
    assert compiled("\\e[1m%t %p", safe=True)(message, _AT) == b"\x1b[1ma\\x1bc x\\x1b[2Jy\tz\nw\\xff"
    assert compiled("%p", safe=False)(message, _AT) == message.payload
    assert printable("käse".encode()) == "käse".encode()

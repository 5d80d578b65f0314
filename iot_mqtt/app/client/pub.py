"""``iot-mqtt pub``: publish, and say whether it arrived."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

import click

from iot_mqtt.app.client import words
from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.errors import ClientError, NoConnection, NotTaken, TookTooLong
from iot_mqtt.app.client.options import Link, MosquittoCommand, Setup, check, connection_options, failing, setup
from iot_mqtt.app.client.output import Output, output, output_options
from iot_mqtt.app.client.payloads import Pace, of_files, of_lines, repeated
from iot_mqtt.app.terminal import NumberRange, print_json
from iot_mqtt.codec import Properties, Publish, Request, check_topic
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.values import ProtocolVersion

#: Refused messages that are described one by one.
_DESCRIBED: Final = 20
#: Messages that may come before their sender has looked at them.
_RECEIVE_MAXIMUM: Final = 100


@dataclass(slots=True)
class Report:
    """What became of the messages."""

    messages: int = 0
    size: int = 0
    acknowledged: int = 0
    #: Nobody had subscribed; only MQTT 5 says so.
    unmatched: int = 0
    refused: int = 0
    refusals: list[dict[str, Any]] = field(default_factory=list)
    #: Packet id → the how manieth message it is.
    _sent: dict[int, int] = field(default_factory=dict)

    def sent(self, packet_id: int, payload: bytes) -> None:
        self.messages += 1
        self.size += len(payload)
        if packet_id:
            self._sent[packet_id] = self.messages

    def look(self, client: Client) -> None:
        """Take down what the broker has answered."""
        while client.settled:
            one = client.settled.popleft()
            which = self._sent.pop(one.packet_id, 0)
            if one.reason < 0x80:
                self.acknowledged += 1
                self.unmatched += one.reason is ReasonCode.NO_MATCHING_SUBSCRIBERS
                continue
            self.refused += 1
            if len(self.refusals) < _DESCRIBED:
                text = words.sentence(one.reason, one.said)
                self.refusals.append({"message": which, "reason": int(one.reason), "text": text})

    def as_json(self, client_id: str, seconds: float) -> dict[str, Any]:
        return {
            "client_id": client_id,
            "messages": self.messages,
            "bytes": self.size,
            "acknowledged": self.acknowledged,
            "unmatched": self.unmatched,
            "refused": self.refused,
            "refusals": self.refusals,
            "seconds": round(seconds, 3),
        }


@click.command("pub", cls=MosquittoCommand)
@click.option("-t", "--topic", help="Topic to publish to.")
@click.option("-m", "--message", help="The payload.")
@click.option("-n", "--null-message", is_flag=True, help="An empty payload; with -r it deletes what is retained.")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False),
    multiple=True,
    help="The payload is this file; repeat for more messages.",
)
@click.option("-s", "--stdin-file", "stdin", is_flag=True, help="The payload is all of standard input.")
@click.option(
    "-l", "--stdin-line", "lines", is_flag=True, help="A message for each line of standard input, as it comes."
)
@click.option("-q", "--qos", type=click.IntRange(0, 2), default=0, show_default=True)
@click.option("-r", "--retain", is_flag=True, help="Keep it as the topic's retained message.")
@click.option("--repeat", type=click.IntRange(0), default=1, show_default=True, help="So many times; 0: for ever.")
@click.option("--repeat-delay", type=NumberRange(0), default=0.0, help="Seconds between two messages.")
@click.option("--rate", type=NumberRange(0, min_open=True), help="At most so many messages a second.")
@click.option("--count", type=click.IntRange(1), help="Stop after so many messages.")
@click.option("--content-type", help="Such as application/json.")
@click.option("--payload-format", type=click.IntRange(0, 1), help="1: the payload is text.")
@click.option("--message-expiry", type=click.IntRange(0, 0xFFFF_FFFF), help="Seconds.")
@click.option("-e", "--response-topic", help="Where answers should go.")
@click.option("--correlation-data", help="What an answer should bring back.")
@click.option("--user-property", "users", nargs=2, multiple=True, metavar="NAME VALUE", help="May be repeated.")
@click.option("--topic-alias", type=click.IntRange(1, 0xFFFF), help="Stands for the topic from the second message on.")
@click.option(
    "-W",
    "--timeout",
    type=NumberRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds that the broker has to acknowledge.",
)
@click.option(
    "--wait-response",
    type=NumberRange(0, min_open=True),
    metavar="SECONDS",
    help="Wait so long for an answer, print it, and fail if none comes. MQTT 5.",
)
@output_options
@connection_options
def pub(**options: Any) -> None:
    """Publish messages, and say by the exit code whether the broker took them.

    \b
    iot-mqtt pub -t plant/line1 -m 'hello' -q 1
    tail -f readings | iot-mqtt pub -t plant/line1 -l --rate 100
    iot-mqtt pub -t plant/ask -m now --wait-response 5

    Exit codes: 0 all were taken; 2 the command was wrong; 3 no connection, or lost; 4 the broker refused the client; 5
    the broker refused a message; 27 no acknowledgement, or no answer, in time; 1 anything else.
    """  # noqa: D301 - a sign of click's
    chosen = setup("pub", options, receive_maximum=_RECEIVE_MAXIMUM if _is_five(options) else None)
    message = _message(options, chosen)
    wanted = options["wait_response"]
    printed = output(
        verbose=options["verbose"], format=options["format"], no_end=options["no_end"], as_json=options["as_json"]
    )
    try:
        link = chosen.open()
        try:
            if wanted is None:
                _publish(chosen, link, message, options)
            else:
                _ask(chosen, link, message, _only(options), wanted, printed)
        except BaseException:
            link.client.drop()
            raise
    except ClientError as error:
        raise failing(chosen.quiet, error) from error


def _is_five(options: dict[str, Any]) -> bool:
    return str(options["protocol_version"]).endswith(("5", "5.0"))


def _message(options: dict[str, Any], chosen: Setup) -> Publish:
    """The message without its payload; what cannot be sent is a wrong command."""
    topic = chosen.topic if options["topic"] is None else options["topic"]
    given = [
        options["message"] is not None,
        options["null_message"],
        bool(options["files"]),
        options["stdin"],
        options["lines"],
    ]
    if topic is None:
        raise click.UsageError("where to? -t TOPIC")
    if sum(given) != 1:
        raise click.UsageError("one of -m, -n, -f, -s and -l says what to publish")
    if options["lines"] and options["repeat"] != 1:
        raise click.UsageError("lines come once: --repeat belongs to -m, -n, -f and -s")
    properties = _properties(options, chosen.connect.version)
    if options["topic_alias"] is not None and options["wait_response"] is not None:
        raise click.UsageError("--topic-alias is for more than one message")
    name = topic.encode(errors="surrogateescape")
    try:
        check_topic(name)
        if properties.response_topic is not None:
            check_topic(properties.response_topic.encode(errors="surrogateescape"))
    except MqttError as error:
        raise click.UsageError(str(error)) from error
    message = Publish(name, b"", options["qos"], options["retain"], properties=properties)
    check(replace(message, packet_id=1), chosen.connect.version)
    return message


def _properties(options: dict[str, Any], version: ProtocolVersion) -> Properties:
    correlation = options["correlation_data"]
    properties = Properties(
        payload_format_indicator=options["payload_format"],
        message_expiry_interval=options["message_expiry"],
        content_type=options["content_type"],
        response_topic=options["response_topic"],
        correlation_data=None if correlation is None else os.fsencode(correlation),
        topic_alias=options["topic_alias"],
        user_properties=options["users"],
    )
    if version is not ProtocolVersion.V5 and (properties != Properties() or options["wait_response"] is not None):
        raise click.UsageError("properties and answers need MQTT 5: -V 5")
    return properties


def _payloads(options: dict[str, Any], client: Client) -> Iterator[bytes]:
    """All payloads, as often as they are wanted."""
    if options["lines"]:
        return of_lines(client, sys.stdin.fileno())
    if options["files"]:
        return repeated(lambda: of_files(options["files"]), options["repeat"])
    payload = _payload(options)
    return repeated(lambda: iter((payload,)), options["repeat"])


def _payload(options: dict[str, Any]) -> bytes:
    if options["stdin"]:
        return sys.stdin.buffer.read()
    return os.fsencode(options["message"] or "")


def _only(options: dict[str, Any]) -> bytes:
    """The payload of a question."""
    if options["lines"] or len(options["files"]) > 1 or options["repeat"] != 1:
        raise click.UsageError("--wait-response asks one question")
    return next(of_files(options["files"])) if options["files"] else _payload(options)


def _publish(chosen: Setup, link: Link, message: Publish, options: dict[str, Any]) -> None:
    client, report, began = link.client, Report(), time.monotonic()
    pace = Pace(options["rate"], options["repeat_delay"])
    try:
        for payload in islice(_payloads(options, client), options["count"]):
            pace.wait(client)
            report.sent(client.publish(replace(message, payload=payload)), payload)
            client.arrived.clear()
            report.look(client)
            if report.refusals and not options["lines"]:
                break
        client.settle(options["timeout"])
        report.look(client)
        client.close(properties=chosen.disconnect)
    except NoConnection as error:
        report.look(client)
        raise NoConnection(f"{error}; {_unknown(report, message.qos)}") from error
    finally:
        if options["as_json"]:
            print_json(report.as_json(link.client_id, time.monotonic() - began))
    if report.unmatched:
        chosen.note(f"{report.unmatched} of {report.messages} messages matched no subscription")
    if report.refused:
        first = report.refusals[0]
        raise NotTaken(f"{report.refused} of {report.messages} messages were refused: {first['text']}")


def _unknown(report: Report, qos: int) -> str:
    if not qos:
        return f"it is not known whether all of {report.messages} messages arrived: -q 1 is acknowledged"
    open = report.messages - report.acknowledged - report.refused
    return f"{report.acknowledged} of {report.messages} messages were acknowledged; of {open} it is not known"


def _ask(chosen: Setup, link: Link, message: Publish, payload: bytes, seconds: float, printed: Output) -> None:
    """Publish one message and print the answer to it."""
    client = link.client
    said = message.properties
    base = link.connack.properties.response_information or "reply"
    topic = said.response_topic or f"{base}/{link.client_id}/{secrets.token_hex(4)}"
    mark = said.correlation_data or secrets.token_bytes(8)
    until = time.monotonic() + seconds
    granted = client.subscribe((Request(topic, max(1, message.qos)),), Properties(), seconds).reasons[0]
    if granted >= 0x80:
        raise NotTaken(f"no subscription to {topic}, where the answer should come: {words.sentence(granted)}")
    asked = replace(message, payload=payload, properties=replace(said, response_topic=topic, correlation_data=mark))
    report = Report()
    report.sent(client.publish(asked), payload)
    while True:
        report.look(client)
        if report.refusals:
            raise NotTaken(f"the question was refused: {report.refusals[0]['text']}")
        while client.arrived:
            answer = client.arrived.popleft()
            client.protocol.accept(answer)
            if answer.properties.correlation_data in (mark, None) and answer.topic == topic.encode():
                printed.write(answer)
                printed.flush()
                client.release(1.0)
                client.close(properties=chosen.disconnect)
                return
        if time.monotonic() >= until:
            nobody = "; nobody has subscribed to the topic" if report.unmatched else ""
            raise TookTooLong(f"no answer within {seconds:g} s{nobody}")
        client.step(until)

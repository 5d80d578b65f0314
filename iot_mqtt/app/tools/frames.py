"""``iot-mqtt frames``: bytes of device protocols, looked at offline, and recorded ones held against another codec.

Files may be captures (``iot_mqtt.sdk.capture``, written by ``ctl capture``), text in hexadecimal with ``#`` comments,
or raw bytes; which one it is is seen from how it begins.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import click

from iot_mqtt.app.tools.plugin import find_codec, read_config
from iot_mqtt.app.tools.sending import send
from iot_mqtt.sdk.capture import BadCapture, Record, is_capture, read_header, read_records
from iot_mqtt.sdk.event_json import HIDDEN, as_json, command_from, difference
from iot_mqtt.sdk.kit import Options, Unfit, subject_of
from iot_mqtt.sdk.kit.conversation import Conversation, Subject
from iot_mqtt.sdk.kit.rules import Fault

_FORMATS = ("auto", "capture", "hex", "raw")
#: Files that are no captures are read as a whole.
_MAX_FILE = 256 << 20
_PIECE = 65_536
_MAX_DIFFERENCES = 100
Json = dict[str, Any]

_FILE = click.argument("file", type=click.File("rb"))
_CONFIG = click.option(
    "--config", "config", type=click.Path(exists=True, dir_okay=False), help="YAML of plugins.NAME.config."
)
_FORMAT = click.option("--format", "form", type=click.Choice(_FORMATS), default="auto", show_default=True)


@click.group(name="frames")
def frames_group() -> None:
    """Decode, encode and replay frames of device protocols, without a broker."""


@frames_group.command()
@_FILE
@click.option("--codec", "name", required=True, help="An installed codec, or package.module:Class.")
@_CONFIG
@_FORMAT
@click.option("--connection", type=int, help="Of a capture: only this one.")
@click.option("--secrets", is_flag=True, help="Show passwords of logins.")
def decode(file: BinaryIO, name: str, config: str | None, form: str, connection: int | None, secrets: bool) -> None:
    """Print the events in FILE (- for standard input) as lines of JSON.

    A connection that ends because of what came has a last line {"end": reason}. Exit code 1 if the codec failed.
    """
    subject = _subject(name, config)
    failed = False
    for record, told in _events(subject, _records(file, form, connection), secrets=secrets):
        failed = failed or "fault" in told
        click.echo(json.dumps({"ms": record.ms, "connection": record.connection, **told}, ensure_ascii=False))
    sys.exit(failed)


@frames_group.command()
@_FILE
@click.option("--codec", "name", required=True, help="An installed codec, or package.module:Class.")
@_CONFIG
@click.option("--after", type=click.File("rb"), help="What the gateway said before: a capture, hexadecimal or raw.")
@click.option("--raw", is_flag=True, help="Write bytes, not hexadecimal.")
def encode(file: BinaryIO, name: str, config: str | None, after: BinaryIO | None, raw: bool) -> None:
    """Print the frames of the commands in FILE (- for standard input).

    A command is a line of JSON such as {"device": "7", "values": {"setpoint": 21.5}}. Exit code 1 if there is one
    that cannot be encoded.
    """
    failed = False
    try:
        conversation = Conversation(_subject(name, config))
        for record in _records(after, "auto", None) if after else ():
            if record.kind == "up":
                conversation.feed(record.data)
        for number, line in enumerate((line for line in file if line.strip()), 1):
            result = conversation.encode(command_from(json.loads(line), number))
            if isinstance(result, str):
                failed = True
                click.echo(f"command {number}: {result}", err=True)
            elif raw:
                click.echo(result, nl=False)
            else:
                click.echo(result.hex())
    except (Fault, ValueError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(failed)


@frames_group.command()
@_FILE
@click.option("--to", "target", metavar="HOST:PORT", help="Send what gateways sent, each connection on one of its own.")
@click.option("--fast", is_flag=True, help="With --to: as fast as it is taken, not with the capture's timing.")
@click.option("--codec", "name", help="Decode with this version, and print what is different from what was recorded.")
@_CONFIG
@_FORMAT
@click.option("--events", type=click.File("rb"), help="What to compare with: printed by `frames decode`.")
def replay(
    file: BinaryIO,
    target: str | None,
    fast: bool,
    name: str | None,
    config: str | None,
    form: str,
    events: BinaryIO | None,
) -> None:
    """Send FILE to a broker again, or hold it against another version of a codec.

    With --codec, exit code 1 says that there are differences.
    """
    if (target is None) == (name is None):
        raise click.UsageError("say either --to HOST:PORT or --codec NAME")
    if target is not None:
        sent = send(target, _records(file, form, None), fast=fast)
        click.echo(f"{sent.connections} connections, {sent.bytes_up} bytes sent, {sent.bytes_down} received")
        sys.exit(bool(sent.refused))
    assert name is not None
    count = _compared(_subject(name, config), list(_records(file, form, None)), events)
    click.echo(f"differences: {count or 'none'}", err=True)
    sys.exit(bool(count))


def _compared(subject: Subject, records: list[Record], events: BinaryIO | None) -> int:
    """Print the differences of each connection; how many there are."""
    if events is not None:
        expected = _by_connection((told["connection"], _plain(told)) for told in map(json.loads, events))
    else:
        recorded = ((record.connection, dict(record.event)) for record in records if record.event is not None)
        expected = _by_connection(recorded)
        if not expected:
            raise click.ClickException("the capture has no events to compare with: give --events")
    with_ends = any("end" in told or "fault" in told for tolds in expected.values() for told in tolds)
    found = _by_connection(
        (record.connection, told) for record, told in _events(subject, records) if with_ends or "end" not in told
    )
    count = 0
    for connection in sorted({*expected, *found}):
        old, new = expected.get(connection, []), found.get(connection, [])
        for place in range(max(len(old), len(new))):
            one = old[place] if place < len(old) else None
            other = new[place] if place < len(new) else None
            if text := difference(one, other):
                count += 1
                if count <= _MAX_DIFFERENCES:
                    told = {"connection": connection, "event": place, "was": one, "is": other, "difference": text}
                    click.echo(json.dumps(told, ensure_ascii=False))
    return count


def _by_connection(told: Iterator[tuple[int, Json]]) -> dict[int, list[Json]]:
    found: dict[int, list[Json]] = {}
    for connection, event in told:
        found.setdefault(connection, []).append(event)
    return found


def _plain(told: Mapping[str, Any]) -> Json:
    """A line of ``frames decode`` without what is not of the event."""
    event = {key: value for key, value in told.items() if key not in ("ms", "connection")}
    return {**event, "secret": HIDDEN} if "secret" in event else event


def _events(
    subject: Subject, records: Iterator[Record] | list[Record], *, secrets: bool = False
) -> Iterator[tuple[Record, Json]]:
    """What the codec makes of the records, each connection by itself; ``end`` and ``fault`` end one."""
    conversations: dict[int, Conversation | None] = {}
    for record in records:
        if record.kind == "closed":
            conversations[record.connection] = None
        elif record.kind in ("opened", "up"):
            yield from ((record, told) for told in _fed(subject, conversations, record, secrets=secrets))


def _fed(
    subject: Subject, conversations: dict[int, Conversation | None], record: Record, *, secrets: bool
) -> Iterator[Json]:
    try:
        if record.kind == "opened" or record.connection not in conversations:
            conversations[record.connection] = Conversation(subject)
        conversation = conversations[record.connection]
        if conversation is None:
            return
        conversation.feed(record.data)
    except Fault as fault:
        conversations[record.connection] = None
        yield {"fault": str(fault)}
        return
    yield from (as_json(event, secrets=secrets) for event in conversation.events)
    conversation.events.clear()
    if conversation.end:
        conversations[record.connection] = None
        yield {"end": conversation.end}


def _records(file: BinaryIO, form: str, connection: int | None) -> Iterator[Record]:
    """The records of a capture, or what else the file is as one connection."""
    try:
        first = file.readline(_MAX_FILE)
        if form == "capture" or (form == "auto" and is_capture(first)):
            read_header(first)
            wanted = (record for record in read_records(file) if connection in (None, record.connection))
            yield from wanted
            return
    except BadCapture as error:
        raise click.ClickException(f"{file.name}: {error}") from error
    data = first + file.read(_MAX_FILE)
    if form == "hex" or (form == "auto" and _is_hex(data)):
        try:
            data = _unhex(data)
        except ValueError as error:
            raise click.ClickException(f"{file.name}: is no hexadecimal: {error}") from error
    for start in range(0, len(data), _PIECE):
        yield Record(0, 1, "up", data[start : start + _PIECE])


def _uncommented(data: bytes) -> bytes:
    return b"".join(line.partition(b"#")[0] for line in data.splitlines(keepends=True))


def _unhex(data: bytes) -> bytes:
    return bytes.fromhex(_uncommented(data).decode("ascii"))


def _is_hex(data: bytes) -> bool:
    text = _uncommented(data)
    return bool(text.strip()) and all(byte in b"0123456789abcdefABCDEF \t\r\n" for byte in text)


def _subject(name: str, config: str | None) -> Subject:
    try:
        # Its vectors have nothing to do with it, only the configuration that is given here.
        return subject_of(find_codec(name), read_config(config), Options(with_vectors=False))
    except Unfit as error:
        raise click.ClickException(f"{name}: {error}") from error

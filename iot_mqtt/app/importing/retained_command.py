"""``iot-mqtt import retained``: from a running broker, or from ``mosquitto.db``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from iot_mqtt.app.client.errors import ClientError, NotTaken
from iot_mqtt.app.client.options import Link, MosquittoCommand, Setup, connection_options, failing, setup
from iot_mqtt.app.importing.mosquitto_db import opened, portions
from iot_mqtt.app.importing.retained import NAMED, PORTION, Outcome, Source, Target
from iot_mqtt.app.progress import going_on
from iot_mqtt.app.terminal import NumberRange, plain, print_json
from iot_mqtt.codec import Publish
from iot_mqtt.errors import MqttError
from iot_mqtt.topics import matches, validate_filter

_FILE: Final = click.Path(exists=True, dir_okay=False)
_VERSION: Final = click.Choice(("31", "311", "5"))
#: Bytes of payload that are published before they are waited for.
_AT_ONCE: Final = 4 * 1024 * 1024
_COUNTS: Final = ("found", "stored", "same", "kept", "gone", "refused", "differ")
_URL: Final = "mqtt[s]://[user[:password]@]host[:port]"


@click.command("retained")
@click.option("--from", "origin", metavar="URL", help=f"The broker that has them: {_URL}")
@click.option("--from-password-file", type=_FILE, help="The password there is the first line of this file.")
@click.option("--from-cafile", type=_FILE, help="Authorities to believe there, as PEM.")
@click.option("--from-version", type=_VERSION, default="5", show_default=True, help="Version of MQTT to speak there.")
@click.option("--file", "database", type=_FILE, help="Read mosquitto.db instead of asking a broker.")
@click.option("--to", default="mqtt://localhost:1883", show_default=True, metavar="URL", help="The broker to get them.")
@click.option("--to-password-file", type=_FILE, help="The password here is the first line of this file.")
@click.option("--to-cafile", type=_FILE, help="Authorities to believe here, as PEM.")
@click.option(
    "-t", "--topic", "filters", multiple=True, default=("#",), show_default=True, help="Only below this filter."
)
@click.option("--keep", is_flag=True, help="Leave topics alone that have a retained message here already.")
@click.option("--dry-run", is_flag=True, help="Say what there is, and publish nothing.")
@click.option(
    "--quiet-seconds",
    type=NumberRange(0.1, 600),
    default=3.0,
    show_default=True,
    help="All have come if none has come for so long.",
)
@click.option("-W", "--timeout", type=NumberRange(1), default=30.0, show_default=True, help="Seconds for an answer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def import_retained(**options: Any) -> None:
    """Take over the retained messages of another broker, or of mosquitto.db.

    \b
    iot-mqtt import retained --from mqtt://old:1883 --to mqtt://localhost:1883
    iot-mqtt import retained --file /var/lib/mosquitto/mosquitto.db

    Payload, QoS and the properties of MQTT 5 stay. Each message is looked for after it was acknowledged. Running it
    again is harmless: what is the same here is not published again. What is newer here is replaced, unless --keep says
    otherwise, and goes to the sessions that subscribe to it, as every message.

    Exit codes: those of `iot-mqtt pub`; 5 also if some messages were refused, or are not there as they were sent.
    """  # noqa: D301 - a sign of click's
    if (options["origin"] is None) == (options["database"] is None):
        raise click.UsageError("either --from URL or --file FILE says where they are")
    for one in options["filters"]:
        try:
            validate_filter(one, 0xFFFF)
        except MqttError as error:
            raise click.UsageError(f"{plain(one)!r} is no filter: {error}") from error
    outcome = Outcome()
    try:
        with ExitStack() as open_ends:
            _run(options, outcome, open_ends)
    except ClientError as error:
        raise failing(False, _told(error, outcome)) from error  # noqa: FBT003 - nothing is silent here
    _say(outcome, options)
    if outcome.refused or outcome.differ:
        raise SystemExit(NotTaken.exit_code)


def _run(options: dict[str, Any], outcome: Outcome, ends: ExitStack) -> None:
    patience, quiet = options["timeout"], options["quiet_seconds"]
    doing = ["connecting"]
    with going_on(lambda: doing[0]):
        if options["origin"] is not None:
            old = Source(_open(_end(options, "origin", "from"), ends), patience, quiet)
            names = old.names(options["filters"], lambda text: doing.__setitem__(0, text))
            outcome.found = len(names)
            source: Iterator[list[Publish]] = old.portions(names, outcome)
        else:
            database, now = opened(Path(options["database"])), time.time()
            outcome.found = sum(_wanted(one, options) for one in database.messages(now))
            source = portions((one for one in database.messages(now) if _wanted(one, options)), PORTION, _AT_ONCE)
        if options["dry_run"]:
            return
        target = Target(_open(_end(options, "to", "to"), ends), patience, quiet)
        target.look(options["filters"], outcome, keep=options["keep"])
        for messages in source:
            target.give(messages, outcome)
            doing[0] = f"{outcome.stored} of {outcome.found} retained messages taken over"


def _wanted(message: Publish, options: dict[str, Any]) -> bool:
    topic = message.topic.decode()
    return any(matches(one, topic) for one in options["filters"])


def _end(options: dict[str, Any], url: str, name: str) -> Setup:
    """What the options of one end amount to, as ``iot-mqtt pub`` and ``sub`` understand them."""
    arguments = ["-L", options[url]]
    for option, value in (
        ("--password-file", options[f"{name}_password_file"]),
        ("--cafile", options[f"{name}_cafile"]),
        ("-V", options.get(f"{name}_version")),
    ):
        arguments += [option, value] if value is not None else []
    command = connection_options(MosquittoCommand("import", params=[]))
    for param in command.params:
        # The environment's user and password are those of one broker, and here are two.
        param.envvar = None
    return setup("import", command.make_context("import", arguments).params)


def _open(chosen: Setup, ends: ExitStack) -> Link:
    link = chosen.open()
    ends.callback(link.client.drop)
    return link


def _told(error: ClientError, outcome: Outcome) -> ClientError:
    """With how far it came."""
    if outcome.stored:
        error.args = (f"{error}; {outcome.stored} of {outcome.found} messages were taken over before",)
    return error


def _say(outcome: Outcome, options: dict[str, Any]) -> None:
    if options["as_json"]:
        counts = {name: getattr(outcome, name) for name in _COUNTS}
        print_json({**counts, "notes": outcome.notes, "dry_run": options["dry_run"]})
        return
    for note in outcome.notes:
        click.echo(f"note: {plain(note)}", err=True)
    if outcome.refused + outcome.differ > NAMED:
        click.echo(f"note: and {outcome.refused + outcome.differ - NAMED} more", err=True)
    if options["dry_run"]:
        click.echo(f"{outcome.found} retained messages")
        return
    text = f"{outcome.stored} of {outcome.found} retained messages are here now"
    for count, said in (
        (outcome.same, "of them were so before"),
        (outcome.kept, "were here before and stay"),
        (outcome.gone, "were deleted meanwhile"),
        (outcome.refused, "were refused"),
        (outcome.differ, "differ"),
    ):
        text += f"; {count} {said}" if count else ""
    click.echo(text)

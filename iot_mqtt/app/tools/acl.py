"""``iot-mqtt acl``: look at ACL files, and make one of mosquitto's, without a node."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from iot_mqtt.app.rights_question import answer_and_exit, question_options
from iot_mqtt.app.terminal import plain

_FILE = click.Path(exists=True, dir_okay=False)
#: As ``auth.explaining.QUESTIONS`` has them; a test compares.
ACTIONS = (
    "publish",
    "subscribe",
    "receive",
    "replay",
    "command",
    "shadow-read",
    "shadow-write",
    "client",
    "gateway",
)


@click.group("acl")
def acl_group() -> None:
    """Check ACL files, ask them, and make one of mosquitto's."""


@acl_group.command("import")
@click.argument("file", type=_FILE)
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="Write it there, and not to standard output.")
@click.option("--strict", is_flag=True, help="Write nothing if there is anything to note.")
def acl_import(file: str, output: str | None, strict: bool) -> None:
    """Make an ACL file of FILE, which mosquitto reads.

    What may be published and received is the same. What cannot be said becomes narrower, never wider, and a note about
    it goes to standard error. A subscription is refused unless all of it may be read, where mosquitto accepts it and
    leaves messages out; lines that show it are noted, too.
    """
    from iot_mqtt.auth.acl import parse_rules
    from iot_mqtt.auth.files import FileError, read_text
    from iot_mqtt.auth.mosquitto_acl import import_acl

    try:
        found = import_acl(read_text(file), file)
        parse_rules(found.text, output or "-")
    except FileError as error:
        raise click.ClickException(str(error)) from error
    for note in found.notes:
        click.echo(f"note: {plain(note)}", err=True)
    if strict and found.notes:
        raise click.ClickException("nothing was written")
    if output is None:
        sys.stdout.write(found.text)
    else:
        Path(output).write_text(found.text, encoding="utf-8")


@acl_group.command("check")
@click.argument("file", type=_FILE)
def acl_check(file: str) -> None:
    """Say whether FILE is an ACL file that a node would take."""
    from iot_mqtt.auth.acl import parse_rules
    from iot_mqtt.auth.files import FileError, read_text

    try:
        rules = parse_rules(read_text(file), file)
    except FileError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{rules.count} rules in {rules.sections} sections")


@acl_group.command("explain")
@click.argument("file", type=_FILE)
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("asked")
@question_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def acl_explain(
    file: str,
    action: str,
    asked: str,
    client_id: str,
    user: str | None,
    groups: tuple[str, ...],
    address: str,
    rules: tuple[str, ...],
    qos: int,
    retain: bool,
    as_json: bool,
) -> None:
    """Say whether a client may do ACTION with ASKED by the ACL file FILE, and which rule says so.

    ASKED is a topic, a filter, the target of a command or shadow, or a name. Exit code 1: it may not.
    """
    from dataclasses import asdict

    from iot_mqtt.auth.acl import parse_brought, parse_rules
    from iot_mqtt.auth.explaining import Question, answer
    from iot_mqtt.auth.files import FileError, read_text
    from iot_mqtt.auth.sections import Book
    from iot_mqtt.ports.access import Principal

    who = Principal(client_id, user, user is None, groups=frozenset(groups), address=address, brought_rules=rules)
    try:
        book = Book([parse_rules(read_text(file), file)], parse_brought)
        found = answer(book.of(who), who, Question(action, asked, qos, retain))
    except (FileError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    answer_and_exit(asdict(found), as_json=as_json)

"""``iot-mqtt ctl uplink rules | test | reload``: what goes where, what would go where, and changing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from iot_mqtt.app.config.yaml_loader import yaml_of
from iot_mqtt.app.ctl.command import on_node, say_missing, target_options
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.target import Target
from iot_mqtt.app.terminal import (
    Column,
    Json,
    NumberRange,
    field,
    fields,
    moment,
    number,
    numbers,
    plain,
    print_items,
    print_json,
    print_text,
)
from iot_mqtt.uplink.desk import MAX_TRIED, TRIED
from iot_mqtt.uplink.rules import Rule, rules_of
from iot_mqtt.uplink.trial import Trial, message_of

#: Lines of a file that are wrong and told one by one.
_WRONG_SHOWN = 3
#: Seconds that a node may take for a dry run.
_PATIENCE = 120.0
_CONDITIONS = ("gateway", "device", "codec", "when")


def _asks(item: Json) -> str:
    found = [f"{name} {plain(item[name])}" for name in _CONDITIONS if item[name] is not None]
    if item["qos"]:
        found.append(f"qos {item['qos']}")
    return ", ".join(found) or "-"


_RULES = (
    number("number", "NO"),
    field("filter"),
    Column("AND", _asks),
    *fields(to="TO", mode="MODE", key="KEY"),
    *numbers(matched="MATCHED", sent="SENT"),
)


@click.command("rules")
@on_node
def uplink_rules(node: Node, as_json: bool) -> None:
    """The rules in force, in the order in which they are tried.

    MATCHED: messages that came to a rule, because filter and QoS fit and no rule before it took them. SENT: those of
    them that it sent up. What a sink gets again counts again.
    """
    found = node.get("uplink", "rules")
    if as_json:
        print_json(found)
        return
    print_items(_RULES, found["items"], as_json)
    if found["earlier"]:
        click.echo(f"messages that were recorded before go by {found['earlier']} earlier sets of rules")
    if found["turned_away"]:
        click.echo(f"! templates made {found['names']} topics; {found['turned_away']} records went to 'other' instead")


@click.command("reload")
@on_node
def uplink_reload(node: Node, as_json: bool) -> None:
    """Read uplink.rules anew, from where the node was started: file, environment and --set.

    Rules with mistakes change nothing. What was recorded before goes by the rules of before. In a cluster, do it at
    every node.
    """
    found = node.post("uplink", "reload", body={})
    print_text(found, as_json, "\n".join(_reloaded(found)))


def _reloaded(found: Json) -> Iterator[str]:
    if not found["changed"]:
        yield f"nothing has changed: {found['rules']} rules as before"
    else:
        yield f"{found['rules']} rules are in force now"
    for name, sign in (("removed", "-"), ("added", "+")):
        for rule in found[name]:
            yield f"{sign} {plain(rule)}"
    if found["reordered"]:
        yield "the others are in another order"
    if found["waiting"]:
        yield f"{found['waiting']} messages wait, under the rules of before"
    for note in found["notes"]:
        yield f"note: {plain(note)}"


@click.command("test")
@click.option(
    "--rules",
    "rules_file",
    type=click.Path(exists=True, dir_okay=False),
    help="YAML or JSON: a list of rules, or a configuration with uplink.rules. Without it, the rules in force.",
)
@click.option(
    "--file",
    "records_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Try them on records that the uplink wrote, one a line, instead of the node's log.",
)
@click.option(
    "--messages",
    type=click.IntRange(min=1, max=MAX_TRIED),
    default=TRIED,
    show_default=True,
    help="The last so many messages of the log, or lines of the file.",
)
@click.option("--minutes", type=NumberRange(min=0, min_open=True), help="Only what came in these last minutes.")
@target_options
@click.pass_context
def uplink_test(
    context: click.Context,
    rules_file: str | None,
    records_file: str | None,
    messages: int,
    minutes: float | None,
) -> None:
    """Say what rules would do with messages that were recorded, and what would be different from now.

    Nothing is sent. The log only has what a rule in force, a durable session or log.record has kept. With --file and
    --rules no node is needed; if none is found, nothing is compared.
    """
    target = context.ensure_object(Target)
    entries = None if rules_file is None else _entries_of(rules_file)
    if records_file is None:
        body = {"rules": entries, "messages": messages, "minutes": minutes}
        node = target.connect()
        found = node.post("uplink", "test", body=body, patience=_PATIENCE)
        node.note_missing(found)
        say_missing(node.missing)
    else:
        found = _tried_here(target, entries, Path(records_file), messages, minutes)
    print_text(found, target.as_json, "\n".join(_report(found)))


def _entries_of(path: str) -> list[dict[str, Any]]:
    """Rules of a file, not checked yet."""
    try:
        value = yaml_of(Path(path).read_bytes())
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise CtlError(f"{path} cannot be read: {error}") from error
    if isinstance(value, dict):
        section = value.get("uplink")
        value = section.get("rules") if isinstance(section, dict) else None
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise CtlError(f"{path} must be a list of rules, or a configuration that has uplink.rules")
    return value


def _rules_of(entries: list[dict[str, Any]]) -> list[Rule]:
    rules, wrong = rules_of(entries)
    if wrong:
        raise CtlError("\n".join(wrong))
    return rules


def _tried_here(
    target: Target, entries: list[dict[str, Any]] | None, path: Path, messages: int, minutes: float | None
) -> dict[str, Any]:
    if minutes is not None:
        raise CtlError("--minutes is about the log; it does not go with --file")
    try:
        now = _in_force(target)
    except CtlError:
        if entries is None:
            raise
        now = None
    then = _rules_of(entries) if entries is not None else now
    assert then is not None
    trial, notes, wrong = Trial(then, now), list[str](), 0
    with path.open("rb") as file:
        for line_number, line in enumerate(file, start=1):
            if line_number - wrong > messages:
                notes.append(f"only the first {messages} lines were tried; --messages says how many")
                break
            try:
                trial.add(message_of(line.rstrip(b"\r\n")))
            except ValueError as error:
                wrong += 1
                if wrong <= _WRONG_SHOWN:
                    notes.append(f"line {line_number} {error}")
    if wrong > _WRONG_SHOWN:
        notes.append(f"{wrong - _WRONG_SHOWN} further lines are no records either")
    if now is None:
        notes.append("no node was found: it is not known what is different from now")
    return asdict(trial.result(*notes))


def _in_force(target: Target) -> list[Rule]:
    """The node's rules."""
    names = ("filter", *_CONDITIONS, "qos", "to", "mode", "key")
    return _rules_of(
        [
            {name: item[name] for name in names if item[name] is not None}
            for item in target.connect().get("uplink", "rules")["items"]
        ]
    )


def _report(found: Json) -> Iterator[str]:
    span = f", {moment(found['first_at'])} to {moment(found['last_at'])}" if found["first_at"] is not None else ""
    yield f"{found['messages']} messages{span}"
    for rule in found["rules"]:
        yield ""
        yield f"rule {rule['number']}: {plain(rule['rule'])}"
        passed = rule["matched"] - rule["sent"]
        yield f"  {rule['sent']} go up by it" + (f", {passed} do not meet its conditions" if passed else "")
        for name, count in sorted(rule["to"].items(), key=lambda one: -one[1]):
            yield f"    {count} to {plain(name)}"
        yield from _examples(rule["examples"])
    yield ""
    yield f"{found['unmatched']} go up by no rule"
    yield from _examples(found["unmatched_examples"])
    if found["changed"] is not None:
        yield ""
        yield from _differences(found)
    for note in found["notes"]:
        yield f"note: {plain(note)}"


def _differences(found: Json) -> Iterator[str]:
    if not found["changed"] and not found["other_keys"]:
        yield "nothing would be different from now"
        return
    yield f"{found['changed']} messages would go another way than now"
    for one in found["differences"]:
        yield f"  {one['messages']}: now {plain(one['now'])}, then {plain(one['then'])}"
        yield from _examples([one["example"]])
    if found["other_keys"]:
        yield f"{found['other_keys']} would go the same way with another key"


def _examples(examples: list[Json]) -> Iterator[str]:
    for one in examples:
        key = f", key {plain(one['key'])}" if one["to"] else ""
        yield f"    such as {plain(one['topic'])} from {plain(one['client'])}{key}: {plain(one['payload'])}"


#: For the group ``uplink``.
COMMANDS = (uplink_rules, uplink_test, uplink_reload)

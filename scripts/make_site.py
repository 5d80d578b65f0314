#!/usr/bin/env python3
"""The documentation as a site: ``build`` it into build/site, strictly.

The pages of ``docs/`` stay as they are; ``mkdocs.yml`` arranges them. What can be read from the program is written
here: the keys, the API and the metrics of a node (one is started for it), the commands, the reason codes. Links to
what is no page of the site lose their address and keep their words.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import yaml

from iot_mqtt.app.cli import main as command_line
from iot_mqtt.app.config import schema
from iot_mqtt.app.config.reading import default_of
from iot_mqtt.app.config.sections import known_listeners
from iot_mqtt.app.config.text import document
from iot_mqtt.app.lazy import LazyCommand
from iot_mqtt.errors import ReasonCode

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "pages"
#: Files of the checkout that are pages, too.
OTHERS = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "cluster/gateway/PROTOCOL.md": "cluster-gateway.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|mailto:)([^)\s]+)\)")
#: Seconds until a node is ready.
PATIENCE = 60.0
HEAD = "<!-- Made by scripts/make_site.py from the program itself. -->\n"


def main() -> int:
    """Pages, then the site; what mkdocs warns of is a failure."""
    shutil.rmtree(PAGES, ignore_errors=True)
    places = {path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix() for path in pages()}
    places |= {name: target for name, target in OTHERS.items() if (ROOT / name).exists()}
    for source, target in places.items():
        write(target, relinked(ROOT / source, target, places))
    write("reference/configuration.md", "".join(configuration()))
    write("reference/commands.md", "".join(commands()))
    write("reference/reasons.md", "".join(reasons()))
    description, metrics = of_a_node()
    write("reference/api.md", "".join(api(description)))
    write("reference/metrics.md", "".join(metrics_page(metrics)))
    (PAGES / "reference" / "openapi.json").write_text(json.dumps(description, indent=1), encoding="utf-8")
    decisions = sorted(target for target in places.values() if target.startswith("adr/"))
    write("adr/index.md", "".join(index_of(decisions)))
    config = arranged([target for target in places.values() if target not in decisions], decisions)
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(config)]
    return subprocess.run(build, cwd=ROOT, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


def pages() -> list[Path]:
    return sorted((ROOT / "docs").rglob("*.md"))


def write(name: str, text: str) -> None:
    path = PAGES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def relinked(source: Path, target: str, places: Mapping[str, str]) -> str:
    """A page with its links as they are in the site; what leads out of it is words alone."""

    def link(found: re.Match[str]) -> str:
        name, mark, anchor = found[2].partition("#")
        if not name:
            return found[0]
        there = os.path.relpath(os.path.normpath(source.parent / name), ROOT)
        place = places.get(there)
        if place is None:
            if not (ROOT / there).exists():
                raise SystemExit(f"{source.relative_to(ROOT)} links to {name}, which does not exist")
            return found[1]
        return f"[{found[1]}]({os.path.relpath(place, Path(target).parent)}{mark}{anchor})"

    return LINK.sub(link, source.read_text(encoding="utf-8"))


def index_of(decisions: list[str]) -> Iterator[str]:
    """The decisions by their titles."""
    yield "# Decisions\n\n"
    for target in decisions:
        yield f"- [{title_of(target)}]({Path(target).name})\n"


def title_of(target: str) -> str:
    return (PAGES / target).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def arranged(found: list[str], decisions: list[str]) -> Path:
    """``mkdocs.yml`` with all decisions in it; pages that it does not name yet stand behind those that say how to."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    (how_to,) = (part["How to"] for part in config["nav"] if "How to" in part)
    named = set(re.findall(r"[\w/-]+\.md", json.dumps(config["nav"])))
    how_to += [target for target in found if target not in named]
    config["nav"].append({"Decisions": ["adr/index.md", *decisions]})
    config |= {"docs_dir": str(PAGES), "site_dir": str(ROOT / "build" / "site")}
    path = ROOT / "build" / "mkdocs.yml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


# What the program says of itself.


def configuration() -> Iterator[str]:
    """Every key, by section."""
    yield f"{HEAD}# Configuration\n\nEvery key with its default. "
    yield "`iot-mqtt config explain KEY` says where a value is from.\n"
    listeners = known_listeners()
    for key in schema.keys(listeners, sections=True):
        parts = key.split(".")
        if parts[0] == "listeners" and len(parts) > 2 and parts[1] != "mqtt":
            continue
        if schema.is_section(schema.find(key, listeners)):
            yield f"\n{'#' * min(len(parts) + 1, 4)} {key}\n\n{prose(document(key))}\n\n"
        else:
            value = json.dumps(plain(default_of(key)), ensure_ascii=False)
            yield f"**`{key}`** = `{value}`\n: {prose(document(key))}\n\n"


def plain(value: object) -> object:
    return (
        value
        if isinstance(value, str | int | float | bool | None)
        else list(value)
        if isinstance(value, tuple)
        else str(value)
    )


def prose(text: str) -> str:
    """As a paragraph of Markdown: what looks like HTML, or like emphasis, is neither."""
    return re.sub(r"([<>*_$|])", r"\\\1", text)


def commands() -> Iterator[str]:
    """Every command with its help."""
    yield f"{HEAD}# Commands\n\n`iot-mqtt COMMAND --help` says the same.\n"
    context = click.Context(command_line, info_name="iot-mqtt", max_content_width=100, terminal_width=100)
    yield from helped(command_line, context)


def helped(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if isinstance(below, LazyCommand):
                below = below.load()
            if below is not None and not below.hidden:
                yield from helped(below, click.Context(below, context, name, max_content_width=100, terminal_width=100))


def reasons() -> Iterator[str]:
    """Reason codes of MQTT 5, and the reasons of ours that stand in metrics and API."""
    yield f"{HEAD}# Reason codes\n\n## MQTT 5\n\nMQTT 3 knows 0x80 in SUBACK, and five codes in CONNACK.\n\n"
    yield "| code | name |\n|---|---|\n"
    for code in ReasonCode:
        yield f"| 0x{code:02X} | {code.name.replace('_', ' ').lower()} |\n"
    for title, name, file in (
        ("Messages that did not reach a receiver (`dropped`)", "Drop", "iot_mqtt/ports/counters.py"),
        ("Messages that did not leave for another node", "LinkDrop", "iot_mqtt/ports/counters.py"),
        ("Publishers that were held off (`messages_refused`)", "Pause", "iot_mqtt/broker/publishing/budget.py"),
    ):
        yield f"\n## {title}\n\n| reason | |\n|---|---|\n"
        for value, comment in members(ROOT / file, name):
            yield f"| `{value}` | {prose(comment)} |\n"


def members(file: Path, name: str) -> Iterator[tuple[str, str]]:
    """The values of an enumeration of texts, with the comment beside each, or above it."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    (found,) = (one for one in ast.parse(text).body if isinstance(one, ast.ClassDef) and one.name == name)
    for one in found.body:
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant):
            above = lines[one.lineno - 2].strip()
            beside = lines[one.lineno - 1].partition("#")[2].strip()
            yield str(one.value.value), beside or (above.removeprefix("#: ") if above.startswith("#") else "")


def of_a_node() -> tuple[dict[str, Any], str]:
    """The description of the API and the metrics of a node that has just begun."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [f"--set=listeners.{name}.port=0" for name in ("mqtt", "ws", "gateway")]
        command = [
            sys.executable,
            "-m",
            "iot_mqtt",
            "serve",
            *sets,
            "--set=admin.port=0",
            f"--set=node.data_dir={folder}",
        ]
        node = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            assert node.stdout is not None
            deadline = time.monotonic() + PATIENCE
            ready = next((line for line in node.stdout if line.startswith("ready") or time.monotonic() > deadline), "")
            (port,) = re.findall(r"admin=\S*?:(\d+)", ready)
            token = (Path(folder) / "admin.token").read_text().strip()
            asked = urllib.request.Request(
                f"http://127.0.0.1:{port}/api/v1/openapi.json", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(asked, timeout=10) as answer:
                description: dict[str, Any] = json.load(answer)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return description, answer.read().decode()
        finally:
            node.terminate()
            node.wait()


def api(description: Mapping[str, Any]) -> Iterator[str]:
    """Every call with what it takes and answers."""
    yield f"{HEAD}# API\n\nBelow `/api/v1`, for holders of a token. "
    yield "[The description](openapi.json) is OpenAPI 3.1, and made by the node.\n"
    for path, methods in description["paths"].items():
        for method, call in methods.items():
            yield f"\n## {method.upper()} `{path}`\n\n{prose(call.get('summary', ''))}\n\n"
            for one in call.get("parameters", ()):
                yield f"- `{one['name']}` ({one['in']}): {prose(one.get('description', ''))}\n"
            if body := call.get("requestBody"):
                yield f"\nBody: {named(body)}\n"
            answers = [
                f"{status} {named(answer)}".strip() for status, answer in call["responses"].items() if status[0] == "2"
            ]
            yield f"\nAnswers: {'; '.join(answers)}\n"
    yield "\n## Values\n"
    for name, one in description["components"]["schemas"].items():
        yield f"\n### {name}\n\n{prose(one.get('description', ''))}\n\n"
        if one.get("properties"):
            yield "| field | type | |\n|---|---|---|\n"
        for field, told in one.get("properties", {}).items():
            yield f"| `{field}` | {kind(told)} | {prose(told.get('description', ''))} |\n"


def named(part: Mapping[str, Any]) -> str:
    """The schema that a body or an answer has, as a link."""
    found = re.findall(r"#/components/schemas/(\w+)", json.dumps(part.get("content", {})))
    return ", ".join(f"[{name}](#{name.lower()})" for name in dict.fromkeys(found)) or (
        "JSON" if part.get("content") else ""
    )


def kind(told: Mapping[str, Any]) -> str:
    """The type of a field in a word or two."""
    if reference := told.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if told.get("type") == "array":
        return f"list of {kind(told.get('items', {}))}"
    if "enum" in told:
        return " \\| ".join(f"`{one}`" for one in told["enum"])
    types = told.get("type", "any")
    return types if isinstance(types, str) else " or ".join(types)


def metrics_page(text: str) -> Iterator[str]:
    """Every family that a node by itself exports, and those that others write down in the source."""
    yield f"{HEAD}# Metrics\n\n`GET /metrics` of the admin port, as Prometheus reads them.\n\n"
    yield "| metric | type | |\n|---|---|---|\n"
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    for name in sorted(helps):
        yield f"| `{name}` | {kinds.get(name, '')} | {prose(helps[name])} |\n"
    known = {name.removesuffix("_total") for name in helps}
    further = {name: told for name, told in in_the_source() if name.removesuffix("_total") not in known}
    if further:
        yield "\nNodes of a cluster, and parts that are turned on, have these, too:\n\n| metric | |\n|---|---|\n"
        for name in sorted(further):
            yield f"| `{name}` | {prose(further[name])} |\n"


def in_the_source() -> Iterator[tuple[str, str]]:
    """Names of metrics that stand beside a sentence, in calls and in tables of (attribute, name, sentence)."""
    for file in sorted((ROOT / "iot_mqtt" / "metrics").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        tree, lines, prefix = ast.parse(text), text.splitlines(), "iot_mqtt_"
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                if said := re.search(r"name after ``(\w+)``", lines[node.lineno - 2]):
                    prefix = said[1]
                ending = "_total" if "COUNTERS" in ast.unparse(node.targets[0]) else ""
                for row in map(texts_of, node.value.elts):
                    if len(row) == 3 and all(row):
                        yield f"{prefix}{row[1]}{ending}", row[2]
        for part in ast.walk(tree):
            texts = texts_of(part)
            for name, told in pairwise(texts):
                if re.fullmatch(r"iot_mqtt_[a-z0-9_]+", name) and " " in told:
                    yield name, told


def texts_of(node: ast.AST) -> list[str]:
    """What stands in a tuple or a call; nothing for what is no text."""
    parts = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
    return [one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else "" for one in parts]


if __name__ == "__main__":
    sys.exit(main())

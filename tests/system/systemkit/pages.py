"""The commands of the documentation, run as a reader types them, against a broker with ports of its own.

A block is what a page has indented or fenced as ``sh``, if a line of it begins with a program of ours. Directly above
it, in a comment of HTML, a page may say::

    <!-- first: COMMAND -->            what is done before it, that readers have done already
    <!-- not run: REASON -->           why nobody can do it here
    <!-- run by: tests/…::test_… -->   who does it

A line that begins with ``$`` is a command, and what stands behind it is what it prints: figures and times may be
others, words may not. In a table only its columns count, and there may be more; of lines with a word and what it is,
the word; of lines that begin with a time, nothing. Where a comment speaks of exit code 1, that is no failure.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from systemkit.forking import clean_environment
from systemkit.process import BrokerProcess

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = (
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
)
#: What makes lines a block of commands.
PROGRAM: Final = re.compile(
    r"(\$ )?((\.venv/bin/)?(iot-mqtt|python|pre-commit)|mosquitto_[ps]ub|curl|make|docker|kubectl|git|node|pip"
    r"|systemctl|spark-submit|pytest|cd) \S"
)
MARK: Final = re.compile(r"<!-- (first|not run|run by): (.+) -->")
#: A line that no two runs print.
TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:")
#: What runs until it is stopped: in the background, to the end of its block.
ENDLESS: Final = re.compile(r"(mosquitto_sub|iot-mqtt sub) (?!.*( -C | -E\b))|node ")
SERVE: Final = re.compile(r"(\.venv/bin/)?iot-mqtt serve ")
#: What a reader types where he is asked for a password.
PASSWORD: Final = "correct horse battery staple"
#: The ports that pages speak of, and the names of a broker's own.
PORTS: Final = {"1883": "mqtt", "8083": "ws", "9600": "gateway", "18083": "admin"}


@dataclass(frozen=True, slots=True)
class Command:
    """What is typed, and what a page says that it prints."""

    text: str
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that stand together, and what the page says of running them."""

    page: Path
    line: int
    commands: list[Command]
    marks: list[tuple[str, str]]

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def marked(self, kind: str) -> list[str]:
        return [text for one, text in self.marks if one == kind]


def blocks(page: Path) -> Iterator[Block]:
    """Those of a page, in their order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        line, start = lines[at], at
        if line.startswith("```"):
            at = end = next(number for number in range(at + 1, len(lines)) if lines[number].startswith("```"))
            at += 1
            body = lines[start + 1 : end] if line in ("```sh", "```console") else []
        elif line.startswith("    ") and (not start or not lines[start - 1].strip() or MARK.match(lines[start - 1])):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            body = [one[4:] for one in lines[start:at]]
        else:
            at += 1
            continue
        if any(PROGRAM.match(one) for one in body):
            yield Block(page, start + 1, list(_commands(body)), _marks(lines, start))


def _marks(lines: list[str], start: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in reversed(lines[:start]):
        if line.strip() and (mark := MARK.fullmatch(line)) is None:
            break
        if line.strip():
            assert mark is not None
            found.insert(0, (mark[1], mark[2]))
    return found


def _commands(body: list[str]) -> Iterator[Command]:
    """Each with its continuations; where there are prompts, with its output."""
    prompts, left = any(line.startswith("$ ") for line in body), list(body)
    found: Command | None = None
    while left:
        line = left.pop(0)
        if prompts and not line.startswith("$ "):
            if found is not None and line.strip():
                found.shown.append(line)
            continue
        if not line.strip() or line.startswith("#"):
            continue
        text = line.removeprefix("$ ")
        while text.endswith("\\"):
            text += "\n" + left.pop(0)
        if here := re.search(r"<<'?(\w+)'?$", text):
            while not text.endswith(f"\n{here[1]}"):
                text += "\n" + left.pop(0)
        if found is not None:
            yield found
        found = Command(text)
    if found is not None:
        yield found


def unlike(shown: list[str], printed: str) -> list[str]:
    """Lines of a page that a program does not print so."""
    rows = {_plain(line) for line in printed.splitlines()}
    words = {line.split("  ")[0].strip() for line in printed.splitlines()}
    table = False
    missing = []
    for line in shown:
        if line.startswith(("...", "! ")) or TIME.match(line):
            continue
        if re.match(r"[A-Z]{2,}", line) and line.upper() == line:
            table = True
            if not any(set(line.split()) <= set(row.split()) for row in printed.splitlines()):
                missing.append(line)
        elif not table and _plain(line) not in rows and line.split("  ")[0].strip() not in words:
            missing.append(line)
    return missing


def _plain(line: str) -> str:
    """Without what differs from run to run."""
    return " ".join(re.sub(r"\S*\d\S*", "0", line).split())


class Desk:
    """A folder in which commands are typed; its programs know the broker's ports."""

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self._folder = folder
        self._broker = broker
        self._tools = folder / ".venv" / "bin"
        self._tools.mkdir(parents=True)
        (folder / "data").symlink_to(broker.data_dir)
        for name in ("examples", "iot_mqtt", "spark"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copy(ROOT / "application.yaml", folder)
        ports = " ".join(f"--set listeners.{name}.port=0" for name in ("mqtt", "ws", "gateway"))
        own = f"--set node.data_dir={folder}/other --set admin.port=0 {ports}"
        python = f'exec {sys.executable} -m iot_mqtt "$@"'
        self._tool("iot-mqtt", f'case "$1" in serve) set -- "$@" {own};; esac; {python}')
        for name in ("mosquitto_pub", "mosquitto_sub"):
            there, port = shutil.which(name), broker.ports["mqtt"]
            self._tool(name, f'case " $* " in *" -p "*) ;; *) set -- -p {port} "$@";; esac; exec {there} "$@"')
        for name in ("python", "pytest", "pip"):
            self._tool(name, f'exec {Path(sys.executable).with_name(name)} "$@"')

    def _tool(self, name: str, script: str) -> None:
        path = self._tools / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, block: Block) -> list[str]:
        """Type a block; what did not go as the page says."""
        script, folder = [_PRELUDE], self._folder / f"{block.page.stem}-{block.line}"
        folder.mkdir()
        for number, text in enumerate(block.marked("first")):
            script.append(f"go {folder}/first-{number} <<'TYPED'\n{self._with_ports(text)}\nTYPED")
        for number, command in enumerate(block.commands):
            text = self._with_ports(command.text)
            how = "serve" if SERVE.match(text) else "start" if ENDLESS.match(text) else "go"
            if "Ctrl-C" in text:
                how = "stop"
            script.append(f"{how} {folder}/{number} <<'TYPED'\n{text}\nTYPED")
        script.append("finish; exit $SILENT")
        (folder / "passwords").write_text(f"{PASSWORD}\n" * 8)
        path = folder / "script"
        path.write_text("\n".join(script))
        environment = clean_environment() | {
            "PATH": f"{self._tools}:{os.environ['PATH']}",
            "METRICS": f"http://127.0.0.1:{self._broker.ports['admin']}/metrics",
            "PYTHONPATH": str(ROOT),
        }
        with (folder / "passwords").open() as passwords:
            done = subprocess.run(
                ["bash", str(path)],
                cwd=self._folder,
                env=environment,
                stdin=passwords,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        faults = [done.stderr] if done.returncode else []
        for number, command in enumerate(block.commands):
            faults += self._look(command, folder / str(number))
        return [f"{block.place}: {fault}" for fault in faults]

    def _look(self, command: Command, base: Path) -> Iterator[str]:
        code, out = base.with_suffix(".code"), base.with_suffix(".out")
        printed = out.read_text(errors="replace") if out.exists() else ""
        good = ("0", "1") if "exit code 1" in command.text else ("0",)
        if not code.exists() or code.read_text().strip() not in good:
            yield f"{command.text!r} fails: {printed[-600:]}"
        for line in unlike(command.shown, printed):
            yield f"{command.text!r} does not print {line!r} but\n{printed[:1500]}"

    def _with_ports(self, text: str) -> str:
        return re.sub(r"\b(1883|8083|9600|18083)\b", lambda found: str(self._broker.ports[PORTS[found[1]]]), text)


#: ``go``: to its end. ``start``: in the background, until the broker has it, to the end of the block. ``stop``: the
#: same, and then Ctrl-C. ``serve``: until it is ready, and then SIGTERM. Each leaves its output and its exit code.
_PRELUDE: Final = """
exec 3<&0; set -m; PIDS=""
there() {
  local what=connections_opened_total
  grep -q mosquitto_sub "$1" && what='packets_received_total.*"SUBSCRIBE"'
  curl -sf "$METRICS" | grep "^iot_mqtt_$what"
}
go() { cat > "$1.typed"; . "$1.typed" > "$1.out" 2>&1 <&3; echo $? > "$1.code"; }
begin() {
  cat > "$1.typed"; local before; before=$(there "$1.typed")
  bash "$1.typed" > "$1.out" 2>&1 & PIDS="$PIDS $!"
  for _ in $(seq 200); do [ "$(there "$1.typed")" != "$before" ] && break; sleep 0.05; done
  echo 0 > "$1.code"
}
start() { begin "$1"; ! grep -q mosquitto_sub "$1.typed" || BACKGROUND="$BACKGROUND $1.out"; }
stop() { begin "$1"; finish; }
serve() {
  cat > "$1.typed"; bash -c "exec $(cat "$1.typed")" > "$1.out" 2>&1 & local pid=$!
  for _ in $(seq 600); do grep -q ^ready "$1.out" && break; sleep 0.05; done
  grep -q ^ready "$1.out"; local found=$?; kill -TERM $pid; wait $pid; echo $((found + $?)) > "$1.code"
}
finish() {
  local out
  for out in $BACKGROUND; do
    for _ in $(seq 200); do [ -s "$out" ] && break; sleep 0.05; done
    [ -s "$out" ] || { echo "nothing came: $(cat "${out%.out}.typed")" >&2; SILENT=1; }
  done
  BACKGROUND=""
  [ -z "$PIDS" ] || { for pid in $PIDS; do kill -INT -$pid 2> /dev/null; done; wait $PIDS 2> /dev/null; PIDS=""; }
}
BACKGROUND="" SILENT=0
"""

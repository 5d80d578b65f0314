"""Tables and forms on a terminal, made of the API's JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from math import isfinite
from typing import Any, Final, TypeVar

import click

#: Column widths come from this many rows; a table of any length starts to print at once.
_MEASURED = 1000
#: No column is made narrower than this to fit a terminal.
_LEAST = 6
#: A larger number may stand for another one: all its digits would say more than is known.
_EXACT = 2.0**53
#: What a person should see first.
_ALARMING = re.compile(r"\b(?:ALARM|DEGRADED|FULL|FAILS?|NOT)\b")

Json = Mapping[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])
_uncut = False


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and what stands below it."""

    title: str
    text: Callable[[Json], str]
    right: bool = False


def field(name: str, title: str | None = None) -> Column:
    """A field of the item as it is."""
    return Column(title or name.upper().replace("_", " "), lambda item: plain(item[name]))


def number(name: str, title: str | None = None) -> Column:
    """A figure, ranged right."""
    return Column(title or name.upper().replace("_", " "), lambda item: plain(item[name]), right=True)


def fields(**titles: str) -> tuple[Column, ...]:
    """Fields as they are, with their titles."""
    return tuple(field(name, title) for name, title in titles.items())


def numbers(**titles: str) -> tuple[Column, ...]:
    """Figures, with their titles."""
    return tuple(number(name, title) for name, title in titles.items())


def at(name: str, title: str) -> Column:
    """A wall-clock time."""
    return Column(title, lambda item: moment(item[name]))


def amount(name: str, title: str | None = None) -> Column:
    """Bytes, ranged right."""
    return Column(title or name.upper(), lambda item: size(item[name]), right=True)


#: Whose it is, of several nodes.
NODE = Column("NODE", lambda item: plain(item.get("node")))


def table(columns: tuple[Column, ...], items: Iterable[Json], width: int | None = None) -> Iterator[str]:
    """The lines of a table, heading first, in ``width`` columns of the terminal if that can be."""
    rows = ([column.text(item) for column in columns] for item in items)
    measured = list(islice(rows, _MEASURED))
    titles = [column.title for column in columns]
    widths = [max(map(_width, texts)) for texts in zip(titles, *measured, strict=True)]
    if width is not None:
        _narrow(widths, [_width(title) for title in titles], width)
    for row in chain([titles], measured, rows):
        cells = (
            _cell(text if width is None else _cut(text, most), most, column)
            for text, most, column in zip(row, widths, columns, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _narrow(widths: list[int], least: list[int], width: int) -> None:
    """Take from the widest columns, as far as their titles, what is too much for the width."""
    over = sum(widths) + 2 * (len(widths) - 1) - width
    while over > 0:
        room = [size if size > max(floor, _LEAST) else 0 for size, floor in zip(widths, least, strict=True)]
        widest = max(room)
        if not widest:
            return
        widths[room.index(widest)] -= 1
        over -= 1


def _cut(text: str, width: int) -> str:
    """The text in at most so many columns; an ellipsis stands for what is left out."""
    if _width(text) <= width:
        return text
    kept: list[str] = []
    left = width - 1
    for character in text:
        left -= _width(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "\N{HORIZONTAL ELLIPSIS}"


def form(pairs: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Names and values, one pair a line."""
    listed = list(pairs)
    width = max((_width(name) for name, _ in listed), default=0)
    for name, value in listed:
        yield f"{name}{' ' * (width - _width(name))}  {plain(value)}"


def plain(value: object) -> str:
    """A value for people. Control characters are spelled out: a client id may hold an escape sequence."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) <= _EXACT else repr(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(name)} {plain(item)}" for name, item in sorted(value.items())) or "-"
    if isinstance(value, list):
        return "; ".join(map(plain, value)) or "-"
    return "".join(_printable(character) for character in str(value))


def moment(seconds: float | None) -> str:
    """A wall-clock time, in UTC."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def span(seconds: float) -> str:
    """How long, in its two largest units; nothing where clocks differ and it is yet to come."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount or (unit == "s" and not parts):
            parts.append(f"{amount} {unit}")
    return " ".join(parts[:2])


def size(count: float) -> str:
    """Bytes, in the largest unit that keeps a digit before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


_LEVELS: Final = {"none": "there is room", "alarm": "ALARM", "full": "FULL: what would be stored is refused"}


def room(used: int, limit: int, level: str, free: int | None = None) -> str:
    """Bytes that are used, those that may be, and those that the file system still has."""
    if not limit and not used:
        return "not used"
    left = "" if free is None else f", {size(free)} free"
    said = _LEVELS.get(level, level)
    if not limit and free is not None:
        # Others have filled the file system; a share of nothing would say nothing.
        return f"{size(used)}{left}, all of it kept by log.disk_reserve; {said}"
    share = f" ({100 * used // limit} %)" if limit and used <= limit else ""
    return f"{size(used)} of {size(limit)}{share}{left}; {said}"


def print_items(columns: tuple[Column, ...], items: Iterable[Json], as_json: bool) -> None:
    if as_json:
        print_json(list(items))
        return
    width = _terminal_width()
    for number, line in enumerate(table(columns, items, width)):
        click.echo(click.style(line, bold=True) if not number and coloured() else line)


def print_one(item: Json, as_json: bool) -> None:
    if as_json:
        print_json(item)
        return
    print_form((name.replace("_", " "), _shown(name, value)) for name, value in item.items())


def print_columns(columns: tuple[Column, ...], item: Json, as_json: bool) -> None:
    """One item, with what stands in the columns of its list."""
    print_screen(item, as_json, lambda item: ((column.title.lower(), column.text(item)) for column in columns))


def _shown(name: str, value: object) -> str:
    if name.endswith("_at") and isinstance(value, int | float):
        return moment(value)
    return plain(value)


def print_screen(found: Json, as_json: bool, screen: Callable[[Json], Iterable[tuple[str, object]]]) -> None:
    """An answer as JSON, or what is to be said of it as a form."""
    if as_json:
        print_json(found)
    else:
        print_form(screen(found))


def print_form(pairs: Iterable[tuple[str, object]]) -> None:
    colour = coloured()
    for line in form(pairs):
        click.echo(_ALARMING.sub(_red, line) if colour else line)


def coloured() -> bool:
    """Whether colours are wanted: on a terminal that has them, unless NO_COLOR says no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def uncut(wanted: bool) -> None:
    """Whether tables may be wider than the terminal."""
    global _uncut
    _uncut = wanted


def _terminal_width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() and not _uncut else None


def _red(found: re.Match[str]) -> str:
    return click.style(found[0], fg="red", bold=True)


def print_done(item: Json, as_json: bool) -> None:
    if as_json:
        print_json(item)
        return
    for name, value in item.items():
        click.echo(f"{name} {plain(value)}")


def print_text(found: Json, as_json: bool, text: str) -> None:
    """An answer as JSON, or what is to be said of it."""
    if as_json:
        print_json(found)
    else:
        click.echo(text)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _cell(text: str, width: int, column: Column) -> str:
    padding = " " * (width - _width(text))
    return padding + text if column.right else text + padding


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Options that several commands have, as one decorator."""

    def with_options(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


class NumberRange(click.FloatRange):
    """``nan`` is in no range, though it compares with none of its ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} is no number of its range", param, ctx)
        return number

"""An ACL file of mosquitto, said in our words.

::

    topic …               ─▶ [anonymous]   denied ones, then allowed ones
    user NAME, topic …    ─▶ [user NAME]   the same
    pattern …             ─▶ [all]         the same, behind all others

mosquitto asks the topics of a user first, denied ones before all others, wherever they stand; who is neither denied nor
allowed there goes on to the patterns. A topic that is denied is denied for reading and writing. So it is here: what may
be published, and what may be received, is the same.

What cannot be said is said more narrowly, never more widely, and there is a note about it: of a rule that allows
nothing is left, one that denies has ``+`` where mosquitto is more exact. What is different for every file; of the first
two there is a note wherever a rule shows them:

- mosquitto lets everybody subscribe to everything and leaves out what may not be read; here a subscription is refused
  unless all of it may be read.
- A name with ``/`` in it stands for no level, nor one with ``$`` before it for the first.
- A client without a verified user is anonymous here, whatever it calls itself.
- Reading what is past (``replay``) is a right of its own.

mosquitto may have a file for each listener; here rules are the same at all of them. Where users come in by one and
anonymous clients by another, each kind of client gets the rules of its file (``join_acls``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from iot_mqtt.auth.acl import parse_rule
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.rules import PLACEHOLDERS
from iot_mqtt.errors import MqttError
from iot_mqtt.topics.filters import validate_filter

_ACCESS: Final = ("read", "write", "readwrite", "deny")
_VERBS: Final = {"read": ("allow read",), "write": ("allow publish",), "readwrite": ("allow publish", "allow read")}
#: A client with such a sign in its id has none of the rights of patterns.
_ODD: Final = ("+", "#")
#: Lines that a note names.
_TOLD: Final = 10


class Imported(NamedTuple):
    """The text of an ACL file, and what is different."""

    text: str
    notes: list[str]


class _Line(NamedTuple):
    access: str
    topic: str
    number: int

    @property
    def denies(self) -> bool:
        return self.access == "deny"

    @property
    def reads(self) -> bool:
        return self.access in ("read", "readwrite")


@dataclass(eq=False)
class Acl:
    """What a file of mosquitto's says."""

    #: "": there is no file, and everything is allowed.
    path: str
    #: Each once, in order.
    notes: dict[str, None] = field(default_factory=dict)
    anonymous: list[_Line] = field(default_factory=list)
    users: dict[str, list[_Line]] = field(default_factory=dict)
    patterns: list[_Line] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Each line as mosquitto does; ``FileError`` for one that it does not take."""
        topics = self.anonymous
        for number, line in enumerate(text.split("\n"), start=1):
            line = line.rstrip()
            if not line or line.startswith("#"):
                continue
            word, _, rest = line.lstrip(" ").partition(" ")
            rest = rest.lstrip(" ")
            match word:
                case "user" if rest:
                    topics = self.users.setdefault(rest, [])
                case "topic" if rest:
                    topics.append(self._line(rest, number))
                case "pattern" if rest:
                    self.patterns.append(self._line(rest, number))
                case _:
                    raise FileError(self.path, number, "is none of: user NAME, topic …, pattern …")

    def _line(self, rest: str, number: int) -> _Line:
        access, _, topic = rest.partition(" ")
        topic = topic.lstrip(" ")
        if not topic:
            access, topic = "readwrite", access
        if access not in _ACCESS:
            raise FileError(self.path, number, f"the access is one of {', '.join(_ACCESS)}, not {access}")
        try:
            validate_filter(topic)
        except MqttError as error:
            raise FileError(self.path, number, error.detail) from None
        return _Line(access, topic, number)

    def differences(self) -> Iterator[str]:
        """What is not as it is there for clients that ask for more than a rule says, or are called as no level is."""
        lines = sorted([*self.anonymous, *chain(*self.users.values()), *self.patterns], key=lambda one: one.number)
        shown = [line for line in lines if line.topic != "#" and (line.reads or line.denies)]
        if shown and any(line.reads for line in lines):
            yield (
                f"{self.path}: lines {_numbers(shown)}: a subscription to more than a client may read is refused; "
                "mosquitto accepts it, and leaves out what may not be read"
            )
        named = [line for line in self.patterns if any(mark in line.topic for mark in PLACEHOLDERS)]
        if named:
            yield (
                f"{self.path}: lines {_numbers(named)}: a client id or user with / in it stands for no level, nor one "
                "with $ before it for the first: such patterns allow it nothing, and deny it more"
            )
        if any(not line.denies and "%u" not in line.topic for line in self.patterns):
            yield f"{self.path}: of users with + or # in their names mosquitto denies what only a pattern allows"

    def section(self, header: str, lines: list[_Line], *, plain: bool) -> list[str]:
        """Its rules, denied ones first; ``plain``: placeholders are text like any other."""
        said = [f"[{header}]"]
        for line in sorted(lines, key=lambda one: not one.denies):
            said += self._said(line, plain=plain)
        return [*said, ""] if len(said) > 1 else []

    def _said(self, line: _Line, *, plain: bool) -> list[str]:
        filter = line.topic
        verbs = ("deny all",) if line.denies else _VERBS[line.access]
        if not self._sayable(filter, verbs, plain=plain):
            narrower = "/".join("+" if self._odd(level, plain=plain) else level for level in filter.split("/"))
            if not line.denies or not self._sayable(narrower, verbs, plain=plain):
                self._note(line, "cannot be said; it was left out")
                return []
            self._note(line, f"cannot be said; {narrower} is denied instead, which is more")
            filter = narrower
        return [f"{verb} {filter}" for verb in verbs]

    def _odd(self, level: str, *, plain: bool) -> bool:
        return (any(mark in level for mark in PLACEHOLDERS) and (plain or level not in PLACEHOLDERS)) or " " in level

    def _sayable(self, filter: str, verbs: tuple[str, ...], *, plain: bool) -> bool:
        """Whether our file says just that."""
        if plain and any(mark in filter.split("/") for mark in PLACEHOLDERS):
            return False
        try:
            rules = [parse_rule(f"{verb} {filter}", 1, "") for verb in verbs]
        except (ValueError, MqttError):
            return False
        return all(getattr(rule, "filter", None) == filter for rule in rules)

    def _note(self, line: _Line, what: str) -> None:
        self.notes[f"{self.path}:{line.number}: {line.access} {line.topic} {what}"] = None


def import_acl(text: str, path: str) -> Imported:
    """Read a file of mosquitto's; ``FileError`` names the first line that it would not take."""
    found = read_acl(text, path)
    return join_acls(found, found)


def read_acl(text: str, path: str) -> Acl:
    """What is in a file of mosquitto's; ``FileError`` names the first line that it would not take."""
    found = Acl(path)
    found.read(text)
    for user, lines in found.users.items():
        if user != user.strip() or not user.isprintable():
            raise FileError(path, lines[0].number if lines else None, f"{user!r} can be no user here")
    return found


def no_acl() -> Acl:
    """Where mosquitto has no file, whoever was let in may do everything."""
    return Acl("", patterns=[_Line("readwrite", "#", 0), _Line("readwrite", "$SYS/#", 0)])


def join_acls(users: Acl, strangers: Acl) -> Imported:
    """The rules of one file for users, and those of one for anonymous clients. It may be the same file."""
    apart = strangers is not users
    files = [acl for acl in ([users, strangers] if apart else [users]) if acl.path]
    said = [f"# from {' and '.join(acl.path for acl in files)}, which mosquitto reads", ""] if files else []
    for user, lines in users.users.items():
        said += users.section(f"user {user}", lines, plain=True)
    said += strangers.section("anonymous", strangers.anonymous, plain=True)
    said += _odd_names([line for acl in files for line in acl.patterns])
    if apart or any(line.denies and "%u" in line.topic for line in users.patterns):
        # Without a user, mosquitto passes over patterns with %u. Here, one that denies would deny more.
        nameless = [line for line in strangers.patterns if "%u" not in line.topic]
        said += strangers.section("anonymous", nameless, plain=False)
    if apart:
        said += ["[anonymous]", *_all_denied(users.patterns), ""]
    said += users.section("all", users.patterns, plain=False)
    notes = [note for acl in files for note in (*acl.notes, *acl.differences())]
    return Imported("\n".join(said).rstrip("\n") + "\n", notes)


def _odd_names(patterns: list[_Line]) -> list[str]:
    """mosquitto asks no patterns for clients with wildcards in their ids."""
    if not patterns:
        return []
    denied = _all_denied(patterns)
    return [text for sign in _ODD for text in (f"[client *{sign}*]", *denied, "")]


def _all_denied(patterns: list[_Line]) -> list[str]:
    """Rules that leave nothing to those of patterns behind them."""
    named = sorted({line.topic.partition("/")[0] for line in patterns if line.topic.startswith("$")})
    return ["deny all #", *(f"deny all {level}/#" for level in named)]


def _numbers(lines: list[_Line]) -> str:
    """Where they stand, the first ones of many."""
    told = ", ".join(str(line.number) for line in lines[:_TOLD])
    return told if len(lines) <= _TOLD else f"{told} and {len(lines) - _TOLD} more"

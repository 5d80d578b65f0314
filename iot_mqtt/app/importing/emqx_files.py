"""Files of EMQX 5 in our words: what its API answers, and the file of users that it imports.

::

    [{"user_id": …, "password_hash": …}]          users       as its import of users documents them, or .csv
    {"data": [{"username": …, "rules": […]}]}     acl         GET authorization/sources/built_in_database/rules/…
    {"data": [{"as": …, "who": …}]}               bans.sh     GET banned
    emqx-export-….tar.gz                          all three   emqx ctl data export (``emqx_archive``)

What cannot be said becomes narrower, never wider: a rule that allows is left out, one that denies loses its condition.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from iot_mqtt.app.importing.emqx_archive import SUFFIXES, read_archive
from iot_mqtt.app.importing.imported import Imported, Refused
from iot_mqtt.auth import kinds, salted_hashes
from iot_mqtt.auth.acl import parse_rule
from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.auth.rules import PLACEHOLDERS
from iot_mqtt.auth.users import check_name
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.json_reader import read_json

_PLACES = {"${clientid}": "%c", "${username}": "%u"}
_ACTIONS = {"publish": ("publish",), "subscribe": ("read",), "all": ("publish", "read")}
_RETAIN = {"true": "retain", "false": "noretain", "all": "", "none": ""}
#: Further conditions of a rule, which have no word here.
_CONDITIONS = ("ipaddr", "username_re", "clientid_re", "listener_re", "zone_re", "listener", "zone", "conditions")
_MEETS = "a subscription that meets what is denied is refused here; EMQX accepts it, and sends what is denied, too"
#: What leaves somebody no right.
_NOTHING = ("deny publish #", "deny read #")
_IN_THE_CLEAR = "its password is in the clear, which is not taken over: give it a new one with iot-mqtt passwd"
_OF_BANS = {"clientid": "--client", "username": "--user", "peerhost": "--address", "peerhost_net": "--address"}

Json = Mapping[str, Any]


def import_files(paths: Iterable[str], now: float, hashing: str | None = None) -> Imported:
    """Raises ``Refused``. ``hashing``: how passwords are hashed that are not bcrypt, as ``salted_hashes`` says it."""
    reading = _Reading(now, hashing)
    for path in paths:
        if path.endswith(SUFFIXES):
            reading.take_archive(path)
        else:
            items, meta = _read(path)
            reading.count(path, items, meta)
            reading.take(path, items)
    return reading.result()


@dataclass
class _Answer:
    """A list that the API has, of which a file is one page, or all."""

    #: The last file that has some of it.
    path: str = ""
    #: How many records it has there, if it was told.
    size: int = 0
    found: set[str] = field(default_factory=set)
    ended: bool = False

    def check(self) -> None:
        """Raises ``Refused`` if some of it is missing."""
        if self.ended and len(self.found) >= self.size:
            return
        of_all = f" of {self.size}" if self.size else ""
        follow = ", and more follow" if len(self.found) >= self.size else ""
        raise Refused(
            f"{self.path}: {len(self.found)}{of_all} are in it and its other pages{follow}: "
            "ask for all with ?limit=10000, or give every page (?limit=100&page=2) as a file"
        )


def _read(path: str) -> tuple[Sequence[object], Json]:
    """Records, and what an answer of the API says of its pages."""
    meta: object = None
    try:
        text = read_text(path).removeprefix("\ufeff")
        if not text.strip():
            raise Refused(f"{path}: is empty")
        if path.endswith(".csv"):
            return list(csv.DictReader(io.StringIO(text))), {}
        value = read_json(text.encode())
    except FileError as error:
        raise Refused(str(error)) from error
    except (ValueError, csv.Error) as error:
        place = f": {error.__cause__}" if isinstance(error.__cause__, json.JSONDecodeError) else ""
        raise Refused(f"{path}: {error}{place}") from error
    if isinstance(value, Mapping):
        meta, value = value.get("meta"), value.get("data", [value])
    if not isinstance(value, list):
        raise Refused(f"{path}: is no list of objects")
    return value, meta if isinstance(meta, Mapping) else {}


class _Reading:
    def __init__(self, now: float, hashing: str | None) -> None:
        self._now = now
        self._hashing = hashing
        self._found = Imported()
        #: Their lines, by name.
        self._users: dict[str, str] = {}
        self._sections: dict[str, list[str]] = {}
        #: By what names a record in it.
        self._answers: dict[str, _Answer] = {}

    def count(self, path: str, items: Sequence[object], meta: Json) -> None:
        """Note what a file has of all that there is."""
        if not meta:
            return
        told = meta.get("count")
        size = told if isinstance(told, int) else 0
        named = [one for one in items if isinstance(one, Mapping)]
        of = next((key for one in named for key in ("user_id", "as", "username", "clientid") if key in one), "")
        answer = self._answers.setdefault(of, _Answer())
        answer.path, answer.size = path, max(answer.size, size)
        answer.found.update(json.dumps(item, sort_keys=True) for item in items)
        answer.ended |= meta.get("hasnext") is not True

    def take_archive(self, path: str) -> None:
        """What the tables of an archive have."""
        for items in read_archive(path, lambda text: self._note(f"{path}: {text}")):
            self.take(path, items)

    def take(self, path: str, items: Sequence[object]) -> None:
        """What one file has. A record that is none costs the others nothing."""
        wrong = []
        for number, item in enumerate(items, 1):
            where = f"{path}: record {number}"
            try:
                self._record(where, item)
            except ValueError as error:
                wrong.append(f"{where}: {error}")
        if wrong and len(wrong) == len(items):
            raise Refused(wrong[0])
        self._found.notes += wrong

    def result(self) -> Imported:
        """All files were taken."""
        # A page behind the last one does not say of which list it is.
        behind = self._answers.pop("", None)
        for answer in self._answers.values():
            answer.check()
        if behind is not None and all(one.size != behind.size for one in self._answers.values()):
            behind.check()
        found, sections = self._found, self._sections
        if sections:
            # As they are asked there: those of the client, of the user, of everybody.
            order = sorted(sections, key=lambda one: ("client", "user", "all").index(one.strip("[]").split(" ")[0]))
            found.acl = "".join(f"{one}\n" + "".join(f"{rule}\n" for rule in sections[one]) for one in order)
            found.keys["auth.acl_file"] = "acl"
            found.notes.append("what no rule speaks of is denied here; there authorization.no_match says so")
            if "\ndeny read " in found.acl:
                found.notes.append(_MEETS)
        if found.users is not None:
            found.users = "".join(self._users.values())
            found.keys["auth.users_file"] = "users"
        return found

    def _note(self, text: str) -> None:
        self._found.notes.append(text)

    def _record(self, where: str, item: object) -> None:
        """``ValueError`` says why it is none."""
        if not isinstance(item, Mapping):
            raise ValueError("it is no object")  # noqa: TRY004 - a wrong record, whatever its type
        if None in item:
            raise ValueError("it has more fields than the head of the table")
        for key, take in {"user_id": self._user, "rules": self._rules, "as": self._ban}.items():
            if key in item:
                take(where, item)
                return
        raise ValueError("it has none of user_id, rules and as, and so is no user, no rules and no ban")

    def _user(self, where: str, user: Json) -> None:
        name = _text(user, "user_id")
        if "password_hash" not in user:
            raise ValueError(_IN_THE_CLEAR if "password" in user else "it has no password_hash")
        hashed, salt = _text(user, "password_hash"), _text(user, "salt", "")
        whose, before = f"{where}: user {name!r}", self._users.pop(name, None)
        try:
            check_name(name)
            if user.get("namespace"):
                raise ValueError(f"it is of the namespace {user['namespace']} alone")
            self._users[name] = f"{name}:{_encoded(hashed, salt, self._hashing)}\n"
        except ValueError as error:
            self._note(f"{whose} was left out: {error}")
        else:
            if str(user.get("is_superuser")).lower() == "true":
                self._note(f"{whose}: is_superuser is not taken over: rules say what it may")
        if before not in (None, self._users.get(name)):
            self._note(f"{whose} is there before: the last one counts, as in EMQX")
        self._found.users = ""  # there is a list of them, whoever is left of it

    def _rules(self, where: str, item: Json) -> None:
        keys = [key for key in ("username", "clientid") if key in item]
        if len(keys) > 1 or (not keys and len(item) > 1):
            raise ValueError("nothing says whose its rules are")
        kind = {"username": "user", "clientid": "client"}[keys[0]] if keys else "all"
        name = _text(item, keys[0]) if keys else ""
        whose = f"{kind} {name!r}" if keys else "everybody"
        rules = item["rules"]
        if name != name.strip() or not name.isprintable() or "]" in name or (keys and not name):
            if not isinstance(rules, list) or any(_denies(rule) for rule in rules):
                raise Refused(f"{where}: {whose}: this name cannot stand in an ACL file, and its rules deny something")
            self._note(f"{where}: {whose} was left out: this name cannot stand in an ACL file")
            return
        section = self._sections.setdefault(f"[{kind} {name}]" if keys else "[all]", [])
        if not isinstance(rules, list):
            section += _NOTHING
            raise ValueError(f"its rules are no list: everything is denied to {whose}")  # noqa: TRY004 - as below
        pattern = kind == "client" and re.search(r"[*?%]", name) is not None
        if pattern:
            self._note(f"{where}: {whose}: is a pattern here, so that only what is denied was taken over")
        said = [line for rule in rules for line in _said(rule, lambda note: self._note(f"{where}: {whose}: {note}"))]
        section += [line for line in said if not pattern or line.startswith("deny")]

    def _ban(self, where: str, item: Json) -> None:
        kind, who = _text(item, "as"), _text(item, "who")
        seconds = None
        try:
            seconds = _seconds_left(item.get("until"), self._now)
        except ValueError:
            self._note(f"{where}: its until is no time: the ban is for good")
        line, option = "", _OF_BANS.get(kind)
        if option is None:
            self._note(f"{where}: a ban of {kind} {who!r} cannot be said")
        elif seconds is None or seconds > 0:
            words = ["iot-mqtt", "ctl", "bans", "add", option, who]
            words += [] if seconds is None else ["--seconds", str(seconds)]
            words += ["--reason", str(item["reason"])] if item.get("reason") else []
            line = shlex.join(words) + "\n"
            if kind == "clientid" and re.search(r"[*?]", who):
                self._note(f"{where}: the client id {who!r} is a pattern here, so that more clients are banned")
        self._found.bans = (self._found.bans or "") + line


def _text(item: Json, key: str, default: str | None = None) -> str:
    """A field; ``ValueError`` if it is no text."""
    value = default if item.get(key) is None else item[key]
    if not isinstance(value, str):
        raise ValueError(f"its {key} is no text")  # noqa: TRY004 - a wrong record, whatever its type
    return value


def _encoded(hashed: str, salt: str, hashing: str | None) -> str:
    """The hash of a password as a file of users has it; ``ValueError`` says why there is none."""
    try:
        if re.match(r"\$2[aby]\$", hashed):
            kinds.check(hashed)
            return hashed
        if hashing is None:
            raise ValueError("is no bcrypt, and --hash does not say what it is")
        if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})+", hashed):
            raise ValueError("is not hexadecimal")
        return salted_hashes.encode(hashing, salt.encode(), bytes.fromhex(hashed))
    except ValueError as error:
        raise ValueError(f"its hash {error}: it needs a new password (iot-mqtt passwd)") from error


def _denies(rule: object) -> bool:
    """Whether a rule may take something away: all do that do not clearly allow."""
    return not isinstance(rule, Mapping) or rule.get("permission") != "allow"


def _said(rule: object, note: Callable[[str], None]) -> Iterator[str]:
    """A rule in our words."""
    shown, denies = json.dumps(rule, ensure_ascii=False), _denies(rule)
    if not isinstance(rule, Mapping):
        note(f"{shown} is no rule: everything is denied")
        yield from _NOTHING
        return
    actions, conditions = _ACTIONS.get(str(rule.get("action"))), _conditions(rule)
    filter, exact = _filter(rule.get("topic"))
    sayable = {
        **{name: not rule.get(name) for name in _CONDITIONS},
        "permission": rule.get("permission") in ("allow", "deny"),
        "action": actions is not None,
        "topic": exact,
        "qos or retain": conditions is not None,
    }
    odd = ", ".join(name for name, can in sayable.items() if not can)
    if odd and not denies:
        note(f"{shown} was left out: {odd} cannot be said")
        return
    if odd:
        note(f"{shown} denies more than before: {odd} cannot be said")
    for action in actions or _ACTIONS["all"]:
        limits = conditions or [""]
        if action == "read":
            if any(one.startswith("qos") for one in limits):
                became = "denies more than before" if denies else "was left out for subscriptions"
                note(f"{shown} {became}: qos cannot be said of subscriptions")
                if not denies:
                    continue
            # Whether a message is retained is nothing that one subscribes to.
            limits = [""]
        for limit in limits:
            yield from _checked(denies, action, limit, filter, lambda text: note(f"{shown}: {text}"))


def _filter(topic: object) -> tuple[str, bool]:
    """A filter with all that a topic of EMQX stands for, and whether that is all."""
    if not isinstance(topic, str):
        return "#", False
    literal, exact, levels = topic.startswith("eq "), True, []
    signs = (*PLACEHOLDERS, "+", "#") if literal else PLACEHOLDERS
    for level in topic.removeprefix("eq ").split("/"):
        said = level if literal else _PLACES.get(level, level)
        if level in signs or (not literal and "${" in said):
            exact, said = False, "#" if level == "#" else "+"
        levels.append(said)
    return "/".join(levels), exact


def _checked(denies: bool, action: str, condition: str, filter: str, note: Callable[[str], None]) -> Iterator[str]:
    """The rule, if it is one; what denies denies everything if it cannot be said."""
    line = " ".join(part for part in ("deny" if denies else "allow", action, condition, filter) if part)
    try:
        if getattr(parse_rule(line.strip(), 1, ""), "filter", None) != filter:
            raise ValueError("its topic cannot be said")
    except (ValueError, MqttError) as error:
        note(str(error))
        if denies:
            yield f"deny {action} #"
    else:
        yield line


def _conditions(rule: Json) -> list[str] | None:
    """One for each QoS, if not all of them are meant. None: they cannot be said."""
    told = rule.get("qos")
    levels = {"0", "1", "2"} if told is None else {str(one) for one in (told if isinstance(told, list) else [told])}
    retain = _RETAIN.get(str(rule.get("retain")).lower())
    if retain is None or not levels or not levels <= {"0", "1", "2"}:
        return None
    return [retain] if len(levels) == 3 else [f"qos={level} {retain}".strip() for level in sorted(levels)]


def _seconds_left(until: object, now: float) -> int | None:
    """None: it is for good. ``ValueError``: it is no time."""
    if until in (None, "", "infinity", "undefined"):
        return None
    if isinstance(until, str):
        moment = datetime.fromisoformat(until)
        until = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(until, bool) or not isinstance(until, int | float):
        raise ValueError("it is no time")  # noqa: TRY004 - a wrong record, whatever its type
    try:
        return int(until - now)
    except OverflowError as error:
        raise ValueError("it is no time") from error

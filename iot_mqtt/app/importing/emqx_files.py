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
from iot_mqtt.auth import salted_hashes
from iot_mqtt.auth.acl import parse_rule
from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.auth.users import check_name, parse_users
from iot_mqtt.errors import MqttError

_PLACES = {"${clientid}": "%c", "${username}": "%u", "%c": "%c", "%u": "%u"}
_ACTIONS = {"publish": ("publish",), "subscribe": ("read",), "all": ("publish", "read")}
#: Further conditions of a rule, which have no word here.
_CONDITIONS = ("ipaddr", "username_re", "clientid_re", "listener_re", "zone_re", "listener", "zone", "conditions")
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


def _read(path: str) -> tuple[list[Json], Json]:
    """Records, and what an answer of the API says of its pages."""
    meta: object = None
    try:
        text = read_text(path)
        if path.endswith(".csv"):
            return list(csv.DictReader(io.StringIO(text))), {}
        value = json.loads(text)
    except (FileError, ValueError, csv.Error) as error:
        raise Refused(f"{path}: {error}") from error
    if isinstance(value, Mapping):
        meta, value = value.get("meta"), value.get("data", [value])
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise Refused(f"{path}: is no list of objects")
    return value, meta if isinstance(meta, Mapping) else {}


class _Reading:
    def __init__(self, now: float, hashing: str | None) -> None:
        self._now = now
        self._hashing = hashing
        self._found = Imported()
        self._sections: dict[str, list[str]] = {}
        #: By what names a record in it.
        self._answers: dict[str, _Answer] = {}

    def count(self, path: str, items: Sequence[Json], meta: Json) -> None:
        """Note what a file has of all that there is."""
        if not meta:
            return
        told = meta.get("count")
        size = told if isinstance(told, int) else 0
        of = next((key for key in ("user_id", "as", "username", "clientid") if items and key in items[0]), "")
        answer = self._answers.setdefault(of, _Answer())
        answer.path, answer.size = path, max(answer.size, size)
        answer.found.update(json.dumps(item, sort_keys=True) for item in items)
        answer.ended |= meta.get("hasnext") is not True

    def take_archive(self, path: str) -> None:
        """What the tables of an archive have."""
        for items in read_archive(path, lambda text: self._note(f"{path}: {text}")):
            self.take(path, items)

    def take(self, path: str, items: Sequence[Json]) -> None:
        """What one file has."""
        if not items:
            return
        takers = {("user_id", "password_hash"): self._users, ("rules",): self._rules, ("as", "who"): self._bans}
        for keys, take in takers.items():
            if all(key in one for one in items for key in keys):
                take(path, items)
                return
        raise Refused(f"{path}: has neither users with password_hash, nor rules, nor bans of EMQX")

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
        if found.users is not None:
            found.keys["auth.users_file"] = "users"
        return found

    def _note(self, text: str) -> None:
        self._found.notes.append(text)

    def _users(self, path: str, items: Sequence[Json]) -> None:
        lines = []
        for one in items:
            name, text = str(one["user_id"]), ""
            try:
                check_name(name)
                encoded = _encoded(one, self._hashing)
                parse_users(f"{name}:{encoded}", path)
                lines.append(f"{name}:{encoded}\n")
            except ValueError as error:
                text = str(error)
            except FileError as error:
                text = str(error).rpartition(": ")[2]
            if str(one.get("is_superuser")).lower() == "true":
                text = text or "is_superuser is not taken over: rules say what it may"
            if text:
                self._note(f"{path}: user {name!r}: {text}")
        self._found.users = (self._found.users or "") + "".join(lines)

    def _rules(self, path: str, items: Sequence[Json]) -> None:
        for one in items:
            kind = "user" if "username" in one else "client" if "clientid" in one else "all"
            name = "" if kind == "all" else str(one["username" if kind == "user" else "clientid"])
            whose = f"{path}: {kind} {name!r}" if name else f"{path}: everybody"
            if name != name.strip() or not name.isprintable() or "]" in name or (kind != "all" and not name):
                raise Refused(f"{whose}: this name cannot stand in an ACL file")
            if not isinstance(one["rules"], list) or not all(isinstance(rule, Mapping) for rule in one["rules"]):
                raise Refused(f"{whose}: its rules are no list of objects")
            pattern = kind == "client" and re.search(r"[*?%]", name) is not None
            if pattern:
                self._note(f"{whose}: is a pattern here, so that only what is denied was taken over")
            said = [line for rule in one["rules"] for line in _said(rule, lambda note: self._note(f"{whose}: {note}"))]  # noqa: B023 - called at once
            kept = [line for line in said if not pattern or line.startswith("deny")]
            self._sections.setdefault(f"[{kind} {name}]" if name else "[all]", []).extend(kept)

    def _bans(self, path: str, items: Sequence[Json]) -> None:
        lines = []
        for one in items:
            option, who = _OF_BANS.get(str(one["as"])), str(one["who"])
            seconds = _seconds_left(one.get("until"), self._now)
            if option is None:
                self._note(f"{path}: a ban of {one['as']} {who!r} cannot be said")
            elif seconds is None or seconds > 0:
                words = ["iot-mqtt", "ctl", "bans", "add", option, who]
                words += [] if seconds is None else ["--seconds", str(seconds)]
                words += ["--reason", str(one["reason"])] if one.get("reason") else []
                lines.append(shlex.join(words) + "\n")
        self._found.bans = (self._found.bans or "") + "".join(lines)


def _encoded(user: Json, hashing: str | None) -> str:
    """The hash of a password as a file of users has it; ``ValueError`` says why there is none."""
    found = str(user.get("password_hash") or "")
    if re.match(r"\$2[aby]\$", found):
        return found
    try:
        if hashing is None:
            raise ValueError("is no bcrypt, and --hash does not say what it is")
        if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})+", found):
            raise ValueError("is not hexadecimal")
        return salted_hashes.encode(hashing, str(user.get("salt") or "").encode(), bytes.fromhex(found))
    except ValueError as error:
        raise ValueError(f"its hash {error}: it needs a new password (iot-mqtt passwd)") from error


def _said(rule: Json, note: Callable[[str], None]) -> Iterator[str]:
    """A rule in our words."""
    shown = json.dumps(dict(rule), ensure_ascii=False)
    denies = rule.get("permission") != "allow"
    topic = str(rule.get("topic", ""))
    levels = [_PLACES.get(level, level) for level in topic.removeprefix("eq ").split("/")]
    odd = [name for name in _CONDITIONS if rule.get(name)]
    if any("${" in level for level in levels) or (topic.startswith("eq ") and set(levels) & {"+", "#"}):
        odd.append("topic")
        levels = ["+" if "${" in level else level for level in levels]
    if odd and not denies:
        note(f"{shown} was left out: {', '.join(odd)} cannot be said")
        return
    if odd:
        note(f"{shown} denies more than before: {', '.join(odd)} cannot be said")
    for action in _ACTIONS.get(str(rule.get("action")), _ACTIONS["all"] if denies else ()):
        conditions = _conditions(rule)
        if action == "read":
            # Whether a message is retained is nothing that one subscribes to.
            if not denies and any(one.startswith("qos") for one in conditions):
                note(f"{shown} was left out for subscriptions: qos cannot be said of them")
                continue
            conditions = [""]
        for condition in conditions:
            yield from _checked(denies, action, condition, "/".join(levels), lambda text: note(f"{shown}: {text}"))


def _checked(denies: bool, action: str, condition: str, filter: str, note: Callable[[str], None]) -> Iterator[str]:
    """The rule, if it is one; what denies denies everything if it cannot be said."""
    line = " ".join(part for part in ("deny" if denies else "allow", action, condition, filter) if part)
    try:
        parse_rule(line, 1, "")
    except (ValueError, MqttError) as error:
        note(str(error))
        if denies:
            yield f"deny {action} #"
    else:
        yield line


def _conditions(rule: Json) -> list[str]:
    """One for each QoS, if not all of them are meant."""
    told = rule.get("qos")
    levels = {str(one) for one in (told if isinstance(told, list) else [told])} & {"0", "1", "2"}
    retain = {"true": "retain", "false": "noretain"}.get(str(rule.get("retain")).lower(), "")
    if len(levels) in (0, 3):
        return [retain]
    return [f"qos={level} {retain}".strip() for level in sorted(levels)]


def _seconds_left(until: object, now: float) -> int | None:
    """None: it is for good."""
    if until in (None, "", "infinity", "undefined"):
        return None
    if isinstance(until, int | float):
        return int(until - now)
    try:
        moment = datetime.fromisoformat(str(until))
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)

"""The archive that ``emqx ctl data export`` makes of EMQX 5: its tables, in the form in which its API answers.

::

    NAME/META.hocon                      edition, version
    NAME/cluster.hocon                   configuration: not read, and said
    NAME/mnesia/emqx_authn_mnesia        {user_info, {group, name}, hash, salt, superuser}
    NAME/mnesia/emqx_acl                 {emqx_acl, 0 | {1, user} | {2, client}, [{permission, who, action, topic}]}
    NAME/mnesia/emqx_banned(_rules)      {banned, {as, who}, by, reason, at, until}

Nothing is unpacked: members are read in their order, in memory, and those that are no plain files are refused.
"""

from __future__ import annotations

import gzip
import ipaddress
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from iot_mqtt.app.importing.erlang_terms import Atom, BadTerm, read_log
from iot_mqtt.app.importing.imported import Refused

SUFFIXES: Final = (".tar.gz", ".tgz")
_MOST_MEMBERS: Final = 10_000
_LARGEST: Final = 256 * 1024 * 1024
_LARGEST_IN_ALL: Final = 1024 * 1024 * 1024
_AT_ONCE: Final = 64 * 1024
#: Users of all listeners; others are let in by one listener alone.
_GLOBAL: Final = "mqtt:global"
_WITHOUT: Final = {
    "emqx_admin": "users of the dashboard",
    "emqx_app": "keys of the API",
    "emqx_psk": "pre-shared keys",
    "emqx_enhanced_authn_scram_mnesia": "users of SCRAM: they need new passwords",
    "emqx_retainer_message": "retained messages: iot-mqtt import retained --from asks the running broker",
}

Item = dict[str, Any]
Note = Callable[[str], None]
Rows = Iterator[tuple[Any, ...]]


def read_archive(path: str, note: Note) -> Iterator[list[Item]]:
    """What its tables have, a list for each kind that the API has; what is left out is noted. Raises ``Refused``."""
    try:
        with _Bounded(path) as file:
            with tarfile.open(fileobj=file, mode="r|") as archive:
                yield from _tables(_members(archive), note)
            # What is cut off shows itself at the end.
            while file.read(_AT_ONCE):
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise Refused(f"{path}: is no archive, or damaged: {error}") from error
    except Refused as error:
        raise Refused(f"{path}: {error}") from error


class _Bounded(gzip.GzipFile):
    """A file that is refused when more comes out of it than may."""

    _left = _LARGEST_IN_ALL

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise Refused("more comes out of it than is read")
        return data


def _members(archive: tarfile.TarFile) -> Iterator[tuple[PurePosixPath, Callable[[], bytes]]]:
    """Plain files by name, each to be read before the next one."""
    for count, member in enumerate(archive):
        name = PurePosixPath(member.name)
        if member.isdir():
            continue
        if not member.isreg() or name.is_absolute() or ".." in name.parts:
            raise Refused(f"{member.name!r} in it is no plain file of its own folder")
        if count >= _MOST_MEMBERS or member.size > _LARGEST:
            raise Refused(f"it has more than {_MOST_MEMBERS} files, or they are too large")
        file = archive.extractfile(member)
        assert file is not None
        yield name, file.read


def _tables(members: Iterable[tuple[PurePosixPath, Callable[[], bytes]]], note: Note) -> Iterator[list[Item]]:
    known, seen = False, set()
    for name, read in members:
        table = name.name if name.parent.name == "mnesia" else ""
        if name in seen:
            raise Refused(f"{name} is in it twice")
        seen.add(name)
        if name.name == "META.hocon":
            known = _check_version(read())
        elif not known:
            raise Refused("it does not begin with META.hocon, as archives of emqx ctl data export do")
        elif table in TABLES:
            yield from read_table(table, read(), note)
        elif table:
            rows = sum(1 for _ in _rows(table, read())) if table in _WITHOUT else 1
            if rows:
                note(f"{name.name} was left out: {_WITHOUT.get(table, 'nothing here is like it')}")
        else:
            note(f"{name.name} was left out: listeners, sources of rights and whatever else it sets")


def read_table(table: str, data: bytes, note: Note) -> list[list[Item]]:
    """What a table of ``TABLES`` has, as its backup; raises ``Refused``."""
    try:
        return list(TABLES[table](_rows(table, data), note))
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError) as error:
        raise Refused(f"table {table}: a row is none that is known: {error}") from error


def _check_version(meta: bytes) -> bool:
    found = re.search(rb'\bversion\s*[=:]\s*"?(\d+)\.', meta)
    if found is None or found[1] not in (b"5", b"6"):
        raise Refused("its META.hocon names no version that is known: 5 and 6 are")
    return True


def _rows(table: str, data: bytes) -> Rows:
    """Without the head of the backup, and the table's schema."""
    try:
        head, schema, *rows = read_log(data)
        if head[:2] != ("log_header", "backup_log") or schema[:2] != ("schema", table):
            raise BadTerm("it is no backup of this table")
        for row in rows:
            if not isinstance(row, tuple) or row[0] != table:
                raise BadTerm("a row is of another table")
            yield row
    except (BadTerm, TypeError, IndexError, ValueError) as error:
        raise Refused(f"table {table}: {error}") from error


def _users(rows: Rows, note: Note) -> Iterator[list[Item]]:
    found = []
    for row in rows:
        (group, name), hashed, salt, superuser = _fields(row, 4)
        if _text(group) != _GLOBAL:
            note(f"user {_text(name)!r} was left out: it is of {_text(group)} alone")
            continue
        found.append(
            {
                "user_id": _text(name),
                "password_hash": _text(hashed),
                "salt": _text(salt),
                "is_superuser": _text(superuser),
            }
        )
    if found:
        yield found


def _rules(rows: Rows, _: Note) -> Iterator[list[Item]]:
    names = {1: "username", 2: "clientid"}
    found = []
    for row in rows:
        who, rules = _fields(row, 2)
        whose = {} if who == 0 else {names[who[0]]: _text(who[1])} if who[0] in names else None
        if whose is None or not isinstance(rules, list):
            raise Refused("table emqx_acl: a row is of nobody")
        found.append({**whose, "rules": [_rule(rule) for rule in rules]})
    if found:
        yield found


def _rule(rule: Any) -> Item:
    if not isinstance(rule, tuple) or len(rule) not in (3, 4):
        raise Refused("table emqx_acl: a rule is none that is known")
    permission, *who, action, topic = rule
    said: Item = {"permission": _text(permission), "topic": _topic(topic)}
    options: Any = []
    if isinstance(action, tuple) and len(action) == 2:
        action, options = action
    said["action"] = _text(action)
    for option in options:
        name, value = option
        name = _text(name) if name in ("qos", "retain") else "conditions"
        said[name] = [str(one) for one in value] if isinstance(value, list) else _text(value)
    if who and who[0] != "all":
        # By whatever of its names has no word here: it is told, and it only denies.
        kind = who[0][0] if isinstance(who[0], tuple) and who[0] else who[0]
        said["conditions"] = _text(kind)
    return said


def _topic(topic: Any) -> str:
    if isinstance(topic, tuple) and len(topic) == 2 and topic[0] == "eq":
        return f"eq {_text(topic[1])}"
    return _text(topic)


def _bans(rows: Rows, _: Note) -> Iterator[list[Item]]:
    found = []
    for row in rows:
        (kind, who), by, reason, _at, until = _fields(row, 5)
        item: Item = {"as": _text(kind), "who": _who(_text(kind), who), "by": _text(by), "reason": _text(reason)}
        found.append({**item, "until": until if isinstance(until, int) else _text(until)})
    if found:
        yield found


def _who(kind: str, who: Any) -> str:
    if kind == "peerhost":
        return str(_address(who))
    if kind == "peerhost_net" and isinstance(who, tuple) and len(who) == 3:
        return f"{_address(who[0])}/{_text(who[2])}"
    # An older version has a pattern beside what it was compiled to.
    return _text(who[-1] if isinstance(who, tuple) else who)


def _address(parts: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    size = 1 if len(parts) == 4 else 2
    return ipaddress.ip_address(b"".join(part.to_bytes(size, "big") for part in parts))


def _fields(row: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Those of a row behind its table's name."""
    if len(row) != count + 1:
        raise Refused(f"table {row[0]}: a row has {len(row) - 1} fields instead of {count}")
    return row[1:]


def _text(value: Any) -> str:
    """A text in one of the forms that Erlang has for one."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Atom | int):
        return str(value)
    if isinstance(value, list):
        return "".join(map(chr, value))
    raise Refused("a text is none")


TABLES: Final[dict[str, Callable[[Rows, Note], Iterator[list[Item]]]]] = {
    "emqx_authn_mnesia": _users,
    "emqx_acl": _rules,
    "emqx_banned": _bans,
    "emqx_banned_rules": _bans,
}

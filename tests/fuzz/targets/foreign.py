"""Files of other brokers: ``mosquitto.db``, tables of EMQX, answers of its API; read, or refused with the place."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from iot_mqtt.app.importing.emqx_archive import TABLES, read_table
from iot_mqtt.app.importing.emqx_files import import_files
from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.app.importing.mosquitto_db import Database
from iot_mqtt.app.importing.mosquitto_sessions import OldSessions
from iot_mqtt.app.importing.session_transfer import Transfer
from iot_mqtt.auth.acl import parse_rules
from iot_mqtt.auth.users import parse_users
from iot_mqtt.codec import encode
from iot_mqtt.values import ProtocolVersion
from tests.cases import mosquitto_files as db
from tests.fuzz.target import Target, head

ARCHIVE = Path(__file__).parents[2] / "cases" / "emqx-export-5.tar.gz"


def run_mosquitto_db(data: bytes) -> None:
    """What was read can be published, and sessions do not have more than the file."""
    try:
        database = Database(data)
        transfer = Transfer(OldSessions(database), 1_700_000_000)
        transfer.read()
        assert transfer.outcome.sessions <= len(data), "more was read than is there"
        for message in database.messages(1_700_000_000):
            assert len(message.topic) + len(message.payload) <= len(data), "more was read than is there"
            for version in ProtocolVersion:
                encode(replace(message, packet_id=1) if message.qos else message, version)
    except Refused as error:
        assert str(error)


def _seeds() -> Iterator[bytes]:
    for version in (5, 6):
        raw = b"\x03\x00\x01t\x26\x00\x01k\x00\x01v"
        yield db.file(
            version,
            db.message(1, b"a/b", b"21", 2, expires=1_700_000_100, properties=bytes((len(raw),)) + raw),
            db.message(2, b"c", b"x", 0),
            db.retained(2),
            db.retained(1),
            db.client(b"plc", interval=60, ends=1_700_000_100, user=b"ann", version=version),
            db.subscription(b"plc", b"a/+", 2, 4, 7),
            db.client_message(b"plc", 1, 2, db.WAIT_FOR_PUBREC, packet_id=3, properties=b"\x02\x0b\x07"),
        )
    for version in (3, 4):
        sessions = (db.old_client(b"c"), db.old_subscription(b"c", b"a"), db.old_client_message(b"c", 1, 1, db.QUEUED))
        yield db.file(version, db.old_message(version, 1, b"a/b", b"21"), db.retained(1), *sessions)


def run_emqx_table(data: bytes) -> None:
    """A table that an archive of EMQX has, its first byte says which: read, and taken over, or refused."""
    choice, table = head(data, 1)
    name = sorted(TABLES)[choice[0] % len(TABLES)]
    try:
        for items in read_table(name, table, lambda _: None):
            assert len(items) <= len(data), "more was read than is there"
            assert all(isinstance(one, dict) for one in items)
    except Refused as error:
        assert str(error)


def _tables() -> Iterator[bytes]:
    with tarfile.open(ARCHIVE) as archive:
        for number, name in enumerate(sorted(TABLES)):
            file = archive.extractfile(f"emqx-export-1/mnesia/{name}")
            assert file is not None
            yield bytes((number,)) + file.read()


def run_emqx_file(data: bytes) -> None:
    """What EMQX's API answers, or a table of users: what is made of it can be written, and its rules read."""
    choice, content = head(data, 1)
    with NamedTemporaryFile(suffix=(".json", ".csv")[choice[0] % 2]) as file:
        file.write(content)
        file.flush()
        try:
            found = import_files([file.name], 1_700_000_000, (None, "sha256,prefix")[choice[0] // 2 % 2])
        except Refused as error:
            assert str(error)
            return
    parse_rules(found.acl or "", "acl")
    parse_users(found.users or "", "users")
    for text in (found.users, found.acl, found.bans, *found.notes):
        (text or "").encode()


def _records() -> Iterator[bytes]:
    bcrypt = "$2b$05$KbmD3jZlOVrgEbZ9Y2q5weQbUOkLVEQtL9Ck7kNnwNRSQqSkRHQ3m"
    rule = {"topic": "a/${clientid}", "permission": "allow", "action": "all", "qos": ["0", 1], "retain": False}
    users = [{"user_id": "joe", "password_hash": bcrypt}] * 2 + [
        {"user_id": "ann", "password_hash": "ab" * 32, "salt": "s"}
    ]
    rules = [{"username": "joe", "rules": [rule]}, {"clientid": "c*", "rules": [rule | {"permission": "deny"}]}]
    bans = [{"as": "clientid", "who": "c", "until": "2026-01-01T00:00:00Z", "reason": "r"}, {"as": "x", "who": "y"}]
    for value in ({"data": rules, "meta": {"count": 2, "hasnext": False}}, {"rules": [rule]}, users, bans):
        yield b"\x02" + json.dumps(value).encode()
    yield f"\x01user_id,password_hash,salt,is_superuser\njoe,{bcrypt},,true\n".encode()


TARGETS = (
    Target(
        "emqx-file",
        run_emqx_file,
        _records,
        (b"null", b"[]", b"{}", b"1e400", b'"eq a/+"', b"\\u0000", b"\\ud800", b"\xef\xbb\xbf", b"\n", b"9" * 20),
        600,
    ),
    Target(
        "emqx-table", run_emqx_table, _tables, (b"bWLA", b"d\0\x03all", b"m\0\0\0\1a", b"h\2", b"l\0\0\0\1", b"j"), 1500
    ),
    Target(
        "mosquitto-db",
        run_mosquitto_db,
        _seeds,
        (b"\0\0\0\2", b"\0\0\0\4", b"\0\0\0\6", b"\0\0\0\x08", b"\xff\xff\xff\xff"),
        400,
        8000,
    ),
)
__all__ = ["TARGETS"]

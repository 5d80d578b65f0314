"""Archives of EMQX: what their tables have, as Mnesia of OTP 25 has written them, and what is refused."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from iot_mqtt.app.cli import main
from iot_mqtt.app.importing.emqx_archive import read_archive
from iot_mqtt.app.importing.erlang_terms import Atom, BadTerm, read_log, read_term
from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.auth import passwd

#: Tables with the records of EMQX 5, written by Mnesia; ``large`` has a row that is summed.
ARCHIVE = Path(__file__).parents[2] / "cases" / "emqx-export-5.tar.gz"
META, TABLE = "emqx-export-1/META.hocon", "emqx-export-1/mnesia/emqx_acl"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["import", "emqx", *map(str, arguments)])


def member(name: str) -> bytes:
    """A file of the archive."""
    with tarfile.open(ARCHIVE) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


#: With a process where an action should be.
PID = member(TABLE).replace(b"d\0\x07publish", b"g\0\x07publish")


def packed(path: Path, *members: tuple[str, bytes], change: Callable[[tarfile.TarInfo], None] = lambda _: None) -> str:
    """An archive; ``change`` is done to the head of its last member."""
    with tarfile.open(path, "w:gz") as archive:
        for number, (name, content) in enumerate(members, 1):
            head = tarfile.TarInfo(name)
            head.size = len(content)
            if number == len(members):
                change(head)
            archive.addfile(head, io.BytesIO(content))
    return str(path)


def test_users_rules_and_bans_are_taken_over(tmp_path: Path) -> None:
    """As from the API; what has no place here is named."""
    result = run(ARCHIVE, "--hash", "sha256,prefix", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    users = str(tmp_path / "out" / "users")
    assert passwd.verify(users, "joe", b"secret") and passwd.verify(users, "root", b"secret")
    assert len(Path(users).read_text().splitlines()) == 2
    assert (tmp_path / "out" / "acl").read_text().splitlines() == [
        "[client plc]",
        "[user joe]",
        "allow publish plant/%c/#",
        "allow publish qos=0 noretain fast/#",
        "allow publish qos=1 noretain fast/#",
        "deny publish #",
        "deny read #",
        "[all]",
        "allow read news/#",
    ]
    bans = (tmp_path / "out" / "bans.sh").read_text()
    assert [line.partition(" --seconds ")[0] for line in bans.splitlines()] == [
        "iot-mqtt ctl bans add --address 10.1.0.0/16",
        "iot-mqtt ctl bans add --client 'c; rm' --reason 'it'\"'\"'s bad'",
        "iot-mqtt ctl bans add --address 10.0.0.1",
        "iot-mqtt ctl bans add --address 2001:db8::1",
    ]
    for words in ("cluster.hocon was left out", "large was left out", "clientid_re '^a'", "'near/#'".strip("'")):
        assert words in result.stderr
    for words in ("conditions cannot be said", "'guest' was left out: it is of tcp:lab alone", "is_superuser"):
        assert words in result.stderr


def _link(head: tarfile.TarInfo) -> None:
    head.type, head.linkname, head.size = tarfile.SYMTYPE, "/etc/passwd", 0


def _device(head: tarfile.TarInfo) -> None:
    head.type, head.size = tarfile.CHRTYPE, 0


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (TABLE, _link, "no plain file"),
        (TABLE, _device, "no plain file"),
        ("/etc/passwd", lambda _: None, "no plain file"),
        ("emqx-export-1/../../x", lambda _: None, "no plain file"),
        (META, lambda _: None, "is in it twice"),
    ],
)
def test_members_that_lead_elsewhere_are_refused(
    tmp_path: Path, name: str, change: Callable[[tarfile.TarInfo], None], says: str
) -> None:
    """Links, devices, paths out of the folder; and nothing is written."""
    path = packed(tmp_path / "x.tar.gz", (META, member(META)), (name, b"x"), change=change)
    result = run(path, "-o", tmp_path / "out")
    assert result.exit_code == 1 and says in result.output, result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("members", "says"),
    [
        (((TABLE, b""),), "does not begin with META.hocon"),
        (((META, b'version = "4.4.1"'),), "no version that is known"),
        (((META, b"nothing"),), "no version that is known"),
        (((META, b"version = 5.8.0"), (TABLE, b"")), "no log of Erlang"),
        (((META, b"version = 5.8.0"), (TABLE, member(TABLE)[:-1])), "cut off, or damaged, at byte"),
        (((META, b"version = 5.8.0"), (TABLE, b"\1\2\3\4\6\7\x08\x09" + member(TABLE)[8:])), "was not closed"),
        (((META, b"version = 5.8.0"), (TABLE, member(TABLE)[:8])), "not enough values"),
        (((META, b"version = 5.8.0"), ("x/mnesia/emqx_banned", member(TABLE))), "no backup of this table"),
        (
            ((META, b"version = 5.8.0"), (TABLE, PID)),
            "emqx_acl: it is damaged at byte .*: terms with tag 103",
        ),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, members: Any, says: str) -> None:
    """With the place."""
    with pytest.raises(Refused, match=says):
        list(read_archive(packed(tmp_path / "x.tar.gz", *members), lambda _: None))


@pytest.mark.parametrize("cut", [0, 1, 100, -1, -20])
def test_an_archive_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    """Wherever."""
    path = tmp_path / "x.tar.gz"
    path.write_bytes(ARCHIVE.read_bytes()[:cut])
    with pytest.raises(Refused, match=r"x\.tar\.gz: "):
        list(read_archive(str(path), lambda _: None))


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small it was packed."""
    path = packed(tmp_path / "x.tar.gz", (META, member(META)), ("x/data", bytes(1_000_000)))
    monkeypatch.setattr("iot_mqtt.app.importing.emqx_archive._Bounded._left", 500_000)
    with pytest.raises(Refused, match="more comes out of it"):
        list(read_archive(path, lambda _: None))


def test_terms_are_read() -> None:
    """As Mnesia has written them: each kind once, in a row that has a sum."""
    *_, row = read_log(member("emqx-export-1/mnesia/large"))
    values = [bytes(75_000), 1.5, -3, 300, 12345678901234567890, [97, 98, 99], Atom("ü"), {Atom("a"): []}]
    assert row == (Atom("large"), 1, values)
    assert isinstance(row[0], Atom) and isinstance(row[2][6], Atom)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cut off"),
        (b"\x82a\x01", "no term of Erlang"),
        (b"\x83a", "cut off"),
        (b"\x83a\x01\x01", "followed by something"),
        (b"\x83P\0\0\0\1x", "tag 80"),
        (b"\x83g", "tag 103"),
        (b"\x83l\xff\xff\xff\xff", "cut off"),
        (b"\x83m\xff\xff\xff\xffx", "cut off"),
        (b"\x83l\0\0\0\1a\1a\2", "without an end"),
        (b"\x83n\xff\0", "of 255 bytes"),
        (b"\x83w\1\xff", "damaged"),
        (b"\x83t\0\0\0\1ja\1", "damaged"),
        (b"\x83" + b"h\1" * 100 + b"j", "deeper than"),
    ],
)
def test_what_is_no_term_is_refused(data: bytes, says: str) -> None:
    """And what no table of data has."""
    with pytest.raises(BadTerm, match=says):
        read_term(data)

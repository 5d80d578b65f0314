"""Users of the grid: what becomes of clients when they change, and what an operator can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
import pytest

from iot_mqtt.auth import generations, hashing
from iot_mqtt.auth.accounts import Kept
from iot_mqtt.auth.generations import Generations
from iot_mqtt.auth.service import Access, shared_key
from iot_mqtt.auth.settings import AuthSettings, JwtSettings
from iot_mqtt.auth.user_desk import Changes, UserDesk
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Action, Denied, Principal, generation_of, user_of
from iot_mqtt.ports.directory import USERS, Conflict
from tests.unit.auth.authkit import Threads, attempt, cheap_hash, outcome, start

HASH = cheap_hash("pw")


class Site:
    """A node with users in the grid and in a file, and another node on the same grid."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads = Threads()
        monkeypatch.setattr(hashing, "ThreadPoolExecutor", lambda *_, **__: self.threads)
        self.folder = folder
        grid = MemoryGrid()
        outcome(start(grid.open()))
        self.here, self.there = GridDirectory(grid, ManualClock()), GridDirectory(grid, ManualClock())
        self.gone: list[frozenset[str]] = []
        self.open("grid")

    def open(self, *chain: str, listeners: dict[str, tuple[str, ...]] | None = None, **settings: Any) -> None:
        self.access = Access(
            AuthSettings(chain=chain, **settings), self.threads.cross, ManualClock(), self.here, listeners
        )
        self.desk: UserDesk = self.access.user_desk(self.there)
        self.access.on_changed = self.gone.append

    def put(self, name: str, **changes: Any) -> None:
        """At the other node; this one looks."""
        new = self.there.get(USERS, name) is None
        putting = start(self.desk.put(name, Changes(**changes), new=new))
        self.threads.turn()
        outcome(putting)
        outcome(start(self.here.refresh()))

    def may(self, who: Principal) -> bool:
        return bool(outcome(start(self.access.authorizer.permissions(who))).unrestricted)

    def connect(self, name: str | None, password: bytes | None = b"pw", client: str = "c1", **more: Any) -> Any:
        asked = start(
            self.access.authenticator.authenticate(attempt(name, password, **more)._replace(client_id=client))
        )
        self.threads.turn()
        verdict = outcome(asked)
        return verdict.reason if isinstance(verdict, Denied) else verdict.owner


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


WRONG = ReasonCode.BAD_USER_NAME_OR_PASSWORD
NO = ReasonCode.NOT_AUTHORIZED


def test_a_user_of_the_grid_is_let_in_everywhere_until_disabled_or_deleted(site: Site) -> None:
    """And whoever hears of changes hears who is gone."""
    assert site.connect("ann") is WRONG
    site.put("ann", password="pw")
    assert site.connect("ann") == "ann"
    assert site.connect("ann", b"other") is WRONG
    assert site.gone == [frozenset()]
    site.put("ann", enabled=False)
    assert site.connect("ann") is WRONG
    site.put("ann", enabled=True)
    assert site.connect("ann") == "ann"
    outcome(start(site.desk.delete("ann")))
    outcome(start(site.here.refresh()))
    assert site.connect("ann") is WRONG
    assert site.gone[1:3] == [frozenset({"ann"}), frozenset()] and set(site.gone[3:]) == {frozenset({"ann"})}


def test_a_user_with_the_name_of_a_deleted_one_is_another(site: Site) -> None:
    """Nothing is done in the old one's name, whoever else may vouch for the name; both nodes know."""
    site.open("jwt", "grid", jwt=JwtSettings(secret_file=secret(site.folder)))
    site.put("ann", password="pw")
    old = identity(site)
    assert old.identity == "ann" and site.may(old)
    outcome(start(site.desk.delete("ann")))
    outcome(start(site.here.refresh()))
    assert not site.may(old)
    site.gone.clear()
    site.put("ann", password="pw")
    new = identity(site)
    assert (user_of(new.identity), new.generation) == ("ann", 1) and new.identity != old.identity
    assert site.may(new) and not site.may(old)
    assert [site.access.may_come(who) for who in (old, new, site.access.named("ann"))] == [False, True, True]
    assert [site.access.allows(who, "publish", "a") for who in (old, new)] == [False, True]
    assert not outcome(start(site.desk.delete("nobody")))
    outcome(start(site.desk.delete("ann")))
    site.put("ann", password="pw")
    assert generation_of(identity(site).identity) == 2


def test_names_of_the_deleted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten, and nobody is kept from deleting users."""
    monkeypatch.setattr(generations, "FORGOTTEN_AT_ONCE", 1)
    grid = MemoryGrid()
    outcome(start(grid.open()))
    directory = GridDirectory(grid, ManualClock(), max_of_kind=2)
    known = Generations(directory)
    for name in ("a", "b", "a", "c"):
        outcome(start(known.end(name)))
    assert [known.of(name) for name in ("a", "b", "c")] == [2, 0, 1]


def secret(folder: Path) -> str:
    (folder / "secret").write_text("s" * 32)
    return str(folder / "secret")


def identity(site: Site, name: str = "ann") -> Principal:
    asked = start(site.access.authenticator.authenticate(attempt(name, b"pw")))
    site.threads.turn()
    principal = outcome(asked)
    assert isinstance(principal, Principal)
    return principal


def test_who_is_gone_has_no_rights(site: Site) -> None:
    """Nothing is done in the name of a session that is left behind."""
    site.put("ann", password="pw")

    def may() -> bool:
        return outcome(start(site.access.authorizer.permissions(Principal("c1", "ann")))).allows(Action.PUBLISH, "t")

    assert may()
    site.put("ann", enabled=False)
    assert not may()


def test_a_new_password_is_asked_for_at_once(site: Site) -> None:
    """A verdict that is remembered dies with the hash that it was about."""
    site.put("ann", password="pw")
    assert site.connect("ann") == "ann"
    site.put("ann", password="new")
    assert site.connect("ann") is WRONG
    assert site.connect("ann", b"new") == "ann"


def test_client_ids_by_pattern(site: Site) -> None:
    """With the right password only, so that nobody learns by it who exists."""
    site.put("ann", password="pw", client_ids=["line-*"])
    assert site.connect("ann", client="line-7") == "ann"
    assert site.connect("ann", client="press") is NO
    assert site.connect("ann", b"wrong", client="press") is WRONG


def test_client_ids_by_pattern_whichever_link_vouches(site: Site) -> None:
    """A certificate, a token, the file, where it has the name, too: patterns are about the user, not a password."""
    users = site.folder / "users"
    users.write_text(f"ann:{HASH}\n")
    site.open(
        "certificate", "jwt", "file", "grid", jwt=JwtSettings(secret_file=secret(site.folder)), users_file=str(users)
    )
    site.put("ann", client_ids=["line-*"])
    token = jwt.encode({"sub": "ann", "exp": 4e9}, "s" * 32, "HS256").encode()
    for name, password, more in (
        ("ann", b"pw", {}),
        (None, token, {}),
        (None, None, {"certificate_name": "ann"}),
    ):
        assert site.connect(name, password, "line-7", **more) == "ann"
        assert site.connect(name, password, "", **more) == "ann", "the broker gives one"
        assert site.connect(name, password, "press", **more) is NO


def test_who_may_have_other_client_ids_now_is_told_of(site: Site) -> None:
    """Users with patterns, after a change of theirs; whoever has none may have any."""
    heard: list[tuple[frozenset[str], bool]] = []
    site.access.on_renamed = lambda users, may_be: heard.append((users, may_be("ann", "press")))
    site.put("ann", password="pw")
    site.put("bob", password="pw", client_ids=["b"])
    site.put("ann", client_ids=["line-*"])
    site.put("ann", client_ids=[])
    assert heard == [(frozenset({"bob"}), True), (frozenset({"ann"}), False)]


def test_groups_are_those_of_this_moment(site: Site) -> None:
    """They are no part of the proof, so that they can be taken away while a client is in."""
    site.put("ann", password="pw", groups=["b", "a"])
    assert site.access.groups_of("ann") == {"a", "b"}
    site.put("ann", groups=[])
    assert site.access.groups_of("ann") == frozenset()


def test_file_and_grid_are_asked_as_one(site: Site, tmp_path: Path) -> None:
    """The first that has a name decides; a name that neither has costs one hash."""
    users = tmp_path / "users"
    users.write_text(f"bob:{HASH}\nann:{HASH}\n")
    site.open("file", "grid", users_file=str(users))
    site.put("ann", password="other")
    site.put("eve", password="pw")
    assert [site.connect(name) for name in ("ann", "bob", "eve", "nobody")] == ["ann", "bob", "eve", WRONG]
    start(site.access.authenticator.authenticate(attempt("stranger", b"pw")))
    assert len(site.threads.work) == 1
    site.put("bob", password="pw", enabled=False)
    assert site.connect("bob") is WRONG, "one store is enough to disable"


def test_a_user_deleted_from_the_file_stays_if_the_grid_has_it(site: Site, tmp_path: Path) -> None:
    """And is gone if it has not."""
    users = tmp_path / "users"
    users.write_text(f"bob:{HASH}\nann:{HASH}\n")
    site.open("file", "grid", users_file=str(users))
    site.put("ann", password="pw")
    site.gone.clear()
    users.write_text("\n")
    site.access.look(changed_only=False)()
    assert site.gone == [frozenset({"bob"})]


def test_each_listener_may_have_a_chain_of_its_own(site: Site) -> None:
    """Others have the general one."""
    site.open("grid", listeners={"inside": ("grid", "anonymous"), "other": ()})
    assert site.connect(None, None) is NO
    inside = attempt(None, None)._replace(listener="inside")
    assert isinstance(outcome(start(site.access.authenticator.authenticate(inside))), Principal)
    other = attempt(None, None)._replace(listener="other")
    assert isinstance(outcome(start(site.access.authenticator.authenticate(other))), Denied)


def test_every_link_says_what_it_thinks(site: Site) -> None:
    """Behind the decisive one, only what they know."""
    site.put("ann", password="pw", groups=["a"])
    site.open("certificate", "grid", "anonymous")
    asked = start(site.access.explain(attempt("ann", b"pw", certificate_name="ann2")))
    site.threads.turn()
    said, verdict = outcome(asked)
    assert [(one.link, one.verdict) for one in said] == [
        ("certificate", "pass"),
        ("grid", "allow"),
        ("anonymous", "not asked"),
    ]
    assert "argon2id" in said[1].known and "groups: a" in said[1].known
    assert isinstance(verdict, Principal)
    assert (verdict.owner, verdict.groups) == ("ann", frozenset({"a"}))
    asked = start(site.access.explain(attempt("nobody", b"pw")))
    site.threads.turn()
    said, verdict = outcome(asked)
    assert (said[1].verdict, said[1].known) == ("deny", "there is no such user")
    assert isinstance(verdict, Denied)


@pytest.mark.parametrize(
    ("field", "pattern", "user"),
    [
        ("cn", "", "plc-7.plant"),
        ("cn", r"(.+)\.plant", "plc-7"),
        ("cn", r"(x)?(?P<user>plc-\d)\..*", "plc-7"),
        ("cn", "other", None),
        ("dns", r"(.+)\.b", "a2"),
        ("email", "", None),
        ("fingerprint", "", "ab12"),
    ],
)
def test_the_name_in_a_certificate_is_mapped(site: Site, field: Any, pattern: str, user: str | None) -> None:
    """The first value of the field that the pattern fits as a whole."""
    from iot_mqtt.auth.settings import CertificateSettings

    site.open("certificate", certificate=CertificateSettings(field, pattern))
    names = {"dns": ("a1.a", "a2.b", "a3.b"), "fingerprint": ("ab12",)}
    verdict = site.connect(None, None, certificate_name="plc-7.plant", certificate=names)
    assert verdict == (user or NO)


def test_a_user_that_cannot_be_read_is_disabled(site: Site) -> None:
    """Whoever wrote it meant to say something; an operator sees it, and can delete it."""
    site.put("ann", password="pw")
    outcome(start(site.there.put(USERS, "ann", {"enabled": "maybe", "hash": HASH})))
    outcome(start(site.here.refresh()))
    assert site.connect("ann") is WRONG
    found = site.desk.find("ann")
    assert found is not None and not found.enabled
    with pytest.raises(ValueError, match="delete it first"):
        outcome(start(site.desk.put("ann", Changes(enabled=True), new=False)))
    assert outcome(start(site.desk.delete("ann")))


def test_two_operators_do_not_undo_each_other(site: Site) -> None:
    """Who changes what another has changed meanwhile is told."""
    site.put("ann", password="pw")
    found = site.desk.find("ann")
    assert found is not None
    site.put("ann", groups=["a"])
    with pytest.raises(Conflict):
        outcome(start(site.desk.put("ann", Changes(enabled=False, version=found.version), new=False)))
    with pytest.raises(Conflict):
        outcome(start(site.desk.put("ann", Changes(), new=True)))
    with pytest.raises(KeyError):
        outcome(start(site.desk.put("eve", Changes(), new=False)))


def test_a_password_set_without_scram_takes_the_old_keys_away(site: Site) -> None:
    """Else the old password would open the door behind the new one."""
    site.put("ann", password="pw", scram=True)
    found = site.desk.find("ann")
    assert found is not None and found.scram
    site.put("ann", password="new")
    found = site.desk.find("ann")
    assert found is not None and not found.scram


def test_nodes_share_the_key_that_salts_are_made_from(site: Site) -> None:
    """Whichever is first makes it, also when two begin at once; a restart finds it."""

    async def both() -> list[bytes]:
        return [await shared_key(directory, "scram") for directory in (site.here, site.there, site.here)]

    keys = outcome(start(both()))
    assert len(keys[0]) == 32 and len(set(keys)) == 1
    assert outcome(start(shared_key(site.here, "other"))) != keys[0]


@pytest.mark.parametrize("both", [("file", "grid"), ("grid", "file")])
def test_a_password_is_kept_where_its_listener_asks(site: Site, both: tuple[str, ...]) -> None:
    """In the file or in the grid; a new user of both is better made in the grid."""
    file = str(site.folder / "users")
    (site.folder / "users").write_text(f"ann:{HASH}\n")
    listeners = {"grid": ("grid",), "both": both, "nobody": ("certificate",)}
    site.open("file", users_file=file, listeners=listeners)
    site.put("eve", password="pw")
    kept = {
        (listener, name): site.access.kept(listener, name)
        for listener in ("", "plain", "grid", "both")
        for name in ("ann", "eve", "joe")
    }
    in_file = {("", "ann"), ("plain", "ann"), ("both", "ann")}
    known = {*in_file, ("grid", "eve"), ("both", "eve")}
    of_file = {one for one in kept if one[0] in ("", "plain")} | in_file
    assert kept == {one: Kept(one in known, file if one in of_file else None) for one in kept}
    assert site.access.kept("nobody", "ann") is None


@pytest.mark.parametrize("chain", [("file", "grid"), ("grid", "file")])
def test_who_is_disabled_is_so_where_that_is_said(site: Site, chain: tuple[str, ...]) -> None:
    """Whichever store has the password: each can keep the user out."""
    file = str(site.folder / "users")
    (site.folder / "users").write_text(f"ann:!{HASH}\neve:{HASH}\n")
    site.open(*chain, users_file=file)
    site.put("ann", password="pw")
    site.put("eve", password="pw", enabled=False)
    assert site.access.kept("", "ann") == Kept(known=True, file=file, enabled=False)
    assert site.access.kept("", "eve") == Kept(known=True, file=None, enabled=False)


def test_nobody_knows_where_a_password_is_that_a_service_may_know(site: Site) -> None:
    """What is kept here is not all that there is."""
    site.open("grid", "jwt", jwt=JwtSettings(secret_file=secret(site.folder)))
    assert site.access.kept("mqtt", "ann") is None

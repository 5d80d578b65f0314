"""Authentication and rights as configured, with real files and threads that are turned by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.auth import hashing
from iot_mqtt.auth.chain import Chain
from iot_mqtt.auth.files import FileError, signature_of
from iot_mqtt.auth.service import Access
from iot_mqtt.auth.settings import AuthSettings, HttpSettings
from iot_mqtt.auth.web import Unreachable
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Action, ConnectAttempt, Denied, Permissions, Principal
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.auth.authkit import Threads, attempt, cheap_hash, outcome, start

ADDRESS = "198.51.100.7"
WRONG = Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong")


class Site:
    """A folder with both files and the broker's access made of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.users, self.acl = folder / "users", folder / "acl"
        self.threads = Threads()
        monkeypatch.setattr(hashing, "ThreadPoolExecutor", lambda *_, **__: self.threads)
        self.write(self.users, f"ann:{cheap_hash('pw')}\n")
        self.write(self.acl, "[user ann]\nallow all a\n")

    def write(self, path: Path, text: str) -> None:
        """Replace a file, as editors do, so that it is another one even within a tick of the file system's clock."""
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)

    def open(self, **settings: Any) -> Access:
        settings = {"allow_anonymous": False, "users_file": str(self.users), "acl_file": (str(self.acl),), **settings}
        nobody: Any = None
        self.access = Access(AuthSettings(**settings), self.threads.cross, ManualClock(), web=lambda _: nobody)
        return self.access

    def connect(self, connect: ConnectAttempt) -> Principal | Denied:
        asked = start(self.access.authenticator.authenticate(connect))
        self.threads.turn()
        return outcome(asked)

    def rights(self, username: str | None = "ann", client: str = "c1", **more: Any) -> Permissions:
        who = Principal(client, username, anonymous=username is None, **more)
        return outcome(start(self.access.authorizer.permissions(who)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """User ann with password pw, who may do everything on topic a."""
    return Site(tmp_path, monkeypatch)


def test_a_user_with_its_password_is_let_in(site: Site) -> None:
    """As that user, not anonymously."""
    site.open()
    assert site.connect(attempt("ann", b"pw")) == Principal("c1", "ann", address=ADDRESS, link="file")


@pytest.mark.parametrize(
    "connect",
    [attempt("ann", b"wrong"), attempt("bob", b"pw"), attempt("ann", None), attempt("ann", b""), attempt("", b"pw")],
)
def test_wrong_names_and_wrong_passwords_get_the_same_answer(site: Site, connect: ConnectAttempt) -> None:
    """Anonymous access or not: who names a user must be that user."""
    site.open(allow_anonymous=True)
    assert site.connect(connect) == WRONG


def test_an_unknown_user_costs_a_hash_too(site: Site) -> None:
    """The same work is handed to the threads, so that time does not tell who exists."""
    site.open()
    waiting = start(site.access.authenticator.authenticate(attempt("nobody", b"pw")))
    assert len(site.threads.work) == 1
    site.threads.turn()
    assert outcome(waiting) == WRONG


@pytest.mark.parametrize("allowed", [True, False])
def test_anonymous_clients_by_setting(site: Site, allowed: bool) -> None:
    """A client without a user name, where there are users."""
    site.open(allow_anonymous=allowed)
    expected = Principal("c1", None, anonymous=True, address=ADDRESS, link="anonymous") if allowed else None
    verdict = site.connect(attempt())
    assert verdict == expected or (isinstance(verdict, Denied) and verdict.reason is ReasonCode.NOT_AUTHORIZED)
    assert isinstance(verdict, Principal) is allowed


def test_without_users_a_name_is_let_in_but_counts_for_nothing(site: Site) -> None:
    """Anonymous access and no file of users: the name was not verified."""
    site.open(allow_anonymous=True, users_file=None)
    who = Principal("c1", "ann", anonymous=True, address=ADDRESS, link="anonymous")
    assert site.connect(attempt("ann", b"whatever")) == who


def test_without_users_and_without_anonymous_nobody_gets_in(site: Site) -> None:
    """No answer means no."""
    site.open(users_file=None)
    verdict = site.connect(attempt("ann", b"pw"))
    assert isinstance(verdict, Denied)
    assert verdict.reason is ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize(
    ("setting", "username", "name"),
    [(True, None, "plc-7"), (True, "plc-7", "plc-7"), (True, "ann", None), (False, None, None)],
)
def test_a_certificate_stands_for_its_user(site: Site, setting: bool, username: str | None, name: str | None) -> None:
    """Where the settings say so and the client claims to be no other."""
    site.open(certificate_as_user=setting)
    verdict = site.connect(attempt(username, None, certificate_name="plc-7"))
    assert (verdict.username if isinstance(verdict, Principal) else None) == name


def test_a_user_who_is_disabled_stays_out(site: Site) -> None:
    """With the right password and with a certificate, in the words of a wrong password."""
    site.write(site.users, f"ann:!{cheap_hash('pw')}\n")
    site.open(certificate_as_user=True)
    assert site.connect(attempt("ann", b"pw")) == WRONG
    verdict = site.connect(attempt(None, None, certificate_name="ann"))
    assert isinstance(verdict, Denied)
    assert verdict.reason is ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize("line", ["\n", "ann:!{hash}\n"], ids=["deleted", "disabled"])
def test_who_is_gone_is_told_of_and_has_no_rights(site: Site, line: str) -> None:
    """Whoever listens hears the names once; nothing is done in the name of a session that is left behind."""
    access = site.open()
    told: list[frozenset[str]] = []
    access.on_changed = told.append
    assert access.look(changed_only=True)() == []
    assert told == []
    site.write(site.users, line.format(hash=cheap_hash("pw")))
    access.look(changed_only=True)()
    assert told == [{"ann"}]
    assert not site.rights("ann").allows(Action.PUBLISH, "a")
    site.write(site.users, f"ann:{cheap_hash('other')}\n")
    access.look(changed_only=True)()
    assert told == [{"ann"}, frozenset()]
    assert site.rights("ann").allows(Action.PUBLISH, "a")
    site.write(site.acl, "[user ann]\nallow all b\n")
    access.look(changed_only=True)()
    assert told[2:] == [frozenset()]


def test_a_file_that_cannot_be_used_is_known_until_it_can_be(site: Site) -> None:
    """Its error is returned once; whom it disables is in meanwhile."""
    access = site.open()
    assert access.outdated == []
    site.write(site.users, "ann:oops\n")
    site.write(site.acl, "[nonsense\n")
    (users, acl) = access.look(changed_only=True)()
    assert access.look(changed_only=True)() == []
    assert access.outdated == [users, acl]
    site.write(site.acl, "[user ann]\nallow all a\n")
    site.write(site.users, f"ann:{cheap_hash('pw')}\n")
    access.look(changed_only=True)()
    assert access.outdated == []


def test_a_file_that_others_may_read_now_is_another(site: Site) -> None:
    """One that could not be read is read when its rights are mended, although its text is the same."""
    before = signature_of(str(site.users))
    written = site.users.stat().st_mtime_ns
    for _ in range(100_000):  # the clock of the file system has ticks
        site.users.chmod(0o640)
        if signature_of(str(site.users)) != before:
            break
    assert signature_of(str(site.users)) != before and site.users.stat().st_mtime_ns == written


def test_a_certificate_need_not_be_in_the_file_of_users(site: Site) -> None:
    """Whom only certificates name is not gone for that."""
    site.open(certificate_as_user=True, acl_file=None)
    assert site.rights("plc-7").unrestricted
    site.open(certificate_as_user=False, acl_file=None)
    assert not site.rights("plc-7").allows(Action.PUBLISH, "a")


def test_anonymous_sessions_have_no_rights_where_nobody_is_anonymous(site: Site) -> None:
    """One may be left from a time when there were some."""
    site.write(site.acl, "[all]\nallow all a\n")
    site.open(allow_anonymous=False)
    assert not site.rights(None).allows(Action.PUBLISH, "a")
    site.open(allow_anonymous=True)
    assert site.rights(None).allows(Action.PUBLISH, "a")


@pytest.mark.parametrize(
    ("link", "line", "may"),
    [
        ("file", "ann:{hash}\n", True),
        ("file", "", False),
        ("SCRAM-SHA-256", "", False),
        ("file", "ann:!{hash}\n", False),
        ("certificate", "", True),
        ("certificate", "ann:!{hash}\n", False),
        ("jwt", "", False),
        ("", "", True),
    ],
)
def test_rights_go_with_the_link_that_let_a_client_in(site: Site, link: str, line: str, may: bool) -> None:
    """Who came in by a password is gone with it, also where others could vouch; no link vouches that is not there. Of
    records of before nobody knows the link: any could have been it.
    """
    site.write(site.users, line.format(hash=cheap_hash("pw")))
    site.open(certificate_as_user=True)
    assert site.rights("ann", link=link).allows(Action.PUBLISH, "a") is may


def test_a_service_may_let_in_who_names_nobody(site: Site) -> None:
    """Such a client has the rights of those without a user, whether or not others are let in without asking."""
    site.write(site.acl, "[all]\nallow all a\n")
    site.open(chain=("http", "file"))
    assert site.rights(None, link="http").allows(Action.PUBLISH, "a")
    assert not site.rights(None, link="anonymous").allows(Action.PUBLISH, "a")


def test_changes_are_seen_within_a_second_by_default() -> None:
    """What is done about them takes time, too."""
    assert 0 < AuthSettings().reload_seconds <= 0.5


def test_a_full_queue_is_an_answer(site: Site) -> None:
    """The client is told that the server is busy, not that it is wrong."""
    site.open(hash_threads=1, hash_queue=0)
    start(site.access.authenticator.authenticate(attempt("ann", b"one")))
    verdict = outcome(start(site.access.authenticator.authenticate(attempt("ann", b"two"))))
    assert isinstance(verdict, Denied)
    assert verdict.reason is ReasonCode.SERVER_BUSY


def test_a_reload_takes_effect_for_who_comes_next(site: Site) -> None:
    """A new password counts at once although the old one's verdict is remembered."""
    site.open()
    assert isinstance(site.connect(attempt("ann", b"pw")), Principal)
    site.write(site.users, f"ann:{cheap_hash('new')}\n")
    assert site.access.look(changed_only=True)() == []
    assert site.connect(attempt("ann", b"pw")) == WRONG
    assert isinstance(site.connect(attempt("ann", b"new")), Principal)


def test_a_user_removed_while_a_thread_is_busy_stays_out(site: Site) -> None:
    """What the file says when the verdict comes is what counts."""
    site.open()
    waiting = start(site.access.authenticator.authenticate(attempt("ann", b"pw")))
    site.write(site.users, "\n")
    site.access.look(changed_only=False)()
    site.threads.turn()
    assert outcome(waiting) == WRONG


def test_a_wrong_file_keeps_the_old_rules_and_complains_once(site: Site) -> None:
    """Both files: the old text counts until the new one is right."""
    access = site.open()
    rights = site.rights()
    site.write(site.users, "ann:oops\n")
    site.write(site.acl, "[user ann]\nallow everything a\n")
    assert [(error.path, error.line) for error in access.look(changed_only=True)()] == [
        (str(site.users), 1),
        (str(site.acl), 2),
    ]
    assert access.look(changed_only=True)() == []
    assert isinstance(site.connect(attempt("ann", b"pw")), Principal)
    assert rights.allows(Action.PUBLISH, "a")
    assert len(access.look(changed_only=False)()) == 2


def test_a_file_that_vanishes_keeps_the_old_rules(site: Site) -> None:
    """And comes back when it comes back."""
    access = site.open()
    site.users.unlink()
    assert [error.line for error in access.look(changed_only=True)()] == [None]
    assert isinstance(site.connect(attempt("ann", b"pw")), Principal)
    site.write(site.users, f"bob:{cheap_hash('pw')}\n")
    assert access.look(changed_only=True)() == []
    assert isinstance(site.connect(attempt("bob", b"pw")), Principal)


@pytest.mark.parametrize("which", ["users", "acl"])
def test_a_wrong_file_at_the_start_is_an_error(site: Site, which: str) -> None:
    """There is no old text to keep then."""
    getattr(site, which).write_bytes(b"# fine\n\xff\n")
    with pytest.raises(FileError, match=":2: is not UTF-8"):
        site.open()
    getattr(site, which).unlink()
    with pytest.raises(FileError, match="No such file"):
        site.open()


def test_rights_follow_the_file_while_a_client_is_in(site: Site) -> None:
    """The version moves on, so that verdicts remembered by the connection are dropped."""
    site.write(site.users, f"ann:{cheap_hash('pw')}\nbob:{cheap_hash('pw')}\n")
    access = site.open()
    ann, bob = site.rights("ann"), site.rights("bob")
    before = ann.version, bob.version
    site.write(site.acl, "# moved down\n[user ann]\nallow all a\n[user bob]\nallow all b\n")
    assert access.look(changed_only=True)() == []
    assert ann.version == before[0], "nothing changed for ann"
    assert bob.version != before[1]
    assert bob.allows(Action.SUBSCRIBE, "b")
    assert not ann.allows(Action.SUBSCRIBE, "b")


def test_no_two_sets_of_rights_share_a_version(site: Site) -> None:
    """A connection that authenticates again must not take old verdicts for the new principal's."""
    site.open()
    assert len({site.rights().version for _ in range(10)}) == 10


def test_rights_of_clients_that_left_are_let_go(site: Site) -> None:
    """The authorizer keeps nobody's rights alive."""
    access = site.open()
    site.rights()
    assert len(access.authorizer._given) == 0


def test_superusers_and_brokers_without_rules_are_unrestricted(site: Site) -> None:
    """The hot path need not ask then."""
    site.open()
    assert site.rights("admin", superuser=True).unrestricted
    assert not site.rights("ann").unrestricted
    site.open(acl_file=None)
    assert site.rights("ann").unrestricted


def test_closing_stops_the_threads(site: Site) -> None:
    """No thread outlives the service."""
    site.open().close()
    assert site.threads.ended


def test_the_chain_asks_in_order_and_stops_at_an_answer() -> None:
    """None is no answer; the first answer counts, be it yes or no."""

    class Says:
        name = "says"
        counts = False

        def __init__(self, answer: Principal | Denied | None) -> None:
            self.answer = answer
            self.asked = 0

        async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
            self.asked += 1
            return self.answer

        def known(self, attempt: ConnectAttempt) -> str:
            return ""

    silent, no, yes = Says(None), Says(Denied(ReasonCode.BANNED, "no")), Says(Principal("c1"))
    verdict = outcome(start(Chain([silent, no, yes]).authenticate(attempt())))
    assert verdict == no.answer
    assert (silent.asked, no.asked, yes.asked) == (1, 1, 0)


class Away:
    """A service that cannot be reached."""

    async def post(self, *_: Any) -> tuple[int, bytes]:
        raise Unreachable("refused")

    async def get(self, *_: Any) -> tuple[int, bytes]:
        raise NotImplementedError


def test_a_service_is_one_alarm_whichever_listener_asks_it() -> None:
    """All its questions count."""
    settings = AuthSettings(chain=("http",), http=HttpSettings(url="https://service"))
    of_listeners = {"ws": ("http", "anonymous")}
    access = Access(settings, Threads().cross, ManualClock(), of_listeners=of_listeners, web=lambda _: Away())
    for listener in ("mqtt", "ws", "mqtt"):
        assert not access.alarms
        with pytest.raises(Unavailable):
            outcome(start(access.authenticator.authenticate(attempt("ann", b"pw")._replace(listener=listener))))
    assert access.alarms == (Alarm(AlarmKind.ACCESS_SERVICE, "the service of auth.http does not answer: refused"),)
    access.close()

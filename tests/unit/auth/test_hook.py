"""A service that is asked who clients are: what it may say, and what becomes of clients while it says nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from iot_mqtt.auth.accounts import Account, Accounts
from iot_mqtt.auth.fair_queue import Allowance
from iot_mqtt.auth.hashing import HashPool
from iot_mqtt.auth.links.hook import HookLink
from iot_mqtt.auth.outages import LONG, SELDOM, Outage
from iot_mqtt.auth.settings import HttpSettings
from iot_mqtt.auth.web import Unreachable, WebError
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Denied, Principal
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.auth.authkit import Threads, attempt, outcome, start
from tests.unit.auth.test_accounts import Kept


class Site:
    """The link, and a service that answers when the test says so."""

    def __init__(self, *accounts: Account, burst: int = 0, **settings: Any) -> None:
        self.clock = ManualClock()
        self.asked: list[tuple[dict[str, Any], Deferred[tuple[int, bytes]]]] = []
        threads = Threads()
        pool = HashPool(threads.cross, self.clock, allowance=Allowance(burst), executor=threads)
        settings = {"url": "https://service/mqtt", "at_once": 2, "cache_seconds": 0.0, **settings}
        self.outage = Outage("the service", self.clock)
        self.link = HookLink(
            HttpSettings(**settings), self, Accounts([Kept(*accounts)]), pool, self.clock, self.outage, lambda: "t0ken"
        )

    async def post(self, url: str, body: bytes, headers: Any, patience: float, most: int) -> tuple[int, bytes]:
        assert (url, headers["Authorization"], patience) == ("https://service/mqtt", "Bearer t0ken", 3.0)
        self.asked.append((json.loads(body), Deferred()))
        return await self.asked[-1][1]

    async def get(self, *_: Any) -> tuple[int, bytes]:
        raise NotImplementedError

    def connect(self, user: str | None = "ann", password: bytes | None = b"pw", peer: str = "198.51.100.7:5") -> Any:
        return start(self.link.consider(attempt(user, password)._replace(peer=peer)))

    def answer(self, place: int = -1, **fields: object) -> None:
        self.asked[place][1].callback((200, json.dumps(fields).encode()))

    def fail(self, peer: str, error: Exception | None = None) -> None:
        """One question for a client of this address gets no answer that can be used."""
        asked = self.connect(peer=f"{peer}:5")
        self.asked[-1][1].errback(error or WebError("the answer was 500"))
        with pytest.raises(Unavailable):
            outcome(asked)

    def let_in(self, peer: str) -> None:
        asked = self.connect(peer=f"{peer}:5")
        self.answer(result="allow")
        assert isinstance(outcome(asked), Principal)

    def verdict(self, **fields: Any) -> Any:
        asked = self.connect()
        self.answer(**fields)
        verdict = outcome(asked)
        return verdict.reason if isinstance(verdict, Denied) else verdict


def test_the_service_is_asked_with_all_that_is_known() -> None:
    """A password that is no text is spelled in base64."""
    site = Site()
    site.connect("ann", b"pw")
    assert site.asked[0][0] == {
        "client_id": "c1",
        "username": "ann",
        "password": "pw",
        "address": "198.51.100.7",
        "listener": "mqtt",
        "version": 5,
        "certificate_name": None,
        "certificate": {},
    }
    site.connect(None, b"\xff")
    assert site.asked[1][0]["password_base64"] == "/w==" and "password" not in site.asked[1][0]


def test_what_it_says_counts() -> None:
    """Allow, with another name, groups, rules and an end; deny; ignore."""
    site = Site(Account("eve", enabled=False))
    assert site.verdict(result="allow") == Principal("c1", "ann")
    now = site.clock.wall()
    full = site.verdict(result="allow", user="plc-7", groups=["a"], rules=["allow all x"], expires_in=60)
    assert full == Principal(
        "c1", "plc-7", groups=frozenset({"a"}), brought_rules=("allow all x",), expires_at=now + 60
    )
    assert site.verdict(result="deny") is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert site.verdict(result="ignore") is None
    assert site.verdict(result="allow", user="eve") is ReasonCode.NOT_AUTHORIZED, "disabled here"
    asked = site.connect(None, None)
    site.answer(result="allow")
    assert outcome(asked) == Principal("c1", None, anonymous=True)


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"),
        (204, b""),
        (302, b'{"result":"allow"}'),
        (200, b"yes"),
        (200, b"[]"),
        (200, b'{"result":"maybe"}'),
        (200, b'{"result":true}'),
        (200, b'{"result":"allow","user":""}'),
        (200, b'{"result":"allow","user":"a\\nb"}'),
        (200, b'{"result":"allow","groups":"a"}'),
        (200, b'{"result":"allow","rules":[1]}'),
        (200, b'{"result":"allow","expires_in":-1}'),
        (200, b"[" * 100_000),
        WebError("no answer within 3 s"),
    ],
)
def test_no_answer_lets_nobody_in(answer: Any) -> None:
    """Whatever it is: the client is told to come back, and an operator why."""
    site = Site(cache_seconds=60)
    asked = site.connect()
    site.asked[0][1].errback(answer) if isinstance(answer, Exception) else site.asked[0][1].callback(answer)
    with pytest.raises(Unavailable):
        outcome(asked)
    assert "did not answer" in site.link.known(attempt("ann"))
    asked = site.connect()
    site.answer(result="allow")
    assert isinstance(outcome(asked), Principal), "it is asked again"
    assert site.link.known(attempt("ann")) == "the service is asked"


def test_so_many_are_asked_at_once_and_addresses_take_turns() -> None:
    """A flood of one address lets another wait for one answer, and is refused itself where too many wait."""
    site = Site(queue=3)
    flood = [site.connect(f"x{number}") for number in range(5)]
    assert len(site.asked) == 2
    good = site.connect("ann", peer="203.0.113.1:5")
    refused = [outcome(one) for one in flood if one.called]
    assert [one.reason for one in refused] == [ReasonCode.SERVER_BUSY]
    site.answer(0, result="deny")
    site.answer(1, result="deny")
    assert "ann" in [question["username"] for question, _ in site.asked[2:4]]
    for place in range(2, 5):
        if place < len(site.asked):
            site.answer(place, result="allow")
    assert isinstance(outcome(good), Principal)


def test_an_answer_is_remembered_for_a_few_seconds() -> None:
    """For the very same question; not longer than what it says of its end."""
    site = Site(cache_seconds=10)
    asked = site.connect()
    site.answer(result="allow")
    assert isinstance(outcome(asked), Principal)
    assert isinstance(outcome(site.connect()), Principal)
    assert len(site.asked) == 1
    site.connect("ann", b"other")
    assert len(site.asked) == 2
    site.clock.advance(10.1)
    asked = site.connect()
    assert len(site.asked) == 3
    site.answer(result="allow", expires_in=2)
    outcome(asked)
    site.clock.advance(2.1)
    site.connect()
    assert len(site.asked) == 4


def test_who_guesses_has_to_wait() -> None:
    """The service is spared."""
    site = Site(burst=2)
    for number in range(2):
        asked = site.connect("ann", b"guess-%d" % number)
        site.answer(result="deny")
        outcome(asked)
    verdict = outcome(site.connect("ann", b"another"))
    assert verdict.reason is ReasonCode.SERVER_BUSY
    assert len(site.asked) == 2


def test_who_has_hung_up_is_not_asked_for() -> None:
    """He waits no more; a question that is on its way goes on, because the service works at it all the same."""
    site = Site(cache_seconds=60)
    gone = [site.connect(f"x{number}") for number in range(40)]
    good = site.connect("ann")
    for one in gone:
        one.addErrback(lambda failure: failure.trap(CancelledError) and None)
        one.cancel()
    assert len(site.asked) == 2
    site.answer(0, result="allow")
    assert site.asked[2][0]["username"] == "ann", "the next one"
    site.answer(2, result="allow")
    assert isinstance(outcome(good), Principal)
    assert isinstance(outcome(site.connect("x0")), Principal), "the answer that nobody waited for"
    site.connect("bob"), site.connect("eve")
    assert len(site.asked) == 4, "so many at once: one is on its way since the beginning"


def test_a_question_that_nobody_waits_for_may_fail() -> None:
    """And is over then."""
    site = Site(at_once=1)
    gone, good = site.connect("x"), site.connect("ann")
    gone.addErrback(lambda failure: failure.trap(CancelledError) and None)
    gone.cancel()
    site.asked[0][1].errback(WebError("away"))
    site.answer(1, result="allow")
    assert isinstance(outcome(good), Principal)


ONE, TWO, THREE = "198.51.100.1", "198.51.100.2", "198.51.100.3"


def test_a_service_that_answers_nobody_is_an_alarm(caplog: pytest.LogCaptureFixture) -> None:
    """Clients of several addresses have to say so, in a row; and that it is over, too."""
    site = Site()
    for peer in (ONE, TWO):
        site.fail(peer)
    assert not site.outage.alarms
    site.fail(THREE)
    assert site.outage.alarms == (Alarm(AlarmKind.ACCESS_SERVICE, "the service does not answer: the answer was 500"),)
    for peer in (ONE, TWO):
        site.let_in(peer)
    assert site.outage.alarms
    site.let_in(THREE)
    assert not site.outage.alarms
    assert [record.getMessage() for record in caplog.records] == [
        "a question was not answered by the service: the answer was 500",
        "the service does not answer, and lets nobody in: the answer was 500",
        "the service answers again",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_a_service_that_cannot_be_reached_is_an_alarm_whoever_asks() -> None:
    """No client does that by its name."""
    site = Site()
    for _ in range(3):
        assert not site.outage.alarms
        site.fail(ONE, Unreachable("refused"))
    assert site.outage.alarms == (Alarm(AlarmKind.ACCESS_SERVICE, "the service does not answer: refused"),)


def test_no_client_makes_an_alarm_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """While others are answered; nor does it fill the log, or end an alarm."""
    site = Site()
    for _ in range(200):
        for _ in range(5):
            site.fail(ONE)
        site.clock.advance(1.0)
        site.let_in(TWO)
        assert not site.outage.alarms
    assert len(caplog.records) == 200 / SELDOM
    for peer in (ONE, TWO, THREE):
        site.fail(peer)
    for _ in range(200):
        for _ in range(5):
            site.let_in(ONE)
        site.clock.advance(1.0)
        site.fail(TWO)
        assert site.outage.alarms


def test_a_minute_tells_where_there_are_few_addresses(caplog: pytest.LogCaptureFixture) -> None:
    """All may come by one; and who is let in need not ask again."""
    site = Site()
    site.fail(ONE)
    site.clock.advance(LONG)
    assert not site.outage.alarms
    site.fail(ONE)
    assert site.outage.alarms
    site.let_in(ONE)
    site.clock.advance(LONG - 1)
    assert site.outage.alarms
    site.clock.advance(1)
    assert not site.outage.alarms
    assert caplog.records[-1].getMessage() == "the service answers again"


def test_another_cause_of_an_outage_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """In the alarm, too; but not at every question of a service that is in two minds."""
    site = Site()
    for peer in (ONE, TWO, THREE):
        site.fail(peer)
    caplog.clear()
    site.clock.advance(SELDOM)
    for cause in ("refused", "refused", "no route"):
        site.fail(ONE, Unreachable(cause))
    assert site.outage.alarms == (Alarm(AlarmKind.ACCESS_SERVICE, "the service does not answer: refused"),)
    site.clock.advance(SELDOM)
    site.fail(ONE, Unreachable("no route"))
    assert site.outage.alarms == (Alarm(AlarmKind.ACCESS_SERVICE, "the service does not answer: no route"),)
    assert len(caplog.records) == 2

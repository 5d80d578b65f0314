"""Everything that can be taken back, at every place where it may still be, taken back at once and looked at."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from systemkit import wire
from systemkit.access import attempt, enter, password_of
from systemkit.cross import (
    NOT_AUTHORIZED,
    PROMISED,
    Place,
    delete_rules,
    feed,
    filters_of,
    set_rules,
    soon,
    token_of,
)
from systemkit.gateways import Gateway
from systemkit.plain import Plain
from systemkit.process import BrokerProcess
from systemkit.users import call, delete_user, put_user
from systemkit.waiting import AIR
from systemkit.wire import Received
from tests.cases.cross_users import KINDS
from tests.doubles.gateway import Ack

#: Seconds of what waits: a will, and the life of the token from when all others are in. Its own will is due later.
WILL, TOKEN, TOKENS_WILL = 2, 2.5, 4
_numbers = itertools.count(10)


class Revoked:
    """A user for each kind, with something at each place. All of it is taken back at her node's and his node's back: at
    the third.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._stack = ExitStack()
        #: (kind, place) → seconds until it was gone.
        self._after: dict[tuple[str, str], float] = {}
        self._ends = 0.0
        self._wills: list[str] = []
        #: Clients that will be lost, and those that must hear nothing.
        self._dying: list[Plain] = []
        self._subscribers: list[Plain] = []

    def __enter__(self) -> Revoked:
        with ExitStack() as stack:
            self._stack = stack
            self._prepare()
            watcher = stack.enter_context(enter(self._place.third, "feeder", "revoked-watch"))
            watcher.subscribe(("lent/+/will", 1))
            probes: dict[tuple[str, str], Callable[[], bool]] = {}
            for kind in sorted(KINDS, key="token".__eq__):
                self._ends = time.time() + TOKEN
                probes |= self._have(kind)
            since = self._take_back()
            self._look(probes, since)
            self._late()
            time.sleep(max(0.0, since["rule"] + TOKENS_WILL + 0.5 - time.monotonic()))
            watcher.send(b"\xc0\x00")
            while (packet := watcher.receive()) is not None and packet.kind == wire.PUBLISH:
                self._wills.append(wire.publication(packet, 5).topic.split("/")[1])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        call(self._place.third, "DELETE", "auth/rules/lent-some")

    # Before.

    def _prepare(self) -> None:
        third = self._place.third
        for kind in ("disabled", "deleted", "group", "rule"):
            groups = ["table", "crew"] if kind == "group" else ["table"]
            put_user(third, f"k-{kind}", new=True, password=password_of(f"k-{kind}"), groups=groups)
        whom = {
            "disabled": "user k-disabled",
            "deleted": "user k-deleted",
            "group": "group crew",
            "token": "group badge",
        }
        set_rules(third, "lent-some", "".join(_rules(kind, section) for kind, section in whom.items()))
        set_rules(third, "lent-rule", _rules("rule", "user k-rule"))
        for node in set(self._place):
            soon(partial(_has_rules, node))

    def _enter(self, kind: str, client_id: str, *, his: bool, will: bool = False, kept: bool = False) -> Plain:
        node = self._place.his if his else self._place.hers
        client, answer = attempt(
            node,
            f"k-{kind}",
            f"k-{kind}-{client_id}",
            version=5,
            password=self._secret(kind),
            will=(f"lent/{kind}/will", b"gone", 1, False) if will else None,
            will_delay=0 if not will else TOKENS_WILL if kind == "token" else WILL,
            clean=False,
            expiry=600 if kept else 0,
        )
        assert answer.reason() == 0, (kind, client_id, answer)
        return client

    def _secret(self, kind: str) -> bytes:
        if kind == "token":
            return token_of("k-token", self._ends, "table", "badge")
        return password_of(f"k-{kind}").encode()

    def _have(self, kind: str) -> dict[tuple[str, str], Callable[[], bool]]:
        """Something at each place; how each is asked whether it is gone."""
        publisher, subscriber, member = (
            self._stack.enter_context(self._enter(kind, name, his=True, kept=name == "member"))
            for name in ("publisher", "subscriber", "member")
        )
        subscriber.subscribe((f"lent/{kind}/sub", 1))
        member.subscribe((f"$share/g/lent/{kind}/shared", 1))
        with self._enter(kind, "away", his=False, kept=True) as away:
            away.subscribe((f"lent/{kind}/away", 1))
            away.disconnect()
        feed(self._place.third, f"lent/{kind}/away", b"secret")
        gateway = Gateway(self._place.his, f"k-{kind}-gw", f"k-{kind}", self._secret(kind).decode()).let_in()
        self._stack.enter_context(gateway)
        gateway.post(1)
        assert not _is_refused(publisher, kind)
        self._dying.append(self._stack.enter_context(self._enter(kind, "will", his=False, will=True, kept=True)))
        self._subscribers.append(subscriber)
        return {
            (kind, "publisher"): partial(_is_refused, publisher, kind),
            (kind, "subscriber"): partial(self._hears_nothing, subscriber, kind),
            (kind, "member"): partial(_is_closed, member),
            (kind, "gateway"): partial(_posts_nothing, gateway),
        }

    # Taking back.

    def _take_back(self) -> dict[str, float]:
        """Since when each kind has nothing any more."""
        third = self._place.third
        for client in self._dying:
            client.sock.close()
        now, ends = time.monotonic(), self._ends
        put_user(third, "k-disabled", enabled=False)
        delete_user(third, "k-deleted")
        put_user(third, "k-group", groups=["table"])
        delete_rules(third, "lent-rule")
        return dict.fromkeys(KINDS, now) | {"token": now + ends - time.time()}

    def _look(self, probes: dict[tuple[str, str], Callable[[], bool]], since: dict[str, float]) -> None:
        """Ask again and again, until all is gone or it took too long."""
        while probes:
            for key, gone in list(probes.items()):
                asked_at = time.monotonic()
                if gone():
                    self._after[key] = asked_at - since[key[0]]
                elif asked_at > since[key[0]] + PROMISED + AIR:
                    self._after[key] = float("inf")
                else:
                    continue
                del probes[key]
            time.sleep(0.02)

    def _late(self) -> None:
        """What is published later is heard by nobody who lost his right to it."""
        for kind in KINDS:
            feed(self._place.his, f"lent/{kind}/sub", b"late")
        for subscriber in self._subscribers:
            if not _is_closed(subscriber):
                subscriber.ping()

    def _hears_nothing(self, subscriber: Plain, kind: str) -> bool:
        return not filters_of(self._place.his, f"k-{kind}-subscriber") or _is_closed(subscriber)

    # After.

    def check(self, kind: str, where: str) -> None:
        """One row."""
        if where == "will":
            # That of a client whose token is over is published by what the token gave: it says that the client is gone.
            assert (kind in self._wills) == (kind == "token")
        elif where == "away":
            self._check_away(kind)
        else:
            assert self._after[kind, where] <= PROMISED + AIR

    def _check_away(self, kind: str) -> None:
        """What waits is not had by coming back, at a node where the session was not."""
        his, third, user = self._place.his, self._place.third, f"k-{kind}"
        if kind in ("disabled", "deleted"):
            assert self._back(kind).reason() != 0
        if kind == "deleted":
            put_user(third, user, new=True, password=password_of(user), groups=["table"])
            soon(lambda: self._back(kind, "probe").reason() == 0)
        if kind == "disabled":
            return
        secret = token_of(user, time.time() + 60, "table") if kind == "token" else None
        back, answer = attempt(his, user, f"{user}-away", version=5, password=secret, clean=False, expiry=60)
        with back:
            assert (answer.reason(), answer.body[0]) == (0, kind != "deleted")
            back.ping()
            assert filters_of(his, f"{user}-away") == []

    def _back(self, kind: str, client_id: str = "away") -> Received:
        client, answer = attempt(
            self._place.his, f"k-{kind}", f"k-{kind}-{client_id}", version=5, clean=False, expiry=60
        )
        with client:
            return answer


def _has_rules(node: BrokerProcess) -> bool:
    return call(node, "GET", "auth/rules/lent-rule")[0] == 200


def _rules(kind: str, section: str) -> str:
    name = f"k-{kind}-gw"
    return f"[{section}]\nallow all lent/{kind}/#\nallow publish up/{name}/#\nallow subscribe down/{name}/#\n"


def _is_refused(publisher: Plain, kind: str) -> bool:
    """It publishes once more."""
    try:
        publisher.publish(f"lent/{kind}/x", b"x", qos=1, packet_id=5)
    except OSError:
        return True
    answer = publisher.receive()
    return answer is None or answer.kind == wire.DISCONNECT or answer.reason() == NOT_AUTHORIZED


def _is_closed(client: Plain) -> bool:
    try:
        packet = client.receive(0.001)
    except TimeoutError:
        return False
    assert packet is None or packet.kind == wire.DISCONNECT, f"came, though nothing should: {packet}"
    return True


def _posts_nothing(gateway: Gateway) -> bool:
    try:
        gateway.send(next(_numbers))
        return not isinstance(gateway.receive(), Ack)
    except OSError:
        return True

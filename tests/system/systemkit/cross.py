"""anna has something, bert asks for it: at one node, or at several of a cluster."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jwt

from systemkit import wire
from systemkit.access import attempt, enter, password_of
from systemkit.gateways import Gateway
from systemkit.plain import Plain
from systemkit.process import BrokerProcess
from systemkit.users import call, put_user
from systemkit.waiting import AIR
from tests.cases.cross_users import RULES, GatewayTake, Take

NOT_AUTHORIZED, REFUSED_IN_3X = 0x87, 5
DELAY = 1
#: Within how many seconds what is taken back is gone, and air for a machine that does other things as well.
PROMISED = 1.0
SECRET = "of those who make tokens for the tests"
#: Behind every other document but the last: who is in the table has what is written for him, and no more.
NO_MORE = "[group table]\ndeny all #\ndeny all $SYS/#\ndeny all $edge/#\n"
_serial = itertools.count(1)


class Place(NamedTuple):
    """Her node, his, and that of who looks, feeds and takes rights back; they may be one."""

    hers: BrokerProcess
    his: BrokerProcess
    third: BrokerProcess


def access_settings(folder: Path, *more: str) -> dict[str, object]:
    """What a node of the table is told; ``more``: links that others of its clients need."""
    secret = folder / "token-secret"
    secret.write_text(SECRET)
    return {
        "auth.chain": f"[{', '.join(('jwt', *more[:-1], 'grid', *more[-1:]))}]",
        "auth.acl_grid": "true",
        "auth.scram": "true",
        "auth.jwt.secret_file": secret,
        "auth.jwt.leeway": 0,
    }


def prepare(node: BrokerProcess) -> None:
    """The users and rules of the table; every node of a cluster has them soon."""
    for user, groups in (("anna", ["table"]), ("bert", ["table"]), ("feeder", [])):
        put_user(node, user, new=True, password=password_of(user), groups=groups, scram=user != "feeder")
    set_rules(node, "base", RULES)
    set_rules(node, "no-more", NO_MORE)


def set_rules(broker: BrokerProcess, name: str, text: str) -> None:
    status, answer = call(broker, "POST", f"auth/rules/{name}", {"text": text})
    assert status == 200, answer


def delete_rules(broker: BrokerProcess, name: str) -> None:
    assert call(broker, "DELETE", f"auth/rules/{name}")[0] == 204


def token_of(user: str, ends: float, *groups: str) -> bytes:
    """A token in place of a password."""
    return jwt.encode({"sub": user, "exp": ends, "groups": list(groups)}, SECRET, "HS256").encode()


def unique(name: str) -> str:
    """A client id or topic level that no other test has."""
    return f"{name}-{next(_serial)}"


def soon(true: Callable[[], bool]) -> None:
    """It comes true within what is promised."""
    deadline = time.monotonic() + PROMISED + AIR
    while not true():
        assert time.monotonic() < deadline, "nothing has changed"
        time.sleep(0.02)


def granted(client: Plain) -> int:
    """Of one filter. A SUBSCRIBE that cannot be right is answered by closing."""
    packet = client.receive()
    if packet is None or packet.kind == wire.DISCONNECT:
        return 0x80
    assert packet.kind == wire.SUBACK
    return packet.body[-1]


def filters_of(broker: BrokerProcess, client_id: str) -> list[str]:
    return [one["filter"] for one in call(broker, "GET", f"subscriptions?client_id={client_id}")[1]["items"]]


def feed(broker: BrokerProcess, topic: str, payload: bytes, *, retain: bool = False) -> None:
    with enter(broker, "feeder", unique("f")) as feeder:
        feeder.publish(topic, payload, qos=1, packet_id=1, retain=retain)
        feeder.expect(wire.PUBACK)


def taken(take: Take, place: Place, client_id: str, topic: str) -> None:
    """bert is refused, and what is anna's is as it was: connection, messages, will."""
    hers, his, third = place
    with enter(third, "anna", f"same-watch-{client_id}") as watcher:
        watcher.subscribe((f"{topic}/will", 1))
        anna = _hers(take, hers, client_id, topic)
        if take.state == "messages wait":
            watcher.publish(f"{topic}/waits", b"hers", qos=1, packet_id=9)
            watcher.expect(wire.PUBACK)
        bert, answer = attempt(his, "bert", client_id, version=take.version, clean=take.clean, expiry=60)
        with bert:
            assert answer.reason() == (NOT_AUTHORIZED if take.version == 5 else REFUSED_IN_3X)
            bert.until_closed()
        if anna is not None:
            with anna:
                anna.ping()
        elif take.state == "a will is delayed":
            assert watcher.expect_publication().payload == b"gone"
        else:
            back, answer = attempt(hers, "anna", client_id, version=take.version, clean=False, expiry=60)
            with back:
                assert (answer.reason(), answer.body[0]) == (0, 1), "her session is not there"
                if take.state == "messages wait":
                    assert back.expect_publication().payload == b"hers"
                else:
                    back.ping()
        watcher.ping()


def _hers(take: Take, broker: BrokerProcess, client_id: str, topic: str) -> Plain | None:
    """anna's session; her connection, if she has one."""
    delayed = take.state == "a will is delayed"
    anna = enter(
        broker,
        "anna",
        client_id,
        version=5 if delayed else take.version,
        will=(f"{topic}/will", b"gone", 1, False) if delayed else None,
        will_delay=DELAY if delayed else 0,
        kept=take.state != "connected",
    )
    anna.subscribe((f"{topic}/waits", 1))
    if take.state in ("connected", "kept while connected"):
        return anna
    if delayed:
        anna.sock.close()
    else:
        anna.disconnect()
        anna.sock.close()
    return None


def taken_by_gateway(take: GatewayTake, place: Place, name: str, topic: str) -> None:
    """bert is refused at his door; she still has her gateway with its commands, or her session with its messages."""
    doors: dict[str, Callable[[GatewayTake, Place, str, str], None]] = {"gateway": _her_gateway, "mqtt": _her_session}
    doors[take.hers](take, place, name, topic)


def _her_gateway(take: GatewayTake, place: Place, name: str, topic: str) -> None:
    with Gateway(place.hers, name, "anna").let_in() as real:
        real.post(1)
        if take.state == "connected":
            _asks(take, place.his, name)
            _command(place.third, name)
            assert real.ordered().body == b"hers"
            real.post(2)
            return
    if take.state == "a command waits":
        _command(place.third, name)
    _asks(take, place.his, name)
    with Gateway(place.third, name, "anna").let_in() as back:
        if take.state == "a command waits":
            assert back.ordered().body == b"hers"
        back.post(2)


def _her_session(take: GatewayTake, place: Place, name: str, topic: str) -> None:
    with enter(place.hers, "anna", name, kept=True) as anna:
        anna.subscribe((topic, 1))
        if take.state == "connected":
            _asks(take, place.his, name)
            anna.ping()
            return
        anna.disconnect()
    if take.state == "messages wait":
        feed(place.third, topic, b"hers")
    _asks(take, place.his, name)
    back, answer = attempt(place.third, "anna", name, version=5, clean=False, expiry=60)
    with back:
        assert (answer.reason(), answer.body[0]) == (0, 1), "her session is not there"
        if take.state == "messages wait":
            assert back.expect_publication().payload == b"hers"
        back.ping()


def _asks(take: GatewayTake, his: BrokerProcess, name: str) -> None:
    if take.by == "gateway":
        with Gateway(his, name, "bert") as thief:
            assert thief.refused() == "not_authorized"
        return
    bert, answer = attempt(his, "bert", name, version=5)
    with bert:
        assert answer.reason() == NOT_AUTHORIZED


def _command(node: BrokerProcess, name: str) -> None:
    status, answer = call(node, "POST", "commands", {"target": f"{name}/press", "body": "hers"})
    assert status == 200, answer


def places(nodes: Sequence[BrokerProcess]) -> Place:
    """The first three; of fewer the last one again."""
    return Place(*(nodes[min(number, len(nodes) - 1)] for number in range(3)))

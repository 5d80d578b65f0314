"""Bytes before the login: a bound for each connection and one for all of them."""

from __future__ import annotations

from iot_mqtt.pipeline import LoginBudget, LoginLimit
from tests.doubles.channel import EmbeddedChannel


def _channel(limit: LoginLimit) -> EmbeddedChannel:
    embedded = EmbeddedChannel()
    embedded.channel.login = limit
    return embedded


def test_a_connection_that_sends_too_much_is_closed() -> None:
    """And holds nothing of the budget any more."""
    budget = LoginBudget(1000)
    embedded = _channel(LoginLimit(budget, 10))
    embedded.feed(b"x" * 10)
    assert (budget.held, embedded.closed) == (10, False)
    embedded.feed(b"x")
    assert (budget.held, embedded.closed) == (0, True)
    assert embedded.channel.close_reason is not None
    assert embedded.channel.close_reason.name == "before_login"


def test_beyond_the_bound_of_all_the_oldest_goes() -> None:
    """The one whose first byte came first; the others stay."""
    budget = LoginBudget(100)
    every = [_channel(LoginLimit(budget, 1000)) for _ in range(3)]
    for embedded in every:
        embedded.feed(b"x" * 40)
    assert [embedded.closed for embedded in every] == [True, False, False]
    assert budget.held == 80


def test_after_the_login_nothing_counts() -> None:
    """What a client sent before it and sends after it is no concern of the budget."""
    budget = LoginBudget(100)
    embedded = _channel(LoginLimit(budget, 50))
    embedded.feed(b"x" * 40)
    embedded.channel.logged_in()
    assert budget.held == 0
    embedded.feed(b"x" * 1000)
    assert (budget.held, embedded.closed) == (0, False)


def test_who_goes_gives_back() -> None:
    """Before the login."""
    budget = LoginBudget(100)
    embedded = _channel(LoginLimit(budget, 50))
    embedded.feed(b"x" * 40)
    embedded.peer_closes()
    assert budget.held == 0


def test_bytes_of_a_handshake_count() -> None:
    """The channel sees none of them."""
    budget = LoginBudget(100)
    embedded = _channel(LoginLimit(budget, 50))
    embedded.channel.encrypted(30)
    embedded.channel.encrypted(30)
    assert (budget.held, embedded.closed) == (0, True)

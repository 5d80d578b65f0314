"""Users of several stores as one, and what stands in for names that nobody has."""

from __future__ import annotations

from collections import Counter

import pytest

from iot_mqtt.auth import kinds
from iot_mqtt.auth.accounts import Account, Accounts
from tests.unit.auth.authkit import cheap_hash

CHEAP = cheap_hash("x")
PBKDF2 = kinds.decoy(("salted", "pbkdf2-sha512,101"))


class Kept:
    """A store of a few users."""

    def __init__(self, *accounts: Account) -> None:
        self.version = 0
        self.set(*accounts)

    def set(self, *accounts: Account) -> None:
        self.users = {one.name: one for one in accounts}
        self.version += 1

    def find(self, name: str) -> Account | None:
        return self.users.get(name)

    def costs(self) -> Counter[kinds.Cost]:
        return Counter(kinds.cost(one.hash) for one in self.users.values() if one.hash)

    def iterations(self) -> Counter[int]:
        return Counter(one.scram.iterations for one in self.users.values() if one.scram)


def test_the_first_store_that_has_a_name_decides_and_any_store_may_disable_it() -> None:
    """Groups are those of all of them."""
    first = Kept(Account("ann", CHEAP, groups=frozenset({"a"})))
    second = Kept(Account("ann", PBKDF2, enabled=False, groups=frozenset({"b"})), Account("bob", PBKDF2))
    accounts = Accounts([first, second])
    assert accounts.hash_of("ann") == CHEAP
    assert accounts.hash_of("bob") == PBKDF2
    assert accounts.is_disabled("ann")
    assert accounts.groups_of("ann") == {"a", "b"}
    assert (accounts.find("eve"), accounts.is_disabled("eve"), accounts.groups_of("eve")) == (None, False, frozenset())


def test_unknown_names_cost_what_known_ones_of_all_stores_cost() -> None:
    """In the same proportions, always the same for a name, and by what there is now."""
    second = Kept(*(Account(f"u{number}", PBKDF2) for number in range(2)))
    accounts = Accounts([Kept(Account("ann", CHEAP)), second])
    names = [f"nobody-{number}" for number in range(900)]
    costs = [kinds.cost(accounts.hash_of(name)) for name in names]
    assert 500 < costs.count(("salted", "pbkdf2-sha512,101")) < 700
    assert set(costs) == {("salted", "pbkdf2-sha512,101"), kinds.cost(CHEAP)}
    assert costs == [kinds.cost(accounts.hash_of(name)) for name in names]
    second.set()
    assert {kinds.cost(accounts.hash_of(name)) for name in names} == {kinds.cost(CHEAP)}


def test_a_user_without_a_password_costs_what_others_cost() -> None:
    """And no password fits."""
    accounts = Accounts([Kept(Account("ann", CHEAP), Account("plc"))])
    assert kinds.cost(accounts.hash_of("plc")) == kinds.cost(CHEAP)
    assert not kinds.verify(accounts.hash_of("plc"), b"")


@pytest.mark.parametrize(
    ("patterns", "client_id", "may"),
    [
        ((), "anything", True),
        (("line-*",), "line-7", True),
        (("line-*",), "Line-7", False),
        (("line-?", "press"), "press", True),
        (("line-?",), "line-77", False),
        (("a[1]",), "a1", False),
        (("a[1]",), "a[1]", True),
        (("line-*",), "", True),
    ],
)
def test_patterns_of_client_ids(patterns: tuple[str, ...], client_id: str, may: bool) -> None:
    """Any of them; brackets are themselves; an id that the broker gives is free."""
    assert Account("a", client_ids=patterns).may_be(client_id) is may

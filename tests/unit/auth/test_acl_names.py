"""The table of names: who may have which client id and be which gateway. A new case is a new row."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from iot_mqtt.auth.acl import decide, parse_rules
from iot_mqtt.ports.access import Action, Principal

CLIENT, GATEWAY = Action.CLIENT, Action.GATEWAY


class Case(NamedTuple):
    """One question; ``user=None`` is an anonymous client."""

    name: str
    rules: str
    asked: str
    allowed: bool
    user: str | None = "ann"
    action: Action = CLIENT


OWN = "[all]\nallow client %u\nallow client %u-*"

CASES = [
    # Names that nobody wrote about are free.
    Case("an empty file leaves names free", "", "x", True),
    Case("rules about topics say nothing of names", "[all]\ndeny all #", "x", True),
    Case("all topics are no names", "[user ann]\nallow all #", "x", True),
    Case("another user's names say nothing of mine", "[user bob]\nallow client bob-*", "x", True),
    Case("gateways say nothing of client ids", "[all]\nallow gateway g-*", "x", True),
    Case("client ids say nothing of gateways", "[all]\nallow client c-*", "x", True, action=GATEWAY),
    # Whoever has a list may use no other.
    Case("an allowed name", "[user ann]\nallow client ann-*", "ann-1", True),
    Case("a name beside the list", "[user ann]\nallow client ann-*", "bob-1", False),
    Case("a list for all", "[all]\nallow client dev-?", "dev-1", True),
    Case("one sign is one sign", "[all]\nallow client dev-?", "dev-12", False),
    Case("a list for all is for anonymous clients too", "[all]\nallow client dev-?", "x", False, user=None),
    Case("gateways", "[user ann]\nallow gateway line-*", "line-9", True, action=GATEWAY),
    Case("another's gateway", "[user ann]\nallow gateway line-1?", "line-9", False, action=GATEWAY),
    # The first rule that speaks of it.
    Case("a deny alone takes one name", "[all]\ndeny client line-9", "line-9", False),
    Case("and leaves the others", "[all]\ndeny client line-9", "line-8", True),
    Case("a deny before an allow", "[all]\ndeny client a-9\nallow client a-*", "a-9", False),
    Case("an allow before a deny", "[all]\nallow client a-9\ndeny client a-*", "a-9", True),
    Case("reserved for one user", "[user ann]\nallow client plc-*\n[all]\ndeny client plc-*", "plc-1", True),
    Case(
        "and kept from others", "[user ann]\nallow client plc-*\n[all]\ndeny client plc-*", "plc-1", False, user="bob"
    ),
    Case("who keep the rest", "[user ann]\nallow client plc-*\n[all]\ndeny client plc-*", "x", True, user="bob"),
    # The user's name, sign for sign.
    Case("one's own name", OWN, "ann", True),
    Case("and what begins with it", OWN, "ann-7", True),
    Case("not another's", OWN, "bob-7", False),
    Case("nobody's name fits no allow", OWN, "-7", False, user=None),
    Case("and is any text in a deny", "[all]\ndeny client x-%u-y", "x-1-y", False, user=None),
    Case("a user called * is called *", OWN, "bob", False, user="*"),
    Case("and may use just that", OWN, "*", True, user="*"),
    Case("a user called [a-z] is called so", OWN, "b", False, user="[a-z]"),
    Case("and has its name", OWN, "[a-z]", True, user="[a-z]"),
    # Patterns are plain.
    Case("brackets are brackets", "[all]\nallow client [ab]", "a", False),
    Case("and match themselves", "[all]\nallow client [ab]", "[ab]", True),
    Case("big and small letters differ", "[all]\nallow client Ann", "ann", False),
    Case("a pattern is the whole name", "[all]\nallow client nn", "ann", False),
    Case("a newline hides nothing", "[all]\ndeny client a*", "a\nb", False),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_table_of_names(case: Case) -> None:
    """Every row is answered as it says."""
    who = Principal("c1", case.user, anonymous=case.user is None)
    rules = parse_rules(case.rules, "acl").of(who)
    assert decide(rules, who, case.action, case.asked) is case.allowed
    assert rules.allows(who, case.action, case.asked) is case.allowed


def test_a_name_rule_is_no_rule_about_topics() -> None:
    """A right to a name opens no topic."""
    who = Principal("c1", "ann")
    rules = parse_rules("[all]\nallow client *\nallow gateway *", "acl").of(who)
    assert not decide(rules, who, Action.PUBLISH, "a")
    assert not decide(rules, who, Action.SUBSCRIBE, "a")


def test_sessions_are_owned_by_verified_names() -> None:
    """A name that nobody verified owns as much as no name."""
    assert Principal("c1", "ann").owner == "ann"
    assert Principal("c1", "ann", anonymous=True).owner == ""
    assert Principal("c1", None, anonymous=True).owner == ""
    assert Principal("c1").owner == ""

"""The ACL table: who asks what, under which rules, and the answer. A new case of a rights bug is a new row."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from iot_mqtt.auth.acl import decide, parse_rules
from iot_mqtt.ports.access import Action, Principal

PUB, SUB, READ, REPLAY = Action.PUBLISH, Action.SUBSCRIBE, Action.READ, Action.REPLAY


class Case(NamedTuple):
    """One question; ``user=None`` is an anonymous client."""

    name: str
    rules: str
    action: Action
    asked: str
    allowed: bool
    user: str | None = "ann"
    client: str = "c1"


ANN_PLANT = "[user ann]\nallow all plant/#"

CASES = [
    # Absent means no.
    Case("an empty file allows nothing", "", PUB, "a", False),
    Case("no rule about a topic is a no", ANN_PLANT, PUB, "office/door", False),
    Case("a right to publish is none to subscribe", "[user ann]\nallow publish a", SUB, "a", False),
    Case("a right to subscribe is none to publish", "[user ann]\nallow subscribe a", PUB, "a", False),
    Case("whoever may subscribe may receive", "[user ann]\nallow subscribe a/+", READ, "a/b", True),
    Case("write is publish", "[user ann]\nallow write a", PUB, "a", True),
    Case("read is subscribe", "[user ann]\nallow read a", SUB, "a", True),
    # Sections.
    Case("a user's rule is for that user", ANN_PLANT, PUB, "plant/1", True),
    Case("and for no other", ANN_PLANT, PUB, "plant/1", False, user="bob"),
    Case("nor for a user whose name only begins so", ANN_PLANT, PUB, "plant/1", False, user="ann2"),
    Case("all means users", "[all]\nallow publish a", PUB, "a", True),
    Case("all means anonymous clients too", "[all]\nallow publish a", PUB, "a", True, user=None),
    Case("anonymous does not mean users", "[anonymous]\nallow publish a", PUB, "a", False),
    Case("anonymous means anonymous clients", "[anonymous]\nallow publish a", PUB, "a", True, user=None),
    Case("a user's rule is not for anonymous clients", ANN_PLANT, PUB, "plant/1", False, user=None),
    Case(
        "a section may come in parts", "[user ann]\nallow publish a\n[all]\n[user ann]\nallow publish b", PUB, "b", True
    ),
    # The first decisive rule.
    Case("a deny before an allow decides", "[all]\ndeny publish a/x\nallow publish a/#", PUB, "a/x", False),
    Case("an allow before a deny decides", "[all]\nallow publish a/#\ndeny publish a/x", PUB, "a/x", True),
    Case("a deny of something else decides nothing", "[all]\ndeny publish a/x\nallow publish a/#", PUB, "a/y", True),
    Case(
        "sections are read in the order of the file",
        "[all]\ndeny publish a/#\n[user ann]\nallow publish a/#",
        PUB,
        "a/b",
        False,
    ),
    Case("a user's section may come first", "[user ann]\nallow publish a\n[all]\ndeny publish a", PUB, "a", True),
    Case("a deny to publish does not deny to subscribe", "[all]\ndeny publish #\nallow all a", SUB, "a", True),
    # Wildcards in what is published under.
    Case("+ is one level", "[all]\nallow publish a/+", PUB, "a/b", True),
    Case("+ is not two levels", "[all]\nallow publish a/+", PUB, "a/b/c", False),
    Case("+ is an empty level", "[all]\nallow publish a/+", PUB, "a/", True),
    Case("# is its parent too", "[all]\nallow publish a/#", PUB, "a", True),
    Case("a topic is compared with regard to case", "[all]\nallow publish A", PUB, "a", False),
    # Subscriptions: allowed if covered as a whole.
    Case("the rule's own filter", "[all]\nallow subscribe a/+/c", SUB, "a/+/c", True),
    Case("a narrower filter", "[all]\nallow subscribe a/#", SUB, "a/+/c/#", True),
    Case("a filter that reaches beyond by #", "[all]\nallow subscribe a/+", SUB, "a/#", False),
    Case("a filter that reaches beyond by +", "[all]\nallow subscribe a/b", SUB, "a/+", False),
    Case("# against all that was allowed", ANN_PLANT, SUB, "#", False),
    Case("# where everything is allowed", "[all]\nallow subscribe #", SUB, "#", True),
    Case("a parent is covered by #", "[all]\nallow subscribe a/#", SUB, "a", True),
    Case("two halves do not make a whole", "[all]\nallow subscribe a\nallow subscribe a/+/#", SUB, "a/#", False),
    # Subscriptions: denied if any of it is.
    Case("a filter around a denied topic", "[all]\ndeny subscribe a/secret\nallow subscribe #", SUB, "#", False),
    Case("a filter across a denied one", "[all]\ndeny subscribe +/secret\nallow subscribe #", SUB, "a/+", False),
    Case("a filter beside a denied one", "[all]\ndeny subscribe a/secret\nallow subscribe #", SUB, "b/+", True),
    Case("deny read is as good", "[all]\ndeny read a/secret\nallow subscribe #", SUB, "a/#", False),
    Case("a denied topic is not received", "[all]\ndeny read a/secret\nallow subscribe #", READ, "a/secret", False),
    # Shared subscriptions.
    Case("shared, by the filter behind the group", "[all]\nallow subscribe a/#", SUB, "$share/g/a/b", True),
    Case("shared, not allowed behind the group", "[all]\nallow subscribe a/#", SUB, "$share/g/b", False),
    Case("shared, denied behind the group", "[all]\ndeny subscribe a/x\nallow read #", SUB, "$share/g/a/+", False),
    Case("shared around $SYS", "[all]\nallow subscribe #", SUB, "$share/g/$SYS/#", False),
    Case("shared without a filter", "[all]\nallow subscribe #", SUB, "$share/g", False),
    Case("a group's name is no topic", "[all]\nallow subscribe g/#", SUB, "$share/g/a", False),
    # Replays.
    Case("a right to read is none to the past", "[all]\nallow read #", REPLAY, "a", False),
    Case("a right to the past", "[all]\nallow replay a/#", REPLAY, "a/+", True),
    Case("is none to read", "[all]\nallow replay #", SUB, "a", False),
    Case("nor to receive", "[all]\nallow replay #", READ, "a", False),
    Case("nor to publish", "[all]\nallow replay #", PUB, "a", False),
    Case("all is the past too", "[all]\nallow all a", REPLAY, "a", True),
    Case("the past of more than was allowed", "[all]\nallow replay a/+", REPLAY, "a/#", False),
    Case("the past of what is denied", "[all]\ndeny replay a/x\nallow all #", REPLAY, "a/+", False),
    Case("a denied past is a present", "[all]\ndeny replay a\nallow all #", SUB, "a", True),
    Case("replay, by the filter behind the beginning", "[all]\nallow all a", REPLAY, "$replay/1h/a", True),
    Case("read, by the filter behind the beginning", "[all]\nallow read a", SUB, "$replay/1h/a", True),
    Case("a replay without a filter", "[all]\nallow all #", REPLAY, "$replay/1h", False),
    Case("a beginning is no topic", "[all]\nallow all 1h/#", REPLAY, "$replay/1h/a", False),
    # $-topics.
    Case("# says nothing about $SYS", "[all]\nallow all #", SUB, "$SYS/#", False),
    Case("+ says nothing about $SYS", "[all]\nallow all +/broker", READ, "$SYS/broker", False),
    Case("$SYS by name", "[all]\nallow subscribe $SYS/#", SUB, "$SYS/broker/uptime", True),
    Case("publishing to $SYS needs its name too", "[all]\nallow publish #", PUB, "$SYS/broker", False),
    Case("# asked for is not $SYS, so its deny is not met", "[all]\ndeny read $SYS/#\nallow read #", SUB, "#", True),
    Case("a denied # does not reach $SYS", "[all]\ndeny read #\nallow read $SYS/#", SUB, "$SYS/a", True),
    # Wills are published.
    Case("a will where one may publish", "[user ann]\nallow publish state/%c", PUB, "state/c1", True),
    Case("a will in another's name", "[user ann]\nallow publish state/%c", PUB, "state/c2", False),
    Case("a will where one may only subscribe", "[user ann]\nallow subscribe state/#", PUB, "state/c1", False),
    # Names filled in.
    Case("%c is the client id", "[all]\nallow all up/%c/#", SUB, "up/c1/#", True),
    Case("%u is the user name", "[all]\nallow all home/%u/+", PUB, "home/ann/x", True),
    Case("%u is nobody else", "[all]\nallow all home/%u/+", PUB, "home/bob/x", False),
    Case("%u of an anonymous client fits nothing", "[all]\nallow all home/%u/+", PUB, "home//x", False, user=None),
    Case("a client id of # widens nothing", "[all]\nallow all up/%c", SUB, "up/#", False, client="#"),
    Case("a client id of + widens nothing", "[all]\nallow all up/%c", SUB, "up/+", False, client="+"),
    Case("nor does it match by chance", "[all]\nallow all up/%c", PUB, "up/x", False, client="+"),
    Case("a client id with a slash widens nothing", "[all]\nallow all up/%c/#", SUB, "up/a/b/#", False, client="a/b"),
    Case("a user name with a wildcard widens nothing", "[all]\nallow all up/%u", SUB, "up/+", False, user="+"),
    Case("a client id of $SYS names nothing", "[all]\nallow all %c/#", SUB, "$SYS/#", False, client="$SYS"),
    Case("a client id of %u is just that", "[all]\nallow publish up/%c", PUB, "up/ann", False, client="%u"),
    Case("an empty client id fits nothing", "[all]\nallow all up/%c/#", SUB, "up//#", False, client=""),
    Case("a deny by name", "[all]\ndeny publish up/%c\nallow publish up/+", PUB, "up/c1", False),
    Case("a deny by name spares others", "[all]\ndeny publish up/%c\nallow publish up/+", PUB, "up/c2", True),
    Case(
        "no client id slips out of a deny",
        "[all]\ndeny publish up/%c/x\nallow publish up/#",
        PUB,
        "up/a/b/x",
        False,
        client="a/b",
    ),
    Case("%% elsewhere is text", "[all]\nallow publish 100%/x", PUB, "100%/x", True),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_table_of_rights(case: Case) -> None:
    """Every row is answered as it says."""
    who = Principal(case.client, case.user, anonymous=case.user is None)
    rules = parse_rules(case.rules, "acl").of(who)
    assert decide(rules, who, case.action, case.asked) is case.allowed


def test_an_unverified_name_is_no_name() -> None:
    """A client that was let in anonymously under a name gets neither that user's rules nor its %u."""
    who = Principal("c1", "ann", anonymous=True)
    rules = parse_rules("[user ann]\nallow all a\n[all]\nallow all home/%u", "acl").of(who)
    assert not decide(rules, who, PUB, "a")
    assert not decide(rules, who, PUB, "home/ann")

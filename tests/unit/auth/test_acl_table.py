"""The ACL table: who asks what, under which rules, and the answer. A new case of a rights bug is a new row."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from iot_mqtt.auth.acl import decide, parse_rules
from iot_mqtt.ports.access import Action, Principal, form_of

PUB, SUB, READ, REPLAY = Action.PUBLISH, Action.SUBSCRIBE, Action.READ, Action.REPLAY
#: First bytes of PUBLISH: retained, and at QoS 1 and 2.
RETAINED, AT_1, AT_2 = 0x31, 0x32, 0x34


class Case(NamedTuple):
    """One question; ``user=None`` is an anonymous client."""

    name: str
    rules: str
    action: Action
    asked: str
    allowed: bool
    user: str | None = "ann"
    client: str = "c1"
    groups: frozenset[str] = frozenset()
    address: str = "10.7.1.2"
    head: int = 0x30


CREW = frozenset({"crew", "night"})
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
    # Groups.
    Case("a group's rule is for its members", "[group crew]\nallow publish a", PUB, "a", True, groups=CREW),
    Case("and for nobody else", "[group crew]\nallow publish a", PUB, "a", False),
    Case("nor for a user who is called so", "[group ann]\nallow publish a", PUB, "a", False),
    Case(
        "of several groups", "[group day]\nallow publish a\n[group night]\nallow publish b", PUB, "b", True, groups=CREW
    ),
    Case(
        "file order, not the kind",
        "[group crew]\ndeny publish a\n[user ann]\nallow publish a",
        PUB,
        "a",
        False,
        groups=CREW,
    ),
    # Clients.
    Case("a client's rule", "[client c?]\nallow publish a", PUB, "a", True),
    Case("and for no other", "[client c?]\nallow publish a", PUB, "a", False, client="c12"),
    Case("an exact client", "[client c1]\nallow publish a", PUB, "a", True),
    Case("an exact client is not one that begins so", "[client c]\nallow publish a", PUB, "a", False),
    Case("brackets are no pattern", "[client [c]1]\nallow publish a", PUB, "a", False),
    Case("a client that is called like its user", "[client %u-*]\nallow publish a", PUB, "a", True, client="ann-7"),
    Case("and one that is not", "[client %u-*]\nallow publish a", PUB, "a", False, client="bob-7"),
    Case("nobody's name allows nothing", "[client %u-*]\nallow publish a", PUB, "a", False, user=None, client="x-7"),
    Case(
        "but denies", "[client %u-*]\ndeny publish a\n[all]\nallow publish a", PUB, "a", False, user=None, client="x-7"
    ),
    # Addresses.
    Case("from a network", "[address 10.7.0.0/16]\nallow publish a", PUB, "a", True),
    Case("not from another", "[address 10.8.0.0/16]\nallow publish a", PUB, "a", False),
    Case("from one address", "[address 10.7.1.2]\nallow publish a", PUB, "a", True),
    Case("from anywhere", "[address 0.0.0.0/0]\nallow publish a", PUB, "a", True),
    Case("which is not IPv6", "[address ::/0]\nallow publish a", PUB, "a", False),
    Case("IPv4 in IPv6", "[address 10.7.0.0/16]\nallow publish a", PUB, "a", True, address="::ffff:10.7.1.2"),
    Case(
        "of networks in networks",
        "[address 10.0.0.0/8]\ndeny publish a\n[address 10.7.0.0/16]\nallow publish a",
        PUB,
        "a",
        False,
    ),
    Case("IPv6", "[address fd00::/8]\nallow publish a", PUB, "a", True, address="fd12::1"),
    Case("an unknown place allows nothing", "[address 0.0.0.0/0]\nallow publish a", PUB, "a", False, address=""),
    Case("and denies", "[address 10.0.0.0/8]\ndeny publish a\n[all]\nallow publish a", PUB, "a", False, address=""),
    # Conditions.
    Case("QoS within the limit", "[all]\nallow publish qos<=1 a", PUB, "a", True, head=AT_1),
    Case("QoS beyond it", "[all]\nallow publish qos<=1 a", PUB, "a", False, head=AT_2),
    Case("exactly", "[all]\nallow publish qos=1 a", PUB, "a", False),
    Case("at least", "[all]\nallow publish qos>=1 a", PUB, "a", True, head=AT_2),
    Case("not retained", "[all]\nallow publish noretain a", PUB, "a", False, head=RETAINED),
    Case("not retained, and it is not", "[all]\nallow publish noretain a", PUB, "a", True),
    Case("retained only", "[all]\nallow publish retain a", PUB, "a", False),
    Case("both", "[all]\nallow publish qos<=1 noretain a", PUB, "a", False, head=AT_2 | 1),
    Case("a denied form", "[all]\ndeny publish retain #\nallow publish #", PUB, "a", False, head=RETAINED),
    Case("spares the others", "[all]\ndeny publish retain #\nallow publish #", PUB, "a", True, head=AT_2),
    Case(
        "what a condition leaves goes to the next rule",
        "[all]\nallow publish qos=0 a\nallow write qos=1 a",
        PUB,
        "a",
        True,
        head=AT_1,
    ),
    Case("a filter that looks like a condition", "[all]\nallow publish retain", PUB, "retain", True),
    Case("a condition and such a filter", "[all]\nallow publish noretain retain", PUB, "retain", False, head=RETAINED),
    # Commands and shadows.
    Case("a command", "[all]\nallow command gw/+", PUB, "down/gw/press", True, head=AT_1),
    Case("to another", "[all]\nallow command gw/+", PUB, "down/gx/press", False, head=AT_1),
    Case("is of QoS 1 or 2", "[all]\nallow command gw/+", PUB, "down/gw/press", False),
    Case("and not retained", "[all]\nallow command gw/+", PUB, "down/gw/press", False, head=AT_2 | 1),
    Case(
        "a denied command is denied in any form", "[all]\ndeny command #\nallow publish #", PUB, "down/gw/press", False
    ),
    Case("one's own commands", "[all]\nallow command %u/#", PUB, "down/ann/x", True, head=AT_2),
    Case("a right to command is none to listen", "[all]\nallow command #", SUB, "down/#", False),
    Case("a shadow is read", "[all]\nallow shadow gw/press", SUB, "shadow/gw/press/+", True),
    Case("and written", "[all]\nallow shadow gw/press", PUB, "shadow/gw/press/desired", True),
    Case("another is not", "[all]\nallow shadow gw/press", PUB, "shadow/gw/saw/desired", False),
    Case("reading only", "[all]\nallow shadow-read gw/+", PUB, "shadow/gw/saw/desired", False),
    Case("reading only is reading", "[all]\nallow shadow-read gw/+", SUB, "shadow/gw/saw/delta", True),
    Case("writing only", "[all]\nallow shadow-write gw/#", SUB, "shadow/gw/saw/delta", False),
    Case("writing only is writing", "[all]\nallow shadow-write gw/#", PUB, "shadow/gw/saw/desired", True),
    Case("a denied shadow", "[all]\ndeny shadow gw/#\nallow all #", SUB, "shadow/+/press/delta", False),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_table_of_rights(case: Case) -> None:
    """Every row is answered as it says."""
    who = Principal(case.client, case.user, case.user is None, groups=case.groups, address=case.address)
    rules = parse_rules(case.rules, "acl").of(who)
    form = form_of(case.head)
    assert decide(rules, who, case.action, case.asked, form) is case.allowed
    if case.action is PUB:
        assert bool(rules.forms(who, PUB, case.asked) & form) is case.allowed
    else:
        assert rules.allows(who, case.action, case.asked) is case.allowed


def test_an_unverified_name_is_no_name() -> None:
    """A client that was let in anonymously under a name gets neither that user's rules nor its %u."""
    who = Principal("c1", "ann", anonymous=True)
    rules = parse_rules("[user ann]\nallow all a\n[all]\nallow all home/%u", "acl").of(who)
    assert not decide(rules, who, PUB, "a")
    assert not decide(rules, who, PUB, "home/ann")

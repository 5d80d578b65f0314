"""What a user may be called, whichever link or method vouches for it."""

from __future__ import annotations

import pytest

from iot_mqtt.auth.accounts import Account, Accounts
from iot_mqtt.auth.chain import Chain
from iot_mqtt.auth.links.anonymous import AnonymousLink
from iot_mqtt.auth.links.certificate import CertificateLink
from iot_mqtt.auth.vouched import Vouching as Rules
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from tests.unit.auth.authkit import attempt, outcome, start
from tests.unit.auth.test_scram import KEYS, Site

NAMES = ["ann\x001", "ann\0evil", "ann\n", "ann\x9b31m", "ann\udcff", "", "x" * 65_536]


class Vouching:
    """A link that says what it is told to."""

    name = "made_up"
    counts = False

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def consider(self, _attempt: ConnectAttempt) -> Principal | Denied | None:
        return self._principal

    def known(self, _attempt: ConnectAttempt) -> str:
        return ""


def asked(chain: Chain, connect: ConnectAttempt) -> Principal | Denied:
    """What a login gets, and an operator who asks what it would get."""
    verdict = outcome(start(chain.authenticate(connect)))
    assert outcome(start(chain.explain(connect)))[1] == verdict
    return verdict


@pytest.mark.parametrize("name", NAMES)
def test_no_link_makes_a_user_of_such_a_name(name: str) -> None:
    """The refusal says which link it was, and spells the name out."""
    denied = asked(Chain([Vouching(Principal("c1", name))]), attempt())
    assert isinstance(denied, Denied) and denied.reason is ReasonCode.NOT_AUTHORIZED
    assert denied.detail.startswith("made_up vouches for ") and denied.detail.endswith("which no user may be called")
    assert denied.detail.isprintable() and len(denied.detail) < 500


def test_nor_a_link_that_says_no_name_and_not_anonymous() -> None:
    """It would have the sessions of everybody who has no name."""
    assert isinstance(asked(Chain([Vouching(Principal("c1"))]), attempt()), Denied)


def test_a_certificate_with_a_nul_in_its_name_is_nobodys() -> None:
    """Not the user's of that name and that generation."""
    chain = Chain([CertificateLink(Accounts([]))], Rules(Accounts([]), lambda _: 1))
    shown = attempt()._replace(certificate_name="ann\x001")
    assert isinstance(asked(chain, shown), Denied)
    ann = asked(chain, attempt()._replace(certificate_name="ann"))
    assert isinstance(ann, Principal) and ann.identity == "ann\x001"


def test_an_anonymous_client_may_call_itself_anything() -> None:
    """The name counts for nothing."""
    who = asked(Chain([AnonymousLink(any_name=True)]), attempt("ann\n"))
    assert isinstance(who, Principal) and who.owner == ""


@pytest.mark.parametrize("name", ["ann\x001", "ann\n"])
def test_a_method_makes_no_user_of_such_a_name_either(name: str) -> None:
    """Even if a store has it."""
    site = Site()
    site.kept.set(Account(name, scram=KEYS))
    assert site.log_in(name) is ReasonCode.NOT_AUTHORIZED

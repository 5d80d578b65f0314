"""The dashboard's pages about rights, the configuration and the cluster, as an admin uses them; and a viewer."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit.certificates import Authority
from systemkit.dashboard import CHROMIUM, XSS, browse, buildable, person
from systemkit.process import MOSQUITTO, BrokerProcess, ServerTls
from systemkit.starting import brokers
from systemkit.users import call, put_user

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="it has no dashboard"),
    pytest.mark.skipif(not buildable(), reason="Node.js is not there, or scripts/setup.sh web has not run"),
    pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium"),
]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Of the broker's certificate."""
    return Authority(tmp_path)


@pytest.fixture
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One that asks for users and rules of the grid: with these, clients of other tests could do nothing. Its
    certificate ends in three days, which is an alarm.
    """
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    tls = ServerTls(*authority.server(not_after=soon))
    with brokers(tmp_path_factory.mktemp("access")) as start:
        yield start(tls=tls, settings={"auth.chain": '["grid", "anonymous"]', "auth.acl_grid": "true"})


def test_each_role_is_offered_what_it_may_do_and_it_counts(broker: BrokerProcess, authority: Authority) -> None:
    """All that ``web/tests/browser/access.mjs`` does, among names that would be scripts where names are not text."""
    settings = person(broker, "ada", "admin")
    others = {role: person(broker, f"the-{role}", role) for role in ("operator", "viewer")}
    put_user(broker, XSS, new=True, groups=[XSS], client_ids=[XSS])
    for path, body in (
        ("auth/rules/bad", {"text": f"# {XSS}\n[group {XSS}]\nallow subscribe {XSS}\n"}),
        ("limits/bad", {"user": XSS, "connections": 5}),
        ("bans", {"client": XSS, "user": XSS, "reason": XSS}),
        ("shadows/press%2F1", {"desired": {"mode": "auto"}}),
        ("tokens", {"name": XSS, "role": "viewer", "scope": [f"clients/{XSS}"]}),
    ):
        status, answer = call(broker, "POST", path, body)
        assert status == 200, answer
    node = call(broker, "GET", "nodes")[1]["items"][0]["node_id"]
    assert broker.options.tls is not None
    old = (broker.options.tls.cert, broker.options.tls.key)
    told = {
        **{role: {one: other[one] for one in ("name", "password")} for role, other in others.items()},
        "mqtt": broker.ports["mqtt"],
        "node": node,
        "renewal": [[str(fresh), str(file)] for fresh, file in zip(authority.server("fresh"), old, strict=True)],
    }
    browse("access", {**settings, **told})

"""The loss identity of the cluster: what its nodes say of their lives, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from iot_mqtt.ports.identity import ClusterIdentity

Item = Mapping[str, Any]


def as_one(answers: Sequence[Item], unheard: Mapping[str, str]) -> dict[str, Any]:
    """``answers`` are ``NodeAccounts`` as they came over the link; a node without one is taken as the store has it."""
    heard = {one["number"] for one in answers}
    away = {one["number"]: one for answer in answers for one in answer["kept"] if one["number"] not in heard}
    accounts = [one["account"] for one in (*answers, *away.values())]
    dropped: Counter[str] = Counter()
    for account in accounts:
        dropped.update(account["dropped"])
    uncounted, killed = _sum(answers, "uncounted"), _sum(accounts, "killed")
    moving = _sum(accounts, "passed_on") - _sum(accounts, "taken_over")
    on_links = _sum(accounts, "lent") - _sum(accounts, "borrowed")
    found = ClusterIdentity(
        unexplained=_sum(answers, "unexplained") + moving,
        moving=moving,
        waiting=_sum(answers, "waiting") + _sum(away.values(), "waiting"),
        uncounted=uncounted,
        on_links=on_links,
        dropped=dict(dropped),
        estimated=tuple(
            name
            for name, some in (
                ("missing_nodes", unheard),
                ("uncounted", uncounted),
                # A node of the version before does not say.
                ("uncounted_losses", sum(int(one.get("uncounted_losses", 0)) for one in answers)),
                ("killed_lives", killed),
                ("links", on_links),
            )
            if some
        ),
        **{name: _sum(accounts, name) for name in _SUMMED},
    )
    # It is of no node by itself.
    return {**asdict(found), "node": "*"}


_SUMMED = (
    "matched",
    "restored",
    "delivered",
    "handed_over",
    "lives",
    "killed",
    "left",
    "left_by_killed",
    "found",
)


def _sum(items: Iterable[Item], name: str) -> int:
    return sum(int(one[name]) for one in items)

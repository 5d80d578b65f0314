"""The dry runs of several nodes as one: every node tries the rules on the end of its own log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from iot_mqtt.uplink.desk import EXAMPLES

Fields = Mapping[str, Any]


def all_trials(answers: Sequence[Fields], _: Mapping[str, str]) -> dict[str, Any]:
    """Sums; rules that not all nodes have stand one by one."""
    if len(answers) == 1:
        return dict(answers[0])
    changed = [one["changed"] for one in answers if one["changed"] is not None]
    return {
        "messages": _sum(answers, "messages"),
        "first_at": min(_known(answers, "first_at"), default=None),
        "last_at": max(_known(answers, "last_at"), default=None),
        "rules": sorted(_together(answers, "rules", _same_rule, _both_rules), key=lambda one: int(one["number"])),
        "unmatched": _sum(answers, "unmatched"),
        "unmatched_examples": _listed(answers, "unmatched_examples")[:EXAMPLES],
        "changed": sum(changed) if changed else None,
        "differences": _together(answers, "differences", _same_difference, _both_differences),
        "other_keys": _sum(answers, "other_keys"),
        "notes": list(dict.fromkeys(_listed(answers, "notes"))),
        "node": ", ".join(one["node"] for one in answers),
    }


def _sum(answers: Iterable[Fields], name: str) -> int:
    return sum(one[name] for one in answers)


def _known(answers: Iterable[Fields], name: str) -> list[float]:
    return [one[name] for one in answers if one[name] is not None]


def _listed(answers: Iterable[Fields], name: str) -> list[Any]:
    return [item for one in answers for item in one[name]]


def _together(
    answers: Iterable[Fields], name: str, key: Callable[[Fields], Hashable], both: Callable[[Fields, Fields], Fields]
) -> list[Fields]:
    """Items of like key as one, in the order in which they come first."""
    found: dict[Hashable, Fields] = {}
    for item in _listed(answers, name):
        same = key(item)
        found[same] = both(found[same], item) if same in found else item
    return list(found.values())


def _same_rule(one: Fields) -> Hashable:
    return one["number"], one["rule"]


def _both_rules(one: Fields, other: Fields) -> Fields:
    return {
        **one,
        "matched": one["matched"] + other["matched"],
        "sent": one["sent"] + other["sent"],
        "to": dict(Counter(one["to"]) + Counter(other["to"])),
        "examples": [*one["examples"], *other["examples"]][:EXAMPLES],
    }


def _same_difference(one: Fields) -> Hashable:
    return one["now"], one["then"]


def _both_differences(one: Fields, other: Fields) -> Fields:
    return {**one, "messages": one["messages"] + other["messages"]}

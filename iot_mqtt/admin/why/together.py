"""What several nodes say of one client, as one answer: a client is on one node, and others remember what was before.

The node that has the client speaks first, else the one that has its session. What another node takes for the cause
cannot be it while the client is connected, unless it has happened since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from iot_mqtt.admin.why.connection import OF_STRANGERS
from iot_mqtt.admin.why.finding import Finding, Weight

Answer = Mapping[str, Any]

#: Lists of facts, and what tells their items apart.
_LISTS: Final = {
    "attempts": ("kind", "at", "reason", "peer"),
    "unnamed": ("at", "reason", "peer"),
    "troubles": ("code", "topic", "last"),
    "held_off": ("plugin", "kind", "name"),
    "bans": ("id",),
    "commands": ("id",),
}
#: What every node says that does not have the client.
_ELSEWHERE: Final = frozenset({"never_seen", "at_home_elsewhere"})


def together(answers: Sequence[Answer], missing: Mapping[str, str]) -> dict[str, Any]:
    """One answer; there is at least one. ``missing``: who did not answer, and why."""
    first = max(answers, key=lambda one: (one["client"] is not None, one["session"] is not None))
    lists = {name: _put_together(answers, name, by) for name, by in _LISTS.items()}
    found = [*_findings(first, answers), *_unheard(first, missing)]
    if any(one["weight"] >= Weight.DELAYS for one in found):
        # Nothing keeps messages from it here, but something does elsewhere.
        found = [one for one in found if one["code"] != "well"]
    found.sort(key=lambda one: (-one["weight"], -(one["since"] or 0.0)))
    return {**first, **lists, "findings": found}


def _findings(first: Answer, answers: Sequence[Answer]) -> Iterator[dict[str, Any]]:
    """Each once. A node that knows nothing of the client is listened to in what it says of itself alone."""
    has_it = first["session"] is not None or any(
        one["weight"] >= Weight.STOPS and one["code"] not in _ELSEWHERE
        for answer in answers
        for one in answer["findings"]
    )
    said: set[tuple[str, str]] = set()
    for answer in (first, *(one for one in answers if one is not first)):
        for one in answer["findings"]:
            if one["code"] in _ELSEWHERE and (has_it or answer is not first):
                continue
            if (key := (one["code"], one["text"])) not in said:
                said.add(key)
                yield {**one, "weight": _weight(one, first, answer), "text": one["text"] + _taker(one, first, answer)}


def _unheard(first: Answer, missing: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The client may be where nobody answers, or its session is for certain."""
    home = first["home"]
    for node, reason in missing.items() if first["session"] is None else ():
        certain = home is not None and home["node"] == node
        where = "its session is on" if certain else "it may be at"
        text = f"{where} {node}, which did not answer: {reason}"
        weight = Weight.STOPS if certain else Weight.DELAYS
        yield asdict(Finding("node_unheard", weight, text, None, first["node"], "iot-mqtt ctl cluster status"))


def _weight(one: Answer, first: Answer, answer: Answer) -> int:
    """What another node says is no cause while the client is connected to the first one."""
    weight, client = int(one["weight"]), first["client"]
    if answer is not first and client is not None and one["code"] in OF_STRANGERS:
        return Weight.SAYS
    if answer is first or client is None or weight < Weight.STOPS:
        return weight
    since = one["since"]
    if one["code"] == "taken_over":
        # Two that share a client id take it from each other again and again.
        return Weight.DELAYS
    return Weight.DELAYS if since is not None and since > client["connected_at"] else Weight.WAS


def _taker(one: Answer, first: Answer, answer: Answer) -> str:
    """Who took a session over from another node."""
    client = first["client"]
    if one["code"] != "taken_over" or answer is first or client is None:
        return ""
    return f": now it is connected to {first['node']} from {client['peer']}"


def _put_together(answers: Sequence[Answer], name: str, by: Sequence[str]) -> list[dict[str, Any]]:
    """The items of all nodes, each once and with its node, the last first."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for answer in answers:
        for one in answer[name]:
            found.setdefault(tuple(one[field] for field in by), {**one, "node": answer["node"]})
    return sorted(found.values(), key=lambda one: -(one.get("at") or one.get("last") or 0.0))

"""The logs of changes of all nodes as one: each node keeps its own, and shows a part of it.

A page ends where the records of a node do that has more of them. The cursor says for each node what was shown last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from iot_mqtt.admin.audit import AuditLog, Wanted
from iot_mqtt.admin.audit_chain import Record
from iot_mqtt.admin.audit_files import Kept, Verified

#: Bytes of the records of one node's part, about.
PART_BYTES = 256 * 1024

#: Of one node, as it came over the link.
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeKept(Kept):
    """Of one node's log."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeVerified(Verified):
    """One node's log."""

    node: str


@dataclass(frozen=True, slots=True)
class Part:
    """What one node has to show: its records, and whether there are more before them."""

    items: list[Record]
    more: bool
    #: Where it is to go on once all of the records are shown: there is nothing else down to this number.
    down_to: int | None
    kept: tuple[Kept, ...]
    #: What was asked for, of all nodes: where their records go on, and the items of a page.
    shown: Mapping[str, int]
    limit: int


async def part_of(log: AuditLog, node: str, shown: Mapping[str, int], limit: int, wanted: Wanted) -> Part:
    """A node's records before what was shown of it."""
    latest = await log.latest(shown.get(node), limit + 1, wanted)
    records: list[Record] = []
    size = 0
    for record in latest.records[:limit]:
        size += len(json.dumps(record))
        if records and size > PART_BYTES:
            break
        # A copied data directory may name another node; the cursor goes by ours.
        records.append({**record, "node": node})
    cut = len(latest.records) > len(records)
    down_to = None if cut else latest.down_to
    return Part(records, cut or down_to is not None, down_to, latest.kept, shown, limit)


def page_of_all(answers: Sequence[Answer], _: Mapping[str, str]) -> dict[str, Any]:
    """A page of the parts. Of what is searched for it may have fewer than there are behind it, and none at all."""
    first = answers[0]
    items, more = _merged(answers, first["limit"])
    shown = first["shown"] | _places(answers, items)
    kept = [{**one, "node": answer["node"]} for answer in answers for one in answer["kept"]]
    return {"node": first["node"], "items": items, "after": urlencode(shown) if more else None, "kept": kept}


def verified_of_all(answers: Sequence[Answer], _: Mapping[str, str]) -> dict[str, Any]:
    """What came of looking at every record. A hash that was asked for may be of any of the nodes."""
    items = [{**one["verified"], "node": one["node"]} for one in answers]
    faults = [f"{one['node']}: {one['fault']}" for one in items if one["fault"]]
    expected = answers[0]["hash"]
    if expected is not None and not any(one["found"] for one in items):
        faults.append(f"no record has the hash {expected}")
    return {"node": answers[0]["node"], "whole": not faults, "fault": "; ".join(faults), "items": items}


def read_cursor(cursor: str | None) -> dict[str, int]:
    """What was shown last of each node. ``ValueError`` for no cursor of ours."""
    if cursor is None:
        return {}
    pairs = parse_qsl(cursor, strict_parsing=True, max_num_fields=1000)
    if not all(seq.isdecimal() and len(seq) < 16 for _, seq in pairs):
        raise ValueError("no cursor")
    return {node: int(seq) for node, seq in pairs}


def _merged(parts: Sequence[Answer], limit: int) -> tuple[list[Record], bool]:
    """The last records of all, the last first, each node's in their order; and whether there are more."""
    waiting = [(part, list(reversed(part["items"]))) for part in parts]
    items: list[Record] = []
    while len(items) < limit:
        if any(part["more"] and not records for part, records in waiting):
            return items, True
        heads = [records for _, records in waiting if records]
        if not heads:
            return items, False
        items.append(max(heads, key=lambda records: str(records[-1].get("time"))).pop())
    return items, any(records or part["more"] for part, records in waiting)


def _places(parts: Sequence[Answer], items: Sequence[Record]) -> dict[str, int]:
    """Where each node's records go on: behind the last one shown, or behind all that were looked at."""
    shown = {item["node"]: item["seq"] for item in items}
    for part in parts:
        records, down_to = part["items"], part["down_to"]
        if down_to is not None and (not records or shown.get(part["node"]) == records[-1]["seq"]):
            shown[part["node"]] = down_to
    return shown

"""The logs of changes of all nodes as one: each node keeps its own, and is asked for it.

::

    ctl ─▶ one node ─ "audit.page" ─▶ every other member
             │           │   its records before what was shown of it, the last first
             └── merged by time ◀─┘

A page ends where the records of a node do that has more of them. The cursor says for each node what was shown last. Who
did not answer is named beside the records: its are missing, not there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from iot_mqtt.admin.audit import ANYTHING, AuditLog, Wanted
from iot_mqtt.admin.audit_chain import Record
from iot_mqtt.admin.audit_files import Kept, Verified
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.ports.questions import AskingLater

Answer = TypeVar("Answer")

PAGE, VERIFY = "audit.page", "audit.verify"
#: Seconds for the answers.
PAGE_WITHIN, VERIFY_WITHIN = 5.0, 20.0
#: Bytes of the records of one answer, about.
ANSWER_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Missing:
    """A node whose log is not in an answer."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeKept(Kept):
    """Of one node's log."""

    node: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Records of all nodes, the last first."""

    items: tuple[Record, ...]
    after: str | None
    missing: tuple[Missing, ...]
    kept: tuple[NodeKept, ...]


@dataclass(frozen=True, slots=True)
class NodeVerified(Verified):
    """One node's log."""

    node: str


@dataclass(frozen=True, slots=True)
class AllVerified:
    """What came of looking at the logs of all nodes that answered."""

    whole: bool
    #: What is wrong, and where, or "".
    fault: str
    items: tuple[NodeVerified, ...]
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one node has to show: its records, and whether there are more before them."""

    node: str
    kept: tuple[Kept, ...]
    records: list[Record]
    more: bool
    #: Where it is to go on once all of the records are shown: there is nothing else down to this number.
    down_to: int | None = None


class AuditEverywhere:
    """One node's log, and those of the others where there are any."""

    def __init__(
        self, log: AuditLog, node: str, members: Callable[[], Iterable[MemberInfo]], asking: AskingLater | None = None
    ) -> None:
        self._log = log
        self._node = node
        self._members = members
        self._asking = asking
        if asking is not None:
            asking.later[PAGE] = self._answer_page
            asking.later[VERIFY] = self._answer_verify

    async def page(
        self, cursor: str | None, limit: int, node: str | None = None, wanted: Wanted = ANYTHING
    ) -> AuditPage:
        """Records before those that were shown. ``node``: only its. ``ValueError`` for no cursor of ours.

        Of what is searched for, a page may have fewer than there are behind it, and none at all.
        """
        shown = _read_cursor(cursor)
        asked = {"before": shown, "limit": limit, "node": node, "wanted": asdict(wanted)}
        question = json.dumps(asked).encode()
        parts, missing = await self._ask(PAGE, question, PAGE_WITHIN, _read_part, node)
        parts = [await self._part(question), *parts]
        items, more = merged(parts, limit)
        shown |= _places(parts, items)
        kept = tuple(NodeKept(one.chain, one.since, one.complete, part.node) for part in parts for one in part.kept)
        return AuditPage(tuple(items), urlencode(shown) if more else None, missing, kept)

    async def verify(self, expected: str | None) -> AllVerified:
        """Look at every record of every node. ``expected``: a hash that was one's last, and has to be there."""
        question = json.dumps({"hash": expected}).encode()
        found, missing = await self._ask(VERIFY, question, VERIFY_WITHIN, _read_verified)
        items = [await self._verified(expected), *found]
        faults = [f"{one.node}: {one.fault}" for one in items if one.fault]
        if expected is not None and not any(one.found for one in items):
            faults.append(f"no record has the hash {expected}")
        ordered = tuple(sorted(items, key=lambda one: one.node))
        return AllVerified(not faults, "; ".join(faults), ordered, missing)

    # Of this node.

    async def _part(self, question: bytes) -> _Part:
        asked = json.loads(question)
        limit, before = int(asked["limit"]), asked["before"].get(self._node)
        if asked["node"] not in (None, self._node):
            return _Part(self._node, (), [], more=False)
        wanted = Wanted(**asked.get("wanted", {}))
        latest = await self._log.latest(None if before is None else int(before), limit + 1, wanted)
        found = latest.records
        records: list[Record] = []
        size = 0
        for record in found[:limit]:
            size += len(json.dumps(record))
            if records and size > ANSWER_BYTES:
                break
            # A copied data directory may name another node; the cursor goes by ours.
            records.append({**record, "node": self._node})
        if len(found) > len(records):
            return _Part(self._node, latest.kept, records, more=True)
        return _Part(self._node, latest.kept, records, more=latest.down_to is not None, down_to=latest.down_to)

    async def _verified(self, expected: str | None) -> NodeVerified:
        verified = await self._log.verify(expected)
        # Not asdict: that goes down into what is kept.
        return NodeVerified(**{one.name: getattr(verified, one.name) for one in fields(verified)}, node=self._node)

    async def _answer_page(self, body: bytes) -> bytes:
        return json.dumps(asdict(await self._part(body))).encode()

    async def _answer_verify(self, body: bytes) -> bytes:
        expected = json.loads(body)["hash"]
        return json.dumps(asdict(await self._verified(None if expected is None else str(expected)))).encode()

    # Of the others.

    async def _ask(
        self, name: str, question: bytes, within: float, read: Callable[[Any], Answer], node: str | None = None
    ) -> tuple[list[Answer], tuple[Missing, ...]]:
        if self._asking is None or node == self._node:
            return [], ()
        members = {one.number: one for one in self._members() if one.state != "self"}
        answers = await self._asking.ask_all(name, question, within)
        found: list[Answer] = []
        missing: list[Missing] = []
        for number, answer in sorted(answers.items()):
            named = members[number].node_id if number in members else ""
            reason = answer if isinstance(answer, str) else "its answer cannot be understood"
            try:
                found.append(read(json.loads(answer) if isinstance(answer, bytes) else None))
            except (ValueError, KeyError, TypeError):
                missing.append(Missing(named or f"number {number}", reason))
        # Who has left is not asked, and missed only by whoever wants that very node once others have its sessions.
        gone = (one for number, one in members.items() if number not in answers and (node is not None or not one.away))
        missing += [Missing(one.node_id, f"it is {one.state}") for one in gone]
        return found, tuple(one for one in missing if node in (None, one.node))


def merged(parts: Iterable[_Part], limit: int) -> tuple[list[Record], bool]:
    """The last records of all, the last first, each node's in their order; and whether there are more."""
    waiting = [(part, list(reversed(part.records))) for part in parts]
    items: list[Record] = []
    while len(items) < limit:
        if any(part.more and not records for part, records in waiting):
            return items, True
        heads = [records for _, records in waiting if records]
        if not heads:
            return items, False
        items.append(max(heads, key=lambda records: str(records[-1].get("time"))).pop())
    return items, any(records or part.more for part, records in waiting)


def _places(parts: Iterable[_Part], items: Sequence[Record]) -> dict[str, int]:
    """Where each node's records go on: behind the last one shown, or behind all that were looked at."""
    shown = {str(item["node"]): int(item["seq"]) for item in items}
    ends = {part.node: part for part in parts if part.down_to is not None}
    for node, part in ends.items():
        last = int(part.records[-1]["seq"]) if part.records else None
        if last is None or shown.get(node) == last:
            assert part.down_to is not None
            shown[node] = part.down_to
    return shown


def _read_part(said: Any) -> _Part:
    records = [{**record, "seq": int(record["seq"]), "node": str(said["node"])} for record in said["records"]]
    down_to = said.get("down_to")
    down_to = None if down_to is None else int(down_to)
    return _Part(str(said["node"]), _read_kept(said), records, bool(said["more"]), down_to)


def _read_verified(said: Any) -> NodeVerified:
    plain = {one.name: said[one.name] for one in fields(NodeVerified) if one.name != "kept"}
    return NodeVerified(**plain, kept=_read_kept(said))


def _read_kept(said: Any) -> tuple[Kept, ...]:
    """A node of an older version says nothing of it."""
    return tuple(Kept(one["chain"], one["since"], one["complete"]) for one in said.get("kept", ()))


def _read_cursor(cursor: str | None) -> dict[str, int]:
    if cursor is None:
        return {}
    pairs = parse_qsl(cursor, strict_parsing=True, max_num_fields=1000)
    if not all(seq.isdecimal() and len(seq) < 16 for _, seq in pairs):
        raise ValueError("no cursor")
    return {node: int(seq) for node, seq in pairs}

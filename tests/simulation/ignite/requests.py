"""What a simulated gateway does for one connection, as ``cluster/gateway/PROTOCOL.md`` says it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from iot_mqtt.grid.ignite.frames import VERSION, Op, Status
from tests.doubles.gateway_body import Body, Wanted, frame, text

if TYPE_CHECKING:
    from tests.simulation.ignite.link import Link
    from tests.simulation.ignite.servers import Entry, Server

#: An answer is full at so many entries. Few, so that pages are asked for again.
ANSWER = 200
TOKEN = "secret"
LOST = "partitions are lost with the servers that had them"


class Refused(Exception):
    """Not done, and why."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def not_ready(detail: str) -> Refused:
    return Refused(Status.NOT_READY, detail)


class Requests:
    """One at a time, but for reading."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._servers = link.way.servers
        self._topics: set[str] = set()

    @property
    def _server(self) -> Server:
        return self._link.server

    @property
    def _life(self) -> tuple[int, int]:
        """Of which node."""
        identity = self._link.identity
        assert identity is not None
        return identity[:2]

    def _later(self, call: Callable[[], None]) -> None:
        self._server.clock.call_later(self._server.delay(), call)

    # Who may speak.

    def hello(self, body: Body) -> None:
        link, servers, server = self._link, self._servers, self._server
        version, token = body.number(1), body.text()
        identity = node, boot, _ = body.number(2), body.number(8), body.number(4)

        def refuse(status: Status, reason: str) -> None:
            link.refuse(status, reason)
            link.idle()

        def examine() -> None:
            if version != VERSION:
                refuse(Status.UNKNOWN_VERSION, f"version {version}")
            elif token != TOKEN:
                refuse(Status.WRONG_TOKEN, "wrong token")
            elif not server.ready or server.in_doubt:
                refuse(Status.NOT_READY, "too few servers, or in doubt")
            else:
                # First known, then examined.
                link.identity = identity
                servers.when_all_answer(server, supersede)

        def supersede() -> None:
            if link.closed:
                link.idle()
                return
            if node and boot <= servers.fences.get(node, -1):
                servers.kept_out += 1
                refuse(Status.FENCED, f"boot {boot} of node {node} was fenced")
                return
            others = self._of(node) if node else []
            if any(other.identity > identity for other in others if other.identity is not None and not other.closed):
                refuse(Status.FENCED, f"a later connection of node {node} is there")
                return
            self._close_all(others, welcome)

        def welcome() -> None:
            if not link.closed:
                if server.ready:
                    link.welcome()
                else:
                    link.refuse(Status.NOT_READY, "too few servers")
            link.idle()

        self._later(examine)

    def _of(self, node: int, boot: int | None = None) -> list[Link]:
        """Other connections of this node, of lives up to this one; those that end a request yet, too."""
        return [
            link
            for server in self._servers.members
            for link in (*server.links, *server.closing)
            if link is not self._link
            and link.identity is not None
            and link.identity[0] == node
            and (boot is None or link.identity[1] <= boot)
        ]

    def _close_all(self, links: list[Link], then: Callable[[], None]) -> None:
        """Close them, and go on when what they had begun is finished."""
        left = len(links) + 1

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for link in links:
            link.close()
            link.when_idle(one_less)
        one_less()

    # Requests.

    def begin(self, op: Op, body: Body) -> None:
        id = body.number(4)
        match op:
            case Op.COMMIT:
                self._later(lambda: self._attempt(id, lambda: self._commit(id, body)))
            case Op.SWAP:
                self._later(lambda: self._attempt(id, lambda: self._swap(id, body)))
            case Op.REMOVE_PREFIX:
                self._later(lambda: self._attempt(id, lambda: self._remove(id, body)))
            case Op.FENCE:
                self._later(lambda: self._attempt(id, lambda: self._fence(id, body)))
            case Op.LISTEN:
                topic = body.text()
                self._servers.when_all_answer(self._server, lambda: self._listen(id, topic))
            case Op.PING:
                self._done(id)
            case _:
                raise AssertionError(op)

    def _attempt(self, id: int, action: Callable[[], None]) -> None:
        """What changes something."""
        if self._server.cut_off and self._server.member:
            # It waits for the others, until it sees that it is alone.
            self._later(lambda: self._attempt(id, action))
            return
        try:
            if self._link.closed:
                raise Refused(Status.FENCED, "the connection is closed")
            if not self._server.ready:
                raise not_ready("too few servers")
            action()
        except Refused as refused:
            self._done(id, refused.status, refused.detail)

    def _done(self, id: int, status: Status = Status.DONE, detail: str = "") -> None:
        self._answer(frame(Op.DONE, struct.pack(">IB", id, status) + text(detail)))

    def _answer(self, data: bytes) -> None:
        self._link.send(data)
        self._link.idle()

    def _wrote(self, id: int) -> None:
        """It is there: whether it may be said depends on the others, if they have changed."""
        if self._server.ready and not self._server.in_doubt:
            self._done(id)
        else:
            self._done(id, Status.NOT_READY, "too few servers, or in doubt")

    def _commit(self, id: int, body: Body) -> None:
        needed = body.number(1) == 1
        stretches: list[list[Entry]] = []
        for _ in range(body.number(2)):
            cache = body.text()
            stretch: dict[bytes, Entry] = {}
            for _ in range(body.number(4)):
                key = body.key()
                assert key not in stretch, "a key occurs once in a stretch"
                stretch[key] = (cache, key, body.value())
            stretches.append(list(stretch.values()))
        assert not body.left
        puts = any(value is not None for stretch in stretches for _, _, value in stretch)
        if self._servers.full and puts and not needed:
            raise not_ready("the memory of the grid is full")
        self._servers.unfinished.add(self._life)
        self._stretch(id, iter(stretches).__next__)

    def _stretch(self, id: int, following: Callable[[], list[Entry]]) -> None:
        """One after the other."""
        try:
            entries = following()
        except StopIteration:
            self._servers.unfinished.discard(self._life)
            self._wrote(id)
        else:

            def wrote(kept: bool) -> None:
                if kept:
                    self._stretch(id, following)
                else:
                    self._done(id, Status.NOT_READY, LOST)

            self._servers.write(self._server, entries, wrote)

    def _swap(self, id: int, body: Body) -> None:
        count = body.number(2)
        swaps = [(body.text(), body.key(), body.value(), body.value()) for _ in range(count)]

        def swap() -> None:
            if self._servers.placement.lost:
                self._done(id, Status.NOT_READY, LOST)
                return
            results = bytearray()
            wanted: list[Entry] = []
            for cache, key, expected, value in swaps:
                same = self._servers.present(cache, key) == expected
                results.append(Status.DONE if same else Status.NOT_SWAPPED)
                if same:
                    wanted.append((cache, key, value))
            # At once: others swap the same keys.
            self._servers.put(wanted)
            if self._server.ready and not self._server.in_doubt:
                self._answer(frame(Op.SWAPPED, struct.pack(">IH", id, count) + bytes(results)))
            else:
                self._done(id, Status.NOT_READY, "too few servers, or in doubt")

        self._servers.when_all_answer(self._server, swap)

    def _remove(self, id: int, body: Body) -> None:
        cache, prefix = body.text(), body.key()

        def remove() -> None:
            if self._servers.placement.lost:
                self._done(id, Status.NOT_READY, LOST)
                return
            found = self._servers.entries(cache, prefix, None, 1 << 30)
            self._servers.write(self._server, [(cache, key, None) for key, _ in found], lambda _: self._wrote(id))

        self._servers.when_all_answer(self._server, remove)

    def _fence(self, id: int, body: Body) -> None:
        node, boot = body.number(2), body.number(8)
        servers, own = self._servers, self._link.identity
        if not node or (own is not None and own[0] == node and boot >= own[1]):
            raise Refused(Status.BAD_REQUEST, "a node cannot fence nobody, nor itself")

        def forbid() -> None:
            servers.fences[node] = max(boot, servers.fences.get(node, -1))
            self._close_all(self._of(node, boot), enforced)

        def enforced() -> None:
            servers.fenced[node] = max(boot, servers.fenced.get(node, -1))
            self._wrote(id)

        servers.when_all_answer(self._server, forbid)

    # Messages.

    def _listen(self, id: int, topic: str) -> None:
        end = self._link.way.end
        if self._link.closed:
            self._link.idle()
            return
        self._topics.add(topic)
        if end is not None:
            if self._link.way.listener is not self._link:
                self._link.way.listener = self._link
                end.topics.clear()
            end.topics[topic] = lambda payload: self._deliver(topic, payload)
        self._done(id)

    def _deliver(self, topic: str, payload: bytes) -> None:
        if not self._server.cut_off:
            self._link.send(frame(Op.DELIVER, text(topic) + struct.pack(">I", len(payload)) + payload))

    def pass_on(self, topic: str, payload: bytes) -> None:
        """Without a network of nodes: to every connection that listens."""
        for server in self._servers.servers:
            for link in server.links:
                if topic in link._requests._topics:
                    link._requests._deliver(topic, payload)

    # Reading.

    def read(self, body: Body) -> None:
        id = body.number(4)
        wanted = body.wanted()
        self._servers.when_all_answer(self._server, lambda: self._later(lambda: self._read(id, wanted)))

    def _read(self, id: int, wanted: Sequence[Wanted]) -> None:
        servers = self._servers
        if any(one.silent for one in servers.members) and self._server.member:
            servers.when_all_answer(self._server, lambda: self._read(id, wanted))
            return
        trouble = None
        if not self._server.ready or servers.placement.lost:
            trouble = "too few servers, or partitions are lost"
        elif servers.placement.missing and servers.rng.random() < 0.1:
            trouble = "the partitions are changing servers"
        if trouble is not None:
            self._link.send(frame(Op.DONE, struct.pack(">IB", id, Status.NOT_READY) + text(trouble)))
            return
        room = ANSWER
        pages: list[bytes] = []
        for cache, key, after, limit in wanted:
            if not limit:
                value = servers.present(cache, key)
                found = [] if value is None else [(key, value)]
                more = False
            else:
                most = min(limit, room)
                found = servers.entries(cache, key, after, most)
                more = len(found) > most
                found = found[:most]
                room -= len(found)
            pages.append(struct.pack(">BI", more, len(found)))
            for one, value in found:
                pages.append(struct.pack(">H", len(one)) + one + struct.pack(">I", len(value)) + value)
        self._link.send(frame(Op.FOUND, struct.pack(">IH", id, len(wanted)) + b"".join(pages)))

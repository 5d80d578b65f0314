"""Which readers of another node's log are offered what comes, and which wait until they are told to read on."""

from __future__ import annotations

from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.readers.cursors import SessionCursor
from iot_mqtt.broker.readers.elsewhere import ElsewhereCursor
from iot_mqtt.ports.cluster import Peers


class Links:
    """With all other nodes, as the readers of sessions here know them."""

    def __init__(self, peers: Peers, own: OwnInterest) -> None:
        self._peers = peers
        self._own = own
        #: Cursors that have read everything and wait until a peer acts on what their session wants.
        self._resting: dict[int, dict[SessionCursor, None]] = {}
        #: Those that have read all that was announced, and wait for more that is known to be there.
        self._short: dict[int, dict[ElsewhereCursor, None]] = {}
        #: Nodes of which a life is over, and the end of whose logs is being looked for: for the how manieth time.
        self._ending: dict[int, int] = {}
        self._endings = 0

    def rests(self, cursor: SessionCursor, writer: int) -> bool:
        """Whether a cursor that has read all there is of another node's log can rely on being offered what comes."""
        if writer not in self._ending and self._peers.known_by(writer, self._own.tell()):
            return True
        self._resting.setdefault(writer, {})[cursor] = None
        return False

    def wants_more(self, cursor: ElsewhereCursor) -> None:
        """It has read up to the end that was announced, and may not rest there."""
        self._short.setdefault(cursor.log.writer, {})[cursor] = None

    def is_ending(self, writer: int) -> bool:
        """Whether there may be more in the log of a node, of a life that is over, which nobody announces: what comes
        behind it, in other logs, waits.
        """
        return writer in self._ending

    def ends(self, writer: int) -> int:
        """A life of a node is over: what it has recorded has an end. Returns what ``ended`` is to be told."""
        self._endings += 1
        self._ending[writer] = self._endings
        return self._endings

    def ended(self, writer: int, which: int) -> None:
        """It is known to who reads that log."""
        if self._ending.get(writer) == which:
            del self._ending[writer]

    def acts(self, peer: int) -> None:
        """A peer acts on what is wanted here, or is not there."""
        for cursor in self._resting.pop(peer, ()):
            cursor.read_on()

    def grew(self, writer: int) -> None:
        """The end of a log is further than it was."""
        for cursor in self._short.pop(writer, ()):
            cursor.read_on()

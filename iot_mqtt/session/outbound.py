"""What is under way to a client: packet ids, the send window and the QoS 1 and 2 exchanges.

::

    QoS 1   SENT --PUBACK--> done
    QoS 2   SENT --PUBREC--> RELEASED --PUBCOMP--> done
            SENT --PUBREC >= 0x80--> done

An id is in ``entries`` from the moment it is reserved until its exchange is over, so it can't be issued
twice. Entries keep their order: PUBLISH in the order of sending, PUBREL in the order of the PUBRECs
[MQTT-4.6.0-1] [MQTT-4.6.0-4], which is the order in which a reconnect repeats them.

An entry is a ``Delivery`` where the message must be kept for that repetition, a ``Flight`` where the log keeps it
(one object for many ids), and one of the markers below where the session ends with its connection and nothing
will be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final

from iot_mqtt.errors import ProtocolViolation
from iot_mqtt.session.delivery import Delivery
from iot_mqtt.session.flight import Flight

#: Not final, so that tests may have fewer: what is compiled looks it up, too.
MAX_PACKET_ID = 65_535


class Marker(Enum):
    """States that need no message."""

    SENT_QOS1 = 1
    SENT_QOS2 = 2
    RELEASED = 3


SENT_QOS1: Final = Marker.SENT_QOS1
SENT_QOS2: Final = Marker.SENT_QOS2
RELEASED: Final = Marker.RELEASED
Entry = Delivery | Flight | Marker


_NO_IDS: Final[AbstractSet[int]] = frozenset()


class Outbound:
    """The window towards one client."""

    __slots__ = ("entries", "limit", "last", "held")

    def __init__(self, limit: int) -> None:
        self.entries: dict[int, Entry] = {}
        #: Most exchanges under way at once: the client's Receive Maximum, or our own bound.
        self.limit = limit
        #: The id that was given out last.
        self.last = 0
        #: Ids that are free and not to be given out for now.
        self.held: AbstractSet[int] = _NO_IDS

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def room(self) -> int:
        """How many more messages may be sent now."""
        return self.limit - len(self.entries)

    @property
    def released(self) -> int:
        """Exchanges that wait for PUBCOMP."""
        return sum(1 for entry in self.entries.values() if entry is RELEASED)

    def reserve(self, count: int) -> Sequence[int]:
        """``count`` packet ids that are not in flight, in the order to use them; at most ``room``.

        The ids are consecutive nearly always, which one set operation proves.
        """
        first = self.last + 1
        if count == 1 and first <= MAX_PACKET_ID and first not in self.entries and first not in self.held:
            self.last = first
            return [first]
        if first + count - 1 <= MAX_PACKET_ID:
            ids = range(first, first + count)
            if self.entries.keys().isdisjoint(ids) and self.held.isdisjoint(ids):
                self.last += count
                return ids
        return self._search(count)

    def _search(self, count: int) -> list[int]:
        """The slow way: step over the ids that are taken, wrapping at 65,535 to 1 (0 is never an id)."""
        if count > MAX_PACKET_ID - len(self.entries) - len(self.held):
            self.held = _NO_IDS
        if count > MAX_PACKET_ID - len(self.entries):
            raise ValueError("more packet ids asked for than there are")
        found: list[int] = []
        candidate = self.last
        while len(found) < count:
            candidate = candidate + 1 if candidate < MAX_PACKET_ID else 1
            if candidate not in self.entries and candidate not in self.held:
                found.append(candidate)
        self.last = candidate
        return found

    def is_free(self, ids: Sequence[int]) -> bool:
        """Whether all of these ids may be given out."""
        return self.entries.keys().isdisjoint(ids) and self.held.isdisjoint(ids)

    def skip(self, count: int) -> None:
        """Give out none of the next ``count`` ids before the others have gone round."""
        self.last = (self.last + count - 1) % MAX_PACKET_ID + 1

    def hold(self, ids: Iterable[int], ahead: int) -> None:
        """Ids that are in flight are about to be free: give none of them out that are among the next so many."""
        entries, last = self.entries, self.last
        held = [one for one in ids if 0 < (one - last) % MAX_PACKET_ID <= ahead and one in entries]
        if held:
            self.held = self.held | set(held)

    def let_go(self) -> None:
        """Give out what was held."""
        self.held = _NO_IDS

    def mark(self, ids: Sequence[int], qos: int) -> None:
        """Note messages that are sent and need not be kept."""
        sent = SENT_QOS1 if qos == 1 else SENT_QOS2
        if len(ids) == 1:
            self.entries[ids[0]] = sent
        else:
            self.entries.update(dict.fromkeys(ids, sent))

    def keep(self, delivery: Delivery) -> int:
        """Give a delivery its packet id and keep it until its exchange is over."""
        (packet_id,) = self.reserve(1)
        delivery.packet_id = packet_id
        self.entries[packet_id] = delivery
        return packet_id

    def restore(self, packet_id: int, entry: Entry) -> None:
        """Put back what was in flight before a restart; called in the order of sending."""
        if isinstance(entry, Delivery):
            entry.packet_id = packet_id
            entry.sent = True
        self.entries[packet_id] = entry
        self.last = packet_id

    def acknowledge(self, ids: Iterable[int], over: list[Entry] | None = None) -> list[Entry]:
        """PUBACK: the entries that are over. Unknown ids are passed over: a late repetition is no fault.

        ``over`` is the list to add to, for a caller who wants those in front of an id that is wrong.
        """
        over = [] if over is None else over
        entries = self.entries
        for packet_id in ids:
            entry = entries.get(packet_id)
            if entry is None:
                continue
            if entry is not SENT_QOS1 and (isinstance(entry, Marker) or entry.qos != 1):
                raise ProtocolViolation(f"PUBACK for packet id {packet_id}, which is in a QoS 2 exchange")
            del entries[packet_id]
            over.append(entry)
        return over

    def receive(self, packet_id: int) -> Entry | None:
        """PUBREC: the message has arrived; from now on only PUBREL is repeated.

        Returns what was in flight, or None for an id that is unknown (v5: answer PUBREL with 0x92).
        """
        entry = self.entries.get(packet_id)
        if entry is None:
            return None
        if entry is SENT_QOS1 or (not isinstance(entry, Marker) and entry.qos == 1):
            raise ProtocolViolation(f"PUBREC for packet id {packet_id}, which is in a QoS 1 exchange")
        # Removed and put back at the end: PUBRELs keep the order of the PUBRECs [MQTT-4.6.0-4].
        del self.entries[packet_id]
        self.entries[packet_id] = RELEASED
        return entry

    def reject(self, packet_id: int) -> Entry | None:
        """PUBREC with a reason of 0x80 or more ends the exchange [MQTT-4.3.3-4]."""
        entry = self.entries.get(packet_id)
        if entry is None or entry is RELEASED:
            return None
        return self.entries.pop(packet_id)

    def complete(self, packet_id: int) -> bool:
        """PUBCOMP; False for an id that was not released."""
        entry = self.entries.get(packet_id)
        if entry is None:
            return False
        if entry is not RELEASED:
            raise ProtocolViolation(f"PUBCOMP for packet id {packet_id}, for which no PUBREC came")
        del self.entries[packet_id]
        return True

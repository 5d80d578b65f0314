"""The CONNECT that nearly every client sends, read in one pass: the twin of ``_connecting``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_CLEAN: Final = 0x02
_WILL: Final = 0x04
_PASSWORD: Final = 0x40
_USERNAME: Final = 0x80


class ConnectReader:
    """Makes a ``connect`` of bytes, with what belongs to the codec: ``read_properties`` of a block that is not empty,
    and ``make_will`` of flags, block of properties, topic and payload. Both may refuse what they get.
    """

    def __init__(
        self,
        connect: type[Any],
        version_311: Any,
        version_5: Any,
        no_properties: Any,
        read_properties: Callable[[bytes], Any],
        make_will: Callable[[int, bytes, bytes, bytes], Any],
    ) -> None:
        self._connect = connect
        self._version_311 = version_311
        self._version_5 = version_5
        self._no_properties = no_properties
        self._read_properties = read_properties
        self._make_will = make_will

    def read(self, data: bytes, limit: int) -> Any:
        """The packet, if these bytes are a whole CONNECT of MQTT 3.1.1 or 5, no more and no less, whose blocks of
        properties are shorter than 128 bytes. None: the reader of all packets takes them, and says what is wrong.
        """
        try:
            fields = self._fields(data) if len(data) <= limit else None
        except (IndexError, ValueError):
            return None
        if fields is None:
            return None
        version, flags, keep_alive, block, client_id, will, username, password = fields
        properties = self._read_properties(block) if block else self._no_properties
        last = None if will is None else self._make_will(flags, *will)
        return self._connect(version, client_id, flags & _CLEAN != 0, keep_alive, username, password, last, properties)

    def _fields(self, data: bytes) -> tuple[Any, ...] | None:
        """What the bytes say; None, or an error, if they are not as they should be."""
        if len(data) < 14 or data[0] != 0x10:
            return None
        length, pos = data[1], 2
        if length > 127:
            if not 0 < data[2] < 128:
                return None
            length, pos = length & 127 | data[2] << 7, 3
        if pos + length != len(data) or data[pos : pos + 6] != b"\0\4MQTT" or data[pos + 6] not in (4, 5):
            return None
        five, flags = data[pos + 6] == 5, data[pos + 7]
        if flags & 1 or (flags & 0x18 == 0x18 if flags & _WILL else flags & 0x38):
            return None
        if flags & _PASSWORD and not five and not flags & _USERNAME:
            return None
        keep_alive = data[pos + 8] << 8 | data[pos + 9]
        pos += 10
        block, pos = _short_block(data, pos) if five else (b"", pos)
        name, pos = _field(data, pos)
        client_id, will, username, password = _text(name), None, None, None
        if flags & _WILL:
            will_block, pos = _short_block(data, pos) if five else (b"", pos)
            topic, pos = _field(data, pos)
            payload, pos = _field(data, pos)
            will = (will_block, topic, payload)
        if flags & _USERNAME:
            name, pos = _field(data, pos)
            username = _text(name)
        if flags & _PASSWORD:
            password, pos = _field(data, pos)
        if pos != len(data):
            return None
        version = self._version_5 if five else self._version_311
        return version, flags, keep_alive, block, client_id, will, username, password


def _field(data: bytes, pos: int) -> tuple[bytes, int]:
    """The field at ``pos``, behind its two bytes of length, and where it ends."""
    stop = pos + 2 + (data[pos] << 8 | data[pos + 1])
    return data[pos + 2 : _inside(stop, data)], stop


def _short_block(data: bytes, pos: int) -> tuple[bytes, int]:
    """The same for properties behind one byte of length."""
    stop = pos + 1 + data[pos]
    if data[pos] > 127:
        raise ValueError("a longer block")
    return data[pos + 1 : _inside(stop, data)], stop


def _inside(stop: int, data: bytes) -> int:
    if stop > len(data):
        raise IndexError("the packet ends inside a field")
    return stop


def _text(data: bytes) -> str:
    if b"\0" in data:
        raise ValueError("a string contains U+0000")
    return data.decode()

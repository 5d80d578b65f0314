"""The pure-Python twin of the part of ``_scan.pyx`` that reads pages of the log (``grid.log.page``)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any
from zlib import crc32

from iot_mqtt.native._pure_scan import FIVE, FROM_CLIENT

#: The form of a page in which nothing has an origin; its head, and that of a run.
_PLAIN = 0x10
_HEAD = Struct(">BII")
_RUN = Struct(">IIBdHI")
_COVERED = 5
_PUBLISH = 3


class PageReader:
    """Reads pages whose runs are nobody's. It fills ``logged``, a class with slots, and ``reference``, a tuple."""

    def __init__(self, scanner: Any, logged: type[Any], reference: type[Any], nobody: Any) -> None:
        self._scanner = scanner
        self._logged = logged
        self._reference = reference
        self._nobody = nobody

    def read(
        self, page: bytes, generation: int, stream: int, base: int, wanted: tuple[bytes, ...] = ()
    ) -> Sequence[Any] | None:
        """The runs of an undamaged page, whose messages are numbered from ``base`` on; an empty tuple if none of the
        topics that are ``wanted`` stands in it, where some are. None if it is another page: whoever asked then finds
        out what is wrong with it.
        """
        if len(page) < _HEAD.size:
            return None
        version, checksum, count = _HEAD.unpack_from(page)
        if version != _PLAIN or crc32(page[_COVERED:]) != checksum:
            return None
        if wanted and not any(topic in page for topic in wanted):
            return ()
        found: list[Any] = []
        at = _HEAD.size
        for _ in range(count):
            if len(page) - at < _RUN.size:
                return None
            number, messages, flags, arrived, name, size = _RUN.unpack_from(page, at)
            at += _RUN.size
            if flags > FIVE or len(page) - at < name + size:
                return None
            run = self._run(page[at + name : at + name + size], flags)
            if run is None or run.count != messages:
                return None
            try:
                publisher = page[at : at + name].decode()
            except UnicodeDecodeError:
                return None
            where = tuple.__new__(self._reference, (generation, stream, base + number, messages))
            found.append(self._logged(where, run, run.topic, publisher, arrived, self._nobody))
            at += name + size
        return found

    def _run(self, wire: bytes, flags: int) -> Any:
        items: list[Any] = []
        if wire[:1] and wire[0] >> 4 == _PUBLISH:
            end = self._scanner.scan(wire, 0, items, len(wire), flags | FROM_CLIENT)
            if end == len(wire) and len(items) == 1:
                return items[0]
        return None

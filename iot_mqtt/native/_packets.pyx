# cython: language_level=3, boundscheck=False, wraparound=False
"""The same as ``_pure_packets``, for every receive and every write of a client."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy, memmove, memset
from libc.stdlib cimport free, realloc
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    TOPIC = 64
    PREVIEW = 64
    SMALLEST = 1024
    LOOKED = 8
    #: Of the records of a CONNECT and its CONNACK: many clients say nothing else for hours.
    FIRST_ROOM = 72
    #: Of a ring, at most.
    MOST = 1 << 30
    HEAD = 16
    #: The largest record: head, types, three images.
    LARGEST = 16 + 16 * 5 + 3 * (6 + 8 + 64 + 64)

cdef uint32_t UNKNOWN = 0xFFFFFFFFU
cdef int64_t FOREVER = <int64_t> 1 << 62
cdef uint8_t *KEPT = [0, 12, 2, 0, 3, 3, 3, 3, 64, 64, 64, 64, 0, 0, 1, 1]

cdef struct Side:
    int64_t skip
    uint8_t have
    uint8_t head[5]

cdef struct Seen:
    uint8_t first
    bint five
    uint32_t length
    Py_ssize_t there
    const uint8_t *body


cdef struct Batch:
    uint32_t kinds[16]
    uint32_t packets
    Py_ssize_t rest
    Seen seen[3]


cdef inline uint8_t *put16(uint8_t *to, uint32_t value) noexcept nogil:
    to[0] = value & 255
    to[1] = value >> 8 & 255
    return to + 2


cdef inline uint8_t *put32(uint8_t *to, uint32_t value) noexcept nogil:
    return put16(put16(to, value & 0xFFFF), value >> 16)


# There is one for each connection: 144 bytes and its records. A tap, which may know its ring, is taken off at the end.
@cython.no_gc
cdef class PacketRing:
    """The same as ``_pure_packets.PacketRing``."""

    cdef object _now
    cdef public object tap
    cdef public str client_id, peer, end
    cdef uint8_t *_records
    cdef readonly Py_ssize_t written
    cdef public Py_ssize_t saved
    cdef public double since, until
    cdef Side _in
    cdef uint32_t _most, _room, _used
    cdef public int slot, position
    cdef uint8_t _preview
    cdef uint8_t _five

    def __cinit__(self, now, Py_ssize_t most, int preview=0):
        self._now = now
        self.tap = None
        self.client_id = self.peer = self.end = ""
        self.until = self.saved = self.slot = -1
        self._most = SMALLEST if most < SMALLEST else <uint32_t> most if most < MOST else MOST
        self._preview = 0 if preview < 0 else preview if preview < PREVIEW else PREVIEW

    def __dealloc__(self):
        free(self._records)

    cpdef received(self, bytes data):
        """The same as ``_pure_packets.PacketRing.received``."""
        cdef Batch batch
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        memset(batch.kinds, 0, sizeof(batch.kinds))
        batch.packets = 0
        batch.rest = 0
        self._scan(&self._in, &batch, <const uint8_t *> PyBytes_AS_STRING(data), size)
        self._push(&batch, 0, size)
        if self.tap is not None:
            self.tap(0, data)
        return batch.rest > 0

    cpdef follow(self, bytes data, Py_ssize_t held, Py_ssize_t missing):
        """The same as ``_pure_packets.PacketRing.follow``."""
        cdef const uint8_t *tail = <const uint8_t *> PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data) - held
        cdef Py_ssize_t index
        self._in.have = 0
        self._in.skip = 0
        if not held:
            return
        self._in.skip = missing
        if held < 5 and held <= PyBytes_GET_SIZE(data):
            for index in range(1, held):
                if tail[index] < 128:
                    return
            self._in.skip = 0
            self._in.have = <uint8_t> held
            memcpy(self._in.head, tail, held)

    cpdef sent(self, list parts):
        """The same as ``_pure_packets.PacketRing.sent``."""
        cdef Batch batch
        cdef Side side
        cdef Py_ssize_t size = 0
        cdef bytes part
        memset(batch.kinds, 0, sizeof(batch.kinds))
        batch.packets = 0
        batch.rest = 0
        for part in parts:
            size += PyBytes_GET_SIZE(part)
            side.have = 0
            side.skip = 0
            self._scan(&side, &batch, <const uint8_t *> PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
        self._push(&batch, 1, size)
        if self.tap is not None:
            self.tap(1, b"".join(parts))

    def place(self):
        """The same as ``_pure_packets.PacketRing.place``."""
        head = PyBytes_FromStringAndSize(<const char *> self._in.head, self._in.have)
        return head, self._in.skip, self._five != 0

    def image(self):
        """The same as ``_pure_packets.PacketRing.image``."""
        return PyBytes_FromStringAndSize(<const char *> self._records, self._used)

    cdef void _scan(self, Side *side, Batch *batch, const uint8_t *data, Py_ssize_t size) noexcept:
        cdef Py_ssize_t pos = 0, at, there
        cdef int64_t length
        cdef int shift, index
        cdef uint8_t first, byte
        while pos < size:
            if side.skip:
                if side.skip >= size - pos:
                    side.skip -= size - pos
                    return
                pos += <Py_ssize_t> side.skip
                side.skip = 0
            if batch.packets == LOOKED:
                batch.rest += size - pos
                return
            if side.have:
                side.head[side.have] = data[pos]
                side.have += 1
                pos += 1
                if side.head[side.have - 1] > 127:
                    if side.have == 5:
                        side.have = 0
                        side.skip = FOREVER
                    continue
                first = side.head[0]
                length = 0
                for index in range(1, side.have):
                    length |= <int64_t> (side.head[index] & 127) << 7 * (index - 1)
                side.have = 0
                at = pos
            else:
                first = data[pos]
                length = 0
                shift = 0
                at = pos + 1
                while True:
                    if at >= size:
                        side.have = <uint8_t> (size - pos)
                        memcpy(side.head, data + pos, size - pos)
                        return
                    byte = data[at]
                    at += 1
                    length |= <int64_t> (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                    if shift == 28:
                        side.skip = FOREVER
                        return
            there = size - at if length > size - at else <Py_ssize_t> length
            batch.kinds[first >> 4] += 1
            if first >> 4 == 1 and there > 2:
                index = 2 + (data[at] << 8 | data[at + 1])
                self._five = there > index and data[at + index] == 5
            index = <int> batch.packets if batch.packets < 2 else 2
            batch.packets += 1
            batch.seen[index].first = first
            batch.seen[index].five = self._five
            batch.seen[index].length = <uint32_t> length
            batch.seen[index].there = there
            batch.seen[index].body = data + at
            side.skip = length - there
            pos = at + there

    cdef uint8_t *_image(self, Seen *seen, uint8_t *to) noexcept:
        cdef uint8_t *began = to
        cdef uint8_t kind = seen.first >> 4
        cdef Py_ssize_t kept
        to[1] = seen.first
        to = put32(to + 2, seen.length)
        if kind == 3:
            to = self._publish(seen, to)
        else:
            kept = KEPT[kind] if seen.there > KEPT[kind] else seen.there
            memcpy(to, seen.body, kept)
            to += kept
        began[0] = <uint8_t> (to - began - 1)
        return to

    cdef uint8_t *_publish(self, Seen *seen, uint8_t *to) noexcept:
        cdef const uint8_t *body = seen.body
        cdef Py_ssize_t there = seen.there, size = 0, at, index, stop, kept
        cdef int64_t properties = 0
        cdef int shift = 0
        cdef uint32_t payload = UNKNOWN, packet_id = 0
        if there > 1:
            size = body[0] << 8 | body[1]
        at = 2 + size
        if seen.first & 6:
            if there >= at + 2:
                packet_id = body[at] << 8 | body[at + 1]
            at += 2
        if seen.five:
            index = at
            stop = at + 4 if at + 4 < there else there
            at = -1
            while index < stop:
                properties |= <int64_t> (body[index] & 127) << shift
                shift += 7
                index += 1
                if body[index - 1] < 128:
                    at = index + <Py_ssize_t> properties
                    break
        if 0 <= at <= <Py_ssize_t> seen.length and there >= at:
            payload = seen.length - <uint32_t> at
        to = put16(put16(put32(to, payload), packet_id), <uint32_t> size)
        kept = TOPIC if size > TOPIC else size
        if kept > there - 2:
            kept = there - 2 if there > 2 else 0
        memcpy(to, body + 2, kept)
        to += kept
        if payload != UNKNOWN and self._preview:
            kept = there - at if there - at < self._preview else self._preview
            memcpy(to, body + at, kept)
            to += kept
        return to

    cdef int _push(self, Batch *batch, int direction, Py_ssize_t size) except -1:
        cdef uint8_t record[LARGEST]
        cdef uint8_t *to = record + HEAD
        cdef int kind, kinds = 0, images = 3 if batch.packets > 3 else <int> batch.packets, index
        cdef Py_ssize_t whole, gone = 0, room
        cdef uint64_t at = <uint64_t> (<double> self._now() * 1000)
        if batch.rest:
            batch.kinds[0] = UNKNOWN if batch.rest > UNKNOWN else <uint32_t> batch.rest
        else:
            batch.kinds[0] = 0
        for kind in range(16):
            if batch.kinds[kind]:
                to[0] = kind
                to = put32(to + 1, batch.kinds[kind])
                kinds += 1
        for index in range(images):
            to = self._image(&batch.seen[index], to)
        whole = to - record
        put16(record, <uint32_t> whole)
        record[2] = direction
        record[3] = images << 5 | kinds
        put32(put32(record + 4, <uint32_t> (at & UNKNOWN)), <uint32_t> (at >> 32))
        put32(record + 12, UNKNOWN if size > UNKNOWN else <uint32_t> size)
        if self._used + whole > self._room:
            if self._used + whole > self._most:
                room = self._most - self._most // 4 - whole
                while self._used - gone > room and gone < self._used:
                    gone += self._records[gone] | self._records[gone + 1] << 8
                memmove(self._records, self._records + gone, self._used - gone)
                self._used -= <uint32_t> gone
            if self._used + whole > self._room:
                self._grow(self._used + whole)
        memcpy(self._records + self._used, record, whole)
        self._used += <uint32_t> whole
        self.written += 1
        return 0

    cdef int _grow(self, Py_ssize_t least) except -1:
        cdef Py_ssize_t room = self._room * 2 if self._room else FIRST_ROOM
        cdef void *grown
        while room < least:
            room *= 2
        if room > self._most:
            room = self._most
        grown = realloc(self._records, room)
        if grown == NULL:
            raise MemoryError
        self._records = <uint8_t *> grown
        self._room = <uint32_t> room
        return 0

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled twin of ``_pure.py``: same names, same results, checked against the same vectors.

``PublishRun`` is one Python class for both: this module allocates it and writes its slots at the offsets
that the slot descriptors say, which is what a Python assignment to a slot does, without the calls.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.list cimport PyList_Append, PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp, memcpy

from iot_mqtt.errors import MqttError
from iot_mqtt.native.checksum cimport crc32_of, make_crc_table
from iot_mqtt.native.slots cimport is_acyclic, member, new_instance, put_first

ctypedef const unsigned char* Bytes

make_crc_table()

FIVE = 1
FROM_CLIENT = 2
IN_ORDER = 4
NAMES = 8


cdef int UNKNOWN = 2
cdef int FROM_CLIENT_BIT = 2
cdef Py_ssize_t TOPICS_KNOWN = 16_384
cdef Py_ssize_t TOPIC_SIZE = 256
cdef Py_ssize_t MAX_REMAINING_LENGTH = 268_435_455


cdef inline Py_ssize_t long_length(Bytes data, Py_ssize_t at, Py_ssize_t end, bint shortest, Py_ssize_t* start) noexcept:
    """The length at ``at``, with ``start`` set behind it; -1 if it is cut off or wrong."""
    cdef Py_ssize_t size = 0
    cdef int shift = 0
    cdef Py_ssize_t index
    cdef unsigned char byte
    for index in range(at, at + 4):
        if index >= end:
            return -1
        byte = data[index]
        size |= <Py_ssize_t>(byte & 127) << shift
        if byte < 128:
            if shift and byte == 0 and shortest:
                return -1
            start[0] = index + 1
            return size
        shift += 7
    return -1


cdef inline Py_ssize_t packet(
    Bytes p, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit, bint shortest, Py_ssize_t* start
) noexcept:
    """Where the PUBLISH at ``pos`` ends, with ``start`` set to its body; -1 if it is cut off, too large or wrong."""
    cdef Py_ssize_t size = p[pos + 1], stop
    start[0] = pos + 2
    if size > 127:
        size = long_length(p, pos + 1, end, shortest, start)
    stop = start[0] + size
    # Sizes first: the limit, then completeness, then the fields.
    if size < 2 or stop > end or stop - pos > limit:
        return -1
    return stop


cdef inline Py_ssize_t body(Bytes wire, Py_ssize_t at, Py_ssize_t* size) noexcept:
    """Where the body of the packet at ``at`` starts, and its size; for bytes that were scanned before."""
    cdef Py_ssize_t value = 0
    cdef int shift = 0
    cdef unsigned char byte
    at += 1
    while True:
        byte = wire[at]
        at += 1
        value |= <Py_ssize_t>(byte & 127) << shift
        if byte < 128:
            size[0] = value
            return at
        shift += 7


cdef bint fits(dict groups, route, one) except -1:
    """Whether packets of one route may come behind later ones of another; see the twin."""
    if one in groups:
        return True
    alone = one.alone
    if alone is None or route.alone is None or alone is route.alone:
        return False
    for other in groups:
        if other.alone is alone:
            return False
    return True


cdef object gather(dict groups, route, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t count, Py_ssize_t longest):
    cdef PyObject* found = PyDict_GetItem(groups, route)
    cdef list group
    if found is NULL:
        groups[route] = [count, longest, [begin, end]]
        return
    group = <list>found
    group[0] += count
    if longest > <Py_ssize_t>group[1]:
        group[1] = longest
    (<list>group[2]).append(begin)
    (<list>group[2]).append(end)


cdef bytes joined(Bytes p, list places):
    """The bytes at these places: begin and end, one after the other."""
    cdef Py_ssize_t index, begin, size, total = 0
    cdef bytes out
    cdef char* q
    for index in range(0, PyList_GET_SIZE(places), 2):
        total += <Py_ssize_t>places[index + 1] - <Py_ssize_t>places[index]
    out = PyBytes_FromStringAndSize(NULL, total)
    q = PyBytes_AS_STRING(out)
    for index in range(0, PyList_GET_SIZE(places), 2):
        begin = places[index]
        size = <Py_ssize_t>places[index + 1] - begin
        memcpy(q, p + begin, size)
        q += size
    return out


cdef class Scanner:
    """Cuts a buffer into runs. One for the whole process; holds no connection's state."""

    cdef object _run, _batch, _ack, _success, _none, _properties, _check_topic
    cdef tuple _ack_types
    cdef dict _topics
    cdef Py_ssize_t at_head, at_topic, at_raw, at_properties, at_five, at_wire, at_count, at_ids
    cdef Py_ssize_t at_longest, at_prefix, at_payloads, at_forwardable
    cdef Py_ssize_t at_type, at_ack_ids, at_reason, at_ack_properties

    def __init__(self, run, batch, ack, ack_types, success, no_properties, read_properties, check_topic):
        self._run = run
        self._batch = batch
        self._ack = ack
        self._ack_types = tuple(ack_types)
        self._success = success
        self._none = no_properties
        self._properties = read_properties
        self._check_topic = check_topic
        self._topics = {}
        self.at_head = member(run, "head")
        self.at_topic = member(run, "topic")
        self.at_raw = member(run, "raw_properties")
        self.at_properties = member(run, "properties")
        self.at_five = member(run, "five")
        self.at_wire = member(run, "wire")
        self.at_count = member(run, "count")
        self.at_ids = member(run, "ids")
        self.at_longest = member(run, "longest")
        self.at_prefix = member(run, "prefix")
        self.at_payloads = member(run, "_payloads")
        self.at_forwardable = member(run, "_forwardable")
        self.at_type = member(ack, "type")
        self.at_ack_ids = member(ack, "ids")
        self.at_reason = member(ack, "reason")
        self.at_ack_properties = member(ack, "properties")

    def scan(
        self, bytes data not None, Py_ssize_t pos, list items not None, Py_ssize_t limit, int mode,
        object routes=None
    ):
        """See the twin."""
        cdef Bytes p = <Bytes>PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t after
        cdef int kind
        while end - pos >= 4:
            kind = p[pos] >> 4
            if kind == 3:
                after = pos
                if routes is not None:
                    after = self._routed(data, p, pos, end, items, limit, mode, routes)
                if after == pos:
                    after = self._publishes(data, p, pos, end, items, limit, mode)
            elif 4 <= kind <= 7:
                after = self._acknowledgements(p, pos, end, items, mode)
            else:
                break
            if after == pos:
                break
            pos = after
        return pos

    cdef Py_ssize_t _publishes(
        self, bytes data, Bytes p, Py_ssize_t pos, Py_ssize_t end, list items, Py_ssize_t limit, int mode
    ) except -1:
        cdef unsigned char head = p[pos]
        cdef int qos = head & 6
        cdef bint five = mode & 1
        cdef Py_ssize_t at = 0, stop, topic_size, payload, block_at, block_size, length, prefix, count, longest
        cdef Py_ssize_t here, start = 0
        cdef int packet_id = 0
        cdef bytes raw
        cdef object properties, topic, run
        cdef list ids
        if qos == 6 or head & 14 == 8:
            return pos
        stop = packet(p, pos, end, limit, five, &at)
        if stop < 0:
            return pos
        topic_size = p[at] << 8 | p[at + 1]
        payload = at + 2 + topic_size
        if qos:
            payload += 2
            if payload > stop:
                return pos
            packet_id = p[payload - 2] << 8 | p[payload - 1]
            if not packet_id:
                return pos
        if payload > stop:
            return pos
        block_at = payload
        raw = b""
        properties = self._none
        if five:
            length = long_length(p, payload, stop, True, &payload)
            if length < 0 or length > stop - payload:
                return pos
            if length:
                raw = PyBytes_FromStringAndSize(<const char*>p + payload, length)
                payload += length
                try:
                    properties = self._properties(raw, (mode & 2) != 0)
                except MqttError:
                    return pos
                if mode & 8 and properties.topic_alias is not None:
                    return pos
        block_size = payload - block_at
        topic = self._topic(p + at + 2, topic_size, properties)
        if topic is None:
            return pos

        ids = []
        if qos:
            ids.append(packet_id)
        # Pictures to compare with: length and topic, and behind the id the property block.
        topic_size += 2
        prefix = payload - at
        count = 1
        longest = stop - pos
        here = stop
        while end - here >= 4 and p[here] == head:
            stop = packet(p, here, end, limit, five, &start)
            if stop < start + prefix:
                break
            if memcmp(p + start, p + at, topic_size):
                break
            if qos:
                packet_id = p[start + topic_size] << 8 | p[start + topic_size + 1]
                if not packet_id:
                    break
            if block_size and memcmp(p + start + prefix - block_size, p + block_at, block_size):
                break
            if qos:
                ids.append(packet_id)
            count += 1
            if stop - here > longest:
                longest = stop - here
            here = stop

        run = new_instance(self._run)
        is_acyclic(run)
        is_acyclic(ids)
        put_first(run, self.at_head, head)
        put_first(run, self.at_topic, topic)
        put_first(run, self.at_raw, raw)
        put_first(run, self.at_properties, properties)
        put_first(run, self.at_five, five)
        if pos == 0 and here == end:
            put_first(run, self.at_wire, data)
        else:
            put_first(run, self.at_wire, PyBytes_FromStringAndSize(<const char*>p + pos, here - pos))
        put_first(run, self.at_count, count)
        put_first(run, self.at_ids, ids)
        put_first(run, self.at_longest, longest)
        put_first(run, self.at_prefix, prefix)
        put_first(run, self.at_payloads, None)
        put_first(run, self.at_forwardable, None)
        PyList_Append(items, run)
        return here

    cdef Py_ssize_t _routed(
        self, bytes data, Bytes p, Py_ssize_t pos, Py_ssize_t end, list items, Py_ssize_t limit, int mode,
        object routes
    ) except -1:
        """Packets whose topics have routes, with nothing that the broker has to look at; ``pos`` if that is none."""
        cdef unsigned char head = p[pos]
        cdef bint five = mode & 1, qos = head & 6, retain = head & 1
        cdef Py_ssize_t here = pos, begin = pos, at = 0, stop, topic_size, behind, count = 0, longest = 0
        cdef Py_ssize_t last_at = 0, last_size = -1, length, block_at = 0, block_size = 0
        cdef int packet_id
        cdef PyObject* found
        cdef object route = None, one, other, table, asked
        cdef bytes topic, free = b""
        cdef Py_ssize_t free_size = 0
        cdef list ids = []
        cdef dict groups = None
        if head & 14 > 4:  # DUP, or no QoS
            return pos
        table = routes
        if not isinstance(routes, dict):
            # A table of what the client may publish; below ``free`` the routes themselves are that.
            table = routes[head & 7]
            routes, free = table.classes, table.free
            free_size = len(free)
        while end - here >= 4 and p[here] == head:
            stop = packet(p, here, end, limit, five, &at)
            if stop < 0:
                break
            topic_size = p[at] << 8 | p[at + 1]
            at += 2
            behind = at + topic_size
            if behind + (2 if qos else 0) + (1 if five else 0) > stop:
                break
            packet_id = 0
            if qos:
                packet_id = p[behind] << 8 | p[behind + 1]
                if not packet_id:
                    break
                behind += 2
            if five and p[behind]:
                length = long_length(p, behind, stop, True, &behind)
                if length < 0 or length > stop - behind:
                    break
                if length != block_size or memcmp(p + behind, p + block_at, length):
                    if not self._passes(p + behind, length, mode):
                        break
                    block_at, block_size = behind, length
            if topic_size != last_size or memcmp(p + at, p + last_at, topic_size):
                topic = PyBytes_FromStringAndSize(<const char*>p + at, topic_size)
                asked = table
                if free_size and topic_size > free_size and not memcmp(p + at, <const unsigned char*>free, free_size):
                    if memchr(p + at + free_size, 47, topic_size - free_size) is NULL:
                        asked = routes
                found = PyDict_GetItem(asked, topic)
                if found is not NULL:
                    one = <object>found
                elif topic_size and self._is_topic(p + at, topic_size, topic):
                    one = asked[topic]
                    if asked is table and table is not routes and table.free != free:
                        free = table.free
                        free_size = len(free)
                else:
                    break
                if one is None:
                    break
                if retain:
                    other = one.retained
                    if other is not None:
                        one = other
                if qos:
                    other = one.above
                    if other is not None:
                        one = other
                if route is None:
                    route = one
                elif one is not route:
                    if qos or mode & 4:
                        break
                    if groups is None:
                        groups = {}
                    if not fits(groups, route, one):
                        break
                    gather(groups, route, begin, here, count, longest)
                    route, begin, count, longest = one, here, 0, 0
                last_at, last_size = at, topic_size
            if qos:
                ids.append(packet_id)
            count += 1
            if stop - here > longest:
                longest = stop - here
            here = stop
        if groups:
            gather(groups, route, begin, here, count, longest)
            for one, group in groups.items():
                topic = joined(p, group[2])
                self._batch_of(items, head, five, topic, 0, len(topic), group[0], [], group[1], one)
        elif count:
            self._batch_of(items, head, five, data, pos, here, count, ids, longest, route)
        return here

    cdef object _batch_of(
        self, list items, head, five, bytes data, begin, end, Py_ssize_t count, list ids, Py_ssize_t longest, route
    ):
        five = True if five else False
        PyList_Append(items, self._batch(head, five, data, begin, end, count, ids, longest, route))

    cdef bint _passes(self, Bytes p, Py_ssize_t size, int mode) except -1:
        """Whether all that is in a property block is passed on."""
        cdef int known = passed_on(p, size)
        if known != UNKNOWN:
            return known
        try:
            self._properties(PyBytes_FromStringAndSize(<const char*>p, size), (mode & 2) != 0)
        except MqttError:
            return False
        return True

    cdef object _topic(self, Bytes p, Py_ssize_t size, properties):
        """The topic as one object however often it is published, or None if it may not be one."""
        cdef bytes topic = PyBytes_FromStringAndSize(<const char*>p, size)
        cdef PyObject* known = PyDict_GetItem(self._topics, topic)
        if known is not NULL:
            return <object>known
        if not size:
            # An alias stands for the topic; the scan does not know which.
            return topic if properties.topic_alias is not None else None
        if not self._is_topic(p, size, topic):
            return None
        if size <= TOPIC_SIZE:
            if len(self._topics) >= TOPICS_KNOWN:
                self._topics.clear()
            PyDict_SetItem(self._topics, topic, topic)
        return topic

    cdef bint _is_topic(self, Bytes p, Py_ssize_t size, bytes topic) except -1:
        if not plain(p, size):
            try:
                self._check_topic(topic)
            except MqttError:
                return False
        return True

    cdef Py_ssize_t _acknowledgements(
        self, Bytes p, Py_ssize_t pos, Py_ssize_t end, list items, int mode
    ) except -1:
        cdef unsigned char head = p[pos]
        cdef bint five = mode & 1
        cdef Py_ssize_t size, stop, index
        cdef int packet_id
        cdef bint zeros
        cdef list ids = []
        cdef object run
        if head & 15 != (2 if head >> 4 == 6 else 0):
            return pos
        while end - pos >= 4 and p[pos] == head:
            size = p[pos + 1]
            stop = pos + 2 + size
            if size != 2:
                # Reason 0 and no properties, spelt out.
                if not five or size < 3 or size > 4 or stop > end:
                    break
                if p[pos + 4] or p[stop - 1]:
                    break
            packet_id = p[pos + 2] << 8 | p[pos + 3]
            if not packet_id:
                break
            ids.append(packet_id)
            pos = stop
        if ids:
            run = new_instance(self._ack)
            put_first(run, self.at_type, self._ack_types[(head >> 4) - 4])
            put_first(run, self.at_ack_ids, ids)
            put_first(run, self.at_reason, self._success)
            put_first(run, self.at_ack_properties, self._none)
            PyList_Append(items, run)
        return pos


# -- pages of the log ---------------------------------------------------------------------------------

#: The form of a page in which nothing has an origin; its head, and that of a run.
cdef unsigned char PLAIN_PAGE = 0x10
cdef Py_ssize_t PAGE_HEAD = 9, RUN_HEAD = 23
cdef Py_ssize_t NAMES_KNOWN = 10_000


cdef inline unsigned int number_at(Bytes p) noexcept:
    return <unsigned int>p[0] << 24 | <unsigned int>p[1] << 16 | <unsigned int>p[2] << 8 | p[3]


cdef inline double time_at(Bytes p) noexcept:
    cdef unsigned long long bits = <unsigned long long>number_at(p) << 32 | number_at(p + 4)
    cdef double found
    memcpy(&found, &bits, 8)
    return found


cdef class PageReader:
    """See the twin."""

    cdef Scanner _scanner
    cdef object _logged, _reference, _nobody
    cdef dict _names
    cdef Py_ssize_t at_reference, at_run, at_topic, at_publisher, at_arrived, at_origin

    def __init__(self, Scanner scanner not None, logged, reference, nobody):
        self._scanner = scanner
        self._logged = logged
        self._reference = reference
        self._nobody = nobody
        self._names = {}
        self.at_reference = member(logged, "reference")
        self.at_run = member(logged, "run")
        self.at_topic = member(logged, "topic")
        self.at_publisher = member(logged, "publisher")
        self.at_arrived = member(logged, "arrived")
        self.at_origin = member(logged, "origin")

    def read(self, bytes page not None, generation, stream, long long base, tuple wanted=()):
        """See the twin."""
        cdef Bytes p = <Bytes>PyBytes_AS_STRING(page)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(page), at = PAGE_HEAD, name, size
        cdef unsigned int left, number, messages
        cdef bytes wire
        cdef list found = [], items
        cdef object logged, run, publisher
        if end < PAGE_HEAD or p[0] != PLAIN_PAGE or crc32_of(p + 5, end - 5) != number_at(p + 1):
            return None
        if wanted and not mentions(page, wanted):
            return ()
        for left in range(number_at(p + 5), 0, -1):
            if end - at < RUN_HEAD or p[at + 8] > 1:
                return None
            number, messages = number_at(p + at), number_at(p + at + 4)
            name = p[at + 17] << 8 | p[at + 18]
            size = number_at(p + at + 19)
            if end - at - RUN_HEAD < name + size:
                return None
            wire = PyBytes_FromStringAndSize(<const char*>p + at + RUN_HEAD + name, size)
            items = []
            if size < 4 or PyBytes_AS_STRING(wire)[0] >> 4 != 3:
                return None
            if self._scanner._publishes(
                wire, <Bytes>PyBytes_AS_STRING(wire), 0, size, items, size, p[at + 8] | FROM_CLIENT_BIT
            ) != size:
                return None
            run = items[0]
            try:
                publisher = self._name(p + at + RUN_HEAD, name)
            except UnicodeDecodeError:
                return None
            if run.count != messages:
                return None
            logged = new_instance(self._logged)
            is_acyclic(logged)
            put_first(logged, self.at_reference, tuple.__new__(
                self._reference, (generation, stream, base + number, messages)
            ))
            put_first(logged, self.at_run, run)
            put_first(logged, self.at_topic, run.topic)
            put_first(logged, self.at_publisher, publisher)
            put_first(logged, self.at_arrived, time_at(p + at + 9))
            put_first(logged, self.at_origin, self._nobody)
            found.append(logged)
            at += RUN_HEAD + name + size
        return found

    cdef object _name(self, Bytes p, Py_ssize_t size):
        """A publisher, as one object however many runs it has."""
        cdef bytes name = PyBytes_FromStringAndSize(<const char*>p, size)
        cdef PyObject* known = PyDict_GetItem(self._names, name)
        cdef object found
        if known is not NULL:
            return <object>known
        found = name.decode()
        if len(self._names) >= NAMES_KNOWN:
            self._names.clear()
        self._names[name] = found
        return found


cdef bint mentions(bytes page, tuple topics) except -1:
    """Whether one of the topics stands somewhere."""
    for topic in topics:
        if topic in page:
            return True
    return False


cdef bint ascii(Bytes p, Py_ssize_t size) noexcept:
    """Whether a string is ASCII without U+0000."""
    cdef Py_ssize_t index
    for index in range(size):
        if p[index] >= 128 or p[index] == 0:
            return False
    return True


cdef bint plain(Bytes p, Py_ssize_t size) noexcept:
    """Whether a topic is ASCII without U+0000 and wildcards, so that nothing more need be asked."""
    return ascii(p, size) and memchr(p, c"#", size) is NULL and memchr(p, c"+", size) is NULL


cdef Py_ssize_t property_end(Bytes p, Py_ssize_t at, Py_ssize_t size) noexcept:
    """Where the property at ``at`` of a PUBLISH ends; -1 if none can be there, or it is cut off."""
    cdef unsigned char kind = p[at]
    cdef int field
    at += 1
    if kind == 0x01:
        at += 1
    elif kind == 0x23:
        at += 2
    elif kind == 0x02:
        at += 4
    elif kind == 0x0b:
        if long_length(p, at, size, True, &at) < 0:
            return -1
    elif kind == 0x03 or kind == 0x08 or kind == 0x09 or kind == 0x26:
        for field in range(2 if kind == 0x26 else 1):
            if at + 2 > size:
                return -1
            at += 2 + (p[at] << 8 | p[at + 1])
    else:
        return -1
    return at if at <= size else -1


cdef int passed_on(Bytes p, Py_ssize_t size) noexcept:
    """Whether a property block is right, and all that is in it passed on; UNKNOWN if strings are not ASCII."""
    cdef Py_ssize_t at = 0, end, value
    cdef unsigned long long seen = 0, bit
    cdef unsigned char kind
    cdef int known = 1
    while at < size:
        kind = p[at]
        end = property_end(p, at, size)
        if end < 0 or kind == 0x0b or kind == 0x23:
            return 0
        bit = 1ULL << kind
        if seen & bit and kind != 0x26:
            return 0
        seen |= bit
        value = at + 3
        if kind == 0x01 and p[at + 1] > 1:
            return 0
        if kind == 0x26:
            at = value + (p[at + 1] << 8 | p[at + 2])
            if not ascii(p + value, at - value):
                known = UNKNOWN
            value = at + 2
        if kind == 0x08 and (end == value or not plain(p + value, end - value)):
            known = UNKNOWN
        elif (kind == 0x03 or kind == 0x26) and not ascii(p + value, end - value):
            known = UNKNOWN
        at = end
    return known


cdef bint is_text(Bytes p, Py_ssize_t size) noexcept:
    """Whether a string is what MQTT wants: well-formed UTF-8, without surrogates and without U+0000."""
    cdef Py_ssize_t at = 0, stop
    cdef unsigned char byte, least, most
    while at < size:
        byte = p[at]
        at += 1
        if byte < 0x80:
            if byte == 0:
                return False
            continue
        # Of the first byte behind it; any further one may be 80 to bf.
        least, most = 0x80, 0xBF
        if byte < 0xC2 or byte > 0xF4:
            return False
        elif byte < 0xE0:
            stop = at + 1
        elif byte < 0xF0:
            stop = at + 2
            if byte == 0xE0:
                least = 0xA0
            elif byte == 0xED:
                most = 0x9F
        else:
            stop = at + 3
            if byte == 0xF0:
                least = 0x90
            elif byte == 0xF4:
                most = 0x8F
        if stop > size or p[at] < least or p[at] > most:
            return False
        at += 1
        while at < stop:
            if p[at] & 0xC0 != 0x80:
                return False
            at += 1
    return True


def pairs(bytes raw not None, Py_ssize_t at):
    """See the twin."""
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(raw)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(raw), count = 0, stop, name
    while at < end and p[at] == 0x26:
        stop = property_end(p, at, end)
        if stop < 0:
            break
        name = at + 3 + (p[at + 1] << 8 | p[at + 2])
        if not is_text(p + at + 3, name - at - 3) or not is_text(p + name + 2, stop - name - 2):
            break
        at = stop
        count += 1
    return at, count


def values(bytes run not None, bytes name not None):
    """See the twin."""
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(run), wanted = <Bytes>PyBytes_AS_STRING(name)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(run), size = PyBytes_GET_SIZE(name), at = 0, stop, start
    cdef list found = []
    while at < end:
        stop = property_end(p, at, end)
        if stop < 0:
            break
        start = at + 3 + (p[at + 1] << 8 | p[at + 2])
        if start - at - 3 == size and memcmp(p + at + 3, wanted, size) == 0:
            found.append(PyUnicode_DecodeUTF8(<const char*>p + start + 2, stop - start - 2, NULL))
        at = stop
    return found


cdef Py_ssize_t alias_at(Bytes p, Py_ssize_t size) noexcept:
    """Where in a property block the topic alias stands; -1 if there is none, -2 if the block is wrong."""
    cdef Py_ssize_t at = 0, found = -1
    while at < size:
        if p[at] == 0x23:
            if found >= 0:
                return -2
            found = at
        at = property_end(p, at, size)
        if at < 0:
            return -2
    return found


def named(
    bytes data not None, Py_ssize_t pos, dict names not None, Py_ssize_t maximum, Py_ssize_t limit, Py_ssize_t most
):
    """See the twin."""
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data), done = pos, size, at = 0, stop, block, length, where, topic_end
    cdef int number
    cdef list out = []
    while most >= 0 and end - pos >= 4 and p[pos] >> 4 == 3:
        stop = packet(p, pos, end, limit, True, &at)
        if stop < 0:
            break
        topic_end = at + 2 + (p[at] << 8 | p[at + 1])
        block = topic_end + (2 if p[pos] & 6 else 0)
        length = long_length(p, block, stop, True, &block)
        if length < 0 or length > stop - block:
            break
        where = alias_at(p + block, length)
        if where == -2:
            break
        if where >= 0:
            number = p[block + where + 1] << 8 | p[block + where + 2]
            if not number or number > maximum:
                break
            if topic_end > at + 2:
                names[number] = PyBytes_FromStringAndSize(<const char*>p + at + 2, topic_end - at - 2)
            elif number not in names:
                break
            else:
                most -= PyBytes_GET_SIZE(names[number])
            out.append(data[done:pos])
            size = stop - block - length
            out.append(renamed(p + pos, names[number], p + topic_end, p + block, where, length, p + stop - size, size))
            done = stop
        pos = stop
    out.append(data[done:pos])
    return b"".join(out), pos


cdef bytes renamed(
    Bytes head, bytes topic, Bytes packet_id, Bytes block, Py_ssize_t where, Py_ssize_t length, Bytes payload,
    Py_ssize_t payload_size
):
    """A packet with its topic, and without the alias that stands ``where`` in its block."""
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic), left = length - 3, ids = 2 if head[0] & 6 else 0
    cdef Py_ssize_t size = 2 + topic_size + ids + length_size(left) + left + payload_size
    cdef bytes out = PyBytes_FromStringAndSize(NULL, 1 + length_size(size) + size)
    cdef unsigned char* q = <unsigned char*>PyBytes_AS_STRING(out)
    q[0] = head[0]
    q += 1
    q += put_length(q, size)
    q[0] = <unsigned char>(topic_size >> 8)
    q[1] = <unsigned char>(topic_size & 255)
    q += 2
    memcpy(q, PyBytes_AS_STRING(topic), topic_size)
    q += topic_size
    memcpy(q, packet_id, ids)
    q += ids
    q += put_length(q, left)
    memcpy(q, block, where)
    q += where
    memcpy(q, block + where + 3, left - where)
    q += left - where
    memcpy(q, payload, payload_size)
    return out


# -- runs that exist already: their bytes are known to be correct -------------------------------------


cdef class Messages:
    """Makes messages of packets. One for the whole process."""

    cdef object _kind, _read
    cdef Py_ssize_t at_topic, at_payload, at_qos, at_retain, at_properties, at_expires, at_publisher, at_size

    def __init__(self, kind, read):
        self._kind = kind
        self._read = read
        self.at_topic = member(kind, "topic")
        self.at_payload = member(kind, "payload")
        self.at_qos = member(kind, "qos")
        self.at_retain = member(kind, "retain")
        self.at_properties = member(kind, "properties")
        self.at_expires = member(kind, "expires_at")
        self.at_publisher = member(kind, "publisher")
        self.at_size = member(kind, "size")

    def last(
        self, bytes data not None, Py_ssize_t begin, Py_ssize_t count, bint five, str publisher not None, double wall
    ):
        """See the twin."""
        cdef Bytes p = <Bytes>PyBytes_AS_STRING(data)
        cdef bint ids = count and p[begin] & 6
        cdef object qos = (p[begin] >> 1 & 3) if count else 0, retain = count and p[begin] & 1 == 1
        cdef Py_ssize_t at = begin, size = 0, index, topic_size, block = 0, payload = 0, total = 0, whole
        cdef Py_ssize_t last_at = 0, last_size = 0
        cdef dict found = {}
        cdef bytes topic, properties = b""
        cdef object message, expires = None
        for index in range(count):
            at = body(p, at, &size)
            topic_size = parts(p, at, ids, five, &block, &payload)
            if payload == at + size or p[at + 2] == c"$":
                return None
            if payload - block != last_size or memcmp(p + block, p + last_at, last_size):
                last_at, last_size = block, payload - block
                properties, expires = b"", None
                if last_size:
                    properties, expires = self._read(PyBytes_FromStringAndSize(<const char*>p + block, last_size), wall)
            topic = PyBytes_FromStringAndSize(<const char*>p + at + 2, topic_size - 2)
            whole = topic_size - 2 + PyBytes_GET_SIZE(properties) + at + size - payload
            message = new_instance(self._kind)
            put_first(message, self.at_topic, topic)
            put_first(message, self.at_payload, PyBytes_FromStringAndSize(<const char*>p + payload, at + size - payload))
            put_first(message, self.at_qos, qos)
            put_first(message, self.at_retain, retain)
            put_first(message, self.at_properties, properties)
            put_first(message, self.at_expires, expires)
            put_first(message, self.at_publisher, publisher)
            put_first(message, self.at_size, whole)
            PyDict_SetItem(found, topic, message)
            total += whole
            at += size
        return found, total


def payloads(bytes wire not None, Py_ssize_t count, Py_ssize_t prefix):
    """The payloads of ``count`` packets whose bodies have ``prefix`` bytes in front of them."""
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(wire)
    cdef Py_ssize_t at = 0, size = 0, index
    cdef list found = PyList_New(count)
    cdef object payload
    for index in range(count):
        at = body(p, at, &size)
        payload = PyBytes_FromStringAndSize(<const char*>p + at + prefix, size - prefix)
        Py_INCREF(payload)
        PyList_SET_ITEM(found, index, payload)
        at += size
    return found


def locate(bytes wire not None, Py_ssize_t start, Py_ssize_t stop):
    """(begin, end, longest packet) of packets ``start`` to ``stop``."""
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(wire)
    cdef Py_ssize_t at = 0, begin = 0, longest = 0, size = 0, index, after
    for index in range(stop):
        if index == start:
            begin = at
        after = body(p, at, &size) + size
        if index >= start and after - at > longest:
            longest = after - at
        at = after
    return begin, at, longest


cdef list checked_ids(ids, Py_ssize_t count):
    """The ids as a list, as many as there are packets."""
    cdef list numbers = ids if type(ids) is list else list(ids)
    if numbers and PyList_GET_SIZE(numbers) != count:
        raise ValueError(f"{len(numbers)} packet ids for {count} packets")
    return numbers


cdef inline int put_id(unsigned char* out, list ids, Py_ssize_t index) except -1:
    cdef long number = <object>PyList_GET_ITEM(ids, index)
    if number < 0 or number > 0xFFFF:
        raise OverflowError(f"{number} is no packet identifier")
    out[0] = <unsigned char>(number >> 8)
    out[1] = <unsigned char>(number & 255)
    return 0


cdef inline Py_ssize_t put_length(unsigned char* out, Py_ssize_t value) noexcept:
    cdef Py_ssize_t at = 0
    while value > 127:
        out[at] = <unsigned char>(value & 127 | 128)
        value >>= 7
        at += 1
    out[at] = <unsigned char>value
    return at + 1


cdef inline Py_ssize_t length_size(Py_ssize_t value) except -1:
    if value < 128:
        return 1
    if value < 16_384:
        return 2
    if value < 2_097_152:
        return 3
    if value > MAX_REMAINING_LENGTH:
        raise ValueError(f"a packet of {value} bytes is too long")
    return 4


def patch(bytes wire not None, Py_ssize_t count, Py_ssize_t offset, int head, ids):
    """A copy of the packets with another first byte and, ``offset`` bytes into each body, these ids."""
    cdef list numbers = checked_ids(ids, count)
    cdef bint with_ids = PyList_GET_SIZE(numbers) > 0
    cdef bytes out = PyBytes_FromStringAndSize(PyBytes_AS_STRING(wire), PyBytes_GET_SIZE(wire))
    cdef unsigned char* p
    cdef Py_ssize_t at = 0, size = 0, index
    if PyBytes_GET_SIZE(wire) < 2:
        return out
    p = <unsigned char*>PyBytes_AS_STRING(out)
    for index in range(count):
        p[at] = <unsigned char>head
        at = body(p, at, &size)
        if with_ids:
            put_id(p + at + offset, numbers, index)
        at += size
    return out


def recode(
    bytes wire not None, Py_ssize_t count, Py_ssize_t prefix, int head, bytes before not None, bytes after not None, ids
):
    """The payloads again behind another head: ``before`` the id comes the topic, ``after`` it the v5 block."""
    cdef list numbers = checked_ids(ids, count)
    cdef bint with_ids = PyList_GET_SIZE(numbers) > 0
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(wire)
    cdef Bytes topic = <Bytes>PyBytes_AS_STRING(before)
    cdef Bytes block = <Bytes>PyBytes_AS_STRING(after)
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(before), block_size = PyBytes_GET_SIZE(after)
    cdef Py_ssize_t extra = topic_size + block_size + (2 if with_ids else 0)
    cdef Py_ssize_t at = 0, size = 0, total = 0, index
    cdef unsigned char* q
    cdef bytes out
    for index in range(count):
        at = body(p, at, &size)
        total += 1 + length_size(extra + size - prefix) + extra + size - prefix
        at += size
    out = PyBytes_FromStringAndSize(NULL, total)
    q = <unsigned char*>PyBytes_AS_STRING(out)
    at = 0
    for index in range(count):
        at = body(p, at, &size)
        q[0] = <unsigned char>head
        q += 1
        q += put_length(q, extra + size - prefix)
        memcpy(q, topic, topic_size)
        q += topic_size
        if with_ids:
            put_id(q, numbers, index)
            q += 2
        memcpy(q, block, block_size)
        q += block_size
        memcpy(q, p + at + prefix, size - prefix)
        q += size - prefix
        at += size
    return out


cdef inline Py_ssize_t parts(
    Bytes p, Py_ssize_t at, bint ids, bint five, Py_ssize_t* block, Py_ssize_t* payload
) noexcept:
    """Bytes of the topic in the body at ``at``, with its length; where the properties begin, and the payload."""
    cdef Py_ssize_t topic = 2 + (p[at] << 8 | p[at + 1]), size = 0
    block[0] = at + topic + (2 if ids else 0)
    if five:
        # As a remaining length, which has a byte in front of it.
        block[0] = body(p, block[0] - 1, &size)
    payload[0] = block[0] + size
    return topic


def rewrite(
    bytes data not None, Py_ssize_t begin, Py_ssize_t count, bint five, int head, bint to_five,
    bytes identifiers not None, ids
):
    """See the twin."""
    cdef list numbers = checked_ids(ids, count)
    cdef bint with_ids = PyList_GET_SIZE(numbers) > 0
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(data)
    cdef Py_ssize_t more = PyBytes_GET_SIZE(identifiers)
    cdef bint had_ids = count and p[begin] & 6
    cdef Py_ssize_t at = begin, size = 0, total = 0, index, topic, block = 0, payload = 0, length
    cdef unsigned char* q
    cdef bytes out
    for index in range(count):
        at = body(p, at, &size)
        length = parts(p, at, had_ids, five, &block, &payload) + (2 if with_ids else 0) + at + size - payload
        if to_five:
            length += length_size(more + payload - block) + more + payload - block
        total += 1 + length_size(length) + length
        at += size
    out = PyBytes_FromStringAndSize(NULL, total)
    q = <unsigned char*>PyBytes_AS_STRING(out)
    at = begin
    for index in range(count):
        at = body(p, at, &size)
        topic = parts(p, at, had_ids, five, &block, &payload)
        length = topic + (2 if with_ids else 0) + at + size - payload
        if to_five:
            length += length_size(more + payload - block) + more + payload - block
        q[0] = <unsigned char>head
        q += 1
        q += put_length(q, length)
        memcpy(q, p + at, topic)
        q += topic
        if with_ids:
            put_id(q, numbers, index)
            q += 2
        if to_five:
            q += put_length(q, more + payload - block)
            memcpy(q, PyBytes_AS_STRING(identifiers), more)
            q += more
            memcpy(q, p + block, payload - block)
            q += payload - block
        at += size
        memcpy(q, p + payload, at - payload)
        q += at - payload
    return out


def acks(int first, ids):
    """Acknowledgements in the short form, one for each id."""
    cdef list numbers = ids if type(ids) is list else list(ids)
    cdef Py_ssize_t count = PyList_GET_SIZE(numbers), index
    cdef bytes out
    cdef unsigned char* q
    if not count:
        return b""
    out = PyBytes_FromStringAndSize(NULL, 4 * count)
    q = <unsigned char*>PyBytes_AS_STRING(out)
    for index in range(count):
        q[0] = <unsigned char>first
        q[1] = 2
        put_id(q + 2, numbers, index)
        q += 4
    return out


def publish(int head, bytes topic not None, Py_ssize_t packet_id, bytes block not None, bytes payload not None):
    """One PUBLISH; ``block`` is the property block with its length, or empty in 3.x."""
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic), block_size = PyBytes_GET_SIZE(block)
    cdef Py_ssize_t payload_size = PyBytes_GET_SIZE(payload)
    cdef Py_ssize_t size = 2 + topic_size + block_size + payload_size
    cdef bytes out
    cdef unsigned char* q
    if topic_size > 0xFFFF:
        raise ValueError(f"a topic of {topic_size} bytes is too long")
    if head & 6:
        size += 2
        if packet_id < 0 or packet_id > 0xFFFF:
            raise OverflowError(f"{packet_id} is no packet identifier")
    out = PyBytes_FromStringAndSize(NULL, 1 + length_size(size) + size)
    q = <unsigned char*>PyBytes_AS_STRING(out)
    q[0] = <unsigned char>head
    q += 1
    q += put_length(q, size)
    q[0] = <unsigned char>(topic_size >> 8)
    q[1] = <unsigned char>(topic_size & 255)
    q += 2
    memcpy(q, PyBytes_AS_STRING(topic), topic_size)
    q += topic_size
    if head & 6:
        q[0] = <unsigned char>(packet_id >> 8)
        q[1] = <unsigned char>(packet_id & 255)
        q += 2
    memcpy(q, PyBytes_AS_STRING(block), block_size)
    q += block_size
    memcpy(q, PyBytes_AS_STRING(payload), payload_size)
    return out

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled twin of ``_pure_appending.py``: same names, same results. Slots are read and written where their
descriptors say; whoever hands something in of another class gets a TypeError.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memcpy

from iot_mqtt.native.checksum cimport crc32_of, make_crc_table
from iot_mqtt.native.slots cimport held, is_acyclic, member, new_instance, put

cdef extern from *:
    """
    /* Of a class that is a tuple's and has nothing else. */
    static PyObject *new_tuple(PyObject *type, PyObject *a, PyObject *b, PyObject *c, PyObject *d) {
        PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 4);
        if (made == NULL)
            return NULL;
        Py_INCREF(a); Py_INCREF(b); Py_INCREF(c); Py_INCREF(d);
        PyTuple_SET_ITEM(made, 0, a);
        PyTuple_SET_ITEM(made, 1, b);
        PyTuple_SET_ITEM(made, 2, c);
        PyTuple_SET_ITEM(made, 3, d);
        return made;
    }
    static int is_plain_tuple(PyObject *type) {
        PyTypeObject *one = (PyTypeObject *)type;
        return PyType_IsSubtype(one, &PyTuple_Type) && one->tp_basicsize == PyTuple_Type.tp_basicsize;
    }
    """
    bint is_plain_tuple(object type)
    object new_tuple(object type, object a, object b, object c, object d)

ctypedef unsigned char Byte

make_crc_table()

cdef Py_ssize_t CHECK = 5, HEAD = 27
cdef long long NUMBER = (1 << 24) - 1


cdef inline int add(owner, Py_ssize_t offset, long long amount) except -1:
    """Count."""
    cdef long long value = held(owner, offset)
    put(owner, offset, value + amount)
    return 0


cdef inline void number_into(Byte* out, unsigned int value) noexcept:
    out[0], out[1], out[2], out[3] = value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255


cdef inline void time_into(Byte* out, double value) noexcept:
    cdef unsigned long long bits
    memcpy(&bits, &value, 8)
    number_into(out, bits >> 32)
    number_into(out + 4, bits & 0xffffffff)


cdef class RowWriter:
    """See the twin."""

    cdef type _logged, _reference, _run, _place, _stream, _generation
    cdef object _nobody
    cdef Byte _version
    cdef Py_ssize_t l_reference, l_run, l_topic, l_publisher, l_arrived, l_origin
    cdef Py_ssize_t r_topic, r_count, r_wire, r_five
    cdef Py_ssize_t p_generation, p_streams
    cdef Py_ssize_t s_id, s_key, s_shard, s_generation, s_last_turn, s_pages, s_messages, s_bytes
    cdef Py_ssize_t g_id, g_state, g_until, g_full_at, g_end, g_ended_at, g_messages, g_bytes, g_ticket

    def __init__(
        self,
        type logged not None,
        type reference not None,
        type run not None,
        type place not None,
        type stream not None,
        type generation not None,
        *,
        nobody,
        Byte version,
    ):
        if not is_plain_tuple(reference):
            raise TypeError(f"{reference.__name__} is more than a tuple")
        self._logged, self._reference, self._run, self._place = logged, reference, run, place
        self._stream, self._generation, self._nobody, self._version = stream, generation, nobody, version
        self.l_reference, self.l_run = member(logged, "reference"), member(logged, "run")
        self.l_topic, self.l_publisher = member(logged, "topic"), member(logged, "publisher")
        self.l_arrived, self.l_origin = member(logged, "arrived"), member(logged, "origin")
        self.r_topic, self.r_count = member(run, "topic"), member(run, "count")
        self.r_wire, self.r_five = member(run, "wire"), member(run, "five")
        self.p_generation, self.p_streams = member(place, "generation"), member(place, "streams")
        self.s_id, self.s_key, self.s_shard = member(stream, "id"), member(stream, "key"), member(stream, "shard")
        self.s_generation, self.s_last_turn = member(stream, "generation"), member(stream, "last_turn")
        self.s_pages, self.s_messages = member(stream, "pages"), member(stream, "messages")
        self.s_bytes = member(stream, "bytes")
        self.g_id, self.g_state = member(generation, "id"), member(generation, "state")
        self.g_until, self.g_full_at = member(generation, "until"), member(generation, "full_at")
        self.g_end, self.g_ended_at = member(generation, "end"), member(generation, "ended_at")
        self.g_messages, self.g_bytes = member(generation, "messages"), member(generation, "bytes")
        self.g_ticket = member(generation, "ticket")

    cdef int _check(self, one, type expected) except -1:
        if type(one) is not expected:
            raise TypeError(f"{type(one).__name__} instead of {expected.__name__}")
        return 0

    def append(
        self,
        runs,
        list found not None,
        dict places not None,
        dict gathering not None,
        Py_ssize_t shard,
        publisher,
        arrived,
        origin,
        turn,
        long long position,
        long long usable,
    ):
        """See the twin."""
        cdef Py_ssize_t at
        cdef double now = arrived, until, full
        cdef long long state, count
        cdef PyObject* known
        cdef list streams
        cdef object run, topic, place, stream, generation, logged, checked = None, count_of, where = position, reference
        cdef list row
        for at in range(len(found), len(runs)):
            run = runs[at]
            self._check(run, self._run)
            topic = held(run, self.r_topic)
            known = PyDict_GetItem(places, topic)
            if known is NULL:
                break
            place = <object>known
            self._check(place, self._place)
            streams = <list?>held(place, self.p_streams)
            if shard >= len(streams):
                raise IndexError("no such shard")
            stream = streams[shard]
            if stream is None:
                break
            self._check(stream, self._stream)
            generation = held(place, self.p_generation)
            if generation is not checked:
                self._check(generation, self._generation)
                state = held(generation, self.g_state)
                until, full = held(generation, self.g_until), held(generation, self.g_full_at)
                if state != usable or now >= until or held(generation, self.g_bytes) >= full:
                    break
                checked = generation
            count_of = held(run, self.r_count)
            count = count_of
            logged = new_instance(self._logged)
            is_acyclic(logged)
            reference = new_tuple(
                self._reference, held(generation, self.g_id), held(stream, self.s_id), where, count_of
            )
            is_acyclic(reference)
            put(logged, self.l_reference, reference)
            put(logged, self.l_run, run)
            put(logged, self.l_topic, topic)
            put(logged, self.l_publisher, publisher)
            put(logged, self.l_arrived, arrived)
            put(logged, self.l_origin, origin)
            known = PyDict_GetItem(gathering, stream)
            if known is NULL:
                row = [logged]
                is_acyclic(row)
                PyDict_SetItem(gathering, stream, row)
            else:
                (<list?><object>known).append(logged)
            position += count
            where = position
            put(generation, self.g_end, where)
            put(generation, self.g_ended_at, arrived)
            put(stream, self.s_last_turn, turn)
            found.append(logged)
        return position

    def stage(self, dict gathered not None, bytes end not None, cache, list operations not None, encode, ticket):
        """See the twin."""
        cdef dict written = {}
        cdef list runs
        cdef object stream, generation = None, number, shard = None, place = None
        cdef bytes page, key
        cdef long long messages, size, all_messages = 0, all_bytes = 0, here = 0, bytes_here = 0
        cdef PyObject* known
        for stream, row in gathered.items():
            self._check(stream, self._stream)
            runs = <list?>row
            page = self._page_of_one(runs[0]) if len(runs) == 1 else None
            if page is None:
                page = encode(runs)
            key = held(stream, self.s_key)
            operations.append((cache, key + end, page))
            messages = 0
            for found in runs:
                messages += <long long>self._of_reference(found, 3)
            size = len(page)
            if held(stream, self.s_generation) is not generation:
                if generation is not None:
                    self._count(generation, here, bytes_here, ticket)
                generation, here, bytes_here = held(stream, self.s_generation), 0, 0
                self._check(generation, self._generation)
            add(stream, self.s_pages, 1)
            add(stream, self.s_messages, messages)
            add(stream, self.s_bytes, size)
            here += messages
            bytes_here += size
            all_messages += messages
            all_bytes += size
            number = held(stream, self.s_shard)
            if number is not place:
                known = PyDict_GetItem(written, number)
                shard, place = bytearray() if known is NULL else <object>known, number
                written[number] = shard
            self._page_into(shard, held(generation, self.g_id), held(stream, self.s_id), messages, size)
        if generation is not None:
            self._count(generation, here, bytes_here, ticket)
        return written, all_messages, all_bytes

    cdef object _of_reference(self, found, Py_ssize_t at):
        """A field of where a run is."""
        self._check(found, self._logged)
        reference = held(found, self.l_reference)
        self._check(reference, self._reference)
        return <object>PyTuple_GET_ITEM(reference, at)

    cdef int _count(self, generation, long long messages, long long size, ticket) except -1:
        """What a generation has got."""
        add(generation, self.g_messages, messages)
        add(generation, self.g_bytes, size)
        put(generation, self.g_ticket, ticket)
        return 0

    cdef int _page_into(
        self, shard, unsigned int generation, unsigned int stream, unsigned int messages, unsigned int size
    ) except -1:
        """A page's part of what the turn has written."""
        cdef Py_ssize_t at = PyByteArray_GET_SIZE(shard)
        cdef Byte* out
        PyByteArray_Resize(shard, at + 16)
        out = <Byte*>PyByteArray_AS_STRING(shard) + at
        number_into(out, generation)
        number_into(out + 4, stream)
        number_into(out + 8, messages)
        number_into(out + 12, size)
        return 0

    cdef bytes _page_of_one(self, found):
        """None: it is somebody's."""
        cdef bytes wire, page
        cdef Py_ssize_t size, name
        cdef long long position
        cdef const char* publisher
        cdef Byte* out
        self._check(found, self._logged)
        if held(found, self.l_origin) is not self._nobody:
            return None
        run = held(found, self.l_run)
        self._check(run, self._run)
        wire = held(run, self.r_wire)
        size = PyBytes_GET_SIZE(wire)
        publisher = PyUnicode_AsUTF8AndSize(held(found, self.l_publisher), &name)
        if name > 0xffff or size > 0xffffffff:
            return None
        position = self._of_reference(found, 2)
        page = PyBytes_FromStringAndSize(NULL, CHECK + HEAD + name + size)
        out = <Byte*>PyBytes_AS_STRING(page)
        out[0] = self._version
        number_into(out + 5, 1)
        number_into(out + 9, position & NUMBER)
        number_into(out + 13, held(run, self.r_count))
        out[17] = 1 if held(run, self.r_five) else 0
        time_into(out + 18, held(found, self.l_arrived))
        out[26], out[27] = name >> 8, name & 255
        number_into(out + 28, size)
        memcpy(out + 32, publisher, name)
        memcpy(out + 32 + name, PyBytes_AS_STRING(wire), size)
        number_into(out + 1, crc32_of(out + CHECK, HEAD + name + size))
        return page

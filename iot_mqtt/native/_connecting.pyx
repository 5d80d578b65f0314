# cython: language_level=3, boundscheck=False, wraparound=False
"""The CONNECT that nearly every client sends, read in one pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject_GenericSetAttr
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp

cdef extern from "Python.h":
    object PyType_GenericAlloc(type, Py_ssize_t)

cdef enum:
    CLEAN = 0x02
    WILL = 0x04
    PASSWORD = 0x40
    USERNAME = 0x80


cdef inline Py_ssize_t field(const unsigned char *at, Py_ssize_t pos, Py_ssize_t size) noexcept:
    """Where the field at ``pos``, behind its two bytes of length, ends; -1 if it is not all there."""
    if pos + 2 > size:
        return -1
    pos += 2 + (at[pos] << 8 | at[pos + 1])
    return pos if pos <= size else -1


cdef inline Py_ssize_t short_block(const unsigned char *at, Py_ssize_t pos, Py_ssize_t size) noexcept:
    """The same for properties behind one byte of length."""
    if pos >= size or at[pos] > 127:
        return -1
    pos += 1 + at[pos]
    return pos if pos <= size else -1


cdef inline bytes piece(const unsigned char *at, Py_ssize_t start, Py_ssize_t stop):
    return PyBytes_FromStringAndSize(<const char *> at + start, stop - start)


cdef str text(const unsigned char *at, Py_ssize_t start, Py_ssize_t stop):
    """None if it is not well-formed, as MQTT sees it."""
    if memchr(at + start, 0, stop - start) != NULL:
        return None
    try:
        return PyUnicode_DecodeUTF8(<const char *> at + start, stop - start, NULL)
    except UnicodeDecodeError:
        return None


cdef class ConnectReader:
    """The same as ``_pure_connecting.ConnectReader``."""

    cdef type _connect
    cdef object _version_311, _version_5, _no_properties, _read_properties, _make_will

    def __init__(self, type connect, version_311, version_5, no_properties, read_properties, make_will):
        self._connect = connect
        self._version_311 = version_311
        self._version_5 = version_5
        self._no_properties = no_properties
        self._read_properties = read_properties
        self._make_will = make_will

    def read(self, bytes data, Py_ssize_t limit):
        """The same as ``_pure_connecting.ConnectReader.read``."""
        cdef const unsigned char *at = <const unsigned char *> PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data), pos = 2, length, stop, names
        cdef Py_ssize_t properties = 0, will_block = 0, will_topic = 0, will_payload = 0
        cdef int flags, keep_alive
        cdef bint five
        if size > limit or size < 14 or at[0] != 0x10:
            return None
        length = at[1]
        if length > 127:
            if at[2] > 127 or not at[2]:
                return None
            length = length & 127 | at[2] << 7
            pos = 3
        if pos + length != size or length < 12 or memcmp(at + pos, b"\0\4MQTT", 6) or not 4 <= at[pos + 6] <= 5:
            return None
        five = at[pos + 6] == 5
        flags = at[pos + 7]
        if flags & 1 or (flags & 0x18 == 0x18 if flags & WILL else flags & 0x38):
            return None
        if flags & PASSWORD and not five and not flags & USERNAME:
            return None
        keep_alive = at[pos + 8] << 8 | at[pos + 9]
        pos += 10
        if five:
            properties = pos + 1
            pos = short_block(at, pos, size)
            if pos < 0:
                return None
        names = pos
        stop = field(at, pos, size)
        if stop < 0:
            return None
        cdef str client_id = text(at, pos + 2, stop)
        if client_id is None:
            return None
        pos = stop
        if flags & WILL:
            if five:
                will_block = pos + 1
                pos = short_block(at, pos, size)
                if pos < 0:
                    return None
            will_topic = pos
            pos = field(at, pos, size)
            if pos < 0:
                return None
            will_payload = pos
            pos = field(at, pos, size)
            if pos < 0:
                return None
        length = pos  # where the will ends
        cdef str username = None
        if flags & USERNAME:
            stop = field(at, pos, size)
            if stop < 0:
                return None
            username = text(at, pos + 2, stop)
            if username is None:
                return None
            pos = stop
        cdef bytes password = None
        if flags & PASSWORD:
            stop = field(at, pos, size)
            if stop < 0:
                return None
            password = piece(at, pos + 2, stop)
            pos = stop
        if pos != size:
            return None
        found, will = self._no_properties, None
        if five and names > properties:
            found = self._read_properties(piece(at, properties, names))
        if flags & WILL:
            will = self._make_will(
                flags,
                piece(at, will_block, will_topic) if five else b"",
                piece(at, will_topic + 2, will_payload),
                piece(at, will_payload + 2, length),
            )
        # The class is frozen, and its ``__init__`` sets one attribute after the other from Python.
        packet = PyType_GenericAlloc(self._connect, 0)
        PyObject_GenericSetAttr(packet, "version", self._version_5 if five else self._version_311)
        PyObject_GenericSetAttr(packet, "client_id", client_id)
        PyObject_GenericSetAttr(packet, "clean_start", True if flags & CLEAN else False)
        PyObject_GenericSetAttr(packet, "keep_alive", keep_alive)
        PyObject_GenericSetAttr(packet, "username", username)
        PyObject_GenericSetAttr(packet, "password", password)
        PyObject_GenericSetAttr(packet, "will", will)
        PyObject_GenericSetAttr(packet, "properties", found)
        PyObject_GenericSetAttr(packet, "bridge", False)
        return packet

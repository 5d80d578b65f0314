# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The compiled twin of ``_pure_records.py``."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef inline unsigned char* put(unsigned char* q, uint64_t value, int size) noexcept:
    cdef int shift
    for shift in range(8 * (size - 1), -8, -8):
        q[0] = <unsigned char>(value >> shift & 255)
        q += 1
    return q


cdef inline unsigned char* copy(unsigned char* q, const char* data, Py_ssize_t size) noexcept:
    memcpy(q, data, size)
    return q + size


cdef inline uint64_t fits(Py_ssize_t size, uint64_t most) except? 0:
    if <uint64_t>size > most:
        raise ValueError(f"{size} bytes are too many for a record")
    return <uint64_t>size


def message_record(bytes before not None, message):
    """See the twin."""
    cdef bytes topic = message.topic, payload = message.payload, properties = message.properties
    cdef object expires = message.expires_at
    cdef Py_ssize_t head = PyBytes_GET_SIZE(before), name_size
    cdef const char* name = PyUnicode_AsUTF8AndSize(message.publisher, &name_size)
    cdef int flags = message.qos
    cdef double moment = 0 if expires is None else expires
    cdef uint64_t bits
    cdef bytes out
    cdef unsigned char* q
    if message.retain:
        flags |= 0x04
    if expires is not None:
        flags |= 0x08
    out = PyBytes_FromStringAndSize(
        NULL,
        head + 14 + (8 if flags & 0x08 else 0) + PyBytes_GET_SIZE(topic) + name_size + PyBytes_GET_SIZE(properties)
        + PyBytes_GET_SIZE(payload),
    )
    q = copy(<unsigned char*>PyBytes_AS_STRING(out), PyBytes_AS_STRING(before), head)
    q = put(q, 0x10, 1)
    q = put(q, flags, 1)
    q = put(q, fits(PyBytes_GET_SIZE(topic), 0xFFFF), 2)
    q = put(q, fits(name_size, 0xFFFF), 2)
    q = put(q, fits(PyBytes_GET_SIZE(properties), 0xFFFF_FFFF), 4)
    q = put(q, fits(PyBytes_GET_SIZE(payload), 0xFFFF_FFFF), 4)
    if flags & 0x08:
        memcpy(&bits, &moment, 8)
        q = put(q, bits, 8)
    q = copy(q, PyBytes_AS_STRING(topic), PyBytes_GET_SIZE(topic))
    q = copy(q, name, name_size)
    q = copy(q, PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties))
    copy(q, PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
    return out

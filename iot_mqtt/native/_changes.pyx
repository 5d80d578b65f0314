# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled twin of ``_pure_changes.py``: same names, same results."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next, PyDict_SetItem
from cpython.object cimport PyObject
from libc.string cimport memcpy

from zlib import crc32

cdef Py_ssize_t HEAD = 24
cdef unsigned int ABSENT = 0xFFFFFFFF


cdef inline void number_into(char* out, unsigned long long value, int size) noexcept:
    """Little-endian."""
    cdef int index
    for index in range(size):
        out[index] = <char>(value >> 8 * index & 255)


cdef inline Py_ssize_t length(value) except -1:
    """Of bytes; nothing else is one."""
    if not PyBytes_Check(value):
        raise TypeError(f"{type(value).__name__} instead of bytes")
    return PyBytes_GET_SIZE(value)


cdef inline bytes both(bytes one, other):
    cdef Py_ssize_t size = length(one), more = length(other)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, size + more)
    memcpy(PyBytes_AS_STRING(out), PyBytes_AS_STRING(one), size)
    memcpy(PyBytes_AS_STRING(out) + size, PyBytes_AS_STRING(other), more)
    return out


def merge(dict changes not None, operations, tags):
    """See the twin."""
    cdef Py_ssize_t size = 0
    cdef object last = None, cache, key, value
    cdef bytes tag = b""
    for cache, key, value in operations:
        if cache is not last:
            last, tag = cache, tags[cache]
        if value is not None:
            size += length(value)
        PyDict_SetItem(changes, both(tag, key), value)
    return size


def record(bytes salt not None, unsigned long long lsn, dict changes not None, prefixes):
    """See the twin."""
    cdef Py_ssize_t keys = len(changes), names = len(prefixes), at = 0, size
    cdef Py_ssize_t room = 8 + 4 * (names + 2 * keys)
    cdef PyObject *key
    cdef PyObject *value
    cdef bytes prefix, out
    cdef char *start
    cdef char *key_lengths
    cdef char *value_lengths
    cdef char *lengths
    cdef char *key_at
    cdef char *value_at
    cdef Py_ssize_t key_room = 0
    if len(salt) != 8:
        raise ValueError("a salt has 8 bytes")
    for prefix in prefixes:
        room += length(prefix)
    while PyDict_Next(changes, &at, &key, &value):
        key_room += length(<object>key)
        if <object>value is not None:
            room += length(<object>value)
    room += key_room
    if room > 0xFFFFFFFF:
        raise ValueError("a batch is larger than a record can be")
    out = PyBytes_FromStringAndSize(NULL, HEAD + room)
    start = PyBytes_AS_STRING(out)
    memcpy(start, PyBytes_AS_STRING(salt), 8)
    number_into(start + 8, lsn, 8)
    number_into(start + 16, room, 4)
    lengths = start + HEAD
    number_into(lengths, names, 4)
    number_into(lengths + 4, keys, 4)
    lengths += 8
    key_lengths = lengths + 4 * names
    value_lengths = key_lengths + 4 * keys
    key_at = value_lengths + 4 * keys
    for prefix in prefixes:
        size = PyBytes_GET_SIZE(prefix)
        number_into(lengths, size, 4)
        lengths += 4
        memcpy(key_at, PyBytes_AS_STRING(prefix), size)
        key_at += size
    value_at = key_at + key_room
    at = 0
    while PyDict_Next(changes, &at, &key, &value):
        size = PyBytes_GET_SIZE(<object>key)
        number_into(key_lengths, size, 4)
        key_lengths += 4
        memcpy(key_at, PyBytes_AS_STRING(<object>key), size)
        key_at += size
        if <object>value is None:
            number_into(value_lengths, ABSENT, 4)
        else:
            size = PyBytes_GET_SIZE(<object>value)
            number_into(value_lengths, size, 4)
            memcpy(value_at, PyBytes_AS_STRING(<object>value), size)
            value_at += size
        value_lengths += 4
    # zlib's is the fastest there is for thousands of bytes.
    view = memoryview(out)
    number_into(start + 20, crc32(view[HEAD:], crc32(view[8:20])), 4)
    return out


def put_all(dict changes not None, put, remove):
    """See the twin."""
    cdef Py_ssize_t at = 0
    cdef PyObject *key
    cdef PyObject *value
    # Whoever is called has no way to the dictionary.
    while PyDict_Next(changes, &at, &key, &value):
        if <object>value is None:
            remove(<object>key)
        else:
            put(<object>key, <object>value)

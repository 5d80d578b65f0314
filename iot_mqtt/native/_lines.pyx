# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled twin of ``_pure_lines.py``: payloads as lines of JSON, looked at once, byte by byte, and not decoded.

What is JSON and what is not is what Python's own decoder says, within the two bounds of the twin.
"""

from binascii import b2a_base64

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp, memcpy

from iot_mqtt.native._pure_lines import MAX_DEPTH, MAX_DIGITS

ctypedef const unsigned char* Bytes

cdef enum:
    DEPTH = 256
    DIGITS = 4300

if DEPTH != MAX_DEPTH or DIGITS != MAX_DIGITS:
    raise ImportError("the twins differ in their bounds")

cdef enum State:
    VALUE
    FIRST_VALUE
    NAME
    FIRST_NAME
    AFTER

cdef struct Facts:
    #: There are line breaks between tokens; bytes beyond ASCII.
    bint breaks
    bint high


cdef inline Py_ssize_t text(Bytes p, Py_ssize_t at, Py_ssize_t size, bint* high) noexcept:
    """Where the string that begins behind a quote has its other one; -1: nowhere."""
    cdef unsigned char byte
    cdef int digit
    while at < size:
        byte = p[at]
        if byte == c'"':
            return at
        if byte == c'\\':
            at += 1
            if at >= size:
                return -1
            byte = p[at]
            if byte == c'u':
                if at + 4 >= size:
                    return -1
                for digit in range(4):
                    at += 1
                    byte = p[at]
                    if not (c'0' <= byte <= c'9' or c'a' <= byte <= c'f' or c'A' <= byte <= c'F'):
                        return -1
            elif not (
                byte == c'"' or byte == c'\\' or byte == c'/' or byte == c'b' or byte == c'f' or byte == c'n'
                or byte == c'r' or byte == c't'
            ):
                return -1
        elif byte < 32:
            return -1
        elif byte >= 128:
            high[0] = True
        at += 1
    return -1


cdef inline Py_ssize_t number(Bytes p, Py_ssize_t at, Py_ssize_t size) noexcept:
    """Where the number at ``at`` ends; -1: there is none."""
    cdef Py_ssize_t start = at, digits, here
    if p[at] == c'-':
        at += 1
        start = at
    if at >= size or not c'0' <= p[at] <= c'9':
        return -1
    at += 1
    if p[at - 1] != c'0':
        while at < size and c'0' <= p[at] <= c'9':
            at += 1
    digits = at - start
    if at + 1 < size and p[at] == c'.' and c'0' <= p[at + 1] <= c'9':
        digits = 0
        at += 2
        while at < size and c'0' <= p[at] <= c'9':
            at += 1
    if at < size and (p[at] == c'e' or p[at] == c'E'):
        here = at + 1
        if here < size and (p[here] == c'-' or p[here] == c'+'):
            here += 1
        if here >= size or not c'0' <= p[here] <= c'9':
            return -1
        digits = 0
        at = here
        while at < size and c'0' <= p[at] <= c'9':
            at += 1
    return -1 if digits > DIGITS else at


cdef bint is_json(Bytes p, Py_ssize_t size, Py_ssize_t deepest, Facts* facts) noexcept:
    """Whether it is one JSON value, but for its UTF-8 if there is anything ``high``."""
    cdef unsigned char lists[DEPTH]
    cdef Py_ssize_t depth = 0, at = 0
    cdef State state = VALUE
    cdef unsigned char byte
    while True:
        while at < size and (p[at] == c' ' or p[at] == c'\n' or p[at] == c'\r' or p[at] == c'\t'):
            if p[at] == c'\n' or p[at] == c'\r':
                facts.breaks = True
            at += 1
        if state == AFTER and depth == 0:
            return at == size
        if at >= size:
            return False
        byte = p[at]
        if state == AFTER:
            at += 1
            if byte == c',':
                state = VALUE if lists[depth - 1] else NAME
            elif byte == (c']' if lists[depth - 1] else c'}'):
                depth -= 1
            else:
                return False
        elif state == NAME or state == FIRST_NAME:
            at += 1
            if byte == c'}' and state == FIRST_NAME:
                depth -= 1
                state = AFTER
                continue
            if byte != c'"':
                return False
            at = text(p, at, size, &facts.high)
            if at < 0:
                return False
            at += 1
            while at < size and (p[at] == c' ' or p[at] == c'\n' or p[at] == c'\r' or p[at] == c'\t'):
                if p[at] == c'\n' or p[at] == c'\r':
                    facts.breaks = True
                at += 1
            if at >= size or p[at] != c':':
                return False
            at += 1
            state = VALUE
        else:
            if byte == c'"':
                at = text(p, at + 1, size, &facts.high)
                if at < 0:
                    return False
                at += 1
                state = AFTER
            elif byte == c'{' or byte == c'[':
                if depth == deepest:
                    return False
                lists[depth] = byte == c'['
                depth += 1
                at += 1
                state = FIRST_VALUE if byte == c'[' else FIRST_NAME
            elif byte == c']' and state == FIRST_VALUE:
                depth -= 1
                at += 1
                state = AFTER
            elif byte == c'-' or c'0' <= byte <= c'9':
                at = number(p, at, size)
                if at < 0:
                    return False
                state = AFTER
            else:
                if byte == c't' and size - at >= 4 and memcmp(p + at, b"true", 4) == 0:
                    at += 4
                elif byte == c'f' and size - at >= 5 and memcmp(p + at, b"false", 5) == 0:
                    at += 5
                elif byte == c'n' and size - at >= 4 and memcmp(p + at, b"null", 4) == 0:
                    at += 4
                else:
                    return False
                state = AFTER


cdef inline bint is_utf8(Bytes p, Py_ssize_t size):
    try:
        PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef inline bint is_written(Bytes p, Py_ssize_t size, Py_ssize_t deepest, Facts* facts):
    facts.breaks = facts.high = False
    return is_json(p, size, deepest, facts) and (not facts.high or is_utf8(p, size))


cdef inline Py_ssize_t put_number(char* out, unsigned long long value) noexcept:
    cdef char digits[20]
    cdef Py_ssize_t count = 0, index
    while True:
        digits[count] = <char>(48 + value % 10)
        count += 1
        value //= 10
        if value == 0:
            break
    for index in range(count):
        out[index] = digits[count - 1 - index]
    return count


cdef inline Py_ssize_t put_payload(char* out, Bytes p, Py_ssize_t size, bint breaks) noexcept:
    """Without line breaks."""
    cdef Py_ssize_t index, count = 0
    if not breaks:
        memcpy(out, p, size)
        return size
    for index in range(size):
        if p[index] != c'\n' and p[index] != c'\r':
            out[count] = <char>p[index]
            count += 1
    return count


cdef bytes wrapped(
    bytes head, unsigned long long position, bytes middle, const char* key, Py_ssize_t key_size,
    Bytes p, Py_ssize_t size, bint breaks, const char* tail, Py_ssize_t tail_size
):
    cdef char place[20]
    cdef Py_ssize_t digits = put_number(place, position)
    cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head), middle_size = PyBytes_GET_SIZE(middle), dropped = 0, index
    cdef bytes out
    cdef char* q
    if breaks:
        for index in range(size):
            if p[index] == c'\n' or p[index] == c'\r':
                dropped += 1
    out = PyBytes_FromStringAndSize(
        NULL, head_size + digits + middle_size + key_size + size - dropped + tail_size
    )
    q = PyBytes_AS_STRING(out)
    memcpy(q, PyBytes_AS_STRING(head), head_size)
    q += head_size
    memcpy(q, place, digits)
    q += digits
    memcpy(q, PyBytes_AS_STRING(middle), middle_size)
    q += middle_size
    memcpy(q, key, key_size)
    q += key_size
    q += put_payload(q, p, size, breaks)
    memcpy(q, tail, tail_size)
    return out


def lines(
    bytes wire not None, Py_ssize_t count, Py_ssize_t prefix, unsigned long long first, bytes head not None,
    bytes middle not None
):
    """See the twin."""
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(wire)
    cdef Py_ssize_t at = 0, size = 0, index
    cdef Bytes payload
    cdef Facts facts
    cdef bytes coded
    cdef list values = []
    cdef unsigned char byte
    cdef int shift
    for index in range(count):
        # Scanned before, so the length is well formed.
        size, shift = 0, 0
        at += 1
        while True:
            byte = p[at]
            at += 1
            size |= <Py_ssize_t>(byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        payload = p + at + prefix
        at += size
        size -= prefix
        if not is_written(payload, size, DEPTH, &facts):
            coded = b2a_base64(PyBytes_FromStringAndSize(<const char*>payload, size), newline=False)
            values.append(
                wrapped(
                    head, first + index, middle, b'"payload_b64":"', 15,
                    <Bytes>PyBytes_AS_STRING(coded), PyBytes_GET_SIZE(coded), False, b'"}', 2
                )
            )
            continue
        values.append(
            wrapped(
                head, first + index, middle, b'"payload":', 10, payload, size, facts.breaks, b"}", 1
            )
        )
    return values


def object_line(bytes text not None):
    """See the twin."""
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), at = 0
    cdef Facts facts
    while at < size and (p[at] == c' ' or p[at] == c'\n' or p[at] == c'\r' or p[at] == c'\t'):
        at += 1
    if at == size or p[at] != c'{' or not is_written(p, size, DEPTH - 1, &facts):
        return None
    return text.translate(None, b"\r\n") if facts.breaks else text

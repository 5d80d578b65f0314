# cython: language_level=3
"""``serve``, for a thread that syncs files, and ``write_at``: neither holds the interpreter lock while it syncs."""

from libc.errno cimport EINTR, ENOSPC, errno


cdef extern from "unistd.h" nogil:
    ssize_t read(int file, void *data, size_t size)
    ssize_t write(int file, const void *data, size_t size)
    ssize_t pwrite(int file, const void *data, size_t size, long long offset)
    int fdatasync(int file)


cdef int _write_at(int file, const char *data, size_t size, long long offset, bint sync) noexcept nogil:
    cdef ssize_t written
    while size:
        written = pwrite(file, data, size, offset)
        if written < 0 and errno == EINTR:
            continue
        if written <= 0:
            return ENOSPC if written == 0 else errno
        data += written
        size -= written
        offset += written
    return errno if sync and fdatasync(file) else 0


def write_at(int file, bytes data, long long offset, bint sync):
    """The same as ``_pure_syncing.write_at``."""
    cdef const char *start = data
    cdef size_t size = len(data)
    cdef int result
    if not sync:
        # Shorter than it may take to get the lock back.
        return _write_at(file, start, size, offset, False)
    with nogil:
        result = _write_at(file, start, size, offset, True)
    return result


def serve(int jobs, int done):
    """The same as ``_pure_syncing.serve``."""
    cdef int file, result
    cdef ssize_t got
    with nogil:
        while True:
            got = read(jobs, &file, sizeof(file))
            if got < 0 and errno == EINTR:
                continue
            if got != sizeof(file):
                break
            result = 0
            if fdatasync(file):
                result = errno
            while write(done, &result, sizeof(result)) < 0 and errno == EINTR:
                pass

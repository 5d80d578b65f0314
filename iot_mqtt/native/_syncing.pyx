# cython: language_level=3
"""``serve``, for a thread that syncs files: it never holds the interpreter lock while it works."""

from libc.errno cimport EINTR, errno


cdef extern from "unistd.h" nogil:
    ssize_t read(int file, void *data, size_t size)
    ssize_t write(int file, const void *data, size_t size)
    int fdatasync(int file)


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

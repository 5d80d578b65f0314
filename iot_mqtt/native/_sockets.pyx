# cython: language_level=3
"""The same as ``_pure_sockets``: what every turn of the reactor asks of the system."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_GetItem
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint16_t, uint32_t


cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t size) except NULL
    int _PyBytes_Resize(PyObject **data, Py_ssize_t size) except -1

cdef extern from "sys/socket.h" nogil:
    enum: MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_NONBLOCK, SOCK_CLOEXEC, AF_INET, AF_INET6, SHUT_WR
    ctypedef unsigned int socklen_t
    cdef struct sockaddr:
        unsigned short sa_family
    int accept4(int descriptor, sockaddr *address, socklen_t *size, int flags)
    int shutdown(int descriptor, int how)
    ssize_t c_recv "recv"(int descriptor, void *data, size_t size, int flags)
    ssize_t c_send "send"(int descriptor, const void *data, size_t size, int flags)

cdef extern from "netinet/in.h" nogil:
    cdef struct in_addr:
        uint32_t s_addr
    cdef struct in6_addr:
        unsigned char s6_addr[16]
    cdef struct sockaddr_in:
        uint16_t sin_port
        in_addr sin_addr
    cdef struct sockaddr_in6:
        uint16_t sin6_port
        uint32_t sin6_flowinfo, sin6_scope_id
        in6_addr sin6_addr
    uint16_t ntohs(uint16_t value)
    uint32_t ntohl(uint32_t value)
    enum: INET_ADDRSTRLEN

cdef extern from "arpa/inet.h" nogil:
    const char *inet_ntop(int family, const void *address, char *text, socklen_t size)

cdef extern from "netdb.h" nogil:
    enum: NI_NUMERICHOST, NI_NUMERICSERV, NI_MAXHOST
    int getnameinfo(
        const sockaddr *address, socklen_t size, char *host, socklen_t most, char *service, socklen_t longest, int flags
    )

cdef extern from "sys/epoll.h" nogil:
    enum: EPOLLIN, EPOLL_CTL_ADD
    ctypedef union epoll_data_t:
        int fd
    cdef struct epoll_event:
        unsigned int events
        epoll_data_t data
    int epoll_ctl(int epoll, int what, int descriptor, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int most, int milliseconds)

cdef extern from "time.h" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    enum: CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *now)

cdef enum:
    MOST = 1024
    SHORT = 65536
    #: What epoll takes as milliseconds has 31 bits.
    LONGEST = 2000000

#: What small reads are received into: only those who hold the interpreter lock use it.
cdef char _room[SHORT]


cdef union Address:
    sockaddr any
    sockaddr_in four
    sockaddr_in6 six


def accept(int descriptor):
    """The same as ``_pure_sockets.accept``."""
    cdef Address address
    cdef socklen_t size = sizeof(address)
    cdef int accepted
    while True:
        accepted = accept4(descriptor, &address.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC)
        if accepted >= 0:
            return accepted, _written(&address, size)
        if errno == EAGAIN:
            return None
        if errno != EINTR:
            PyErr_SetFromErrno(OSError)
        PyErr_CheckSignals()


cdef _written(Address *address, socklen_t size):
    cdef char host[NI_MAXHOST]
    if address.any.sa_family == AF_INET:
        inet_ntop(AF_INET, &address.four.sin_addr, host, INET_ADDRSTRLEN)
        return host.decode("ascii"), ntohs(address.four.sin_port)
    if address.any.sa_family != AF_INET6 or getnameinfo(
        &address.any, size, host, NI_MAXHOST, NULL, 0, NI_NUMERICHOST | NI_NUMERICSERV
    ):
        return "", 0
    six = &address.six
    return host.decode("ascii"), ntohs(six.sin6_port), ntohl(six.sin6_flowinfo), six.sin6_scope_id


def send_end(int descriptor):
    """The same as ``_pure_sockets.send_end``."""
    if shutdown(descriptor, SHUT_WR) < 0:
        PyErr_SetFromErrno(OSError)


def receive(int descriptor, Py_ssize_t room):
    """The same as ``_pure_sockets.receive``."""
    cdef PyObject *data
    cdef char *start
    cdef ssize_t got
    if room <= SHORT:
        # Shorter than it may take to get the lock back, which would be let go of.
        while True:
            got = c_recv(descriptor, _room, room, MSG_DONTWAIT)
            if got >= 0:
                return PyBytes_FromStringAndSize(_room, got)
            if errno != EINTR:
                return _failed()
    data = new_bytes(NULL, room)
    start = PyBytes_AS_STRING(<object> data)
    while True:
        with nogil:
            got = c_recv(descriptor, start, room, MSG_DONTWAIT)
        if got >= 0 or errno != EINTR:
            break
    if got < 0:
        Py_XDECREF(data)
        return _failed()
    if got < room:
        _PyBytes_Resize(&data, got)
    whole = <object> data
    Py_XDECREF(data)
    return whole


cdef object _failed():
    if errno == EAGAIN:
        return None
    PyErr_SetFromErrno(OSError)


def send(int descriptor, data):
    """The same as ``_pure_sockets.send``."""
    cdef Py_buffer view
    cdef ssize_t taken
    if type(data) is bytes:
        return _sent(descriptor, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    taken = _sent(descriptor, <const char *> view.buf, view.len)
    PyBuffer_Release(&view)
    return taken


cdef ssize_t _sent(int descriptor, const char *data, Py_ssize_t size) noexcept:
    cdef ssize_t taken
    while True:
        if size <= SHORT:
            taken = c_send(descriptor, data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
        else:
            with nogil:
                taken = c_send(descriptor, data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
        if taken >= 0:
            return taken
        if errno == EAGAIN:
            return 0
        if errno != EINTR:
            return -1


cdef inline double _now() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double> now.tv_sec + <double> now.tv_nsec * 1e-9


cdef class Turns:
    """The same as ``_pure_sockets.Turns``."""

    cdef public bint interrupted
    cdef readonly int ready
    cdef int _epoll
    cdef dict _selectables
    cdef set _reads
    cdef list _at_end
    cdef object _over, _raised, _other, _failed

    def __init__(
        self, poller, dict selectables not None, set reads not None, list at_end not None, over, raised, other, failed
    ):
        self._epoll = poller.fileno()
        self._selectables = selectables
        self._reads = reads
        self._at_end = at_end
        self._over = over
        self._raised = raised
        self._other = other
        self._failed = failed
        self.ready = 1
        self.interrupted = False

    def watch(self, int descriptor, reader):
        """The same as ``_pure_sockets.Turns.watch``."""
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.fd = descriptor
        if epoll_ctl(self._epoll, EPOLL_CTL_ADD, descriptor, &event) < 0:
            PyErr_SetFromErrno(OSError)
        self._reads.add(descriptor)
        self._selectables[descriptor] = reader

    def run(self, double until):
        """The same as ``_pure_sockets.Turns.run``."""
        cdef double left
        while not self.interrupted:
            left = until - _now()
            if left <= 0:
                return
            self._turn(left)

    def turn(self, double seconds):
        """The same as ``_pure_sockets.Turns.turn``."""
        self._turn(seconds)

    cdef int _turn(self, double seconds) except -1:
        cdef epoll_event events[MOST]
        cdef int count, index, milliseconds = 0
        cdef PyObject *found
        if PyList_GET_SIZE(self._at_end):
            self._end()
            seconds = 0
        if seconds > 0:
            # Not earlier than asked.
            seconds = seconds * 1000 if seconds < LONGEST else LONGEST * 1000
            milliseconds = <int> seconds
            if milliseconds < seconds:
                milliseconds += 1
        with nogil:
            count = epoll_wait(self._epoll, events, MOST, milliseconds)
        if count < 0:
            if errno != EINTR:
                PyErr_SetFromErrno(OSError)
            PyErr_CheckSignals()
            return 0
        self.ready = count
        for index in range(count):
            found = PyDict_GetItem(self._selectables, events[index].data.fd)
            if found is NULL:
                continue
            selectable = <object> found
            if events[index].events != EPOLLIN:
                self._other(selectable, events[index].data.fd, events[index].events)
                continue
            try:
                why = selectable.doRead()
            except Exception as error:
                self._raised(selectable, error)
            else:
                if why:
                    self._over(selectable, why)
        if PyList_GET_SIZE(self._at_end):
            self._end()
        return 0

    cdef int _end(self) except -1:
        cdef list calls = self._at_end[:]
        del self._at_end[:]
        for call in calls:
            try:
                call()
            except Exception as error:
                self._failed(error)
        return 0

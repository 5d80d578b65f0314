# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled twin of ``_pure_rows.py``: same names, same results. Slots are read where their descriptors say."""

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

from iot_mqtt.native.slots cimport held, member


cdef class RowReader:
    """See the twin."""

    cdef type _logged, _run
    cdef Py_ssize_t at_run, at_topic, at_head, at_five, at_wire, at_count, at_longest, at_properties
    cdef Py_ssize_t at_run_topic

    def __init__(self, type logged not None, type run not None):
        self._logged, self._run = logged, run
        self.at_run, self.at_topic = member(logged, "run"), member(logged, "topic")
        self.at_run_topic = member(run, "topic")
        self.at_head, self.at_five = member(run, "head"), member(run, "five")
        self.at_wire, self.at_count = member(run, "wire"), member(run, "count")
        self.at_longest, self.at_properties = member(run, "longest"), member(run, "raw_properties")

    cdef int _check(self, run) except -1:
        if type(run) is not self._run:
            raise TypeError("not a run")
        return 0

    cdef object _run_of(self, logged):
        """The run of what the log has."""
        if type(logged) is not self._logged:
            raise TypeError("not a run of the log")
        run = held(logged, self.at_run)
        self._check(run)
        return run

    def survey(self, runs, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t room, Py_ssize_t budget):
        """See the twin."""
        cdef Py_ssize_t at = start, messages = 0, size = 0, longest = 0, count, largest
        cdef long head
        cdef dict topics = {}
        cdef object five = None, last = None, run, topic
        stop = min(stop, len(runs))
        while at < stop and size < budget:
            logged = runs[at]
            run = self._run_of(logged)
            head, count = held(run, self.at_head), held(run, self.at_count)
            if five is None:
                five = held(run, self.at_five)
            if (head != 0x32 and head != 0x3a) or held(run, self.at_five) is not five or messages + count > room:
                break
            if len(<bytes?>held(run, self.at_properties)):
                break
            messages += count
            size += len(<bytes?>held(run, self.at_wire))
            largest = held(run, self.at_longest)
            if largest > longest:
                longest = largest
            topic = held(logged, self.at_topic)
            if topic is not last:
                last = topic
                topics.setdefault(topic, at)
            at += 1
        return at, messages, longest, topics

    def column(self, turns, stream, numbers):
        """See the twin."""
        if not isinstance(turns, dict):
            raise TypeError("no turns")
        cdef Py_ssize_t at, end = len(numbers), begin = end
        cdef list found = []
        cdef PyObject* known
        for at in range(end):
            known = PyDict_GetItem(turns, numbers[at])
            if known is not NULL:
                known = PyDict_GetItem(<dict?>(<tuple?><object>known)[0], stream)
            if known is not NULL:
                begin = min(begin, at)
                found.extend(<list?><object>known)
            elif begin < at:
                return begin, at, found
        return begin, end, found

    def described(self, dict written not None):
        """See the twin."""
        cdef list found = []
        cdef object run
        for runs in written.values():
            for logged in <list?>runs:
                run = self._run_of(logged)
                if len(<bytes?>held(run, self.at_properties)):
                    found.append(run)
        return found

    def outline(self, runs):
        """See the twin."""
        cdef list topics = [], counts = []
        for run in runs:
            self._check(run)
            topics.append(held(run, self.at_run_topic))
            counts.append(held(run, self.at_count))
        return topics, counts

    def sizes(self, runs):
        """See the twin."""
        cdef Py_ssize_t messages = 0, size = 0, count
        for run in runs:
            self._check(run)
            count = held(run, self.at_count)
            messages += count
            size += len(<bytes?>held(run, self.at_wire))
        return messages, size

    def totals(self, runs):
        """See the twin."""
        cdef Py_ssize_t messages = 0, size = 0, count
        cdef object run
        for logged in runs:
            run = self._run_of(logged)
            count = held(run, self.at_count)
            messages += count
            size += len(<bytes?>held(run, self.at_wire))
        return messages, size

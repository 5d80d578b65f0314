"""Slots of Python's classes, where their descriptors say that they are, without the calls."""

from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <structmember.h>
    static inline Py_ssize_t slot_at(PyObject *descriptor) {
        PyMemberDef *member;
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
            return -1;
        member = ((PyMemberDescrObject *)descriptor)->d_member;
        return member->type == T_OBJECT_EX ? member->offset : -1;
    }
    static inline PyObject *slot(PyObject *self, Py_ssize_t offset) {
        return *(PyObject **)((char *)self + offset);
    }
    static inline void put(PyObject *self, Py_ssize_t offset, PyObject *value) {
        PyObject **at = (PyObject **)((char *)self + offset), *before = *at;
        Py_INCREF(value);
        *at = value;
        Py_XDECREF(before);
    }
    /* Of a new instance, which has nothing there. */
    static inline void put_first(PyObject *self, Py_ssize_t offset, PyObject *value) {
        Py_INCREF(value);
        *(PyObject **)((char *)self + offset) = value;
    }
    static inline PyObject *new_instance(PyObject *type) {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    }
    /* What is in no cycle, nor ever will be: the collector need not look at it. */
    static inline void is_acyclic(PyObject *one) {
        PyObject_GC_UnTrack(one);
    }
    """
    Py_ssize_t slot_at(object descriptor)
    PyObject* slot(object self, Py_ssize_t offset)
    void put(object self, Py_ssize_t offset, object value)
    void put_first(object self, Py_ssize_t offset, object value)
    object new_instance(object type)
    void is_acyclic(object one)


cdef inline Py_ssize_t member(owner, name) except -1:
    """Where a slot is."""
    cdef Py_ssize_t offset = slot_at(getattr(owner, name))
    if offset < 0:
        raise TypeError(f"{owner.__name__}.{name} is not a slot")
    return offset


cdef inline object held(owner, Py_ssize_t offset):
    """What is in a slot."""
    cdef PyObject* found = slot(owner, offset)
    if found is NULL:
        raise AttributeError("a slot is empty")
    return <object>found

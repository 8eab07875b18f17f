# What other compiled modules may use of `_reader.py`. Documented there.

from cpython.buffer cimport Py_buffer

from kafkaraw.records._wire cimport Walk


# Gives bytes that nobody else refers to another size, within what was allocated, and has them forget their hash.
# 3.11 calls that field deprecated, though nothing replaces it.
cdef extern from *:
    """
    static inline void kafkaraw_set_bytes_size(PyObject *value, Py_ssize_t size) {
        _Py_COMP_DIAG_PUSH
        _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        ((PyBytesObject *) value)->ob_shash = -1;
        _Py_COMP_DIAG_POP
        Py_SET_SIZE((PyVarObject *) value, size);
        PyBytes_AS_STRING(value)[size] = 0;
    }
    """
    void set_bytes_size "kafkaraw_set_bytes_size"(object value, Py_ssize_t size)


# Makes named tuples from their fields. `tuple.__new__` makes a tuple first, and copies it.
#
# The garbage collector does not look at these tuples and their lists of headers, as it does not at tuples of numbers
# and bytes: nothing in them refers to other objects. It took half of the time of reading them.
cdef extern from *:
    """
    static inline PyObject *kafkaraw_new_tuple(PyObject *kind, Py_ssize_t size) {
        return ((PyTypeObject *) kind)->tp_alloc((PyTypeObject *) kind, size);
    }
    static inline void kafkaraw_set_field(PyObject *made, Py_ssize_t at, PyObject *value) {
        Py_INCREF(value);
        PyTuple_SET_ITEM(made, at, value);
    }
    """
    object new_tuple "kafkaraw_new_tuple"(object kind, Py_ssize_t size)
    void leave_uncollected "PyObject_GC_UnTrack"(object made)
    void set_field "kafkaraw_set_field"(object made, Py_ssize_t at, object value)


cdef class Body:
    cdef Py_buffer view
    cdef bint held
    cdef object header
    cdef Walk walk
    cdef int begin(
        self, object batch, object header, object start_offset, object end_offset, object size_max_bytes
    ) except? -1
    cdef object bad_record(self)
    cdef object left_over(self)
    cdef int check(self) except? -1


cdef str header_name(unsigned char* data, Py_ssize_t size)
cdef object bytes_or_none(unsigned char* data, Py_ssize_t size)

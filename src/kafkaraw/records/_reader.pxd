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

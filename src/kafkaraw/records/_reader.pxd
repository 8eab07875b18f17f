# What other compiled modules may use of `_reader.py`. Documented there.

from cpython.buffer cimport Py_buffer

from kafkaraw.records._wire cimport Walk


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

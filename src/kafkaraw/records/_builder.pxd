# What other compiled modules may use of `_builder.py`: C types and attributes of its classes. Documented there.

cdef class Pool:
    cdef Py_ssize_t block_size
    cdef Py_ssize_t count
    cdef Py_ssize_t count_max
    cdef unsigned char** blocks


cdef class Block:
    cdef unsigned char* data
    cdef Py_ssize_t capacity
    cdef Py_ssize_t size
    cdef Pool pool
    cdef int reserve(self, Py_ssize_t capacity, Py_ssize_t usual) except? -1


cdef class BatchBuilder:
    cdef readonly int records_count
    cdef readonly Py_ssize_t size_bytes
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _usual_size
    cdef long long _base_timestamp
    cdef long long _max_timestamp
    cdef Block _block
    cdef bint busy
    cdef Py_ssize_t put(self, long long timestamp, bytes key, bytes value, bytes headers) except? -1


cpdef bytes as_bytes(object value, str what)
cdef long long as_timestamp(object value) except? -1
cpdef bytes encode_headers(object headers)
cdef unsigned int murmur2(bytes key) except? -1

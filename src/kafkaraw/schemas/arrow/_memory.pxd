# `Block` in C, for `_decoding` and `_encoding`.

cdef class Block:
    cdef unsigned char* data
    cdef Py_ssize_t size

# C functions of `_avro_codec.py`. Cython reads this file; plain Python does not.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef class Node:
    cdef public int kind
    cdef public int logical
    cdef public int promote
    cdef public int null_at
    cdef public int scale
    cdef public int precision
    cdef public bint tagged
    cdef public long long size
    cdef public long long least
    cdef public str name
    cdef public list nodes
    cdef public list names
    cdef public list defaults
    cdef public list symbols
    cdef public dict index
    cdef public list fills
    cdef public object field_names

cdef class Output:
    cdef unsigned char* at
    cdef Py_ssize_t count
    cdef Py_ssize_t space
    cdef bytearray plain
    cdef int strict
    cdef int expanding
    cdef int checks
    cdef dict noted

cdef class Input:
    cdef bytes data
    cdef const unsigned char* at
    cdef Py_ssize_t pos
    cdef Py_ssize_t end
    cdef long long budget

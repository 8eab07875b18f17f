# What other compiled modules may use of `_ticket.py`: C types and attributes of its class. Documented there.

cdef class Ticket:
    cdef readonly object batch_promise
    cdef readonly Py_ssize_t index
    cdef readonly long long timestamp_ms
    cdef object _outcome(self)


cdef Ticket ticket_of(object promise, Py_ssize_t index, long long timestamp)

# What other compiled modules may use of `_ticket.py`: C types and attributes of its classes. Documented there.

cdef class Outcome:
    cdef public object error
    cdef public object parts


cdef class Ticket:
    cdef readonly Outcome batch_promise
    cdef readonly Py_ssize_t index
    cdef readonly long long timestamp_ms


cdef Ticket ticket_of(Outcome promise, Py_ssize_t index, long long timestamp)

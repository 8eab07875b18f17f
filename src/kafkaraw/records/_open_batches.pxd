# What other compiled modules may use of `_open_batches.py`: C types and attributes of its classes. Documented there.

from kafkaraw.records._builder cimport BatchBuilder, Pool
from kafkaraw.records._ticket cimport Outcome, Ticket


cdef class Topic:
    cdef str name
    cdef Py_ssize_t sticky_partition
    cdef long long sticky_bytes
    cdef tuple order
    cdef Py_ssize_t position
    cdef Py_ssize_t batch_size
    cdef list batches


cdef class OpenBatch(BatchBuilder):
    cdef Outcome promise
    cdef Topic topic
    cdef Py_ssize_t partition
    cdef long long created_ms


cdef class OpenBatches:
    cdef Py_ssize_t _batch_size
    cdef long long _buffer_memory
    cdef long long _used
    cdef object _codec
    cdef object _level
    cdef object _clock_ms
    cdef bint _system_clock
    cdef Py_ssize_t _value_size_safe
    cdef object _refusal
    cdef object _last_name
    cdef Topic _last_topic
    cdef object _waiter
    cdef dict _topics
    cdef dict _open
    cdef list _sealed_batches
    cdef Pool _pool
    cdef object _function
    cdef object _hash
    cdef int _key_hash
    cdef bint _null_is_a_key
    cdef bint _empty_is_a_key
    cdef bint _every_record
    cdef Py_ssize_t _sticky_size
    cdef Py_ssize_t _now(self) except? -1
    cdef int _check_taking(self) except? -1
    cdef Ticket take_plain(
        self, object topic, object value, object key, object headers, object partition, object timestamp_ms
    )
    cdef Py_ssize_t _hash_of(self, bytes key) except? -2
    cdef object _ask(self, str topic, object key, object value)
    cdef Py_ssize_t _next_sticky(self, Topic entry) except? -1
    cdef tuple _append_elsewhere(
        self, Topic entry, Py_ssize_t number, bint sticky, long long time, bytes key, bytes value, bytes headers
    )
    cdef Ticket _add(self, OpenBatch batch, long long time, bytes key, bytes value, bytes headers)
    cdef OpenBatch _open_batch(self, Topic entry, Py_ssize_t number)
    cdef int _seal(self, OpenBatch batch) except? -1
    cdef int _seal_all_of(self, Topic entry, Py_ssize_t first) except? -1
    cdef int _seal_open(self) except? -1

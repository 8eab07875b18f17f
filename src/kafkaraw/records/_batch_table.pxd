# What other compiled modules may use of `_batch_table.py`: C types and attributes of its classes. Documented there.

from kafkaraw.records._builder cimport BatchBuilder, Pool
from kafkaraw.records._ticket cimport Outcome, Ticket


cdef class TopicBatches:
    cdef readonly str name
    cdef readonly list batches
    cdef readonly object sticky
    cdef public Py_ssize_t batch_size
    cdef public Py_ssize_t sticky_partition
    cdef public bint takes_turns


cdef class OpenBatch(BatchBuilder):
    cdef readonly Outcome promise
    cdef readonly TopicBatches topic
    cdef readonly Py_ssize_t partition
    cdef readonly long long created_ms


cdef class BatchTable:
    cdef readonly dict topics
    cdef public object refusal
    cdef readonly bint decides_each
    cdef bint _has_function
    cdef long long _buffer_memory
    cdef long long _used
    cdef object _clock_ms
    cdef bint _system_clock
    cdef Py_ssize_t _value_size_safe
    cdef object _last_name
    cdef TopicBatches _last_topic
    cdef dict _open
    cdef list _sealed
    cdef Pool _pool
    cdef object _hash
    cdef int _key_hash
    cdef bint _null_is_a_key
    cdef bint _empty_is_a_key
    cdef Py_ssize_t _now(self) except? -1
    cdef Py_ssize_t _hash_of(self, bytes key) except? -2
    cdef Ticket take_plain(
        self, object topic, object value, object key, object headers, object partition, object timestamp_ms
    )
    cdef inline Py_ssize_t _partition_for(self, TopicBatches topic, long long hashed) except? -2
    cdef Ticket _add(self, OpenBatch batch, long long time, bytes key, bytes value, bytes headers)
    cdef bint insert(self, OpenBatch batch) except? -1

# Reading the columns of `rows.py` in C: inline, for `_rows.py`. A field of size -1 is null.

from kafkaraw.records._encoding cimport put_varint, varint_size, zigzag
from libc.string cimport memcpy

ctypedef struct Bytes:
    bint there
    long long first
    unsigned char* validity
    bint wide
    unsigned char* ends
    unsigned char* data
    long long marked  # rows that the validity has bits for
    long long ended  # rows that there are ends for
    long long data_size

ctypedef struct Numbers:
    bint there
    long long first
    unsigned char* validity
    long long* numbers
    long long marked
    long long numbered

ctypedef struct Field:
    unsigned char* data
    long long size


cdef inline bint is_valid(unsigned char* validity, long long position) noexcept nogil:
    return validity is NULL or validity[position >> 3] >> (position & 7) & 1


cdef inline long long end_at(const Bytes* column, long long position) noexcept nogil:
    if column.wide:
        return (<long long*>column.ends)[position]
    return (<int*>column.ends)[position]


cdef inline Field field_at(const Bytes* column, long long row) noexcept nogil:
    cdef Field field
    cdef long long position, start
    field.data = NULL
    field.size = -1
    if column.there:
        position = column.first + row
        if is_valid(column.validity, position):
            start = end_at(column, position)
            field.data = column.data + start
            field.size = end_at(column, position + 1) - start
    return field


cdef inline long long number_at(const Numbers* column, long long row, long long null) noexcept nogil:
    cdef long long position = column.first + row
    if not column.there or not is_valid(column.validity, position):
        return null
    return column.numbers[position]


cdef inline Py_ssize_t field_size(long long size) noexcept nogil:
    return 1 if size < 0 else size + varint_size(<unsigned long long>size << 1)


cdef inline unsigned char* put_field(unsigned char* at, Field field) noexcept nogil:
    if field.size < 0:
        at[0] = 1
        return at + 1
    at = put_varint(at, <unsigned long long>field.size << 1)
    memcpy(at, field.data, field.size)
    return at + field.size


cdef inline long long largest(const Bytes* column, long long rows, long long limit) noexcept nogil:
    """The size of the largest row, or -1 when one does not lie within the first `limit` bytes (or headers)."""
    cdef long long row, start, end
    cdef long long most = 0
    if not column.there:
        return 0
    if column.ended < rows or column.marked < rows:
        return -1
    start = end_at(column, column.first)
    if start < 0:
        return -1
    for row in range(column.first + 1, column.first + rows + 1):
        end = end_at(column, row)
        if end < start:
            return -1
        most = max(most, end - start)
        start = end
    return most if start <= limit else -1


ctypedef struct Record:
    Field key
    Field value
    long long timestamp
    long long headers  # position of the first
    long long headers_count
    long long headers_size


cdef inline unsigned long long delta_of(long long timestamp, long long base) noexcept nogil:
    return zigzag(<long long>(<unsigned long long>timestamp - <unsigned long long>base))


cdef inline Py_ssize_t body_size(const Record* record, long long index, long long base_timestamp) noexcept nogil:
    """The size of a record as number `index` of a batch, without the length in front."""
    cdef Py_ssize_t size = 1 + varint_size(delta_of(record.timestamp, base_timestamp))
    size += varint_size(<unsigned long long>index << 1)
    return size + field_size(record.key.size) + field_size(record.value.size) + record.headers_size

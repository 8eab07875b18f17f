# The bytes of records, read in C: inlined into each compiled module that reads them. Start at `next_record`.
#
# Every length is compared with what is left before it is used. Nothing here raises or knows Python objects; the layout
# is written down in `_fallback/reader.py`. In Cython's own syntax, because only a .pxd file can be inlined elsewhere.

cdef enum:
    VARINT_SHIFT_MAX = 63


cdef struct Blob:
    unsigned char* data
    Py_ssize_t size  # -1 is null


cdef struct Fields:
    long long offset
    long long timestamp
    Blob key
    Blob value
    unsigned char* headers  # behind their count
    Py_ssize_t headers_count


# A position among the records of one batch, and what their deltas count from.
cdef struct Walk:
    unsigned char* begin
    unsigned char* at
    unsigned char* end
    Py_ssize_t index
    Py_ssize_t count
    long long previous
    long long base_offset
    long long last_delta
    long long base_timestamp
    long long append_time
    bint appended
    long long start_offset
    long long end_offset


cdef inline void rewind(Walk* walk) noexcept nogil:
    walk.at = walk.begin
    walk.index = 0
    walk.previous = -1


# The functions below give where they have read to; NULL when the bytes make no sense.


cdef inline unsigned char* long_varint(unsigned char* at, unsigned char* end, unsigned long long* raw) noexcept nogil:
    cdef unsigned long long byte = 0x80
    cdef int shift = 0
    raw[0] = 0
    while byte > 0x7F:
        if at >= end:
            return NULL
        byte = at[0]
        if shift > VARINT_SHIFT_MAX or (shift == VARINT_SHIFT_MAX and byte > 1):
            return NULL
        raw[0] |= (byte & 0x7F) << shift
        at += 1
        shift += 7
    return at


# A varint without undoing the zigzag; mostly it has one or two bytes.
cdef inline unsigned char* varint(unsigned char* at, unsigned char* end, unsigned long long* raw) noexcept nogil:
    if end - at < 2:
        return long_varint(at, end, raw)
    if at[0] < 0x80:
        raw[0] = at[0]
        return at + 1
    if at[1] < 0x80:
        raw[0] = (at[0] & 0x7F) | <unsigned long long> at[1] << 7
        return at + 2
    return long_varint(at, end, raw)


cdef inline long long signed_of(unsigned long long raw) noexcept nogil:
    return <long long> (raw >> 1) ^ -<long long> (raw & 1)


# A length and as many bytes; any negative length is null.
cdef inline unsigned char* blob(unsigned char* at, unsigned char* end, Blob* found) noexcept nogil:
    cdef unsigned long long raw
    at = varint(at, end, &raw)
    if at is NULL:
        return NULL
    found.data = at
    if raw & 1:
        found.size = -1
        return at
    if raw >> 1 > <unsigned long long> (end - at):
        return NULL
    found.size = <Py_ssize_t> (raw >> 1)
    return at + found.size


cdef inline unsigned char* header(unsigned char* at, unsigned char* end, Blob* name, Blob* value) noexcept nogil:
    at = blob(at, end, name)
    if at is NULL or name.size < 0:
        return NULL
    return blob(at, end, value)


# The next record, whatever its offset; 0 when it makes no sense.
cdef inline bint next_record(Walk* walk, Fields* fields) noexcept nogil:
    cdef unsigned long long raw
    cdef unsigned char* end
    cdef unsigned char* at
    cdef long long step
    cdef Blob name, value
    cdef Py_ssize_t left
    at = varint(walk.at, walk.end, &raw)
    if at is NULL or raw & 1 or raw >> 1 > <unsigned long long> (walk.end - at) or raw < 2:
        return False
    end = at + <Py_ssize_t> (raw >> 1)
    at = varint(at + 1, end, &raw)  # behind the attributes, which mean nothing yet
    if at is NULL:
        return False
    # Wraps around as Java's arithmetic does: the difference of two timestamps may pass 64 bits, and comes back.
    fields.timestamp = <long long> (<unsigned long long> walk.base_timestamp + <unsigned long long> signed_of(raw))
    if walk.appended:
        fields.timestamp = walk.append_time
    at = varint(at, end, &raw)
    if at is NULL or raw & 1 or raw >> 1 > <unsigned long long> walk.last_delta:
        return False
    step = <long long> (raw >> 1)
    if step <= walk.previous:
        return False
    fields.offset = walk.base_offset + step
    at = blob(at, end, &fields.key)
    if at is NULL:
        return False
    at = blob(at, end, &fields.value)
    if at is NULL:
        return False
    at = varint(at, end, &raw)
    if at is NULL or raw & 1 or raw >> 1 > <unsigned long long> (end - at):
        return False
    fields.headers = at
    fields.headers_count = <Py_ssize_t> (raw >> 1)
    left = fields.headers_count
    while left > 0:
        at = header(at, end, &name, &value)
        if at is NULL:
            return False
        left -= 1
    if at != end:
        return False
    walk.at = end
    walk.previous = step
    walk.index += 1
    return True


# The next record in the range of offsets; 0 when there is none, -1 when it makes no sense.
cdef inline int next_wanted(Walk* walk, Fields* fields) noexcept nogil:
    while walk.index < walk.count:
        if not next_record(walk, fields):
            return -1
        if fields.offset >= walk.end_offset:
            return 0
        if fields.offset >= walk.start_offset:
            return 1
    return 0

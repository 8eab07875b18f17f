# Checksums of rows in C: inline, for `_rows.py`. See `_fallback/checksum.py`, which must give the same numbers.

from kafkaraw.records._row_columns cimport Field

cdef enum:
    LONG_BYTES = 32


cdef inline unsigned long long left(unsigned long long value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline unsigned long long word_at(const unsigned char* data) noexcept nogil:
    return (
        <unsigned long long>data[0] | <unsigned long long>data[1] << 8 | <unsigned long long>data[2] << 16
        | <unsigned long long>data[3] << 24 | <unsigned long long>data[4] << 32 | <unsigned long long>data[5] << 40
        | <unsigned long long>data[6] << 48 | <unsigned long long>data[7] << 56
    )


cdef inline unsigned long long mix(unsigned long long value) noexcept nogil:
    value ^= value >> 32
    value *= 0xC2B2AE3D27D4EB4FULL
    value ^= value >> 29
    value *= 0x165667B19E3779F9ULL
    return value ^ (value >> 32)


cdef inline unsigned long long hash_number(
    unsigned long long seed, unsigned long long salt, long long number
) noexcept nogil:
    return mix((seed ^ salt) + <unsigned long long>number * 0x9E3779B185EBCA87ULL)


cdef inline unsigned long long round_of(unsigned long long lane, unsigned long long word) noexcept nogil:
    return left(lane + word * 0xC2B2AE3D27D4EB4FULL, 31) * 0x9E3779B185EBCA87ULL


cdef inline unsigned long long hash_bytes(unsigned long long seed, Field field) noexcept nogil:
    cdef unsigned long long value, word, lane0, lane1, lane2, lane3
    cdef const unsigned char* data = field.data
    cdef long long size = field.size
    cdef int at
    if size < 0:
        return mix(seed ^ 0x4CF5AD432745937FULL)
    value = seed ^ (<unsigned long long>size * 0x9E3779B185EBCA87ULL)
    if size >= LONG_BYTES:
        lane0 = value + 0x9E3779B185EBCA87ULL
        lane1 = value ^ 0xC2B2AE3D27D4EB4FULL
        lane2 = value + 0x165667B19E3779F9ULL
        lane3 = value ^ 0x85EBCA77C2B2AE63ULL
        while size >= LONG_BYTES:
            lane0 = round_of(lane0, word_at(data))
            lane1 = round_of(lane1, word_at(data + 8))
            lane2 = round_of(lane2, word_at(data + 16))
            lane3 = round_of(lane3, word_at(data + 24))
            data += LONG_BYTES
            size -= LONG_BYTES
        value = left(lane0, 1) + left(lane1, 7) + left(lane2, 12) + left(lane3, 18)
    while size > 0:
        if size >= 8:
            word = word_at(data)
        else:
            word = 0
            for at in range(<int>size):
                word |= <unsigned long long>data[at] << (8 * at)
        value = left(value ^ (word * 0xC2B2AE3D27D4EB4FULL), 27) * 0x9E3779B185EBCA87ULL + 0x85EBCA77C2B2AE63ULL
        data += 8
        size -= 8
    return mix(value)

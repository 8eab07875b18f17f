# Writing varints and hashing keys: inline, so that every compiled module has them in place.


cdef inline unsigned long long zigzag(long long number) noexcept nogil:
    return (<unsigned long long>number << 1) ^ <unsigned long long>(number >> 63)


cdef inline Py_ssize_t varint_size(unsigned long long raw) noexcept nogil:
    cdef Py_ssize_t size = 4
    if raw < 1 << 28:  # nearly always, and then without a jump
        return 1 + (raw > 0x7F) + (raw > 0x3FFF) + (raw > 0x1FFFFF)
    raw >>= 21
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline unsigned char* put_varint(unsigned char* at, unsigned long long raw) noexcept nogil:
    if raw <= 0x7F:
        at[0] = <unsigned char>raw
        return at + 1
    if raw <= 0x3FFF:
        at[0] = <unsigned char>(raw | 0x80)
        at[1] = <unsigned char>(raw >> 7)
        return at + 2
    while raw > 0x7F:
        at[0] = <unsigned char>(raw | 0x80)
        at += 1
        raw >>= 7
    at[0] = <unsigned char>raw
    return at + 1


cdef inline unsigned int murmur2_of(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    """MurmurHash2 with Kafka's seed, as Java computes it. See `partitioning.murmur2`."""
    cdef unsigned int multiplier = 0x5BD1E995
    cdef unsigned int value = <unsigned int>0x9747B28C ^ <unsigned int>size
    cdef unsigned int word
    while size >= 4:
        word = data[0] | (data[1] << 8) | (data[2] << 16) | (<unsigned int>data[3] << 24)
        word *= multiplier
        word ^= word >> 24
        value = (value * multiplier) ^ (word * multiplier)
        data += 4
        size -= 4
    if size == 3:
        value ^= <unsigned int>data[2] << 16
    if size >= 2:
        value ^= <unsigned int>data[1] << 8
    if size >= 1:
        value ^= data[0]
        value *= multiplier
    value ^= value >> 13
    value *= multiplier
    return value ^ (value >> 15)


cdef inline unsigned int fnv1a_of(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    """See `partitioning.fnv1a`."""
    cdef unsigned int value = 0x811C9DC5
    cdef Py_ssize_t at
    for at in range(size):
        value = (value ^ data[at]) * 0x01000193
    return value if value <= 0x7FFFFFFF else ~value + 1


cdef inline unsigned int crc32_of(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    """CRC-32 as zlib computes it, four bits at a time: keys are short, and the table is small enough to be at hand."""
    cdef unsigned int[16] table = [
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    ]
    cdef unsigned int value = 0xFFFFFFFF
    cdef Py_ssize_t at
    for at in range(size):
        value ^= data[at]
        value = (value >> 4) ^ table[value & 15]
        value = (value >> 4) ^ table[value & 15]
    return ~value

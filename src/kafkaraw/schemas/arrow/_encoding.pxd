# What `_encoding` knows of programs: `EncodeOp`, `EncodeFault` and `Presence` of encode_program.py, in C.

cdef enum EncodeOp:
    ENCODE_NULL = 0
    ENCODE_BOOLEAN = 1
    ENCODE_INT = 2
    ENCODE_LONG = 3
    ENCODE_MILLISECONDS = 4
    ENCODE_FLOAT = 5
    ENCODE_DOUBLE = 6
    ENCODE_BYTES = 7
    ENCODE_FIXED = 8
    ENCODE_DECIMAL_BYTES = 9
    ENCODE_DECIMAL_FIXED = 10
    ENCODE_ENUM = 11
    ENCODE_RECORD = 12
    ENCODE_ARRAY = 13
    ENCODE_MAP = 14
    ENCODE_NULLABLE = 15
    ENCODE_MEMBERS = 16
    ENCODE_PROTOBUF_MESSAGE = 17
    ENCODE_PROTOBUF_REPEATED = 18
    ENCODE_PROTOBUF_PACKED = 19
    ENCODE_PROTOBUF_MAP = 20
    ENCODE_PROTOBUF_ONEOF = 21
    ENCODE_PROTOBUF_BYTES = 22
    ENCODE_PROTOBUF_TIMESTAMP = 23
    ENCODE_PROTOBUF_DURATION = 24
    ENCODE_PROTOBUF_RAW32 = 25
    ENCODE_PROTOBUF_RAW64 = 26
    ENCODE_PROTOBUF_UFIXED32 = 27
    ENCODE_PROTOBUF_UFIXED64 = 28
    ENCODE_PROTOBUF_INT32 = 29
    ENCODE_PROTOBUF_INT64 = 30
    ENCODE_PROTOBUF_UINT32 = 31
    ENCODE_PROTOBUF_UINT64 = 32
    ENCODE_PROTOBUF_SINT32 = 33
    ENCODE_PROTOBUF_SINT64 = 34
    ENCODE_PROTOBUF_BOOL = 35
    ENCODE_PROTOBUF_ENUM = 36

cdef enum EncodeFault:
    FAULT_NONE = 0
    FAULT_NULL = 1
    FAULT_FIXED_SIZE = 2
    FAULT_SYMBOL = 3
    FAULT_MEMBERS = 4
    FAULT_DECIMAL_SIZE = 5
    FAULT_MEMORY = 6
    FAULT_TOO_LARGE = 7
    FAULT_UINT32 = 8
    FAULT_UINT64 = 9
    FAULT_ONEOF = 10

cdef enum Presence:
    PRESENCE_IMPLICIT = 0
    PRESENCE_EXPLICIT = 1
    PRESENCE_REQUIRED = 2

cdef struct Symbol:
    unsigned char* data
    Py_ssize_t size

# A column: buffers of an Arrow array, from its first row on.
cdef struct Source:
    unsigned char* validity  # NULL: no row is null
    Py_ssize_t start  # first row in the buffers
    int* ends
    unsigned char* data
    int first  # index of the first child

cdef struct Step:
    int op
    int source
    int index
    int count  # children, or symbols
    int* children
    int* branches
    Symbol* symbols
    long long argument
    long long value_branch
    int presence

cdef struct State:
    Source* sources
    Step* steps
    unsigned char* out
    Py_ssize_t size
    Py_ssize_t capacity
    int fault
    int fault_node
    long long detail

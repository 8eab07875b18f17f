# What `_decoding` knows of programs and columns: `Op` and `Fault` of program.py, `Kind` of columns.py, in C.
#
# In Cython's own syntax, because only here enums are constants of C. `tests/schemas/arrow` compares the numbers.

cdef enum Kind:
    KIND_NULL = 0
    KIND_BOOLEAN = 1
    KIND_FIXED_WIDTH = 2
    KIND_VARIABLE = 3
    KIND_LIST = 4
    KIND_STRUCT = 5

cdef enum Op:
    OP_NULL = 0
    OP_BOOLEAN = 1
    OP_INT_INT32 = 2
    OP_LONG_INT64 = 3
    OP_LONG_TIMES_1000 = 4
    OP_LONG_FLOAT32 = 5
    OP_LONG_FLOAT64 = 6
    OP_FLOAT_FLOAT32 = 7
    OP_FLOAT_FLOAT64 = 8
    OP_DOUBLE_FLOAT64 = 9
    OP_BYTES = 10
    OP_STRING = 11
    OP_FIXED = 12
    OP_DECIMAL_BYTES = 13
    OP_DECIMAL_FIXED = 14
    OP_ENUM = 15
    OP_RECORD = 16
    OP_ARRAY = 17
    OP_MAP = 18
    OP_UNION = 19
    OP_FAIL = 20
    OP_MEMBER = 21
    OP_DEFAULT = 22
    OP_SKIP_VARINT = 23
    OP_SKIP_BYTES = 24
    OP_SKIP_FIXED = 25
    OP_SKIP_RECORD = 26
    OP_SKIP_ARRAY = 27
    OP_SKIP_MAP = 28
    OP_SKIP_UNION = 29
    OP_PROTOBUF_MESSAGE = 30
    OP_PROTOBUF_INT32 = 31
    OP_PROTOBUF_INT64 = 32
    OP_PROTOBUF_UINT32 = 33
    OP_PROTOBUF_UINT64 = 34
    OP_PROTOBUF_SINT32 = 35
    OP_PROTOBUF_SINT64 = 36
    OP_PROTOBUF_BOOL = 37
    OP_PROTOBUF_ENUM = 38
    OP_PROTOBUF_RAW32 = 39
    OP_PROTOBUF_RAW64 = 40
    OP_PROTOBUF_UFIXED32 = 41
    OP_PROTOBUF_UFIXED64 = 42
    OP_PROTOBUF_BYTES = 43
    OP_PROTOBUF_STRING = 44
    OP_PROTOBUF_TIMESTAMP = 45
    OP_PROTOBUF_DURATION = 46

cdef enum Fault:
    FAULT_NONE = 0
    FAULT_TRUNCATED = 1
    FAULT_VARINT = 2
    FAULT_INT_RANGE = 3
    FAULT_NEGATIVE_SIZE = 4
    FAULT_UTF8 = 5
    FAULT_BOOLEAN = 6
    FAULT_BRANCH = 7
    FAULT_SYMBOL = 8
    FAULT_UNKNOWN_SYMBOL = 9
    FAULT_UNRESOLVED = 10
    FAULT_DIGITS = 11
    FAULT_OVERFLOW = 12
    FAULT_ITEMS = 13
    FAULT_DEPTH = 14
    FAULT_TRAILING = 15
    FAULT_COLUMN_FULL = 16
    FAULT_MEMORY = 17
    FAULT_TWICE = 18
    FAULT_TAG = 19
    FAULT_REQUIRED = 20

cdef enum:
    FIELD_REPEATED = 1
    FIELD_MAP = 2
    FIELD_REQUIRED = 4

cdef struct Rule:
    long long number
    int flags
    int oneof

cdef struct Text:
    unsigned char* data
    Py_ssize_t size  # -1: the reader does not have the symbol

cdef struct Step:
    int op
    int target
    int index  # of the node in its program
    int count  # children, or texts
    int* children
    Text* texts
    Rule* rules  # of a Protobuf message: for each child
    long long* numbers  # of a Protobuf enum: for each text but the last
    long long argument
    Py_ssize_t size
    unsigned char* data
    Py_ssize_t data_size
    unsigned long long limit_high  # of decimals: the first number that has too many digits
    unsigned long long limit_low

cdef struct Column:
    int kind
    bint nullable
    int width
    int first  # index of the first child
    int count  # children
    Py_ssize_t rows
    Py_ssize_t capacity  # rows for which there is room
    Py_ssize_t nulls
    unsigned char* valid  # a byte per row, only of nullable columns
    unsigned char* data  # values of fixed width
    int* ends  # 0, then the end of each row: of VARIABLE and LIST
    unsigned char* bytes  # of VARIABLE
    Py_ssize_t bytes_capacity

cdef struct State:
    Column* columns
    Step* steps
    unsigned char* begin
    unsigned char* at
    unsigned char* end
    Py_ssize_t items_left
    int depth
    int fault
    int fault_node
    unsigned char* fault_at
    long long detail


cdef inline bint has_high_bit(unsigned long long word) noexcept nogil:
    return (word & <unsigned long long>0x8080808080808080ULL) != 0


cdef inline unsigned long long ones() noexcept nogil:
    return <unsigned long long>0xFFFFFFFFFFFFFFFFULL


# The lowest bits of eight bytes as one byte, that of the first byte lowest.
cdef inline unsigned char gathered(unsigned long long word) noexcept nogil:
    return <unsigned char>((word * <unsigned long long>0x0102040810204080ULL) >> 56)

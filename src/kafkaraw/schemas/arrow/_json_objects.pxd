# What `_json_objects` knows of fields and of the record that it reads, in C. In Cython's own syntax, because only here
# enums are constants of C. `Form` has the numbers of json_objects.Form.

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, void* overflow) except? -1.0

cdef enum Form:
    FORM_BOOLEAN = 0
    FORM_INTEGER = 1
    FORM_FLOAT = 2
    FORM_DOUBLE = 3
    FORM_DECIMAL = 4
    FORM_STRING = 5
    FORM_DATE = 6
    FORM_TIMESTAMP = 7  # with a time zone
    FORM_LOCAL = 8  # without one
    FORM_ANY_TIMESTAMP = 9  # without one it is UTC
    FORM_STRUCT = 10

cdef struct Field:
    int form
    int width  # bytes per row
    int first  # index of the first field of a struct
    int count  # fields of a struct
    int digits  # of a decimal: before the point
    int scale
    bint required
    unsigned char* name
    Py_ssize_t name_size
    # Of the record that is read:
    long long record  # number of the record that had the field last
    bint present
    long long number
    double real
    unsigned char* text
    Py_ssize_t text_size
    # The column:
    unsigned char* valid  # a byte per row
    unsigned char* data
    int* ends  # of strings: 0, then the end of each row
    unsigned char* bytes
    long long bytes_capacity
    Py_ssize_t nulls

cdef struct Walk:
    Field* fields
    unsigned char* end
    long long record
    unsigned char* spare  # room for texts without their escapes
    unsigned char seen  # all bytes of texts, by `or`
    # The last text:
    unsigned char* text
    Py_ssize_t text_size
    bint escaped
    # The last number:
    bint negative
    bint whole  # neither fraction nor exponent
    unsigned long long mantissa  # if there are at most 19 digits
    int digits  # without leading zeros
    int whole_digits  # of these, before the point
    int scale
    int exponent
    bint has_exponent

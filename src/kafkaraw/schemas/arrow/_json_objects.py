"""Plain JSON objects as columns, compiled: `Reader`. Start at `_object`, which reads one object.

The interface is documented in `json_objects`. A record is read into its fields first, and becomes a row if all of it is
plain; so columns never have to be cut back. Functions that read return what is behind the value, or NULL if the record
is not plain. This is Cython in its pure-Python mode: C types are annotations, and `setup.py` compiles it. Never import
it uncompiled.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.kafkaraw.schemas.arrow._memory import Block
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc
from cython.cimports.libc.string import memcmp, memcpy

from kafkaraw.errors import BatchTooLargeError
from kafkaraw.schemas.arrow.program import COLUMN_FULL

_DEPTH_MAX = cython.declare(cython.int, 60)
_NUMBER_SIZE_MAX = cython.declare(cython.Py_ssize_t, 100)
_RECORD_SIZE_MAX = cython.declare(cython.Py_ssize_t, 1 << 20)
_NAME_SIZE_MAX = cython.declare(cython.Py_ssize_t, 1000)
_INT32_MAX = cython.declare(cython.longlong, 2**31 - 1)
_INT64_LIMIT = cython.declare(cython.ulonglong, 2**63)
_EXACT_MAX = cython.declare(cython.ulonglong, 2**53)
_FLOAT_MAX = cython.declare(cython.double, 3.4e38)
_FLOAT_MIN = cython.declare(cython.double, 1.2e-38)
_POWERS = cython.declare(cython.double[23])
for _power in range(23):
    _POWERS[_power] = float(f"1e{_power}")


# -- texts


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_spaces(at: cython.p_uchar, end: cython.p_uchar) -> cython.p_uchar:
    while at < end and (at[0] == 32 or at[0] == 10 or at[0] == 13 or at[0] == 9):
        at += 1
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _text(walk: cython.pointer(Walk), at: cython.p_uchar) -> cython.p_uchar:
    """Read a string behind its opening quote; the walk has the text afterwards."""
    begin: cython.p_uchar = at
    end: cython.p_uchar = walk.end
    seen: cython.uchar = 0
    byte: cython.uchar
    while at < end:
        byte = at[0]
        if byte == 34:
            walk.seen |= seen
            walk.text = begin
            walk.text_size = at - begin
            walk.escaped = False
            return at + 1
        if byte == 92:
            walk.seen |= seen
            return _escaped(walk, begin, at)
        if byte < 32:
            return cython.NULL
        seen |= byte
        at += 1
    return cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def _escaped(walk: cython.pointer(Walk), begin: cython.p_uchar, at: cython.p_uchar) -> cython.p_uchar:
    """Read a string with escapes from its first backslash on."""
    start: cython.p_uchar = walk.spare
    out: cython.p_uchar = start
    end: cython.p_uchar = walk.end
    byte: cython.uchar
    memcpy(out, begin, at - begin)
    out += at - begin
    while at < end:
        byte = at[0]
        if byte == 34:
            walk.text = start
            walk.text_size = out - start
            walk.escaped = True
            walk.spare = out
            return at + 1
        if byte < 32:
            return cython.NULL
        at += 1
        if byte != 92:
            walk.seen |= byte
            out[0] = byte
            out += 1
            continue
        if at >= end:
            return cython.NULL
        byte = at[0]
        at += 1
        if byte == 117:
            if end - at < 4:
                return cython.NULL
            out = _code_point(at, out)
            if out == cython.NULL:
                return cython.NULL
            at += 4
            continue
        if byte == 98:
            byte = 8
        elif byte == 102:
            byte = 12
        elif byte == 110:
            byte = 10
        elif byte == 114:
            byte = 13
        elif byte == 116:
            byte = 9
        elif byte == 92:
            if at < end and (at[0] == 117 or at[0] == 85):  # looks like an escape to a regular expression
                return cython.NULL
        elif byte != 34 and byte != 47:
            return cython.NULL
        out[0] = byte
        out += 1
    return cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def _code_point(at: cython.p_uchar, out: cython.p_uchar) -> cython.p_uchar:
    """Write the character of four hexadecimal digits in UTF-8; NULL for zero and for halves of surrogate pairs."""
    code: cython.uint = 0
    digit: cython.uint
    place: cython.int
    for place in range(4):
        digit = at[place]
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70:
            digit -= 55
        elif 97 <= digit <= 102:
            digit -= 87
        else:
            return cython.NULL
        code = code << 4 | digit
    if code == 0 or 0xD800 <= code <= 0xDFFF:
        return cython.NULL
    if code < 0x80:
        out[0] = code
        return out + 1
    if code < 0x800:
        out[0] = 0xC0 | code >> 6
        out[1] = 0x80 | code & 0x3F
        return out + 2
    out[0] = 0xE0 | code >> 12
    out[1] = 0x80 | code >> 6 & 0x3F
    out[2] = 0x80 | code & 0x3F
    return out + 3


# -- numbers


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _number(walk: cython.pointer(Walk), at: cython.p_uchar) -> cython.p_uchar:
    """Read a number; the walk has its parts afterwards. Something follows it."""
    begin: cython.p_uchar = at
    end: cython.p_uchar = walk.end
    mantissa: cython.ulonglong = 0
    digits: cython.int = 0
    scale: cython.int = 0
    walk.negative = at[0] == 45
    if walk.negative:
        at += 1
    if end - at > _NUMBER_SIZE_MAX:
        end = at + _NUMBER_SIZE_MAX
    if at >= end or at[0] < 48 or at[0] > 57:
        return cython.NULL
    if at[0] == 48:
        at += 1
        if at < end and 48 <= at[0] <= 57:
            return cython.NULL
    while at < end and 48 <= at[0] <= 57:
        mantissa = mantissa * 10 + (at[0] - 48)
        digits += 1
        at += 1
    walk.whole_digits = digits
    walk.whole = True
    if at < end and at[0] == 46:
        walk.whole = False
        at += 1
        if at >= end or at[0] < 48 or at[0] > 57:
            return cython.NULL
        while at < end and 48 <= at[0] <= 57:
            mantissa = mantissa * 10 + (at[0] - 48)
            digits += digits > 0 or mantissa != 0  # the mantissa of more than 19 digits overflows, perhaps to 0
            scale += 1
            at += 1
    walk.exponent = 0
    walk.has_exponent = False
    if at < end and (at[0] == 101 or at[0] == 69):
        walk.whole = False
        walk.has_exponent = True
        at = _exponent(walk, at + 1)
        if at == cython.NULL:
            return cython.NULL
    walk.mantissa = mantissa
    walk.digits = digits
    walk.scale = scale
    if at >= walk.end or at - begin >= _NUMBER_SIZE_MAX:
        return cython.NULL
    return at


@cython.cfunc
@cython.exceptval(check=False)
def _exponent(walk: cython.pointer(Walk), at: cython.p_uchar) -> cython.p_uchar:
    end: cython.p_uchar = walk.end
    negative: cython.bint = False
    value: cython.int = 0
    if at < end and (at[0] == 43 or at[0] == 45):
        negative = at[0] == 45
        at += 1
    if at >= end or at[0] < 48 or at[0] > 57:
        return cython.NULL
    while at < end and 48 <= at[0] <= 57:
        value = value * 10 + (at[0] - 48)
        if value > 250:
            return cython.NULL
        at += 1
    walk.exponent = -value if negative else value
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _whole(walk: cython.pointer(Walk), field: cython.pointer(Field)) -> cython.bint:
    """Take the last number as an integer of the field's width."""
    limit: cython.ulonglong = _INT64_LIMIT >> (64 - 8 * field.width)
    if not walk.whole or walk.digits > 19 or (walk.negative and walk.mantissa == 0):
        return False
    if walk.negative:
        if walk.mantissa > limit:
            return False
        field.number = cython.cast(cython.longlong, 0 - walk.mantissa)
        return True
    if walk.mantissa >= limit:
        return False
    field.number = cython.cast(cython.longlong, walk.mantissa)
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _real(walk: cython.pointer(Walk), field: cython.pointer(Field), begin: cython.p_uchar) -> cython.bint:
    """Take the last number, which begins at `begin`, as the nearest double."""
    power: cython.int = walk.exponent - walk.scale
    value: cython.double
    if walk.whole and walk.negative and walk.mantissa == 0:
        return False  # Java reads -0 as an integer
    if walk.digits <= 19 and walk.mantissa <= _EXACT_MAX and -22 <= power <= 22:
        value = cython.cast(cython.double, walk.mantissa)
        value = value / _POWERS[-power] if power < 0 else value * _POWERS[power]
        field.real = -value if walk.negative else value
        return True
    return _nearest(field, begin)


@cython.cfunc
@cython.exceptval(check=False)
def _nearest(field: cython.pointer(Field), begin: cython.p_uchar) -> cython.bint:
    try:
        field.real = PyOS_string_to_double(
            cython.cast(cython.p_char, begin),
            cython.cast(cython.pointer(cython.p_char), cython.address(begin)),
            cython.NULL,
        )
    except ValueError:
        return False
    return -1.7e308 < field.real < 1.7e308


@cython.cfunc
@cython.exceptval(check=False)
def _fits_float(field: cython.pointer(Field)) -> cython.bint:
    """Return whether the float nearest to the double is the one nearest to the digits, too."""
    bits: cython.ulonglong
    size: cython.double = -field.real if field.real < 0 else field.real
    if size > _FLOAT_MAX or (size < _FLOAT_MIN and size != 0):
        return False
    memcpy(cython.address(bits), cython.address(field.real), 8)
    return bits & 0x1FFFFFFF != 0x10000000  # between two floats


@cython.cfunc
@cython.exceptval(check=False)
def _decimal(walk: cython.pointer(Walk), field: cython.pointer(Field)) -> cython.bint:
    """Take the last number as a decimal without losing a digit."""
    mantissa: cython.ulonglong = walk.mantissa
    scale: cython.int = walk.scale
    if walk.has_exponent or walk.digits > 19 or walk.whole_digits > field.digits:
        return False
    if walk.whole_digits + field.scale > 18 or (walk.negative and mantissa == 0):
        return False
    while scale > field.scale:
        if mantissa % 10 != 0:
            return False
        mantissa = mantissa // 10
        scale -= 1
    while scale < field.scale:
        mantissa *= 10
        scale += 1
    field.number = cython.cast(cython.longlong, mantissa)
    if walk.negative:
        field.number = -field.number
    return True


# -- dates and times


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _two(at: cython.p_uchar) -> cython.int:
    """Two digits as a number; a large one if they are none."""
    if at[0] < 48 or at[0] > 57 or at[1] < 48 or at[1] > 57:
        return 100000
    return (at[0] - 48) * 10 + (at[1] - 48)


@cython.cfunc
@cython.exceptval(check=False)
def _days(at: cython.p_uchar) -> cython.longlong:
    """Days since 1970 of yyyy-MM-dd, from 1583 on; a negative number of 2^40 if it is no date."""
    nothing: cython.longlong = -(1 << 40)
    year: cython.longlong = _two(at) * 100 + _two(at + 2)
    month: cython.longlong = _two(at + 5)
    day: cython.longlong = _two(at + 8)
    last: cython.longlong = 31
    era: cython.longlong
    if year < 1583 or year > 9999 or at[4] != 45 or at[7] != 45 or month < 1 or month > 12:
        return nothing
    if month == 4 or month == 6 or month == 9 or month == 11:
        last = 30
    elif month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if day < 1 or day > last:
        return nothing
    if month <= 2:  # the year begins in March here, so that the leap day is its last
        year -= 1
        month += 12
    era = year // 400
    year = year - era * 400
    return era * 146097 + year * 365 + year // 4 - year // 100 + (153 * (month - 3) + 2) // 5 + day - 1 - 719468


@cython.cfunc
@cython.exceptval(check=False)
def _date(walk: cython.pointer(Walk), field: cython.pointer(Field)) -> cython.bint:
    if walk.text_size != 10 or walk.escaped:
        return False
    field.number = _days(walk.text)
    return field.number > -(1 << 40)


@cython.cfunc
@cython.exceptval(check=False)
def _timestamp(walk: cython.pointer(Walk), field: cython.pointer(Field)) -> cython.bint:
    """Take the last text, yyyy-MM-ddTHH:mm:ss[.ffffff][zone], as microseconds since 1970."""
    at: cython.p_uchar = walk.text
    end: cython.p_uchar = at + walk.text_size
    days: cython.longlong
    micros: cython.longlong = 0
    places: cython.int = 0
    hours: cython.int
    minutes: cython.int
    seconds: cython.int
    if walk.text_size < 19 or walk.escaped or (at[10] != 84 and at[10] != 32) or at[13] != 58 or at[16] != 58:
        return False
    days = _days(at)
    hours, minutes, seconds = _two(at + 11), _two(at + 14), _two(at + 17)
    if days == -(1 << 40) or hours > 23 or minutes > 59 or seconds > 59:
        return False
    at += 19
    if at < end and at[0] == 46:
        at += 1
        while at < end and 48 <= at[0] <= 57:
            micros = micros * 10 + (at[0] - 48)
            places += 1
            if places > 6:
                return False
            at += 1
        if places == 0:
            return False
        while places < 6:
            micros *= 10
            places += 1
    field.number = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if at == end:
        if field.form == FORM_TIMESTAMP:
            return False
    elif field.form == FORM_LOCAL:
        return False
    elif at[0] != 90 or end - at != 1:
        if end - at != 6 or (at[0] != 43 and at[0] != 45) or at[3] != 58:
            return False
        hours, minutes = _two(at + 1), _two(at + 4)
        if hours > 17 or minutes > 59 or (at[0] == 45 and hours == 0 and minutes == 0):
            return False
        seconds = (hours * 60 + minutes) * 60
        field.number -= seconds if at[0] == 43 else -seconds
    field.number = field.number * 1000000 + micros
    return True


# -- values


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _word(walk: cython.pointer(Walk), at: cython.p_uchar) -> cython.p_uchar:
    """Read true, false or null."""
    left: cython.Py_ssize_t = walk.end - at
    if left > 4 and (memcmp(at, b"true", 4) == 0 or memcmp(at, b"null", 4) == 0):
        return at + 4
    if left > 5 and memcmp(at, b"false", 5) == 0:
        return at + 5
    return cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def _skipped(walk: cython.pointer(Walk), at: cython.p_uchar, depth: cython.int) -> cython.p_uchar:
    """Read a value that no field has."""
    end: cython.p_uchar = walk.end
    close: cython.uchar
    if depth > _DEPTH_MAX or at >= end:
        return cython.NULL
    if at[0] == 34:
        return _text(walk, at + 1)
    if at[0] == 45 or 48 <= at[0] <= 57:
        return _number(walk, at)
    if at[0] != 123 and at[0] != 91:
        return _word(walk, at)
    close = at[0] + 2
    at = _after_spaces(at + 1, end)
    if at < end and at[0] == close:
        return at + 1
    while True:
        if close == 125:
            at = _name(walk, at)
            if at == cython.NULL:
                return cython.NULL
        at = _skipped(walk, at, depth + 1)
        if at == cython.NULL:
            return cython.NULL
        at = _after_spaces(at, end)
        if at >= end:
            return cython.NULL
        if at[0] == close:
            return at + 1
        if at[0] != 44:
            return cython.NULL
        at = _after_spaces(at + 1, end)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _name(walk: cython.pointer(Walk), at: cython.p_uchar) -> cython.p_uchar:
    """Read a name and the colon behind it; the walk has the name, and something follows."""
    end: cython.p_uchar = walk.end
    if at >= end or at[0] != 34:
        return cython.NULL
    at = _text(walk, at + 1)
    if at == cython.NULL or walk.escaped or walk.text_size > _NAME_SIZE_MAX:
        return cython.NULL
    at = _after_spaces(at, end)
    if at >= end or at[0] != 58:
        return cython.NULL
    at = _after_spaces(at + 1, end)
    return at if at < end else cython.NULL


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value(walk: cython.pointer(Walk), field: cython.pointer(Field), at: cython.p_uchar) -> cython.p_uchar:
    """Read the value of a field."""
    begin: cython.p_uchar = at
    first: cython.uchar = at[0]
    form: cython.int = field.form
    if field.record == walk.record:
        return cython.NULL  # it is there twice
    field.record = walk.record
    field.present = True
    if first == 110:
        field.present = False
        return cython.NULL if field.required else _word(walk, at)
    if form == FORM_STRUCT:
        return _object(walk, field, at) if first == 123 else cython.NULL
    if form == FORM_BOOLEAN:
        field.number = first == 116
        return _word(walk, at)
    if first == 34:
        at = _text(walk, at + 1)
        if at == cython.NULL:
            return cython.NULL
        if form == FORM_STRING:
            field.text = walk.text
            field.text_size = walk.text_size
            return at if not walk.escaped or _is_text(field) else cython.NULL
        if form == FORM_DATE:
            return at if _date(walk, field) else cython.NULL
        if form == FORM_TIMESTAMP or form == FORM_LOCAL or form == FORM_ANY_TIMESTAMP:
            return at if _timestamp(walk, field) else cython.NULL
        return cython.NULL
    if first != 45 and (first < 48 or first > 57):
        return cython.NULL
    at = _number(walk, at)
    if at == cython.NULL:
        return cython.NULL
    if form == FORM_INTEGER:
        return at if _whole(walk, field) else cython.NULL
    if form == FORM_DOUBLE:
        return at if _real(walk, field, begin) else cython.NULL
    if form == FORM_FLOAT:
        return at if _real(walk, field, begin) and _fits_float(field) else cython.NULL
    if form == FORM_DECIMAL:
        return at if _decimal(walk, field) else cython.NULL
    if form == FORM_STRING and walk.whole and not (walk.negative and walk.mantissa == 0) and walk.digits <= 18:
        field.text = begin
        field.text_size = at - begin
        return at
    return cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def _is_text(field: cython.pointer(Field)) -> cython.bint:
    """Return whether a text that was written with escapes looks neither like a number nor like JSON."""
    first: cython.uchar
    if field.text_size == 0:
        return True
    first = field.text[0]
    return not (45 <= first <= 57 or first == 91 or first == 123)


@cython.cfunc
@cython.exceptval(check=False)
def _object(walk: cython.pointer(Walk), field: cython.pointer(Field), at: cython.p_uchar) -> cython.p_uchar:
    """Read an object into the fields of a struct."""
    end: cython.p_uchar = walk.end
    fields: cython.pointer(Field) = walk.fields + field.first
    child: cython.pointer(Field)
    count: cython.int = field.count
    guess: cython.int = 0
    tried: cython.int
    at = _after_spaces(at + 1, end)
    if at < end and at[0] == 125:
        at += 1
    else:
        while True:
            at = _name(walk, at)
            if at == cython.NULL:
                return cython.NULL
            child = cython.NULL
            for tried in range(count):  # the fields are mostly in the order of the schema
                child = cython.address(fields[guess])
                guess = guess + 1 if guess + 1 < count else 0
                if child.name_size == walk.text_size and memcmp(child.name, walk.text, walk.text_size) == 0:
                    break
                child = cython.NULL
            at = _skipped(walk, at, 0) if child == cython.NULL else _value(walk, child, at)
            if at == cython.NULL:
                return cython.NULL
            at = _after_spaces(at, end)
            if at >= end:
                return cython.NULL
            if at[0] == 44:
                at = _after_spaces(at + 1, end)
                continue
            if at[0] != 125:
                return cython.NULL
            at += 1
            break
    for tried in range(count):
        if fields[tried].record != walk.record:
            if fields[tried].required:
                return cython.NULL
            fields[tried].present = False
    return at


# -- columns


@cython.cfunc
@cython.exceptval(check=False)
def _append(
    fields: cython.pointer(Field), index: cython.int, row: cython.Py_ssize_t, present: cython.bint
) -> cython.bint:
    """Make a row of what was read; False if there is no room."""
    field: cython.pointer(Field) = cython.address(fields[index])
    child: cython.int
    single: cython.float
    start: cython.longlong
    sign: cython.longlong
    size: cython.Py_ssize_t = 0
    number: cython.longlong
    here: cython.p_uchar = field.data + row * field.width
    present = present and field.present
    field.valid[row] = present
    field.nulls += not present
    number = field.number if present else 0
    if field.form == FORM_STRUCT:
        for child in range(field.count):
            if not _append(fields, field.first + child, row, present):
                return False
    elif field.form == FORM_STRING:
        start = field.ends[row]
        if present:
            size = field.text_size
            if start + size > field.bytes_capacity and not _grow(field, start + size):
                return False
            memcpy(field.bytes + start, field.text, size)
        field.ends[row + 1] = cython.cast(cython.int, start + size)
    elif field.form == FORM_DOUBLE:
        if not present:
            field.real = 0
        memcpy(here, cython.address(field.real), 8)
    elif field.form == FORM_FLOAT:
        single = cython.cast(cython.float, field.real) if present else 0
        memcpy(here, cython.address(single), 4)
    elif field.form == FORM_DECIMAL:
        sign = -1 if number < 0 else 0
        memcpy(here, cython.address(number), 8)
        memcpy(here + 8, cython.address(sign), 8)
    else:  # the machine is little-endian, as Arrow is
        memcpy(here, cython.address(number), field.width)
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _grow(field: cython.pointer(Field), size: cython.longlong) -> cython.bint:
    capacity: cython.longlong = max(size, 2 * field.bytes_capacity, 4096)
    moved: cython.p_void
    if size > _INT32_MAX:
        return False
    moved = realloc(field.bytes, capacity)
    if moved == cython.NULL:
        return False
    field.bytes = cython.cast(cython.p_uchar, moved)
    field.bytes_capacity = capacity
    return True


@cython.cfunc
def _block(data: cython.p_void, size: cython.Py_ssize_t) -> Block:
    block: Block = Block()
    block.data = cython.cast(cython.p_uchar, data)
    block.size = size
    if data == cython.NULL:
        block.data = cython.cast(cython.p_uchar, malloc(8))
        block.size = 0
    return block


@cython.cfunc
def _bits(marks: cython.p_uchar, rows: cython.Py_ssize_t) -> Block:
    """Pack bytes that are 0 or 1 into bits, lowest first."""
    size: cython.Py_ssize_t = (rows + 7) // 8
    data: cython.p_uchar = cython.cast(cython.p_uchar, calloc(size + 8, 1))
    row: cython.Py_ssize_t
    if data == cython.NULL:
        raise MemoryError
    for row in range(rows):
        data[row >> 3] |= marks[row] << (row & 7)
    return _block(data, size)


@cython.cclass
class _View:
    """A buffer of Arrow, or nothing."""

    view: Py_buffer
    held: cython.bint
    data: cython.p_uchar

    def __cinit__(self, buffer: object) -> None:
        self.held = buffer is not None
        self.data = cython.NULL
        if self.held:
            PyObject_GetBuffer(buffer, cython.address(self.view), PyBUF_SIMPLE)
            self.data = cython.cast(cython.p_uchar, self.view.buf)

    def __dealloc__(self) -> None:
        if self.held:
            PyBuffer_Release(cython.address(self.view))


@cython.cclass
class Reader:
    """Reads rows of bytes into columns.

    Args:
        fields: for each field form, width, first, count, digits, scale, required and name, see `Field` in the .pxd
            file; the first one is the object itself.
    """

    fields: cython.pointer(Field)
    count: cython.int
    spare: cython.p_uchar
    spare_size: cython.Py_ssize_t
    record: cython.longlong
    _names: list

    def __cinit__(self, fields: list) -> None:
        self.count = len(fields)
        self.spare_size = 0
        self._names = []
        self.fields = cython.cast(cython.pointer(Field), calloc(self.count, cython.sizeof(Field)))
        if self.fields == cython.NULL:
            raise MemoryError
        index: cython.int
        field: cython.pointer(Field)
        for index, (form, width, first, count, digits, scale, required, name) in enumerate(fields):
            field = cython.address(self.fields[index])
            field.form, field.width, field.first, field.count = form, width, first, count
            field.digits, field.scale, field.required = digits, scale, required
            encoded: bytes = name.encode()
            self._names.append(encoded)
            field.name = encoded
            field.name_size = len(encoded)

    def __dealloc__(self) -> None:
        if self.fields != cython.NULL:
            self._release()
            free(self.fields)
        free(self.spare)

    @cython.cfunc
    def _release(self):
        index: cython.int
        field: cython.pointer(Field)
        for index in range(self.count):
            field = cython.address(self.fields[index])
            free(field.valid)
            free(field.data)
            free(field.ends)
            free(field.bytes)
            field.valid = field.data = field.bytes = cython.NULL
            field.ends = cython.NULL
            field.bytes_capacity = field.nulls = 0

    @cython.cfunc
    def _reserve(self, rows: cython.Py_ssize_t):
        index: cython.int
        field: cython.pointer(Field)
        self._release()
        for index in range(self.count):
            field = cython.address(self.fields[index])
            field.valid = cython.cast(cython.p_uchar, malloc(rows + 1))
            if field.width:
                field.data = cython.cast(cython.p_uchar, malloc((rows + 1) * field.width))
            if field.form == FORM_STRING:
                field.ends = cython.cast(cython.p_int, malloc((rows + 1) * 4))
                if field.ends == cython.NULL:
                    raise MemoryError
                field.ends[0] = 0
            if field.valid == cython.NULL or (field.width and field.data == cython.NULL):
                raise MemoryError

    def read(
        self, validity: object, offsets: object, data: object, start: cython.Py_ssize_t, rows: cython.Py_ssize_t
    ) -> list:
        """Return nulls and buffers of each field for the rows of a binary array; null are rows that are not plain."""
        valid: _View = _View(validity)
        ends: _View = _View(offsets)
        bytes_: _View = _View(data)
        bounds: cython.p_int = cython.cast(cython.p_int, ends.data) + start
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t
        self._reserve(rows)
        for row in range(rows):
            at = start + row
            self.fields[0].present = (
                (valid.data == cython.NULL or valid.data[at >> 3] >> (at & 7) & 1)
                and bounds[row + 1] - bounds[row] <= _RECORD_SIZE_MAX
                and self._reads(bytes_.data + bounds[row], bounds[row + 1] - bounds[row])
            )
            if not _append(self.fields, 0, row, True):
                raise BatchTooLargeError(COLUMN_FULL)
        return self._taken(rows)

    @cython.cfunc
    def _reads(self, data: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
        walk: Walk
        at: cython.p_uchar
        if size > self.spare_size:
            free(self.spare)
            self.spare_size = 2 * size
            self.spare = cython.cast(cython.p_uchar, malloc(self.spare_size))
            if self.spare == cython.NULL:
                self.spare_size = 0
                raise MemoryError
        self.record += 1
        walk.fields = self.fields
        walk.end = data + size
        walk.record = self.record
        walk.spare = self.spare
        walk.seen = 0
        at = _after_spaces(data, walk.end)
        if at >= walk.end or at[0] != 123:
            return False
        at = _object(cython.address(walk), self.fields, at)
        if at == cython.NULL or _after_spaces(at, walk.end) != walk.end:
            return False
        if walk.seen >= 0x80:
            try:
                PyUnicode_DecodeUTF8(cython.cast(cython.p_char, data), size, cython.NULL)
            except UnicodeDecodeError:
                return False
        return True

    @cython.cfunc
    def _taken(self, rows: cython.Py_ssize_t):
        taken: list = []
        index: cython.int
        field: cython.pointer(Field)
        for index in range(self.count):
            field = cython.address(self.fields[index])
            buffers: list = [_bits(field.valid, rows) if field.nulls else None]
            if field.form == FORM_BOOLEAN:
                buffers.append(_bits(field.data, rows))
            elif field.form == FORM_STRING:
                size: cython.Py_ssize_t = field.ends[rows]
                buffers.append(_block(field.ends, (rows + 1) * 4))
                field.ends = cython.NULL
                buffers.append(_block(field.bytes, size))
                field.bytes = cython.NULL
            elif field.form != FORM_STRUCT:
                buffers.append(_block(field.data, rows * field.width))
                field.data = cython.NULL
            taken.append((field.nulls, buffers))
        self._release()
        return taken

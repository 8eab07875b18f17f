"""Objects <-> Avro's binary encoding, for a schema that `avro_nodes` has turned into `Node`s. No I/O, no parsing.

This is Cython in its pure-Python mode; without a compiler the same source runs as plain Python. `avro_codec` chooses.
It accepts and writes what fastavro does, with the same choice of a union's branch, so that the bytes equal those of
confluent-kafka's serializer. Unlike fastavro it bounds what hostile bytes can cost: a length is compared with the bytes
that are left before memory is allocated, and items that take no bytes (an array of nulls) have a budget. An error names
the path of the field. Start at `encode` and `decode`.

Source: Apache Avro 1.12 specification, "Binary encoding" and "Schema resolution"; fastavro's writer of unions.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import struct
import time
import uuid
from array import array
from collections.abc import Mapping, Sequence
from copy import deepcopy
from enum import Enum

try:
    import cython
except ImportError:  # Cython is not installed, so this module is not compiled, either
    from kafkaraw.schemas.serializers import _no_cython as cython

COMPILED = bool(cython.compiled)

NULL = cython.declare(cython.int, 0)
BOOLEAN = cython.declare(cython.int, 1)
INT = cython.declare(cython.int, 2)
LONG = cython.declare(cython.int, 3)
FLOAT = cython.declare(cython.int, 4)
DOUBLE = cython.declare(cython.int, 5)
BYTES = cython.declare(cython.int, 6)
STRING = cython.declare(cython.int, 7)
FIXED = cython.declare(cython.int, 8)
ENUM = cython.declare(cython.int, 9)
ARRAY = cython.declare(cython.int, 10)
MAP = cython.declare(cython.int, 11)
UNION = cython.declare(cython.int, 12)
RECORD = cython.declare(cython.int, 13)
UNRESOLVED = cython.declare(cython.int, 14)

NO_LOGICAL = cython.declare(cython.int, 0)
TIMESTAMP_MILLIS = cython.declare(cython.int, 1)
TIMESTAMP_MICROS = cython.declare(cython.int, 2)
LOCAL_TIMESTAMP_MILLIS = cython.declare(cython.int, 3)
LOCAL_TIMESTAMP_MICROS = cython.declare(cython.int, 4)
DATE = cython.declare(cython.int, 5)
TIME_MILLIS = cython.declare(cython.int, 6)
TIME_MICROS = cython.declare(cython.int, 7)
DECIMAL = cython.declare(cython.int, 8)
UUID = cython.declare(cython.int, 9)

TO_FLOAT = cython.declare(cython.int, 1)
TO_DOUBLE = cython.declare(cython.int, 2)
TO_BYTES = cython.declare(cython.int, 3)
TO_TEXT = cython.declare(cython.int, 4)

NUMBERS = {
    "NULL": NULL,
    "BOOLEAN": BOOLEAN,
    "INT": INT,
    "LONG": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "BYTES": BYTES,
    "STRING": STRING,
    "FIXED": FIXED,
    "ENUM": ENUM,
    "ARRAY": ARRAY,
    "MAP": MAP,
    "UNION": UNION,
    "RECORD": RECORD,
    "UNRESOLVED": UNRESOLVED,
    "TIMESTAMP_MILLIS": TIMESTAMP_MILLIS,
    "TIMESTAMP_MICROS": TIMESTAMP_MICROS,
    "LOCAL_TIMESTAMP_MILLIS": LOCAL_TIMESTAMP_MILLIS,
    "LOCAL_TIMESTAMP_MICROS": LOCAL_TIMESTAMP_MICROS,
    "DATE": DATE,
    "TIME_MILLIS": TIME_MILLIS,
    "TIME_MICROS": TIME_MICROS,
    "DECIMAL": DECIMAL,
    "UUID": UUID,
    "TO_FLOAT": TO_FLOAT,
    "TO_DOUBLE": TO_DOUBLE,
    "TO_BYTES": TO_BYTES,
    "TO_TEXT": TO_TEXT,
}
"""The constants above by name; in the compiled module they are C variables."""

DEPTH_MAX = cython.declare(cython.int, 600)
EMPTY_ITEMS_MAX = cython.declare(cython.longlong, 100_000)
EXPANSIONS_MAX = cython.declare(cython.int, 10_000)
CHECKS_UNTIL_NOTED = cython.declare(cython.int, 1_000)
"""Number of checks, whether a record fits a branch of a union, whose results are not noted. The results of further
checks are noted, because unions within unions check the same values repeatedly, twice as often on each level."""

_INT_MIN = cython.declare(cython.longlong, -(2**31))
_INT_MAX = cython.declare(cython.longlong, 2**31 - 1)
_LONG_MIN = -(2**63)
_LONG_MAX = 2**63 - 1

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_NAIVE = datetime.datetime(1970, 1, 1)
_UTC = datetime.UTC
_DAYS_SHIFT = datetime.date(1970, 1, 1).toordinal()
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_datetime, _date, _time, _timedelta, _Decimal, _UUID = (
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)
_MISSING = object()
_REQUIRED = object()

REQUIRED = _REQUIRED
"""In `Node.defaults`: the field has no default."""


class AvroMismatchError(Exception):
    """A value does not fit its schema, or bytes are not valid for it.

    Attributes:
        reason: what does not fit.
        path: names of fields, indexes and keys, the innermost first.
    """

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason
        self.path = []

    def __str__(self):
        return f"{self.where}: {self.reason}" if self.path else self.reason

    @property
    def where(self):
        """Return the path as text, such as `order.lines[3].price`."""
        return "".join(
            part if part.startswith("[") or number == 0 else "." + part
            for number, part in enumerate(reversed(self.path))
        )


@cython.final
@cython.cclass
class Node:
    """One type of a schema; of a pair of schemas if the reader's differs from the writer's.

    Attributes:
        kind: NULL ... RECORD, or UNRESOLVED for a branch that the reader's schema does not have.
        logical: how numbers, bytes or strings become Python objects.
        promote: how a resolved value becomes the reader's type.
        null_at: of a union of null and one other type, the index of null; else -1.
        scale: of a decimal.
        precision: of a decimal.
        tagged: a union that returns its named branches as (name, value).
        size: of a fixed.
        least: the fewest bytes that a value takes.
        name: full name, or the type's name; what a tuple in a union names.
        nodes: of the fields, the branches, the items or the values.
        names: of the fields; None skips the field.
        defaults: of the fields, for writing; REQUIRED where there is none.
        symbols: of an enum; None where the reader has neither the symbol nor a default.
        index: of an enum, by symbol.
        fills: name and default of fields that only the reader has.
        field_names: a frozenset of `names`.
    """

    def __init__(self, kind, name):
        self.kind = kind
        self.name = name
        self.logical = self.promote = 0
        self.null_at = -1
        self.scale = self.precision = 0
        self.tagged = False
        self.size = self.least = 0
        self.nodes, self.names, self.defaults, self.symbols, self.fills = [], [], [], [], []
        self.index = {}
        self.field_names = frozenset()


# -- writing


@cython.final
@cython.cclass
class Output:
    """Bytes that grow: memory of its own if compiled, else a bytearray."""

    def __init__(self):
        self.count = 0
        self.strict = 0
        self.expanding = 0
        self.checks = 0
        self.noted = None
        if not cython.compiled:
            self.plain = bytearray()

    def __dealloc__(self):
        if cython.compiled:
            free(self.at)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _grow(out: Output, more: cython.Py_ssize_t) -> cython.int:
    if cython.compiled:
        space: cython.Py_ssize_t = out.space * 2 if out.space * 2 >= out.count + more else out.count + more + 256
        memory: cython.p_uchar = cython.cast(cython.p_uchar, realloc(out.at, space))
        if memory is cython.NULL:
            raise MemoryError
        out.at = memory
        out.space = space
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _put_byte(out: Output, value: cython.int) -> cython.int:
    if cython.compiled:
        if out.count >= out.space:
            _grow(out, 1)
        out.at[out.count] = cython.cast(cython.uchar, value)
        out.count += 1
    else:
        out.plain.append(value)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_long(out: Output, value: cython.longlong) -> cython.int:
    if cython.compiled:
        if out.count + 10 > out.space:
            _grow(out, 10)
        bits: cython.ulonglong = (cython.cast(cython.ulonglong, value) << 1) ^ cython.cast(
            cython.ulonglong, value >> 63
        )
        while bits > 127:
            out.at[out.count] = cython.cast(cython.uchar, (bits & 127) | 128)
            out.count += 1
            bits >>= 7
        out.at[out.count] = cython.cast(cython.uchar, bits)
        out.count += 1
    else:
        rest = (value << 1) ^ (value >> 63)
        while rest > 127:
            out.plain.append((rest & 127) | 128)
            rest >>= 7
        out.plain.append(rest)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_bytes(out: Output, data: bytes) -> cython.int:
    if cython.compiled:
        size: cython.Py_ssize_t = PyBytes_GET_SIZE(data)
        if out.count + size > out.space:
            _grow(out, size)
        memcpy(out.at + out.count, PyBytes_AS_STRING(data), size)
        out.count += size
    else:
        out.plain += data
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_text(out: Output, text: object, name: str) -> cython.int:
    if not isinstance(text, str):
        raise _unfit(name, text)
    try:
        if cython.compiled:
            size: cython.Py_ssize_t = 0
            data: cython.p_const_char = PyUnicode_AsUTF8AndSize(text, cython.address(size))
            _put_long(out, size)
            if out.count + size > out.space:
                _grow(out, size)
            memcpy(out.at + out.count, data, size)
            out.count += size
        else:
            encoded = str(text).encode()
            _put_long(out, len(encoded))
            out.plain += encoded
    except UnicodeEncodeError as error:
        raise AvroMismatchError(
            f"the text has a lone surrogate at character {error.start}, which UTF-8 cannot have"
        ) from None
    return 0


@cython.cfunc
def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except ValueError:  # such as an integer of more than 4300 digits
        return "one that is too long to be shown"
    return shown if len(shown) <= 80 else shown[:77] + "..."


@cython.cfunc
def _unfit(name: str, value: object):
    shown = _shown(value)
    return AvroMismatchError(f"the schema has {name} here, and the value is {shown} ({type(value).__name__})")


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:  # noqa: C901 - one branch per type
    kind: cython.int = node.kind
    if depth > DEPTH_MAX:
        raise AvroMismatchError(f"the value is nested more than {DEPTH_MAX} deep")
    if node.logical:
        value = _from_logical(node, value)
    if kind == STRING:
        return _put_text(out, value, node.name)
    if kind == LONG or kind == INT:
        return _write_whole(node, value, out)
    if kind == UNION:
        return _write_union(node, value, out, depth)
    if kind == RECORD:
        return _write_record(node, value, out, depth)
    if kind == DOUBLE or kind == FLOAT:
        return _write_float(node, value, out)
    if kind == BOOLEAN:
        if value is True:
            return _put_byte(out, 1)
        if value is False:
            return _put_byte(out, 0)
        if type(value).__name__ in ("bool", "bool_"):  # numpy's
            return _put_byte(out, 1 if value else 0)
        raise _unfit("boolean", value)
    if kind == ARRAY:
        return _write_array(node, value, out, depth)
    if kind == MAP:
        return _write_map(node, value, out, depth)
    if kind == NULL:
        if value is not None:
            raise _unfit("null", value)
        return 0
    if kind == BYTES or kind == FIXED:
        return _write_bytes(node, value, out)
    return _write_enum(node, value, out)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_whole(node: Node, value: object, out: Output) -> cython.int:
    number: cython.longlong
    if type(value) is not int:
        if isinstance(value, (float, str, _Decimal)) or not isinstance(value, numbers.Integral):
            raise _unfit(node.name, value)
        value = int(value)
    if not cython.compiled and not _LONG_MIN <= value <= _LONG_MAX:
        raise AvroMismatchError(f"{_shown(value)} is outside of the range of {node.name}")
    try:
        number = value
    except OverflowError:
        raise AvroMismatchError(f"{_shown(value)} is outside of the range of {node.name}") from None
    if node.kind == INT and (number < _INT_MIN or number > _INT_MAX):
        raise AvroMismatchError(f"{_shown(value)} is outside of the range of int; the schema would have to say long")
    return _put_long(out, number)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_float(node: Node, value: object, out: Output) -> cython.int:
    wide: cython.double
    narrow: cython.float
    if type(value) is not float:
        try:
            value = float(value)  # also of texts such as "NaN", as fastavro does
        except (TypeError, ValueError, OverflowError):
            raise _unfit(node.name, value) from None
    if cython.compiled:
        wide = value
        if out.count + 8 > out.space:
            _grow(out, 8)
        if node.kind == DOUBLE:
            memcpy(out.at + out.count, cython.address(wide), 8)
            out.count += 8
        else:
            narrow = cython.cast(cython.float, wide)
            memcpy(out.at + out.count, cython.address(narrow), 4)
            out.count += 4
    elif node.kind == DOUBLE:
        out.plain += _DOUBLE.pack(value)
    else:
        try:
            out.plain += _FLOAT.pack(value)
        except OverflowError:
            out.plain += _FLOAT.pack(float("inf") if value > 0 else float("-inf"))  # as C does
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_bytes(node: Node, value: object, out: Output) -> cython.int:
    if type(value) is not bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise _unfit(node.name if node.kind == BYTES else f"fixed {node.name}", value)
        value = bytes(value)
    if node.kind == BYTES:
        _put_long(out, len(value))
    elif len(value) != node.size:
        raise AvroMismatchError(f"fixed {node.name} has {node.size} bytes, and the value has {len(value)}")
    return _put_bytes(out, value)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_enum(node: Node, value: object, out: Output) -> cython.int:
    if node.kind != ENUM:
        raise AvroMismatchError(f"{node.name} cannot be written")
    try:
        found = node.index.get(value)
        if found is None and isinstance(value, Enum):
            found = node.index.get(value.value, node.index.get(value.name))
    except TypeError:  # cannot be hashed
        found = None
    if found is None:
        raise AvroMismatchError(
            f"{value!r} is no symbol of enum {node.name}, which has {', '.join(map(str, node.symbols[:20]))}"
        )
    return _put_long(out, found)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_array(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:
    if not isinstance(value, (list, tuple)):
        if isinstance(value, (str, bytes, bytearray, Mapping)) or not hasattr(value, "__len__"):
            raise _unfit("array", value)
        value = list(value)
    count: cython.Py_ssize_t = len(value)
    number: cython.Py_ssize_t = 0
    if count:
        items: Node = cython.cast(Node, node.nodes[0])
        _put_long(out, count)
        try:
            for item in value:
                _write(items, item, out, depth + 1)
                number += 1
        except AvroMismatchError as error:
            error.path.append(f"[{number}]")
            raise
        if number != count:
            raise AvroMismatchError("the list was changed while it was written")
    return _put_byte(out, 0)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_map(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:
    if not isinstance(value, (dict, Mapping)):
        raise _unfit("map", value)
    count: cython.Py_ssize_t = len(value)
    number: cython.Py_ssize_t = 0
    if count:
        values: Node = cython.cast(Node, node.nodes[0])
        _put_long(out, count)
        key = None
        try:
            for key, item in value.items():
                _put_text(out, key, "string (the key of a map)")
                _write(values, item, out, depth + 1)
                number += 1
        except AvroMismatchError as error:
            error.path.append(f"[{key!r}]")
            raise
        if number != count:
            raise AvroMismatchError("the map was changed while it was written")
    return _put_byte(out, 0)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_record(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:
    number: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = len(node.names)
    is_dict: cython.bint = type(value) is dict
    if not is_dict and not isinstance(value, Mapping):
        raise _unfit(f"record {node.name}", value)
    if out.strict:
        extras = [key for key in value if key not in node.field_names]
        if extras:
            raise AvroMismatchError(
                f"record {node.name} has no field {', '.join(map(repr, extras[:5]))}, and validation is strict"
            )
    try:
        while number < count:
            if is_dict:
                item = cython.cast(dict, value).get(node.names[number], _MISSING)
            else:
                item = value.get(node.names[number], _MISSING)
            if item is _MISSING:
                _write_default(node, number, out, depth)
            else:
                _write(cython.cast(Node, node.nodes[number]), item, out, depth + 1)
            number += 1
    except AvroMismatchError as error:
        error.path.append(node.names[number])
        raise
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_default(node: Node, number: cython.Py_ssize_t, out: Output, depth: cython.int) -> cython.int:
    default = node.defaults[number]
    field: Node = cython.cast(Node, node.nodes[number])
    if out.strict == 1 or (out.strict == 2 and default is _REQUIRED):
        raise AvroMismatchError(
            f"record {node.name} needs this field, the value does not have it, and validation is strict"
        )
    if default is _REQUIRED:
        if field.kind == NULL or (field.kind == UNION and _has_null(field)):  # as fastavro
            return _write(field, None, out, depth + 1)
        raise AvroMismatchError(
            f"the value has no such field, and record {node.name} has no default for it; add the field to the value, "
            f"or a default to the schema"
        )
    out.expanding += 1
    if out.expanding > EXPANSIONS_MAX:
        raise AvroMismatchError(f"the schema's defaults expand to more than {EXPANSIONS_MAX} values")
    return _write(field, default, out, depth + 1)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _has_null(union: Node) -> cython.int:
    for branch in union.nodes:
        if cython.cast(Node, branch).kind == NULL:
            return 1
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_union(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:
    at: cython.Py_ssize_t = node.null_at
    branch: Node
    if at >= 0 and type(value) is not tuple:
        if value is None:
            return _put_long(out, at)
        at = 1 - at
        branch = cython.cast(Node, node.nodes[at])
        if branch.kind < ARRAY and not _accepts(branch, value, out, depth):
            raise _no_branch(node, value)
        _put_long(out, at)
        return _write(branch, value, out, depth + 1)
    if isinstance(value, tuple):
        if len(value) != 2:
            raise AvroMismatchError(
                f"a tuple in a union is (name of the branch, value); this one has {len(value)} items"
            )
        at = 0
        for candidate in node.nodes:
            if cython.cast(Node, candidate).name == value[0]:
                _put_long(out, at)
                return _write(cython.cast(Node, candidate), value[1], out, depth + 1)
            at += 1
        raise AvroMismatchError(f"the union has no branch {value[0]!r}; it has {_branches(node)}")
    at = _choose(node, value, out, depth)
    if at < 0:
        raise _no_branch(node, value)
    _put_long(out, at)
    return _write(cython.cast(Node, node.nodes[at]), value, out, depth + 1)


@cython.cfunc
@cython.exceptval(-2, check=False)
def _choose(node: Node, value: object, out: Output, depth: cython.int) -> cython.Py_ssize_t:
    """Return the branch that fastavro would choose: the first that fits; of records that with most in common."""
    best: cython.Py_ssize_t = -1
    most: cython.Py_ssize_t = -1
    at: cython.Py_ssize_t = -1
    may_be_float: cython.bint = False
    branch: Node
    for candidate in node.nodes:
        at += 1
        branch = cython.cast(Node, candidate)
        if may_be_float:
            if branch.kind == DOUBLE:
                return at
            continue
        if not _accepts(branch, value, out, depth):
            continue
        if branch.kind == RECORD:
            common: cython.Py_ssize_t = 0
            for name in value:
                if name in branch.field_names:
                    common += 1
            if common > most:
                best, most = at, common
        elif branch.kind == FLOAT:
            best = at
            may_be_float = True
        else:
            return at
    return best


@cython.cfunc
def _no_branch(node: Node, value: object):
    return _unfit(f"a union of {_branches(node)}", value)


@cython.cfunc
def _branches(node: Node) -> str:
    return ", ".join([cython.cast(Node, branch).name for branch in node.nodes])


@cython.cfunc
@cython.exceptval(-1, check=False)
def _accepts(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:  # noqa: C901 - one branch per type
    """Whether a branch of a union takes a value, as fastavro's `validate` decides; may raise for a wrong decimal."""
    kind: cython.int = node.kind
    if depth > DEPTH_MAX:
        raise AvroMismatchError(f"the value is nested more than {DEPTH_MAX} deep")
    if node.logical:
        value = _from_logical(node, value)
    if kind == STRING:
        return isinstance(value, str)
    if kind == INT or kind == LONG:
        if isinstance(value, bool) or not isinstance(value, (int, numbers.Integral)):
            return 0
        if kind == INT:
            return _INT_MIN <= value <= _INT_MAX
        return _LONG_MIN <= value <= _LONG_MAX
    if kind == NULL:
        return value is None
    if kind == BOOLEAN:
        return isinstance(value, bool)
    if kind == DOUBLE or kind == FLOAT:
        return isinstance(value, (int, float, numbers.Real)) and not isinstance(value, bool)
    if kind == BYTES:
        return isinstance(value, (bytes, bytearray))
    if kind == FIXED:
        return isinstance(value, bytes) and len(value) == node.size
    if kind == ENUM:
        try:
            return value in node.index
        except TypeError:
            return 0
    if kind == ARRAY:
        if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, (Sequence, array)):
            return 0  # fastavro takes bytes for an array of numbers, even if the union has bytes behind it
        for item in value:
            if not _accepts(cython.cast(Node, node.nodes[0]), item, out, depth + 1):
                return 0
        return 1
    if kind == MAP:
        if not isinstance(value, Mapping):
            return 0
        for key, item in value.items():
            if not isinstance(key, str) or not _accepts(cython.cast(Node, node.nodes[0]), item, out, depth + 1):
                return 0
        return 1
    if kind == RECORD:
        return _accepts_record(node, value, out, depth)
    return _accepts_union(node, value, out, depth)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _accepts_record(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:
    if not isinstance(value, Mapping):
        return 0
    if "-type" in value and value["-type"] != node.name:
        return 0
    if out.checks < CHECKS_UNTIL_NOTED:
        out.checks += 1
        return _accepts_fields(node, value, out, depth)
    if out.noted is None:
        out.noted = {}
    key = (id(node), id(value))
    found = out.noted.get(key)
    if found is None:
        found = (_accepts_fields(node, value, out, depth), value)  # with the value, so that it keeps its id
        out.noted[key] = found
    return found[0]


@cython.cfunc
@cython.exceptval(-1, check=False)
def _accepts_fields(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:
    number: cython.Py_ssize_t = 0
    for name in node.names:
        item = value.get(name, _MISSING)
        if item is _MISSING:
            default = node.defaults[number]
            item = None if default is _REQUIRED else default
        if not _accepts(cython.cast(Node, node.nodes[number]), item, out, depth + 1):
            return 0
        number += 1
    return 1


@cython.cfunc
@cython.exceptval(-1, check=False)
def _accepts_union(node: Node, value: object, out: Output, depth: cython.int) -> cython.int:
    if isinstance(value, tuple):
        if len(value) != 2:
            return 0
        for candidate in node.nodes:
            if cython.cast(Node, candidate).name == value[0]:
                return _accepts(cython.cast(Node, candidate), value[1], out, depth + 1)
        return 0
    for candidate in node.nodes:
        if _accepts(cython.cast(Node, candidate), value, out, depth + 1):
            return 1
    return 0


@cython.cfunc
def _from_logical(node: Node, value: object):  # noqa: C901 - one branch per logical type
    """Return the number, bytes or text of a Python object, as fastavro's logical writers do; others unchanged."""
    logical: cython.int = node.logical
    if logical <= LOCAL_TIMESTAMP_MICROS:
        if not isinstance(value, _datetime):
            return value
        if logical >= LOCAL_TIMESTAMP_MILLIS:
            delta = value.replace(tzinfo=_UTC) - _EPOCH
        elif value.tzinfo is None:  # local time
            seconds = int(time.mktime(value.timetuple()))
            if logical == TIMESTAMP_MILLIS:
                return seconds * 1000 + value.microsecond // 1000
            return seconds * 1_000_000 + value.microsecond
        else:
            delta = value - _EPOCH
        whole = delta.days * 86400 + delta.seconds
        if logical == TIMESTAMP_MILLIS or logical == LOCAL_TIMESTAMP_MILLIS:
            return whole * 1000 + delta.microseconds // 1000
        return whole * 1_000_000 + delta.microseconds
    if logical == DATE:
        if isinstance(value, _date):
            return value.toordinal() - _DAYS_SHIFT
        if isinstance(value, str):
            try:
                return _date.fromisoformat(value).toordinal() - _DAYS_SHIFT
            except ValueError:
                return value
        return value
    if logical == DECIMAL:
        return _unscaled(node, value) if isinstance(value, _Decimal) else value
    if logical == UUID:
        if isinstance(value, _UUID):
            return str(value) if node.kind == STRING else value.bytes
        return value
    if isinstance(value, _time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return micros // 1000 if logical == TIME_MILLIS else micros
    return value


@cython.cfunc
def _unscaled(node: Node, value: object) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise AvroMismatchError(f"{value} is no number that decimal({node.precision}, {node.scale}) can hold")
    shift = exponent + node.scale
    if len(digits) > node.precision:
        raise AvroMismatchError(
            f"{_short(value)} has {len(digits)} digits, and the schema has decimal({node.precision}, {node.scale}); "
            f"round it first"
        )
    if shift < 0:
        raise AvroMismatchError(
            f"{_short(value)} has {-exponent} digits behind the point, and the schema has "
            f"decimal({node.precision}, {node.scale}); round it first"
        )
    if shift > 100_000:
        raise AvroMismatchError(f"{_short(value)} is too large for decimal({node.precision}, {node.scale})")
    number = int("".join(map(str, digits))) * 10**shift if len(digits) < 4000 else _long_number(digits) * 10**shift
    size = (number.bit_length() + 8) // 8
    if sign:
        number = -number
    if node.kind == BYTES:
        return number.to_bytes(size, "big", signed=True)
    try:
        return number.to_bytes(node.size, "big", signed=True)
    except OverflowError:
        raise AvroMismatchError(
            f"{_short(value)} does not fit into the {node.size} bytes of fixed {node.name}"
        ) from None


@cython.cfunc
def _long_number(digits):
    number = 0
    for at in range(0, len(digits), 1000):
        part = digits[at : at + 1000]
        number = number * 10 ** len(part) + int("".join(map(str, part)))
    return number


@cython.cfunc
def _short(value) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


_outputs: list = []  # those that are not in use; `encode` may run in several threads, and in itself


def encode(node: Node, value: object, prefix: bytes, strict: cython.int = 0) -> bytes:
    """Return the prefix and the encoded value.

    Args:
        node: the schema.
        value: the object.
        prefix: bytes in front, such as the framing.
        strict: 1: a record has exactly the fields of the schema; 2: fields with a default may be left out.

    Raises:
        AvroMismatchError: the value does not fit.
    """
    out: Output
    try:
        out = _outputs.pop()
    except IndexError:
        out = Output()
    out.strict = strict
    out.expanding = out.checks = 0
    out.noted = None
    if cython.compiled:
        out.count = 0
    else:
        del out.plain[:]
    try:
        _put_bytes(out, prefix)
        _write(node, value, out, 0)
        if cython.compiled:
            made = PyBytes_FromStringAndSize(cython.cast(cython.p_char, out.at), out.count)
        else:
            made = bytes(out.plain)
    except RecursionError:
        raise AvroMismatchError("the value is nested too deep") from None
    out.noted = None
    if len(_outputs) < 8 and len(made) < 1_000_000:
        _outputs.append(out)
    return made


# -- reading


@cython.final
@cython.cclass
class Input:
    """Bytes that are read, and how far."""

    def __init__(self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t):
        self.data = data
        self.pos = start
        self.end = end
        self.budget = EMPTY_ITEMS_MAX
        if cython.compiled:
            self.at = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(data))


@cython.cfunc
@cython.inline
@cython.exceptval(check=True)
def _get_long(source: Input) -> cython.longlong:
    bits: cython.ulonglong = 0
    shift: cython.int = 0
    byte: cython.int
    while source.pos < source.end:
        if cython.compiled:
            byte = source.at[source.pos]
        else:
            byte = source.data[source.pos]
        source.pos += 1
        if cython.compiled:
            bits |= cython.cast(cython.ulonglong, byte & 127) << shift
        else:
            bits |= (byte & 127) << shift
        if byte < 128:
            if cython.compiled:
                return cython.cast(cython.longlong, bits >> 1) ^ -cython.cast(cython.longlong, bits & 1)
            bits &= 0xFFFF_FFFF_FFFF_FFFF
            return (bits >> 1) ^ -(bits & 1)
        shift += 7
        if shift > 63:
            raise AvroMismatchError(f"the number that ends at byte {source.pos} has more than 10 bytes")
    raise AvroMismatchError(f"the bytes end within a number, at byte {source.end}")


@cython.cfunc
@cython.exceptval(check=True)
def _get_size(source: Input, name: str) -> cython.Py_ssize_t:
    """Read a length, and compare it with the bytes that are left."""
    size: cython.longlong = _get_long(source)
    if size < 0 or size > source.end - source.pos:
        raise AvroMismatchError(
            f"the length of a {name} is {size}, and {source.end - source.pos} bytes are left, at byte {source.pos}"
        )
    return size


@cython.cfunc
@cython.exceptval(check=True)
def _get_count(source: Input, least: cython.longlong, name: str) -> cython.longlong:
    """Read the number of items of a block, and compare it with the bytes that are left; 0 is the end."""
    count: cython.longlong = _get_long(source)
    if count < 0:
        if count < -(2**62):
            raise AvroMismatchError(f"a block of the {name} has {count} items, at byte {source.pos}")
        count = -count
        size: cython.longlong = _get_long(source)
        if size < 0 or size > source.end - source.pos:
            raise AvroMismatchError(
                f"a block of the {name} has {size} bytes, and {source.end - source.pos} are left, at byte {source.pos}"
            )
    if least == 0:
        source.budget -= min(count, EMPTY_ITEMS_MAX + 1)
        if source.budget < 0:
            raise AvroMismatchError(
                f"the {name} has {count} items that take no bytes; at most {EMPTY_ITEMS_MAX} are read"
            )
    elif count > (source.end - source.pos) // least:
        raise AvroMismatchError(
            f"a block of the {name} has {count} items of at least {least} bytes, and {source.end - source.pos} "
            f"bytes are "
            f"left, at byte {source.pos}"
        )
    return count


@cython.ccall
def to_single(number: cython.longlong):
    """Return the float of 32 bits next to `number`, ties to even, as Java's cast from long to float."""
    narrow: cython.float
    wide: cython.double
    if cython.compiled:
        narrow = cython.cast(cython.float, number)
        wide = narrow
        return wide
    surplus = abs(number).bit_length() - 24
    if surplus <= 0:
        return float(number)
    quotient, rest = divmod(number, 1 << surplus)
    half = 1 << (surplus - 1)
    if rest > half or (rest == half and quotient % 2):
        quotient += 1
    return float(quotient << surplus)


@cython.cfunc
def _read(node: Node, source: Input, depth: cython.int):  # noqa: C901 - one branch per type
    kind: cython.int = node.kind
    size: cython.Py_ssize_t
    start: cython.Py_ssize_t
    number: cython.longlong
    wide: cython.double
    narrow: cython.float
    if depth > DEPTH_MAX:
        raise AvroMismatchError(f"the record is nested more than {DEPTH_MAX} deep")
    if kind == STRING:
        size = _get_size(source, "string")
        start = source.pos
        source.pos = start + size
        if node.promote == TO_BYTES:
            return source.data[start : start + size]
        text = _text(source, start, size)
        return _to_logical(node, text) if node.logical else text
    if kind == LONG or kind == INT:
        number = _get_long(source)
        if kind == INT and (number < _INT_MIN or number > _INT_MAX):
            raise AvroMismatchError(
                f"the int that ends at byte {source.pos} is {number}, which is outside of its range"
            )
        if node.promote == TO_DOUBLE:
            return float(number)
        if node.promote == TO_FLOAT:
            return to_single(number)
        return _to_logical(node, number) if node.logical else number
    if kind == UNION:
        return _read_union(node, source, depth)
    if kind == RECORD:
        return _read_record(node, source, depth)
    if kind == DOUBLE or kind == FLOAT:
        size = 8 if kind == DOUBLE else 4
        if size > source.end - source.pos:
            raise AvroMismatchError(f"the bytes end within a {node.name}, at byte {source.end}")
        start = source.pos
        source.pos = start + size
        if not cython.compiled:
            return (_DOUBLE if kind == DOUBLE else _FLOAT).unpack_from(source.data, start)[0]
        if kind == DOUBLE:
            memcpy(cython.address(wide), source.at + source.pos - 8, 8)
        else:
            memcpy(cython.address(narrow), source.at + source.pos - 4, 4)
            wide = narrow
        return wide
    if kind == BOOLEAN:
        if source.pos >= source.end:
            raise AvroMismatchError(f"the bytes end within a boolean, at byte {source.end}")
        flag = source.data[source.pos]
        source.pos += 1
        if flag > 1:
            raise AvroMismatchError(f"the boolean at byte {source.pos - 1} is {flag}, which is neither 0 nor 1")
        return flag == 1
    if kind == ARRAY:
        return _read_array(node, source, depth)
    if kind == MAP:
        return _read_map(node, source, depth)
    if kind == NULL:
        return None
    if kind == BYTES or kind == FIXED:
        if kind == BYTES:
            size = _get_size(source, "bytes")
        else:
            size = node.size
            if size > source.end - source.pos:
                raise AvroMismatchError(f"the bytes end within fixed {node.name}, at byte {source.end}")
        start = source.pos
        source.pos = start + size
        if node.promote == TO_TEXT:
            return _text(source, start, size)
        data = source.data[start : start + size]
        return _to_logical(node, data) if node.logical else data
    if kind == ENUM:
        number = _get_long(source)
        if number < 0 or number >= len(node.symbols):
            raise AvroMismatchError(
                f"enum {node.name} has {len(node.symbols)} symbols, and the record has number {number}, at byte "
                f"{source.pos}"
            )
        symbol = node.symbols[number]
        if symbol is None:
            raise AvroMismatchError(
                f"the reader's enum {node.name} does not have symbol {number} of the writer's, and no default"
            )
        return symbol
    raise AvroMismatchError(f"the reader's schema cannot read {node.name}, which the writer's schema has here")


@cython.cfunc
def _text(source: Input, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> str:
    try:
        if cython.compiled:
            return PyUnicode_DecodeUTF8(cython.cast(cython.p_const_char, source.at + start), size, cython.NULL)
        return source.data[start : start + size].decode()
    except UnicodeDecodeError as error:
        raise AvroMismatchError(f"the string at byte {start} is not UTF-8: {error.reason}") from None


@cython.cfunc
def _read_union(node: Node, source: Input, depth: cython.int):
    at: cython.longlong = _get_long(source)
    if at < 0 or at >= len(node.nodes):
        raise AvroMismatchError(
            f"the union has {len(node.nodes)} branches, and the record has branch {at}, at byte {source.pos}"
        )
    branch: Node = cython.cast(Node, node.nodes[at])
    value = _read(branch, source, depth + 1)
    if node.tagged and branch.kind == RECORD:
        return (branch.name, value)
    return value


@cython.cfunc
def _read_record(node: Node, source: Input, depth: cython.int):
    number: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = len(node.names)
    record: dict = {}
    start: cython.Py_ssize_t = source.pos
    try:
        while number < count:
            name = node.names[number]
            if name is None:
                _skip(cython.cast(Node, node.nodes[number]), source, depth + 1)
            else:
                record[name] = _read(cython.cast(Node, node.nodes[number]), source, depth + 1)
            number += 1
    except AvroMismatchError as error:
        error.path.append(node.names[number] or f"({number + 1}. field of the writer's {node.name})")
        raise
    if node.fills:
        for name, default in node.fills:
            record[name] = deepcopy(default) if isinstance(default, (dict, list)) else default
    if source.pos == start:
        source.budget -= 1
        if source.budget < 0:
            raise AvroMismatchError(f"more than {EMPTY_ITEMS_MAX} records that take no bytes")
    return record


@cython.cfunc
def _read_array(node: Node, source: Input, depth: cython.int):
    items: Node = cython.cast(Node, node.nodes[0])
    made: list = []
    count: cython.longlong
    try:
        while True:
            count = _get_count(source, items.least, "array")
            if count == 0:
                return made
            while count > 0:
                made.append(_read(items, source, depth + 1))
                count -= 1
    except AvroMismatchError as error:
        error.path.append(f"[{len(made)}]")
        raise


@cython.cfunc
def _read_map(node: Node, source: Input, depth: cython.int):
    values: Node = cython.cast(Node, node.nodes[0])
    made: dict = {}
    count: cython.longlong
    size: cython.Py_ssize_t
    key = None
    try:
        while True:
            count = _get_count(source, 1 + values.least, "map")
            if count == 0:
                return made
            while count > 0:
                size = _get_size(source, "map's key")
                source.pos += size
                key = _text(source, source.pos - size, size)
                made[key] = _read(values, source, depth + 1)
                count -= 1
    except AvroMismatchError as error:
        error.path.append(f"[{key!r}]")
        raise


@cython.cfunc
@cython.exceptval(-1, check=False)
def _skip(node: Node, source: Input, depth: cython.int) -> cython.int:
    """Step over a value that the reader's schema does not have. What takes no bytes takes no time, either."""
    kind: cython.int = node.kind
    size: cython.longlong
    count: cython.longlong
    if depth > DEPTH_MAX:
        raise AvroMismatchError(f"the record is nested more than {DEPTH_MAX} deep")
    if kind == INT or kind == LONG or kind == ENUM:
        _get_long(source)
    elif kind == STRING or kind == BYTES:
        size = _get_size(source, node.name)  # which moves `pos`
        source.pos += size
    elif kind == UNION:
        count = _get_long(source)
        if count < 0 or count >= len(node.nodes):
            raise AvroMismatchError(
                f"the union has {len(node.nodes)} branches, and the record has branch {count}, at byte {source.pos}"
            )
        _skip(cython.cast(Node, node.nodes[count]), source, depth + 1)
    elif kind == RECORD:
        if node.least:
            for field in node.nodes:
                _skip(cython.cast(Node, field), source, depth + 1)
    elif kind == ARRAY or kind == MAP:
        _skip_blocks(node, source, depth)
    elif kind != NULL:
        size = 8 if kind == DOUBLE else 4 if kind == FLOAT else 1 if kind == BOOLEAN else node.size
        if size > source.end - source.pos:
            raise AvroMismatchError(f"the bytes end within a {node.name}, at byte {source.end}")
        source.pos += size
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _skip_blocks(node: Node, source: Input, depth: cython.int) -> cython.int:
    items: Node = cython.cast(Node, node.nodes[0])
    is_map: cython.bint = node.kind == MAP
    count: cython.longlong
    size: cython.Py_ssize_t
    while True:
        count = _get_count(source, items.least + 1 if is_map else items.least, node.name)
        if count == 0:
            return 0
        while count > 0:
            if is_map:
                size = _get_size(source, "map's key")
                source.pos += size
            _skip(items, source, depth + 1)
            count -= 1


@cython.cfunc
def _to_logical(node: Node, value: object):
    """Return the Python object of a logical type, as fastavro's logical readers do."""
    logical: cython.int = node.logical
    try:
        if logical == TIMESTAMP_MILLIS:
            return _EPOCH + _timedelta(0, 0, 0, value)
        if logical == TIMESTAMP_MICROS:
            return _EPOCH + _timedelta(0, 0, value)
        if logical == LOCAL_TIMESTAMP_MILLIS:
            return _EPOCH_NAIVE + _timedelta(0, 0, 0, value)
        if logical == LOCAL_TIMESTAMP_MICROS:
            return _EPOCH_NAIVE + _timedelta(0, 0, value)
        if logical == DATE:
            return _date.fromordinal(value + _DAYS_SHIFT)
        if logical == DECIMAL:
            return _decimal(node, value)
        if logical == UUID:
            return _UUID(value) if node.kind == STRING else _UUID(bytes=value)
        if logical == TIME_MILLIS:
            value = value * 1000
        seconds, micros = divmod(value, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return _time(hour, minute, second, micros)
    except (OverflowError, ValueError) as error:
        raise AvroMismatchError(
            f"{_short(value)} is no {node.name} that Python's type can hold ({error}); logical_types=False returns the "
            f"number, bytes or text itself"
        ) from None


@cython.cfunc
def _decimal(node: Node, data: bytes):
    if len(data) > 4096:
        raise AvroMismatchError(f"a decimal({node.precision}, {node.scale}) has {len(data)} bytes")
    number = int.from_bytes(data, "big", signed=True)
    made = _Decimal(number).scaleb(-node.scale, _decimal_context)
    if len(made.as_tuple().digits) > node.precision:
        raise AvroMismatchError(f"{_short(made)} has more digits than decimal({node.precision}, {node.scale})")
    return made


_decimal_context = decimal.Context(prec=20_000)


def decode(node: Node, data: bytes, start: cython.Py_ssize_t = 0):
    """Return the object that the bytes from `start` on encode.

    Raises:
        AvroMismatchError: the bytes are not valid for the schema, or some are left.
    """
    source: Input = Input(data, start, len(data))
    try:
        made = _read(node, source, 0)
    except RecursionError:
        raise AvroMismatchError("the record is nested too deep") from None
    if source.pos != source.end:
        raise AvroMismatchError(
            f"{source.end - source.pos} bytes are left behind the record, which ends at byte {source.pos}: another "
            f"schema wrote it"
        )
    return made

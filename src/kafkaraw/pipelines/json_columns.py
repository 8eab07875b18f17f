"""Decodes JSON values into columns, and separates the records that do not fit the schema.

Spark's `from_json` accepts more than it can represent: it ignores what follows the first document, replaces invalid
UTF-8, takes the first element of an array, wraps a TINYINT, rounds decimals, cuts timestamps, and completes "12:30" by
today's date. `JsonColumns` reads such fields with a wider type and compares, so that each record either has all its
values or is bad. The rules are listed in docs/pipelines/expectations.md.

Everything is an expression of the JVM. Good rows pay for one `from_json`, a scan for invalid UTF-8, and comparisons of
their fields; reasons are computed for bad rows only. Most records never come here: the source decodes those that need
no rule (`spark.reading.json_values`), with the same values. Must not read topics. Start at `JsonColumns`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField, StructType

ROW: Final = "row"
"""Field of `JsonColumns.row`: the columns; null if the value is bad."""
_CORRUPT: Final = "_corrupt"
_VALUE, _PARSED = "value", "parsed"
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
}
_DIGITS_MAX: Final = 38
_SHOWN_MAX: Final = 100  # characters of a value in a reason
_LONE_SURROGATE: Final = (
    r"(?i)\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}"
)


class JsonColumns:
    """The columns of JSON objects, by a schema.

    Args:
        schema: the columns. A NOT NULL field must be present and not null.
        where: what the schema belongs to, for error messages.

    Raises:
        ConfigError: a column has a type that JSON values cannot be decoded into.
    """

    def __init__(self, schema: StructType, where: str) -> None:
        from pyspark.sql import types

        for field in schema.fields:
            _check_type(field.dataType, f"{where}: column {field.name!r}")
        self._schema = schema
        # The document is parsed as `{"NAME":[DOCUMENT,{"MARK":true}]}`: if the last element is missing or is not the
        # second one, then DOCUMENT is not exactly one JSON value. NAME and MARK are random: no value contains them.
        self._name, self._mark = f"d{secrets.token_hex(8)}", f"m{secrets.token_hex(8)}"
        row = [types.StructField(field.name, _read_type(field.dataType)) for field in schema.fields]
        row.append(types.StructField(self._mark, types.BooleanType()))
        documents = types.ArrayType(types.StructType(row))
        corrupt = types.StructField(_CORRUPT, types.StringType())
        self._wrapped = types.StructType([types.StructField(self._name, documents), corrupt])

    def parsed(self, value: Column) -> Column:
        """Return the parsed form of a binary or string column; the other methods take it as a column."""
        from pyspark.sql import functions as F

        text = value.cast("string")
        whole = F.concat(F.lit(f'{{"{self._name}":['), text, F.lit(f',{{"{self._mark}":true}}]}}'))
        return F.from_json(whole, self._wrapped, _OPTIONS)

    def is_bad(self, parsed: Column, value: Column) -> Column:
        """Return whether a record does not fit the schema; never null. A null value is not JSON, and is bad."""
        from pyspark.sql import functions as F

        text = value.cast("string")
        document = self._document(parsed)
        good = ~self._is_no_object(parsed) & F.is_valid_utf8(text)
        for _, wrong in self._faults(document, text):
            good &= ~F.coalesce(wrong, F.lit(False))
        return ~F.coalesce(good, F.lit(False))

    def columns(self, parsed: Column) -> list[Column]:
        """Return the columns of the schema."""
        document = self._document(parsed)
        return [
            _converted(document.getField(field.name), field.dataType).alias(field.name) for field in self._schema.fields
        ]

    def row(self, value: Column) -> Column:
        """Return a struct with the field `ROW`, the columns as a struct, or null if the value is bad; null for null.

        Only for few values: it costs more than the other methods, and hardly anything for null.
        """
        from pyspark.sql import functions as F

        def parsed(each: Column) -> Column:
            return F.struct(each.alias(_VALUE), self.parsed(each).alias(_PARSED))

        def checked(each: Column) -> Column:
            found, text = each.getField(_PARSED), each.getField(_VALUE)
            return F.struct(F.when(~self.is_bad(found, text), F.struct(*self.columns(found))).alias(ROW))

        return _interpreted(_interpreted(value, parsed), checked)

    def reason(self, value: Column) -> Column:
        """Return why a record is bad, as text; only for records of which `is_bad` is true, since it costs much more."""
        from pyspark.sql import functions as F

        return F.coalesce(_interpreted(value, self._reason), F.lit("the value is null"))

    def _reason(self, value: Column) -> Column:
        from pyspark.sql import functions as F

        text = value.cast("string")
        parsed = self.parsed(value)
        whole = F.when(~F.is_valid_utf8(text), F.lit("the value is not valid UTF-8"))
        whole = whole.when(F.btrim(text, F.lit(" \t\r\n")) == "", F.lit("the value is empty"))
        said: list[Column] = []
        for field in self._schema.fields:
            alone = JsonColumns(_only(field), "")
            found, raw = alone.parsed(value), _shown(value, field.name)
            kind = field.dataType.simpleString().upper()
            said.append(
                F.when(alone._is_no_object(found), F.concat(F.lit(f"column {field.name!r} is {kind}, not "), raw))
            )
            for what, wrong in alone._faults(alone._document(found), text):
                said.append(F.when(wrong, F.concat(F.lit(f"column {what}: "), raw)))
        nothing = JsonColumns(_only(None), "")
        is_json = ~nothing._is_no_object(nothing.parsed(value))
        fields = F.concat_ws("; ", *said)
        whole = whole.when(is_json & (fields != ""), fields)
        start = F.concat(F.lit("the value is not one JSON object: "), F.substring(text, 1, _SHOWN_MAX))
        return whole.when(self._is_no_object(parsed), start).otherwise(F.lit("the value does not fit the schema"))

    def _document(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F

        return F.get(parsed.getField(self._name), F.lit(0))

    def _is_no_object(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F

        documents = parsed.getField(self._name)
        good = (
            parsed.getField(_CORRUPT).isNull()
            & (F.size(documents) == 2)
            & F.get(documents, F.lit(1)).getField(self._mark)
            & F.get(documents, F.lit(0)).isNotNull()
            & F.get(documents, F.lit(0)).getField(self._mark).isNull()
        )
        return ~F.coalesce(good, F.lit(False))

    def _faults(self, document: Column, text: Column) -> Iterator[tuple[str, Column]]:
        for field in self._schema.fields:
            path: list[str] | None = [field.name]
            yield from _faults(document.getField(field.name), field, text, repr(field.name), path)


def _interpreted(value: Column, function: Callable[[Column], Column]) -> Column:
    """Return the function of a value, null for null, as an expression that Spark does not compile.

    Each task of each micro-batch generates the code of its expressions: for those here, that takes longer than to read
    thousands of records, and few records need them. Of Spark's functions with a lambda, `zip_with` is never compiled.
    """
    from pyspark.sql import functions as F

    one = F.when(value.isNotNull(), F.array(value))
    return F.get(F.zip_with(one, one, lambda each, _: function(each)), F.lit(0))


def _only(field: StructField | None) -> StructType:
    from pyspark.sql import types

    return types.StructType([] if field is None else [field])


def _shown(value: Column, name: str) -> Column:
    """Return what the document has in a field, as text, for an error message."""
    from pyspark.sql import functions as F
    from pyspark.sql import types

    kind = types.StructType([types.StructField(name, types.StringType())])
    text = F.from_json(value.cast("string"), kind, _OPTIONS | {"columnNameOfCorruptRecord": "_none"}).getField(name)
    return F.coalesce(F.substring(text, 1, _SHOWN_MAX), F.lit("null"))


def _check_type(kind: DataType, where: str) -> None:
    from pyspark.sql import types

    match kind:
        case types.StructType():
            for field in kind.fields:
                _check_type(field.dataType, f"{where}, field {field.name!r}")
        case types.ArrayType():
            _check_type(kind.elementType, f"{where}, its elements")
        case types.MapType():
            if not isinstance(kind.keyType, types.StringType):
                raise ConfigError(f"{where} is {kind.simpleString()}: keys of JSON are strings, use map<string,...>")
            _check_type(kind.valueType, f"{where}, its values")
        case _ if type(kind) not in _plain_types():
            raise ConfigError(f"{where} is {kind.simpleString()}, which cannot be decoded from JSON: use string")


def _plain_types() -> Sequence[type[DataType]]:
    from pyspark.sql import types

    return (
        types.StringType,
        types.BooleanType,
        types.ByteType,
        types.ShortType,
        types.IntegerType,
        types.LongType,
        types.FloatType,
        types.DoubleType,
        types.DecimalType,
        types.DateType,
        types.TimestampType,
        types.TimestampNTZType,
        types.BinaryType,
        types.VariantType,
    )


def _read_type(kind: DataType) -> DataType:
    """Return the type that a field is parsed with, which keeps what the field's own type would lose."""
    from pyspark.sql import types

    match kind:
        case types.StructType():
            return types.StructType([types.StructField(each.name, _read_type(each.dataType)) for each in kind.fields])
        case types.ArrayType():
            return types.ArrayType(_read_type(kind.elementType))
        case types.MapType():
            return types.MapType(types.StringType(), _read_type(kind.valueType))
        case types.ByteType():
            return types.IntegerType()  # Jackson takes 200 for a byte
        case types.DecimalType():
            return types.DecimalType(_DIGITS_MAX, _DIGITS_MAX - (kind.precision - kind.scale))
        case types.DateType() | types.TimestampType() | types.TimestampNTZType():
            return types.StringType()
    return kind


def _converted(value: Column, kind: DataType) -> Column:
    """Return a parsed value in its own type; defined for values without faults."""
    from pyspark.sql import functions as F
    from pyspark.sql import types

    if _read_type(kind) == kind:
        return value
    match kind:
        case types.StructType():
            fields = [_converted(value.getField(each.name), each.dataType).alias(each.name) for each in kind.fields]
            return F.when(value.isNotNull(), F.struct(*fields))
        case types.ArrayType():
            element = kind.elementType
            return F.transform(value, lambda each: _converted(each, element))
        case types.MapType():
            inner = kind.valueType
            return F.transform_values(value, lambda _, each: _converted(each, inner))
    return value.try_cast(kind)


def _faults(
    value: Column, field: StructField, text: Column, name: str, path: list[str] | None
) -> Iterator[tuple[str, Column]]:
    """Yield what may be wrong with a parsed value, and the condition; null means that it is not.

    Args:
        value: the value, of the type `_read_type`.
        field: its type, and whether it may be null.
        text: the document.
        name: what to call it in the reason.
        path: the names that lead to it; None within arrays and maps.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types

    if not field.nullable:
        yield f"{name} is NOT NULL", value.isNull()
    kind = field.dataType
    match kind:
        case types.StructType():
            for each in kind.fields:
                below = None if path is None else [*path, each.name]
                for what, wrong in _faults(value.getField(each.name), each, text, f"{name}.{each.name}", below):
                    yield what, value.isNotNull() & wrong
        case types.ArrayType():
            element = types.StructField("", kind.elementType, kind.containsNull)
            if _can_fail(element):
                yield _some_of(name, kind), F.exists(value, lambda each: _any_fault(each, element, text))
        case types.MapType():
            inner = types.StructField("", kind.valueType, kind.valueContainsNull)
            if _can_fail(inner):
                values = F.map_values(value)
                yield _some_of(name, kind), F.exists(values, lambda each: _any_fault(each, inner, text))
        case types.StringType():
            yield f"{name} is STRING, and a number with a fraction would be rounded", _is_rounded(value, text, path)
            yield f"{name} has half of a surrogate pair", F.contains(value, F.lit("?")) & text.rlike(_LONE_SURROGATE)
        case _:
            loses = _does_not_fit(value, kind)
            if loses is not None:
                yield f"{name} is not exactly {kind.simpleString().upper()}", loses


def _some_of(name: str, kind: DataType) -> str:
    return f"{name} has a value that is not exactly of its type, {kind.simpleString().upper()}"


def _any_fault(value: Column, field: StructField, text: Column) -> Column:
    from pyspark.sql import functions as F

    found = F.lit(False)
    for _, wrong in _faults(value, field, text, "", None):
        found |= F.coalesce(wrong, F.lit(False))
    return found


def _can_fail(field: StructField) -> bool:
    """Return whether a value of this type, parsed without an error, may still not fit."""
    from pyspark.sql import types

    kind = field.dataType
    match kind:
        case _ if not field.nullable:
            return True
        case types.StructType():
            return any(_can_fail(each) for each in kind.fields)
        case types.ArrayType():
            return _can_fail(types.StructField("", kind.elementType, kind.containsNull))
        case types.MapType():
            return _can_fail(types.StructField("", kind.valueType, kind.valueContainsNull))
        case types.StringType() | types.FloatType() | types.DoubleType():
            return True
    return _read_type(kind) != kind


def _does_not_fit(value: Column, kind: DataType) -> Column | None:
    """Return whether the type would lose something of a parsed value; None if it cannot."""
    from pyspark.sql import functions as F
    from pyspark.sql import types

    match kind:
        case types.ByteType():
            return ~value.between(-128, 127)
        case types.FloatType() | types.DoubleType():
            return F.abs(value) == F.lit(float("inf")).cast(kind)
        case types.DecimalType():
            return ~F.coalesce(value.try_cast(kind) == value, F.lit(False)) & value.isNotNull()
        case types.DateType():
            shaped = (F.length(value) == 10) & _dashed(value) & (F.substring(value, 8, 1) == "-")
        case types.TimestampType():
            shaped = _is_time(value)
        case types.TimestampNTZType():
            shaped = _is_time(value) & ~F.substring(value, 12, 50).rlike(r"[^\d:.]")
        case _:
            return None
    return value.isNotNull() & ~(shaped & value.try_cast(kind).isNotNull())


def _dashed(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.substring(text, 5, 1) == "-"


def _is_time(text: Column) -> Column:
    """Return whether a text begins with a date and has at most microseconds."""
    from pyspark.sql import functions as F

    short = F.length(text) <= len("2026-01-02T03:04:05.123456")
    return (F.length(text) >= 10) & _dashed(text) & (short | ~text.rlike(r"\.\d{6}0*[1-9]"))


def _is_rounded(value: Column, text: Column, path: list[str] | None) -> Column:
    """Return whether a string was a number, or contains one, that Spark has written anew from a DOUBLE.

    Strings begin with a digit, a minus, or a bracket too: then the document has them between quotes, as they are or
    with escapes.
    """
    from pyspark.sql import functions as F

    first = F.ascii(value)
    numeric = (
        first.between(ord("-"), ord("9"))
        & value.rlike("[.eE]")
        & value.try_cast("double").isNotNull()
        & ~F.contains(text, F.concat(F.lit('"'), value, F.lit('"')))
    )
    nested = first.isin(ord("["), ord("{")) & value.rlike(r"\d[.eE][-+\d]")
    quoted = F.substring(F.to_json(F.struct(value.alias("v"))), len('{"v":') + 1, 2**31 - 1)
    nested &= ~F.contains(text, F.rtrim(quoted, F.lit("}")))
    if path is not None:
        steps = "".join(f"['{_escaped(each)}']" for each in path)
        inner = F.try_variant_get(F.try_parse_json(text), f"${steps}", "variant")
        nested &= F.coalesce(F.schema_of_variant(inner), F.lit("")) != "STRING"
    return numeric | nested


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")

"""Which rows fit into a table: its columns compared with those of a DataFrame, both as Arrow schemas. Pure.

A type fits if every value can be stored without loss: the same type, or a narrower one. A column that the table lacks
is added if `mergeSchema` is set. The type of a column never changes: readers that know the old one would break. Start
at `compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from kafkaraw.spark.errors import TableSchemaError

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_LARGE: Final = ((kinds.is_large_string, pa.string()), (kinds.is_large_binary, pa.binary()))


@dataclass(frozen=True)
class Comparison:
    """What a table needs in order to take the rows.

    Attributes:
        missing: columns, or structs with fields, that the table lacks.
    """

    missing: tuple[pa.Field, ...] = ()


def compare(table: str, schema: pa.Schema, rows: pa.Schema, *, merge_schema: bool) -> Comparison:
    """Compare a table with rows that are to be written.

    Args:
        table: what the table is called in messages.
        schema: the table's.
        rows: the schema of the rows.
        merge_schema: whether columns that the table lacks may be added.

    Raises:
        TableSchemaError: the rows do not fit.
    """
    by_lower = {field.name.lower(): field for field in schema}
    missing = []
    for field in rows:
        known = by_lower.get(field.name.lower())
        if known is None:
            missing.append(field)
            continue
        if known.name != field.name:
            raise TableSchemaError(
                f"{table}: the rows have a column {field.name!r}, the table has {known.name!r}; names that differ in "
                f"case only are refused, since engines disagree about them: rename the column of the rows"
            )
        _check_type(table, field.name, known.type, field.type)
        if _lacks_fields(known.type, field.type):
            missing.append(field)
    given = {field.name.lower() for field in rows}
    for field in schema:
        if not field.nullable and field.name.lower() not in given:
            raise TableSchemaError(
                f"{table}: column {field.name!r} ({described(field.type)}) takes no null, and the rows have no such "
                f"column: add it to the rows"
            )
    if missing and not merge_schema:
        named = ", ".join(f"{field.name!r} ({described(field.type)})" for field in missing)
        raise TableSchemaError(
            f"{table}: the table does not have all columns of the rows: {named}. Set the option mergeSchema to true to "
            f"add them, or select the columns of the table: {', '.join(schema.names)}"
        )
    return Comparison(tuple(missing))


def _check_type(table: str, column: str, known: pa.DataType, given: pa.DataType) -> None:
    if not fits(plain(given), plain(known)):
        raise TableSchemaError(
            f"{table}: column {column!r} has type {described(known)} in the table and {described(given)} in the rows. "
            f"The type of a column cannot change, since readers of the table would break: cast the column to "
            f"{described(known)}, or write it under another name"
        )


def fits(given: pa.DataType, known: pa.DataType) -> bool:
    """Return whether each value of type `given` can be stored as `known` without loss; both as `plain` returns them."""
    if given == known:
        return True
    if given in _INTEGERS and known in _INTEGERS:
        return _INTEGERS.index(given) < _INTEGERS.index(known)
    if kinds.is_float32(given):
        return bool(kinds.is_float64(known))
    if kinds.is_decimal(given) and kinds.is_decimal(known):
        return bool(given.scale == known.scale and given.precision <= known.precision)
    if kinds.is_struct(given) and kinds.is_struct(known):
        fields = {field.name: field for field in known}
        return all(field.name not in fields or fits(field.type, fields[field.name].type) for field in given) and all(
            field.nullable or given.get_field_index(field.name) >= 0 for field in known
        )
    if kinds.is_list(given) and kinds.is_list(known):
        return fits(given.value_type, known.value_type)
    if kinds.is_map(given) and kinds.is_map(known):
        return fits(given.key_type, known.key_type) and fits(given.item_type, known.item_type)
    return False


def _lacks_fields(known: pa.DataType, given: pa.DataType) -> bool:
    """Return whether a struct within `given` has fields that `known` lacks."""
    known, given = plain(known), plain(given)
    if kinds.is_struct(given):
        return any(
            known.get_field_index(field.name) < 0 or _lacks_fields(known.field(field.name).type, field.type)
            for field in given
        )
    if kinds.is_list(given):
        return _lacks_fields(known.value_type, given.value_type)
    if kinds.is_map(given):
        return _lacks_fields(known.key_type, given.key_type) or _lacks_fields(known.item_type, given.item_type)
    return False


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without what does not matter here: sizes of offsets, names of elements, metadata."""
    for is_large, small in _LARGE:
        if is_large(kind):
            return small
    if kinds.is_struct(kind):
        return pa.struct([pa.field(field.name, plain(field.type), field.nullable) for field in kind])
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return pa.list_(pa.field("element", plain(kind.value_type)))
    if kinds.is_map(kind):
        return pa.map_(plain(kind.key_type), pa.field("value", plain(kind.item_type)))
    if kinds.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return kind


def nullable(field: pa.Field) -> pa.Field:
    """Return the column as a new table has it: it takes nulls, and so does everything within it.

    Spark's `nullable=false` says what a query computes, not what a table may have later.
    """
    return pa.field(field.name, _nullable_within(field.type))


def _nullable_within(kind: pa.DataType) -> pa.DataType:
    if kinds.is_struct(kind):
        return pa.struct([nullable(each) for each in kind])
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return pa.list_(pa.field("element", _nullable_within(kind.value_type)))
    if kinds.is_map(kind):
        return pa.map_(_nullable_within(kind.key_type), pa.field("value", _nullable_within(kind.item_type)))
    return kind


def described(kind: pa.DataType) -> str:
    """Return the name of a type as Spark writes it, as far as both have it."""
    kind = plain(kind)
    names = {
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.date32(): "date",
        pa.timestamp("us", "UTC"): "timestamp",
        pa.timestamp("us"): "timestamp_ntz",
    }
    if kinds.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if kinds.is_struct(kind):
        return "struct<" + ",".join(f"{field.name}:{described(field.type)}" for field in kind) + ">"
    if kinds.is_list(kind):
        return f"array<{described(kind.value_type)}>"
    if kinds.is_map(kind):
        return f"map<{described(kind.key_type)},{described(kind.item_type)}>"
    return names.get(kind, str(kind))


def check_partition_columns(table: str, known: Sequence[str], asked: Sequence[str]) -> None:
    """Check the option `partitionBy` against an existing table.

    Raises:
        TableSchemaError: the table is partitioned otherwise.
    """
    if asked and list(known) != list(asked):
        raise TableSchemaError(
            f"{table}: partitionBy={','.join(asked)!r}, and the table is partitioned by "
            f"{','.join(known) or 'nothing'}: leave the option out, or give that"
        )


def fitted(batch: pa.RecordBatch, schema: pa.Schema, table: str) -> pa.RecordBatch:
    """Return the rows in the columns of a table: in its order and its types, with nulls for missing ones.

    Raises:
        TableSchemaError: a column that takes no null has one.
    """
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(place)
        if not field.nullable and column.null_count:
            raise TableSchemaError(
                f"{table}: column {field.name!r} takes no null, and {column.null_count} rows have one"
            )
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)

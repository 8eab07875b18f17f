"""Columns of Parquet files and columns of an Iceberg table, by Iceberg's field ids.

pyiceberg's scan is not used to read rows that are written again: version 0.12 returns an empty list for a null list of
structs. Source: the Iceberg specification (column projection). Start at `columns_by_id`.
"""

from __future__ import annotations

import pyarrow as pa


def columns_by_id(file: pa.Schema, table: pa.Schema) -> dict[int, int] | None:
    """Return which column of a file is which of the table, by Iceberg's field ids.

    Returns:
        Places in the file -> places in the table; None if a nested column has other fields, or columns have no ids.
    """
    known = {_field_id(field): place for place, field in enumerate(table)}
    found = {}
    for place, field in enumerate(file):
        number = _field_id(field)
        if number is None:
            return None
        if number in known:  # or else it was dropped
            if not _has_same_fields(field.type, table.field(known[number]).type):
                return None
            found[place] = known[number]
    return found


def _has_same_fields(file: pa.DataType, table: pa.DataType) -> bool:
    """Return whether the fields of a nested type are in the table's, with the same ids and names."""
    if pa.types.is_nested(file) != pa.types.is_nested(table):
        return False
    if pa.types.is_struct(file) and pa.types.is_struct(table):
        known = {_field_id(field): field for field in table}
        return all(
            (same := known.get(_field_id(field))) is not None
            and same.name == field.name
            and _has_same_fields(field.type, same.type)
            for field in file
        )
    if pa.types.is_map(file) and pa.types.is_map(table):
        return _has_same_fields(file.key_type, table.key_type) and _has_same_fields(file.item_type, table.item_type)
    if pa.types.is_nested(file):
        return hasattr(file, "value_type") and _has_same_fields(file.value_type, table.value_type)
    return True


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if text is None else int(text)

"""JSON values without a schema as columns: the types of their fields, and the values of those that are asked for.

Types come from a sample. A field has one type: integers and fractions together are `double`; texts stay text, also
where they look like times; what is of several types, or only null, is the text of the JSON value. So are objects of
which no struct can be made: with very many names, or with names that differ only in case, which are one name in SQL.
Must not read records. Start at `inferred_fields` and `JsonFields`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.schemas.arrow.json_objects import JsonObjects

if TYPE_CHECKING:
    import pyarrow as pa

_INT64_MAX: Final = 2**63 - 1
_DEPTH_MAX: Final = 20
"""Deeper values are text."""
_FIELDS_MAX: Final = 1_000
"""Of a topic; the first ones that appear."""
_NAMES_MAX: Final = 200
"""Objects with more names are text: they are maps, whose names are values."""


def inferred_fields(values: Iterable[bytes | None]) -> dict[str, pa.DataType]:
    """Return the fields of the objects among the values, in the order in which they appear first."""
    found: dict[str, pa.DataType] = {}
    for value in values:
        parsed = parsed_object(value)
        for name, each in (parsed or {}).items():
            if name in found:
                found[name] = _merged(found[name], _type_of(each, 0))
            elif len(found) < _FIELDS_MAX and _is_name(name):
                found[name] = _type_of(each, 0)
    return {name: _settled(kind) for name, kind in found.items()}


def parsed_object(value: bytes | None) -> dict[str, Any] | None:
    """Return a JSON object; None for all else, and for what is not JSON."""
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None
    return parsed if isinstance(parsed, dict) else None


def _is_name(name: str) -> bool:
    """Return whether a column can have this name."""
    return "\0" not in name and _is_unicode(name)


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, which JSON can escape and UTF-8 does not have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _type_of(value: object, depth: int) -> pa.DataType:
    import pyarrow as pa

    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -_INT64_MAX - 1 <= value <= _INT64_MAX else pa.float64()
        case float():
            return pa.float64()
        case dict() if value and depth < _DEPTH_MAX and all(map(_is_name, value)):
            return pa.struct([pa.field(name, _type_of(each, depth + 1)) for name, each in value.items()])
        case list() if depth < _DEPTH_MAX:
            kind = pa.null()
            for each in value:
                kind = _merged(kind, _type_of(each, depth + 1))
            return pa.list_(kind)
    return pa.string()


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    types = pa.types
    if one.equals(other) or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if {str(one), str(other)} == {"int64", "double"}:
        return pa.float64()
    if types.is_struct(one) and types.is_struct(other) and max(one.num_fields, other.num_fields) <= _NAMES_MAX:
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = _merged(fields[field.name], field.type) if field.name in fields else field.type
        return pa.struct(list(fields.items()))
    if types.is_list(one) and types.is_list(other):
        return pa.list_(_merged(one.value_type, other.value_type))
    return pa.string()


def _settled(kind: pa.DataType) -> pa.DataType:
    """Return the type with text in the places of which only null is known."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        names = {field.name.lower() for field in kind}
        if len(names) < kind.num_fields or kind.num_fields > _NAMES_MAX or "" in names:
            return pa.string()
        return pa.struct([pa.field(field.name, _settled(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_settled(kind.value_type))
    return kind


class JsonFields:
    """Decodes fields of JSON objects into columns.

    Args:
        fields: name to type of those that are wanted.
    """

    def __init__(self, fields: Mapping[str, pa.DataType]) -> None:
        import pyarrow as pa

        self._type = pa.struct(list(fields.items()))
        # The compiled decoder takes only what is written in the form of its type; a text for any other value is ours.
        self._fast = JsonObjects.of(self._type, utc=True) if fields else None

    def decode(self, values: pa.Array) -> tuple[pa.StructArray, dict[int, str]]:
        """Return a struct for each value, and for each row with null in the place of a value the reason."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._fast is None:
            return self._slowly(values, range(len(values)))
        found = self._fast.decode(values)
        if found.null_count == values.null_count:
            return found, {}
        rows = pc.indices_nonzero(pc.and_(values.is_valid(), found.is_null())).to_pylist()
        slow, reasons = self._slowly(values.take(pa.array(rows, pa.int64())), rows)
        both = pa.concat_arrays([found, slow.cast(found.type)])
        places = list(range(len(values)))
        for place, row in enumerate(rows):
            places[row] = len(values) + place
        return both.take(pa.array(places, pa.int64())), reasons

    def _slowly(self, values: pa.Array, rows: Iterable[int]) -> tuple[pa.StructArray, dict[int, str]]:
        import pyarrow as pa

        made: list[dict[str, Any] | None] = []
        reasons: dict[int, str] = {}
        for row, value in zip(rows, values.to_pylist(), strict=True):
            made.append(None)
            if value is None:
                continue
            parsed = parsed_object(value)
            if parsed is None:
                reasons[row] = "not a JSON object"
                continue
            found: dict[str, Any] = {}
            for field in self._type:
                # Only this field is null: what another column has must not depend on which columns are asked for.
                try:
                    found[field.name] = _fitting(parsed.get(field.name), field)
                except _UnfitError as error:
                    found[field.name] = None
                    reasons.setdefault(row, str(error))
                except RecursionError:
                    found[field.name] = None
                    reasons.setdefault(row, f"{field.name} is nested too deeply")
            made[-1] = found
        return pa.array(made, self._type), reasons


class _UnfitError(ValueError):
    """A value is of another type than its column."""


def _fitting(value: object, field: pa.Field) -> object:
    import pyarrow as pa

    kind, types = field.type, pa.types
    if value is None:
        return None
    if types.is_string(kind):
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if _is_unicode(shown):
            return shown
        if isinstance(value, str):
            raise _UnfitError(f"{field.name} is {value[:40]!a}, which has half of a surrogate pair")
        return json.dumps(value)
    if types.is_boolean(kind) and isinstance(value, bool):
        return value
    if types.is_int64(kind) and isinstance(value, int) and not isinstance(value, bool):
        if -_INT64_MAX - 1 <= value <= _INT64_MAX:
            return value
        raise _UnfitError(f"{field.name} is too large for {kind}")
    if types.is_floating(kind) and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise _UnfitError(f"{field.name}: {value} is too large for {kind}") from None
    if types.is_struct(kind) and isinstance(value, dict):
        return {each.name: _fitting(value.get(each.name), each) for each in kind}
    if types.is_list(kind) and isinstance(value, list):
        return [_fitting(each, pa.field(field.name, kind.value_type)) for each in value]
    shown = json.dumps(value)
    raise _UnfitError(f"{field.name} is {shown[:40]}{'...' if len(shown) > 40 else ''}, and its column {kind}")

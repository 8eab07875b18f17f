"""Random Avro schemas with values that fit them, for comparisons with fastavro, confluent-kafka and Java."""

from __future__ import annotations

import datetime
import decimal
import uuid

from hypothesis import strategies as st

UTC = datetime.UTC
NAMES = [f"n{number}" for number in range(12)]
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_TIMES = {"min_value": datetime.datetime(1, 1, 2), "max_value": datetime.datetime(9999, 12, 30)}


class _Made:
    """Named types of the schema that is being made."""

    def __init__(self) -> None:
        self.count = 0
        self.finished: list[tuple[str, dict]] = []
        self.open_records: list[str] = []

    def name(self) -> str:
        self.count += 1
        return f"T{self.count}"


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> object:
    """A schema: mostly a record with nested types, unions, references to earlier types and to itself."""
    made = _Made()
    kind = draw(st.sampled_from(["record"] * 6 + ["union", "array", "map", "primitive", "enum"]))
    return _schema(draw, made, depth, kind)


def _schema(draw: st.DrawFn, made: _Made, depth: int, kind: str | None = None) -> object:
    if kind is None:
        kinds = ["primitive"] * 4 + ["logical"] * 2 + ["enum", "fixed", "known"]
        if depth > 0:
            kinds += ["record", "array", "map", "union", "union"]
        kind = draw(st.sampled_from(kinds))
    if kind == "known" and made.finished:
        return draw(st.sampled_from(made.finished))[0]
    if kind in ("primitive", "known"):
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "logical":
        return dict(draw(st.sampled_from(LOGICAL)))
    if kind == "array":
        return {"type": "array", "items": _schema(draw, made, depth - 1)}
    if kind == "map":
        return {"type": "map", "values": _schema(draw, made, depth - 1)}
    if kind == "union":
        return _union(draw, made, depth)
    name = made.name()
    if kind == "enum":
        schema = {
            "type": "enum",
            "name": name,
            "symbols": draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)),
        }
    elif kind == "fixed":
        schema = {"type": "fixed", "name": name, "size": draw(st.integers(0, 5))}
        if draw(st.booleans()):
            schema |= {"size": 6, "logicalType": "decimal", "precision": 10, "scale": 2}
    else:
        made.open_records.append(name)
        fields = []
        for field in draw(st.lists(st.sampled_from(NAMES), max_size=5, unique=True)):
            if draw(st.integers(0, 7)) == 0:  # a list of itself ends
                fields.append(
                    {"name": field, "type": ["null", draw(st.sampled_from(made.open_records))], "default": None}
                )
            else:
                fields.append({"name": field, "type": _schema(draw, made, depth - 1)})
        made.open_records.remove(name)
        schema = {"type": "record", "name": name, "fields": fields}
    made.finished.append((name, schema))
    return schema


def _union(draw: st.DrawFn, made: _Made, depth: int) -> list[object]:
    branches: list[object] = []
    kinds: set[str] = set()
    for _ in range(draw(st.integers(1, 4))):
        kinds_here = ["primitive", "primitive", "logical", "enum", "record", "array", "map"]
        finished = list(made.finished)
        branch = _schema(draw, made, depth - 1, draw(st.sampled_from(kinds_here)))
        if isinstance(branch, dict) and branch.get("logicalType") in ("uuid", "date"):
            continue  # takes the symbols of an enum, too, and fails then
        kind = branch if isinstance(branch, str) else branch["type"]
        kind = branch["name"] if kind in ("enum", "record", "fixed") else kind
        if isinstance(branch, list) or kind in kinds or ("array" in kinds and kind in ("bytes", "fixed")):
            made.finished = finished  # a type inside of it is not defined
            continue
        kinds.add(kind)
        branches.append(branch)
    return branches or ["null"]


def names_of(schema: object) -> dict[str, dict]:
    found: dict[str, dict] = {}
    rest = [schema]
    while rest:
        part = rest.pop()
        if isinstance(part, list):
            rest.extend(part)
        elif isinstance(part, dict):
            if "name" in part:
                found[part["name"]] = part
            rest.extend(field["type"] for field in part.get("fields", ()))
            rest.extend(part[key] for key in ("items", "values") if key in part)
    return found


def values(schema: object) -> st.SearchStrategy[object]:
    """Values that fit a schema."""
    return _values(schema, names_of(schema), 4)


def _values(schema: object, names: dict[str, dict], depth: int) -> st.SearchStrategy[object]:
    if isinstance(schema, list):
        branches = schema
        if depth <= 0:
            branches = [branch for branch in schema if branch == "null"] or schema
        return st.one_of([_values(branch, names, depth) for branch in branches])
    if isinstance(schema, str) and schema in names:
        return st.deferred(lambda: _values(names[schema], names, depth - 1))
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if logical is not None:
        return _logical_values(schema, logical)
    if kind == "record":
        return st.fixed_dictionaries(
            {field["name"]: _values(field["type"], names, depth - 1) for field in schema["fields"]}
        )
    if kind == "array":
        return st.lists(_values(schema["items"], names, depth - 1), max_size=3)
    if kind == "map":
        return st.dictionaries(TEXT, _values(schema["values"], names, depth - 1), max_size=3)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=6),
        "string": TEXT,
    }[kind]


def _logical_values(schema: dict, logical: str) -> st.SearchStrategy[object]:
    if logical.startswith("local-timestamp"):
        made = st.datetimes(**_TIMES)
        return made.map(_whole_millis) if logical.endswith("millis") else made
    if logical.startswith("timestamp"):
        made = st.datetimes(**_TIMES, timezones=st.just(UTC))
        return made.map(_whole_millis) if logical.endswith("millis") else made
    if logical == "date":
        return st.dates()
    if logical.startswith("time"):
        made = st.times()
        return (
            made.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
            if logical == "time-millis"
            else made
        )
    if logical == "uuid":
        return st.integers(0, 2**128 - 1).map(lambda number: uuid.UUID(int=number))
    digits = schema["precision"]
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda number: decimal.Decimal(number).scaleb(-schema["scale"], decimal.Context(prec=50))
    )


def _whole_millis(at: datetime.datetime) -> datetime.datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)

"""Avro values as Avro's JSON encoding and back: what Kafka's console tools and kcat print and read.

Source: the Avro specification, section JSON Encoding. Bytes are text with one character per byte, a value of a union is
an object with its branch as the only key, logical types are the numbers and bytes behind them. Reading also accepts
values of unions without the branch: then the first branch that fits counts. `AvroJson` needs fastavro for the binary
form. Must not do I/O. Start at `AvroJson`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeAlias

Native: TypeAlias = Any
"""A schema as fastavro parses it: dictionaries, lists and names."""
Reads: TypeAlias = Callable[[Any, str], Any]

_RANGES: Final = {"int": 31, "long": 63}
_NOT_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_PYTHON_TYPES: Final[Mapping[type, tuple[str, ...]]] = {
    bool: ("boolean",),
    float: ("double", "float"),
    str: ("string",),
    bytes: ("bytes",),
    list: ("array",),
    dict: ("map",),
}


class AvroJson:
    """Converts between the binary and the JSON form of one schema.

    Args:
        native: the schema, as fastavro has parsed it.
    """

    def __init__(self, native: Native) -> None:
        import fastavro

        self._named: dict[str, Native] = {}
        self._root = self._plain(native)
        self._parsed = fastavro.parse_schema(self._root)

    def text(self, payload: bytes | memoryview) -> bytes:
        """Return Avro bytes as JSON.

        Raises:
            ValueError: the bytes do not fit the schema, or more follow.
        """
        import fastavro

        stream = BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(
                stream, self._parsed, None, return_record_name=True, return_named_type=True
            )
        except (EOFError, IndexError, KeyError, TypeError, OverflowError, RecursionError, MemoryError) as error:
            raise ValueError(f"they do not fit the Avro schema: {type(error).__name__} {error}".strip()) from None
        if stream.read(1):
            raise ValueError(f"{len(payload) - stream.tell() + 1} bytes are left behind the Avro value")
        shown = self._json(self._root, value)
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def payload(self, text: bytes) -> bytes:
        """Return JSON as Avro bytes.

        Raises:
            ValueError: it is no JSON, or does not fit the schema; says which field.
        """
        import fastavro

        try:
            value = self._read(self._root, json.loads(text), "")
        except RecursionError:
            raise ValueError("the JSON is nested too deep") from None
        out = BytesIO()
        fastavro.schemaless_writer(out, self._parsed, value)
        return out.getvalue()

    # -- the schema

    def _plain(self, node: Native) -> Native:
        """Return the schema without logical types, and remember what has a name."""
        if isinstance(node, list):
            return [self._plain(branch) for branch in node]
        if not isinstance(node, dict):
            return node
        kind = node["type"]
        if kind not in ("record", "error", "enum", "fixed", "array", "map"):
            return self._plain(kind)  # {"type": "long", "logicalType": ...}
        made = {name: node[name] for name in ("type", "name", "symbols", "size", "default") if name in node}
        if "name" in node:
            self._named[node["name"]] = made
        for name in ("items", "values"):
            if name in node:
                made[name] = self._plain(node[name])
        if "fields" in node:
            made["fields"] = [field | {"type": self._plain(field["type"])} for field in node["fields"]]
        return made

    def _resolved(self, node: Native) -> Native:
        return self._named.get(node, node) if isinstance(node, str) else node

    # -- to JSON

    def _json(self, given: Native, value: Any) -> Any:  # noqa: ANN401 - JSON
        node = self._resolved(given)
        if isinstance(node, list):
            return self._tagged(node, value)
        kind = node if isinstance(node, str) else node["type"]
        if kind in ("record", "error"):
            value = value[1] if isinstance(value, tuple) else value
            return {field["name"]: self._json(field["type"], value[field["name"]]) for field in node["fields"]}
        if kind == "array":
            return [self._json(node["items"], each) for each in value]
        if kind == "map":
            return {key: self._json(node["values"], each) for key, each in value.items()}
        if kind in ("bytes", "fixed"):
            return value.decode("latin-1")
        if kind in ("float", "double") and not math.isfinite(value):
            return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"
        return value

    def _tagged(self, branches: list[Native], value: Any) -> Any:  # noqa: ANN401 - JSON
        if value is None:
            return None
        if isinstance(value, tuple):
            name, inner = value
            branch = next(each for each in branches if self._name(each) == name)
        else:
            inner = value
            names = ("int", "long") if type(value) is int else _PYTHON_TYPES[type(value)]
            fitting = [each for each in branches if self._name(each) in names]
            is_long = type(value) is int and len(fitting) > 1 and not -(2**31) <= value < 2**31
            branch = next((each for each in fitting if self._name(each) == "long"), None) if is_long else fitting[0]
        return {self._name(branch): self._json(branch, inner)}

    def _name(self, given: Native) -> str:
        """Return the name of a branch: that of a record, enum or fixed, or else the type."""
        node = self._resolved(given)
        return str(node) if isinstance(node, str) else str(node.get("name") or node["type"])

    # -- from JSON

    def _read(self, given: Native, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        node = self._resolved(given)
        if isinstance(node, list):
            return self._branch(node, value, path)
        kind = node if isinstance(node, str) else node["type"]
        readers: dict[str, Callable[[Native, Any, str], Any]] = {
            "record": self._record, "error": self._record, "array": self._array, "map": self._map,
            "enum": _enum, "fixed": _fixed,
        }  # fmt: skip
        reader = readers.get(kind) or partial(_primitive, kind)
        return reader(node, value, path)

    def _record(self, node: Native, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        _check(isinstance(value, dict), path, "an object", value)
        names = {field["name"] for field in node["fields"]}
        unknown = value.keys() - names
        if unknown:
            raise ValueError(f"{path or 'the record'}: {node['name']} has no field {min(unknown)!r}")
        made = {}
        for field in node["fields"]:
            name = field["name"]
            below = f"{path}.{name}" if path else name
            if name not in value and "default" not in field:
                raise ValueError(f"{below}: missing, and the field has no default")
            made[name] = self._read(field["type"], value.get(name, field.get("default")), below)
        return made

    def _array(self, node: Native, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        _check(isinstance(value, list), path, "an array", value)
        return [self._read(node["items"], each, f"{path}[{index}]") for index, each in enumerate(value)]

    def _map(self, node: Native, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        _check(isinstance(value, dict), path, "an object", value)
        return {key: self._read(node["values"], each, f"{path}[{key!r}]") for key, each in value.items()}

    def _branch(self, branches: list[Native], value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict) and len(value) == 1:
            (name,) = value
            for branch in branches:
                if name in (self._name(branch), self._name(branch).rpartition(".")[2]):
                    return self._named_value(branch, self._read(branch, value[name], path))
        problems = []
        for branch in branches:
            try:
                return self._named_value(branch, self._read(branch, value, path))
            except ValueError as error:
                problems.append(f"{self._name(branch)}: {error}")
        raise ValueError(f"{path or 'the value'}: fits no branch of the union ({'; '.join(problems)[:500]})")

    def _named_value(self, branch: Native, value: Any) -> Any:  # noqa: ANN401 - JSON
        node = self._resolved(branch)
        return (node["name"], value) if isinstance(node, dict) and "name" in node else value


def _check(is_right: bool, path: str, wanted: str, value: object) -> None:
    if not is_right:
        raise ValueError(f"{path or 'the value'}: must be {wanted}, not {value!r:.60}")


def _bytes(value: Any, path: str) -> bytes:  # noqa: ANN401 - JSON
    _check(isinstance(value, str), path, "text with one character per byte", value)
    try:
        made: bytes = value.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError(f"{path or 'the value'}: bytes are text with characters up to \\u00ff") from None
    return made


def _enum(node: Native, value: Any, path: str) -> str:  # noqa: ANN401 - JSON
    _check(isinstance(value, str) and value in node["symbols"], path, f"one of {', '.join(node['symbols'])}", value)
    return str(value)


def _fixed(node: Native, value: Any, path: str) -> bytes:  # noqa: ANN401 - JSON
    made = _bytes(value, path)
    _check(len(made) == node["size"], path, f"{node['size']} bytes", value)
    return made


def _primitive(kind: str, node: Native, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "null":
        _check(value is None, path, "null", value)
    elif kind == "boolean":
        _check(isinstance(value, bool), path, "true or false", value)
    elif kind in _RANGES:
        limit = 1 << _RANGES[kind]
        _check(
            is_number and isinstance(value, int) and -limit <= value < limit,
            path,
            f"{kind}: a number in its range",
            value,
        )
    elif kind in ("float", "double"):
        _check(is_number or (isinstance(value, str) and value in _NOT_NUMBERS), path, "a number", value)
        return _NOT_NUMBERS.get(value, value) if isinstance(value, str) else float(value)
    elif kind == "string":
        _check(isinstance(value, str), path, "text", value)
    elif kind == "bytes":
        return _bytes(value, path)
    else:
        raise ValueError(f"{path or 'the value'}: unknown type {kind}")
    return value

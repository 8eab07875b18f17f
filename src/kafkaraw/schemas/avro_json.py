"""Avro values as Avro's JSON encoding and back: what Kafka's console tools and kcat print and read.

Source: the Avro specification, section JSON Encoding. Bytes are text with one character per byte, a value of a union is
an object with its branch as the only key, logical types are the numbers and bytes behind them. Reading also accepts
values of unions without the branch: then the first branch that fits counts. Must not do I/O. Start at `AvroJson`.

The codec of the serializers reads bytes, because it limits nesting and arrays without bytes: fastavro ends the process
on a record that is nested deep enough. Python's types do not say which branch of a union a value has (int or long,
string or enum), so `AvroJson` reads and writes with a schema in which each branch is a record around the real one: the
bytes are the same, and the record's name says which branch it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

from kafkaraw.light_classes import NamedTuple
from kafkaraw.schemas.json_codec import standard_dump, standard_load
from kafkaraw.schemas.serializers.avro_codec import codec
from kafkaraw.schemas.serializers.avro_nodes import decoder, encoder

Native: TypeAlias = Any
"""A schema as fastavro parses it: dictionaries, lists and names."""

_RANGES: Final = {"int": 31, "long": 63}
_NOT_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_WITH_PARTS: Final = ("record", "error", "enum", "fixed", "array", "map")


class _Branch(NamedTuple):
    """A branch of a union.

    Attributes:
        label: its name in JSON: that of a record, enum or fixed, or else the type.
        node: the branch.
        wrapper: name of the record around it; empty for null.
    """

    label: str
    node: Any
    wrapper: str


class _Union(NamedTuple):
    """A union, in place of fastavro's list."""

    branches: tuple[_Branch, ...]


class AvroJson:
    """Converts between the binary and the JSON form of one schema.

    Args:
        native: the schema, as fastavro has parsed it.
    """

    def __init__(self, native: Native) -> None:
        self._named: dict[str, Any] = {}
        self._numbers = count()
        self._root = self._plain(native)
        wrapped = _wrapped(self._root)
        self._decoder = decoder(wrapped, logical_types=False, tagged=True)
        self._encoder = encoder(wrapped)

    def text(self, payload: bytes | memoryview) -> bytes:
        """Return Avro bytes as JSON.

        Raises:
            ValueError: the bytes do not fit the schema, are nested too deep, or more follow.
        """
        try:
            shown = self._json(self._root, codec.decode(self._decoder, bytes(payload)))
            return standard_dump(shown)
        except codec.AvroMismatchError as error:
            raise ValueError(f"they do not fit the Avro schema: {error}") from None
        except RecursionError:
            raise ValueError("the value is nested too deep to be shown") from None

    def payload(self, text: bytes) -> bytes:
        """Return JSON as Avro bytes.

        Raises:
            ValueError: it is no JSON, or does not fit the schema; says which field.
        """
        try:
            made: bytes = codec.encode(self._encoder, self._read(self._root, standard_load(text), ""), b"", 0)
        except RecursionError:
            raise ValueError("the JSON is nested too deep") from None
        except codec.AvroMismatchError as error:
            raise ValueError(str(error)) from None
        return made

    # -- the schema

    def _plain(self, node: Native) -> Any:  # noqa: ANN401 - a node
        """Return the schema without logical types, and remember what has a name."""
        if isinstance(node, list):
            return _Union(tuple(map(self._branch_of, node)))
        if not isinstance(node, dict):
            return node
        kind = node["type"]
        if kind not in _WITH_PARTS:
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

    def _branch_of(self, given: Native) -> _Branch:
        node = self._plain(given)
        label = node if isinstance(node, str) else node.get("name") or node["type"]
        return _Branch(label, node, "" if label == "null" else f"kafkaraw.branch{next(self._numbers)}")

    def _resolved(self, node: Any) -> Any:  # noqa: ANN401 - a node
        return self._named.get(node, node) if isinstance(node, str) else node

    # -- to JSON

    def _json(self, given: Any, value: Any) -> Any:  # noqa: ANN401 - a node, JSON
        node = self._resolved(given)
        if isinstance(node, _Union):
            if value is None:
                return None
            wrapper, inside = value
            branch = next(each for each in node.branches if each.wrapper == wrapper)
            return {branch.label: self._json(branch.node, inside["v"])}
        kind = node if isinstance(node, str) else node["type"]
        if kind in ("record", "error"):
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

    # -- from JSON

    def _read(self, given: Native, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        node = self._resolved(given)
        if isinstance(node, _Union):
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

    def _branch(self, union: _Union, value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict) and len(value) == 1:
            (name,) = value
            for branch in union.branches:
                if name in (branch.label, branch.label.rpartition(".")[2]):
                    return _in_wrapper(branch, self._read(branch.node, value[name], path))
        problems = []
        for branch in union.branches:
            try:
                return _in_wrapper(branch, self._read(branch.node, value, path))
            except ValueError as error:
                problems.append(f"{branch.label}: {error}")
        raise ValueError(f"{path or 'the value'}: fits no branch of the union ({'; '.join(problems)[:500]})")


def _in_wrapper(branch: _Branch, value: Any) -> Any:  # noqa: ANN401 - JSON
    return (branch.wrapper, {"v": value}) if branch.wrapper else value


def _wrapped(node: Any) -> Any:  # noqa: ANN401 - a node
    """Return the schema with a record around each branch of a union."""
    if isinstance(node, _Union):
        return [_wrapper(branch) if branch.wrapper else branch.node for branch in node.branches]
    if not isinstance(node, dict):
        return node
    made = {name: value for name, value in node.items() if name != "default" or node["type"] == "enum"}
    for name in ("items", "values"):
        if name in node:
            made[name] = _wrapped(node[name])
    if "fields" in node:
        made["fields"] = [{"name": field["name"], "type": _wrapped(field["type"])} for field in node["fields"]]
    return made


def _wrapper(branch: _Branch) -> Any:  # noqa: ANN401 - a schema
    fields = [{"name": "v", "type": _wrapped(branch.node)}]
    return {"type": "record", "name": branch.wrapper, "fields": fields}


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

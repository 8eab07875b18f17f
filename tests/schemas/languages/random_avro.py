"""Random Avro schemas, and random changes of them, that a later version of a schema could have."""

from __future__ import annotations

import copy
import random
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL: tuple[dict[str, Any], ...] = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "scale": 0, "precision": 4},
    {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 4},
    {"type": "string", "logicalType": "uuid", "zeta": {"b": 1, "a": [1.5, 1e10, 1e-5, 123456789.0]}, "alpha": None},
    {"type": "string", "avro.java.string": "String"},
)
SPACES = (None, "a", "a.b", "c")
DOCS = (None, None, "", "text", 'quote " and \\ and \u00e9\u4e2d\U0001f600 \u0007\n')


class RandomAvro:
    """Makes schemas of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[str] = []
        self._counter = 0

    def schema(self) -> Any:
        """Return a schema, mostly a record."""
        self.names, self._counter = [], 0
        return self._record(0, None) if self.random.random() < 0.85 else self._type(0, None)

    def changed(self, schema: Any) -> Any:
        """Return the schema after one to three random changes."""
        schema = copy.deepcopy(schema)
        for _ in range(self.random.randint(1, 3)):
            self._change(schema)
        return schema

    def _maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def _type(self, depth: int, space: str | None) -> Any:
        choice = self.random.random()
        if depth > 3 or choice < 0.45:
            return self._primitive()
        if choice < 0.53 and self.names:
            return self.random.choice(self.names)
        if choice < 0.63:
            return {"type": "array", "items": self._type(depth + 1, space)}
        if choice < 0.7:
            return {"type": "map", "values": self._type(depth + 1, space)}
        if choice < 0.8:
            return self._union(depth, space)
        if choice < 0.87:
            return self._enum(space)
        if choice < 0.92:
            return self._fixed(space)
        return self._record(depth + 1, space)

    def _primitive(self) -> Any:
        if self._maybe(0.2):
            return dict(self.random.choice(LOGICAL))
        name = self.random.choice(PRIMITIVES)
        return name if self._maybe(0.8) else {"type": name}

    def _union(self, depth: int, space: str | None) -> list[Any]:
        branches: list[Any] = []
        seen: set[str] = set()
        for _ in range(self.random.randint(1, 4)):
            branch = self._type(depth + 1, space)
            if isinstance(branch, list):
                continue
            kind = branch if isinstance(branch, str) else branch["type"]
            if kind in {"record", "enum", "fixed", "error"}:
                kind = full_name(branch, space)
            if kind not in seen:
                seen.add(kind)
                branches.append(branch)
        return branches or ["null"]

    def _named(self, kind: str, space: str | None) -> dict[str, Any]:
        self._counter += 1
        name = f"{kind[0].upper()}{self._counter}"
        named: dict[str, Any] = {"type": kind, "name": name}
        if self._maybe(0.3):
            given = self.random.choice(SPACES)
            if given is not None and self._maybe(0.5):
                named["name"] = f"{given}.{name}"
            else:
                named["namespace"] = given or ""
        doc = self.random.choice(DOCS)
        if doc is not None:
            named["doc"] = doc
        if self._maybe(0.2):
            named["aliases"] = self.random.sample(["Old", "x.Older", ".Oldest", f"{kind[0].upper()}1"], 2)
        if self._maybe(0.1):
            named["owner"] = {"b": 2, "a": [None, True, "x"]}
        return named

    def _enum(self, space: str | None) -> dict[str, Any]:
        enum = self._named("enum", space)
        enum["symbols"] = self.random.sample("ABCDEF", self.random.randint(1, 5))
        if self._maybe(0.4):
            enum["default"] = enum["symbols"][0]
        self.names.append(full_name(enum, space))
        return enum

    def _fixed(self, space: str | None) -> dict[str, Any]:
        fixed = self._named("fixed", space)
        fixed["size"] = self.random.choice([1, 4, 12, 16])
        if self._maybe(0.3):
            fixed |= {"logicalType": "decimal", "precision": self.random.choice([2, 9, 40])}
        self.names.append(full_name(fixed, space))
        return fixed

    def _record(self, depth: int, space: str | None) -> dict[str, Any]:
        record = self._named("record" if self._maybe(0.95) else "error", space)
        full = full_name(record, space)
        inner = full.rpartition(".")[0] or None
        if depth > 0 or self._maybe(0.5):
            self.names.append(full)  # the record can contain itself
        record["fields"] = [self._field(f"f{index}", depth, inner) for index in range(self.random.randint(0, 5))]
        if full not in self.names:
            self.names.append(full)
        return record

    def _field(self, name: str, depth: int, space: str | None) -> dict[str, Any]:
        field: dict[str, Any] = {"name": name, "type": self._type(depth, space)}
        doc = self.random.choice(DOCS)
        if doc is not None:
            field["doc"] = doc
        if self._maybe(0.4):
            default = self._default(field["type"])
            if default is not None:
                field["default"] = default[0]
        if self._maybe(0.1):
            field["order"] = self.random.choice(["ascending", "descending", "ignore"])
        if self._maybe(0.15):
            field["aliases"] = self.random.sample(["f0", "f1", "g0", "g1"], self.random.randint(1, 2))
        if self._maybe(0.1):
            field["pii"] = True
        return field

    def _default(self, type_: Any) -> tuple[Any] | None:
        if isinstance(type_, list):
            return self._default(type_[0])
        kind = type_ if isinstance(type_, str) else type_["type"]
        if kind == "enum":
            return (type_["symbols"][-1],)
        if kind == "fixed":
            return ("\u00ff" * type_["size"],)
        if kind == "record":
            value = {}
            for field in type_["fields"]:
                inner = self._default(field["type"])
                if inner is None:
                    return None
                value[field["name"]] = inner[0]
            return (value,)
        values: dict[str, tuple[Any, ...]] = {
            "null": (None,),
            "boolean": (True, False),
            "int": (0, -5, 2**31 - 1),
            "long": (0, 2**63 - 1, 7),
            "float": (0.5, 1, -2.25),
            "double": (0.1, 1, 1e300, 1e7, 12345.678, 1e-7),
            "bytes": ("\u00ff\u0001",),
            "string": ("", "x\u00e9"),
            "array": ([],),
            "map": ({},),
        }
        return (self.random.choice(values[kind]),) if kind in values else None

    def _change(self, schema: Any) -> None:
        nodes = list(_objects(schema))
        if not nodes:
            return
        node = self.random.choice(nodes)
        kind = node.get("type")
        if kind == "enum" and "symbols" in node:
            symbols = [symbol for symbol in "ABCDEF" if symbol in node["symbols"] or self._maybe(0.3)]
            node["symbols"] = symbols[self.random.randint(0, 1) :] or ["A"]
            if node.get("default") not in node["symbols"]:
                node.pop("default", None)
        elif kind == "fixed" and "size" in node:
            node["size"] = self.random.choice([node["size"], 8])
        elif "fields" in node:
            self._change_record(node)
        elif kind in PRIMITIVES and "name" in node:
            node["type"] = self.random.choice(PRIMITIVES)
            node.pop("default", None)
        elif "items" in node or "values" in node:
            part = "items" if "items" in node else "values"
            if node[part] in PRIMITIVES:
                node[part] = self.random.choice(PRIMITIVES)
        elif isinstance(kind, list) and all(branch in PRIMITIVES for branch in kind):
            node["type"] = self.random.sample(PRIMITIVES, self.random.randint(1, 5))
            node.pop("default", None)

    def _change_record(self, record: dict[str, Any]) -> None:
        fields = record["fields"]
        choice = self.random.random()
        if choice < 0.3 and fields and not any("symbols" in one or "fields" in one for one in _objects(fields)):
            fields.pop(self.random.randrange(len(fields)))
        elif choice < 0.5:
            fields.append({"name": f"n{len(fields)}{self.random.randint(0, 9)}", "type": self._primitive()})
        elif choice < 0.7:
            fields.append({"name": f"d{len(fields)}{self.random.randint(0, 9)}", "type": "int", "default": 1})
        elif choice < 0.85 and fields:
            self.random.shuffle(fields)
        elif fields:
            field = self.random.choice(fields)
            field["aliases"] = [field["name"]]
            field["name"] = f"r{field['name']}"


def full_name(named: dict[str, Any], space: str | None) -> str:
    """Return the name of a type with its namespace, if it is defined in the given one."""
    name = named["name"]
    if "." in name:
        return str(name)
    space = named.get("namespace", space)
    return f"{space}.{name}" if space else str(name)


def _objects(schema: Any) -> Any:
    if isinstance(schema, dict):
        yield schema
        for name in ("fields", "type", "items", "values"):
            if name in schema:
                yield from _objects(schema[name])
    elif isinstance(schema, list):
        for item in schema:
            yield from _objects(item)

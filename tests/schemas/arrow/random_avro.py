"""Random Avro schemas, records of them in binary form, and reader schemas that they resolve to."""

from __future__ import annotations

import copy
import random
import struct
from typing import Any

PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
    {"type": "string", "logicalType": "no-such-type"},
]


class Maker:
    """Makes schemas and records from one seed; names are unique within a maker."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._count = 0

    def name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def record(self, depth: int = 3) -> dict[str, Any]:
        fields = [{"name": self.name("f"), "type": self.type(depth - 1)} for _ in range(self.random.randint(1, 6))]
        return {"type": "record", "name": self.name("R"), "fields": fields}

    def type(self, depth: int) -> Any:
        kind = self.random.choice(
            ["plain"] * 4
            + ["logical", "enum", "fixed", "decimal"]
            + ["record", "array", "map", "union", "nullable"] * (depth > 0)
        )
        match kind:
            case "plain":
                return self.random.choice(PRIMITIVES)
            case "logical":
                return dict(self.random.choice(LOGICAL))
            case "enum":
                return {"type": "enum", "name": self.name("E"), "symbols": [f"S{n}" for n in range(1, 5)]}
            case "fixed":
                return {"type": "fixed", "name": self.name("F"), "size": self.random.choice([0, 1, 7, 20])}
            case "decimal":
                digits = {"logicalType": "decimal", "precision": 18, "scale": 4}
                return {"type": "fixed", "name": self.name("D"), "size": self.random.choice([8, 16, 24]), **digits}
            case "record":
                return self.record(depth)
            case "array":
                return {"type": "array", "items": self.type(depth - 1)}
            case "map":
                return {"type": "map", "values": self.type(depth - 1)}
            case "nullable":
                inner = self.type(depth - 1)
                if isinstance(inner, list):
                    return inner
                return self.random.choice([["null", inner], [inner, "null"]])
        return self.union(depth)

    def union(self, depth: int) -> list[Any]:
        branches = self.random.sample(["null", "boolean", "int", "long", "float", "double", "string", "bytes"], 3)
        if depth > 1 and self.random.random() < 0.5:
            branches.append(self.record(1))
        if self.random.random() < 0.3:
            branches.append({"type": "array", "items": "long"})
        return branches

    # -- records

    def encode(self, schema: Any) -> bytes:
        data = bytearray()
        self._encode(schema, data)
        return bytes(data)

    def _encode(self, schema: Any, data: bytearray) -> None:
        r = self.random
        if isinstance(schema, list):
            branch = r.randrange(len(schema))
            data += varint(branch)
            return self._encode(schema[branch], data)
        given = schema if isinstance(schema, dict) else {"type": schema}
        match given["type"]:
            case "null":
                pass
            case "boolean":
                data.append(r.randrange(2))
            case "int":
                data += varint(
                    r.choice([0, -1, r.randint(-(2**31), 2**31 - 1), r.randint(-99, 99)])
                    if "logicalType" not in given
                    else r.randint(-9999, 99999)
                )
            case "long":
                if "logicalType" in given:
                    small = "millis" in given["logicalType"]
                    data += varint(r.randint(-(10**12), 2 * 10**12) * (1 if small else 1000) + r.randint(0, 999))
                else:
                    data += varint(r.choice([0, -1, r.randint(-(2**63), 2**63 - 1), r.randint(-99, 9999)]))
            case "float":
                data += struct.pack("<f", r.uniform(-1e6, 1e6))
            case "double":
                data += struct.pack("<d", r.choice([0.0, -1.5, r.uniform(-1e300, 1e300)]))
            case "bytes" if given.get("logicalType") == "decimal":
                limit = 10 ** given["precision"] - 1
                value = r.choice([0, limit, -limit, r.randint(-limit, limit), r.randint(-300, 300)])
                size = value.bit_length() // 8 + 1 + r.choice([0, 0, 1, 9])
                data += varint(size) + value.to_bytes(size, "big", signed=True)
            case "fixed" if given.get("logicalType") == "decimal":
                limit = min(10 ** given["precision"], 2 ** (8 * given["size"] - 1)) - 1
                data += r.randint(-limit, limit).to_bytes(given["size"], "big", signed=True)
            case "bytes":
                raw = r.randbytes(r.choice([0, 3, 20]))
                data += varint(len(raw)) + raw
            case "string":
                raw = "".join(r.choices("abcxyz ÄßΩ漢😀", k=r.choice([0, 2, 9, 30]))).encode()
                data += varint(len(raw)) + raw
            case "fixed":
                data += r.randbytes(given["size"])
            case "enum":
                data += varint(r.randrange(len(given["symbols"])))
            case "record":
                for field in given["fields"]:
                    self._encode(field["type"], data)
            case "array":
                self._blocks(data, lambda to: self._encode(given["items"], to))
            case "map":
                keys = iter(r.sample(range(1000), 60))

                def pair(to: bytearray) -> None:
                    key = f"k{next(keys)}".encode()
                    to += varint(len(key)) + key
                    self._encode(given["values"], to)

                self._blocks(data, pair)
            case nested:
                self._encode(nested, data)

    def _blocks(self, data: bytearray, item: Any) -> None:
        for _ in range(self.random.choice([0, 1, 1, 2])):
            count = self.random.randint(1, 4)
            block = bytearray()
            for _ in range(count):
                item(block)
            data += varint(-count) + varint(len(block)) if self.random.random() < 0.3 else varint(count)
            data += block
        data.append(0)

    # -- readers

    def reader_of(self, schema: Any) -> Any:
        """Return a schema to which the writer's resolves: promoted, without or with more fields, in another order."""
        return self._changed(copy.deepcopy(schema))

    def _changed(self, schema: Any) -> Any:
        r = self.random
        if isinstance(schema, list):
            return [each if isinstance(each, str) else self._changed(each) for each in schema]
        if isinstance(schema, str):
            to = {"int": ["int", "long", "double"], "long": ["long", "double"], "float": ["float", "double"]}
            return r.choice(to.get(schema, [schema]))
        match schema["type"]:
            case "record":
                fields = []
                for field in schema["fields"]:
                    if r.random() < 0.2:
                        continue
                    changed = {**field, "type": self._changed(field["type"])}
                    if r.random() < 0.2:
                        changed |= {"name": self.name("n"), "aliases": [field["name"]]}
                    fields.append(changed)
                for kind, default in (
                    ("long", 7),
                    ("string", "äé"),
                    (["null", "int"], None),
                    ({"type": "array", "items": "int"}, [1, 2]),
                    ({"type": "map", "values": "double"}, {"a": 1.5}),
                ):
                    if r.random() < 0.2:
                        fields.append({"name": self.name("d"), "type": kind, "default": default})
                r.shuffle(fields)
                return {**schema, "fields": fields}
            case "array":
                return {**schema, "items": self._changed(schema["items"])}
            case "map":
                return {**schema, "values": self._changed(schema["values"])}
        return schema


def varint(value: int) -> bytes:
    left, data = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)

"""Programs that encode columns as records of an Avro schema: the inverse of `avro_plan`.

Start at `encode_program_for`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.schemas.arrow.avro_plan import common_number
from kafkaraw.schemas.arrow.avro_types import AvroType
from kafkaraw.schemas.arrow.columns import Column, Type
from kafkaraw.schemas.arrow.encode_program import EncodeOp, EncodePlan, EncodeProgram

_LEAVES: Final = {
    "null": EncodeOp.NULL,
    "boolean": EncodeOp.BOOLEAN,
    "int": EncodeOp.INT,
    "long": EncodeOp.LONG,
    "float": EncodeOp.FLOAT,
    "double": EncodeOp.DOUBLE,
    "bytes": EncodeOp.BYTES,
    "string": EncodeOp.BYTES,
}


def encode_program_for(schema: AvroType, columns: Column) -> EncodeProgram:
    """Return the program that encodes rows of `columns_of(schema)` as records of the schema."""
    plan = _Plan(columns)
    plan.program.root = plan.node(schema, 0, "")
    return plan.program


class _Plan(EncodePlan):
    def node(self, schema: AvroType, source: int, path: str) -> int:
        """Return the node that writes a value of a column."""
        column, first = self.flat[source]
        match schema.kind:
            case "union":
                return self._union(schema, source, path)
            case "record":
                places = {each.name: first + at for at, each in enumerate(column.children)}
                children = tuple(
                    self.node(each.type, places[each.name], f"{path}.{each.name}" if path else each.name)
                    for each in schema.fields
                )
                return self.add(EncodeOp.RECORD, source, path, children=children)
            case "array":
                item = self.node(schema.branches[0], first, f"{path}[]")
                return self.add(EncodeOp.ARRAY, source, path, children=(item,))
            case "map":
                value = self.node(schema.branches[0], self.flat[first][1] + 1, f"{path}{{}}")
                return self.add(EncodeOp.MAP, source, path, children=(value,))
            case "enum":
                return self.add(EncodeOp.ENUM, source, path, texts=schema.symbols)
            case "fixed":
                op = EncodeOp.DECIMAL_FIXED if column.type is Type.DECIMAL else EncodeOp.FIXED
                return self.add(op, source, path, argument=schema.size)
        op = _LEAVES[schema.kind]
        if column.type is Type.DECIMAL:
            op = EncodeOp.DECIMAL_BYTES
        elif schema.logical in ("timestamp-millis", "local-timestamp-millis"):
            op = EncodeOp.MILLISECONDS
        return self.add(op, source, path)

    def _union(self, schema: AvroType, source: int, path: str) -> int:
        kinds = [each.kind for each in schema.branches]
        null = kinds.index("null") if "null" in kinds else -1
        rest = [(at, each) for at, each in enumerate(schema.branches) if each.kind != "null"]
        number = common_number([each for _, each in rest])
        if not rest:
            return self.add(EncodeOp.NULLABLE, source, path, children=(-1,), argument=null)
        if number is not None or len(rest) == 1:
            at, chosen = next((at, each) for at, each in rest if number is None or each.kind == number)
            child = self.add(_LEAVES[number], source, path) if number else self.node(chosen, source, path)
            return self.add(EncodeOp.NULLABLE, source, path, children=(child,), argument=null, value_branch=at)
        first = self.flat[source][1]
        children = tuple(self.node(each, first + member, path) for member, (_, each) in enumerate(rest))
        branches = tuple(at for at, _ in rest)
        return self.add(EncodeOp.MEMBERS, source, path, children=children, argument=null, branches=branches)

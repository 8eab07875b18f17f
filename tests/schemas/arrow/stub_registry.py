"""A registry of schemas by number, in this process and without HTTP."""

from __future__ import annotations

import json
import uuid
from typing import Any

from kafkaraw.schemas.errors import SchemaNotFoundError, SubjectNotFoundError
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaBundle, SchemaReference


class StubRegistry:
    """Returns schemas by number, without a server."""

    def __init__(self, *schemas: Any, references: dict[str, Any] | None = None) -> None:
        self.schemas = [each if isinstance(each, str) else json.dumps(each) for each in schemas]
        self.references = references or {}
        self.asked: list[Any] = []

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        if not 1 <= schema_id <= len(self.schemas):
            raise SchemaNotFoundError(f"the registry has no schema {schema_id}", status=404, error_code=40403)
        named = tuple(SchemaReference(name, name, 1) for name in self.references)
        return RegisteredSchema(
            "t-value", schema_id, schema_id, None, Schema(self.schemas[schema_id - 1], references=named)
        )

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        self.asked.append(guid)
        if guid == str(uuid.UUID(int=7)):
            return self.schema_by_id(1)
        raise SchemaNotFoundError(f"the registry has no schema with the GUID {guid}", status=404, error_code=40403)

    def bundle(self, schema: Schema) -> SchemaBundle:
        found = {each.name: SchemaBundle(Schema(json.dumps(self.references[each.name]))) for each in schema.references}
        return SchemaBundle(schema, found)

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        if not self.schemas:
            raise SubjectNotFoundError(f"Subject {subject!r} not found", status=404, error_code=40401)
        return self.schema_by_id(len(self.schemas))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        if schema.text not in self.schemas:
            self.schemas.append(schema.text)
        return self.schema_by_id(self.schemas.index(schema.text) + 1)

    lookup = register

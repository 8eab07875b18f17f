"""The JSON of the REST API's answers, with Confluent's names and order of fields. Pure.

Source: Confluent's `Schema`, `SchemaString`, `RegisterSchemaResponse`, `SchemaValue`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkaraw.schemas.model import Schema, SchemaReference
from kafkaraw.schemas.server.names import DEFAULT_CONTEXT, QualifiedSubject, in_context_of
from kafkaraw.schemas.server.state import StoredSchema


def schema_fields(schema: Schema, text: str | None = None) -> dict[str, Any]:
    """Return the fields of a schema's content; `text` replaces the text."""
    fields: dict[str, Any] = {"schemaType": schema.schema_type.value}
    if schema.references:
        fields["references"] = [reference.to_json() for reference in schema.references]
    if schema.metadata is not None:
        fields["metadata"] = schema.metadata.to_json()
    if schema.rule_set is not None:
        fields["ruleSet"] = schema.rule_set.to_json()
    return fields | {"schema": schema.text if text is None else text}


def stored_schema(stored: StoredSchema, text: str | None = None) -> dict[str, Any]:
    """Return a version of a subject."""
    value = stored.value
    return {
        "subject": value.subject,
        "version": value.version,
        "id": value.id,
        "guid": stored.guid,
        **schema_fields(value.schema, text),
        "ts": stored.timestamp_ms,
        "deleted": value.deleted,
    }


def found_schema(subject: str, version: int, schema_id: int, guid: str, schema: Schema) -> dict[str, Any]:
    """Return a version of a subject that was found by the content that the request has."""
    return {"subject": subject, "version": version, "id": schema_id, "guid": guid, **schema_fields(schema)}


def registered(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a registration from that of a look-up."""
    first = {name: fields[name] for name in ("id", "version", "guid")}
    return first | {name: value for name, value in fields.items() if name != "subject"}


def schema_by_id(
    stored: StoredSchema, *, with_subject: bool, text: str | None = None, max_id: int | None = None
) -> dict[str, Any]:
    """Return a schema that was asked for by its id or GUID."""
    value = stored.value
    fields: dict[str, Any] = {"subject": value.subject, "version": value.version} if with_subject else {}
    fields |= {"guid": stored.guid, **schema_fields(value.schema, text)}
    if max_id is not None:
        fields["maxId"] = max_id
    return fields | {"ts": stored.timestamp_ms, "deleted": value.deleted}


def qualified_references(subject: str, references: Sequence[SchemaReference]) -> list[dict[str, Any]] | None:
    """Return references that name their contexts; None if the subject is in the default context, or has none."""
    if not references or QualifiedSubject.parse(subject).context == DEFAULT_CONTEXT:
        return None
    return [
        SchemaReference(reference.name, in_context_of(subject, reference.subject), reference.version).to_json()
        for reference in references
    ]

"""A registry in memory with the methods that serializers use, blocking and asyncio; it counts what it is asked."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter

from kafkaraw.schemas.errors import SchemaNotFoundError, SubjectNotFoundError, VersionNotFoundError
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaBundle, SchemaReference, SchemaType


class FakeRegistry:
    """The blocking form."""

    def __init__(self, sends_guids: bool = True, first_id: int = 1) -> None:
        self.asked: Counter[str] = Counter()
        self.failure: Exception | None = None
        self.subjects: dict[str, list[RegisteredSchema]] = {}
        self.by_id: dict[int, RegisteredSchema] = {}
        self._sends_guids = sends_guids
        self._first_id = first_id

    def _count(self, name: str) -> None:
        self.asked[name] += 1
        if self.failure is not None:
            raise self.failure

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        self._count("register")
        versions = self.subjects.setdefault(subject, [])
        for found in versions:
            if found.schema == schema:
                return found
        same = next((found for found in self.by_id.values() if found.schema == schema), None)
        guid = str(uuid.uuid5(uuid.NAMESPACE_OID, repr(schema))) if self._sends_guids else None
        number = self._first_id + len(self.by_id) if same is None else same.id
        made = RegisteredSchema(subject, len(versions) + 1, number, guid, schema)
        versions.append(made)
        self.by_id.setdefault(number, made)
        return made

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        self._count("lookup")
        for found in self.subjects.get(subject, []):
            if found.schema == schema:
                return found
        raise SchemaNotFoundError(f"Schema not found in {subject}", status=404, error_code=40403)

    def schema_by_id(self, id: int, *, subject: str | None = None) -> RegisteredSchema:
        self._count("schema_by_id")
        if id not in self.by_id:
            raise SchemaNotFoundError(f"Schema {id} not found", status=404, error_code=40403)
        return replace_subject(self.by_id[id])

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        self._count("schema_by_guid")
        for found in self.by_id.values():
            if found.guid == guid:
                return found
        raise SchemaNotFoundError(f"Schema {guid} not found", status=404, error_code=40403)

    def version(self, subject: str, version: int | str, *, deleted: bool = False) -> RegisteredSchema:
        self._count("version")
        versions = self.subjects.get(subject)
        if not versions:
            raise SubjectNotFoundError(f"Subject '{subject}' not found.", status=404, error_code=40401)
        if version == "latest":
            return versions[-1]
        if not 0 < int(version) <= len(versions):
            raise VersionNotFoundError(f"Version {version} not found.", status=404, error_code=40402)
        return versions[int(version) - 1]

    def latest_with_metadata(self, subject: str, properties: dict[str, str]) -> RegisteredSchema:
        self._count("latest_with_metadata")
        for found in reversed(self.subjects.get(subject, [])):
            metadata = found.schema.metadata
            if metadata is not None and properties.items() <= metadata.properties.items():
                return found
        raise SubjectNotFoundError(f"Subject '{subject}' not found.", status=404, error_code=40401)

    def bundle(self, schema: Schema) -> SchemaBundle:
        found = {
            reference.name: self.bundle(self.version(reference.subject, reference.version).schema)
            for reference in schema.references
        }
        return SchemaBundle(schema, found)


def replace_subject(found: RegisteredSchema) -> RegisteredSchema:
    """What `GET /schemas/ids/N` answers: no subject and no version."""
    return RegisteredSchema(None, None, found.id, found.guid, found.schema)


class AsyncFakeRegistry:
    """The asyncio form; `gate` keeps answers back until it is set."""

    def __init__(self, inner: FakeRegistry | None = None) -> None:
        self.inner = inner or FakeRegistry()
        self.asked = self.inner.asked
        self.gate: asyncio.Event | None = None

    async def _answer(self, name: str, *args: object, **named: object) -> object:
        if self.gate is not None:
            await self.gate.wait()
        else:
            await asyncio.sleep(0)
        return getattr(self.inner, name)(*args, **named)

    async def register(self, *args: object, **named: object) -> object:
        return await self._answer("register", *args, **named)

    async def lookup(self, *args: object, **named: object) -> object:
        return await self._answer("lookup", *args, **named)

    async def schema_by_id(self, *args: object, **named: object) -> object:
        return await self._answer("schema_by_id", *args, **named)

    async def schema_by_guid(self, *args: object, **named: object) -> object:
        return await self._answer("schema_by_guid", *args, **named)

    async def version(self, *args: object, **named: object) -> object:
        return await self._answer("version", *args, **named)

    async def latest_with_metadata(self, *args: object, **named: object) -> object:
        return await self._answer("latest_with_metadata", *args, **named)

    async def bundle(self, schema: Schema) -> SchemaBundle:
        return self.inner.bundle(schema)


class ConfluentRegistry:
    """confluent-kafka's registry in memory, with our methods: both clients' serializers see the same schemas."""

    def __init__(self, client: object) -> None:
        self.client = client

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        return self._ours(self.client.register_schema_full_response(subject, theirs(schema), normalize))

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        return self._ours(self.client.lookup_schema(subject, theirs(schema), normalize))

    def schema_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema:
        return RegisteredSchema(None, None, schema_id, None, ours(self.client.get_schema(schema_id)))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        return RegisteredSchema(None, None, 0, guid, ours(self.client.get_schema_by_guid(guid)))

    def version(self, subject: str, version: int | str = "latest", *, deleted: bool = False) -> RegisteredSchema:
        return self._ours(self.client.get_version(subject, version))

    def bundle(self, schema: Schema) -> SchemaBundle:
        found = {
            reference.name: self.bundle(self.version(reference.subject, reference.version).schema)
            for reference in schema.references
        }
        return SchemaBundle(schema, found)

    def _ours(self, found: object) -> RegisteredSchema:
        return RegisteredSchema(found.subject, found.version, found.schema_id, found.guid, ours(found.schema))


def ours(schema: object) -> Schema:
    references = tuple(SchemaReference(one.name, one.subject, one.version) for one in schema.references or ())
    return Schema(schema.schema_str, SchemaType(schema.schema_type), references)


def theirs(schema: Schema) -> object:
    from confluent_kafka.schema_registry import Schema as ConfluentSchema
    from confluent_kafka.schema_registry import SchemaReference as ConfluentReference

    references = [ConfluentReference(one.name, one.subject, one.version) for one in schema.references]
    return ConfluentSchema(schema.text, schema.schema_type.value, references)

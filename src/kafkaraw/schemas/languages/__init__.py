"""The languages of schemas: parse, write as the registry does, and compare versions.

Everything is computed from a `SchemaBundle` in memory: no file, no URL and no registry is asked, even if a schema
names one. Schemas may come from strangers, so time, memory and nesting are bounded (`limits`). A language is imported
when its first schema is parsed: Avro needs no other package, `AvroSchema.native` fastavro, JSON Schema jsonschema-rs,
Protobuf protobuf (`pip install kafkaraw[schemas]`). Start at `parse`; `compatibility.check` compares versions.
"""

from __future__ import annotations

from kafkaraw.schemas.languages.compatibility import check as check
from kafkaraw.schemas.languages.compatibility import incompatibilities as incompatibilities
from kafkaraw.schemas.languages.guid import guid_of as guid_of
from kafkaraw.schemas.languages.parsed import Incompatibility as Incompatibility
from kafkaraw.schemas.languages.parsed import ParsedSchema as ParsedSchema
from kafkaraw.schemas.model import SchemaBundle, SchemaType

__all__ = ["Incompatibility", "ParsedSchema", "check", "guid_of", "incompatibilities", "parse"]


def parse(bundle: SchemaBundle, *, validate: bool = True) -> ParsedSchema:
    """Parse a schema with its references, in bounded time and memory.

    Args:
        bundle: the schema and what it references.
        validate: the schema is to be registered: apply the checks that the registry applies only then (Avro: names of
            ASCII letters, defaults that fit). False for schemas that a registry has accepted before.

    Raises:
        SchemaParseError: the schema or a reference is wrong or exceeds a limit; says where and what to do.
    """
    if bundle.schema.schema_type is SchemaType.AVRO:
        from kafkaraw.schemas.languages.avro import parse_avro

        return parse_avro(bundle, validate=validate)
    if bundle.schema.schema_type is SchemaType.JSON:
        from kafkaraw.schemas.languages.json_schema import parse_json_schema

        return parse_json_schema(bundle, validate=validate)
    from kafkaraw.schemas.languages.protobuf import parse_protobuf

    return parse_protobuf(bundle, validate=validate)

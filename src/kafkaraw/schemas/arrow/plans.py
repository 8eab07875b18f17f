"""From schemas to prepared programs, kept for the schemas that are in use. Start at `columns_for` and `plan_for`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.arrow import avro_plan, avro_types
from kafkaraw.schemas.arrow._implementation import decoding
from kafkaraw.schemas.arrow.columns import Column
from kafkaraw.schemas.arrow.program import Program
from kafkaraw.schemas.arrow.sources import referenced
from kafkaraw.schemas.model import Schema, SchemaBundle, SchemaType

_PLANS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Texts:
    """A schema as the key of a cache: its text and those of its references, in an order that can be loaded."""

    schema_type: SchemaType
    text: str
    references: tuple[str, ...] = ()

    @classmethod
    def of(cls, bundle: SchemaBundle) -> Texts:
        """Return the texts of a schema with its references."""
        schema = bundle.schema
        return cls(schema.schema_type, schema.text, tuple(each.text for each in referenced(bundle)))


@dataclass(frozen=True, slots=True)
class Plan:
    """How records of one writer are decoded: the program, and what the decoder runs."""

    program: Program
    prepared: Any


@lru_cache(_PLANS_KEPT)
def avro_type(texts: Texts) -> avro_types.AvroType:
    """Return the type of an Avro schema.

    Raises:
        UsageError: it is another language, or cannot be parsed.
    """
    if texts.schema_type is not SchemaType.AVRO:
        raise UsageError(f"the schema is {texts.schema_type.value}, and the column is decoded as Avro")
    return avro_types.load(texts.text, texts.references)


@lru_cache(_PLANS_KEPT)
def columns_for(reader: Texts, recursion_max: int = 0) -> Column:
    """Return the columns of a reader's schema.

    Raises:
        UsageError: the schema has no columns, or cannot be parsed.
    """
    return avro_plan.columns_of(avro_type(reader), recursion_max)


@lru_cache(_PLANS_KEPT)
def plan_for(writer: Texts, reader: Texts, recursion_max: int = 0) -> Plan:
    """Return the plan for records of a writer.

    Raises:
        UsageError: the writer's schema cannot be parsed, or cannot be resolved to the reader's.
    """
    program = avro_plan.program_for(avro_type(writer), avro_type(reader), columns_for(reader, recursion_max))
    return Plan(program, decoding.prepare(program))


def as_schema(given: Schema | str, schema_type: SchemaType) -> Schema:
    """Return a schema that may be given as its text."""
    return Schema(given, schema_type) if isinstance(given, str) else given

"""From schemas to prepared programs, kept for the schemas that are in use. Start at `columns_for` and `plan_for`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.arrow import avro_plan, avro_types, json_types, protobuf_plan
from kafkaraw.schemas.arrow._implementation import decoding
from kafkaraw.schemas.arrow.columns import Column
from kafkaraw.schemas.arrow.program import Program
from kafkaraw.schemas.arrow.sources import referenced
from kafkaraw.schemas.languages import parse
from kafkaraw.schemas.languages.json_schema import JsonSchema
from kafkaraw.schemas.model import Schema, SchemaBundle, SchemaReference, SchemaType
from kafkaraw.schemas.serializers.json_validator import Validator

_PLANS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Texts:
    """A schema as the key of a cache.

    Attributes:
        schema_type: its language.
        text: its text.
        references: names and texts of the schemas that it refers to, in an order that can be loaded.
        message: of Protobuf: full name of the message; "" is the first one.
    """

    schema_type: SchemaType
    text: str
    references: tuple[tuple[str, str], ...] = ()
    message: str = ""

    @classmethod
    def of(cls, bundle: SchemaBundle, message: str = "") -> Texts:
        """Return the texts of a schema with its references."""
        schema = bundle.schema
        return cls(schema.schema_type, schema.text, referenced(bundle), message)

    def bundle(self) -> SchemaBundle:
        """Return the schema with its references, in one level."""
        named = {name: SchemaBundle(Schema(text, self.schema_type)) for name, text in self.references}
        references = tuple(SchemaReference(name, name, 1) for name in named)
        return SchemaBundle(Schema(self.text, self.schema_type, references), named)

    def to_json(self) -> list[object]:
        """Return values that JSON has; `from_json` takes them."""
        return [self.schema_type.value, self.text, [list(each) for each in self.references], self.message]

    @classmethod
    def from_json(cls, values: list[Any]) -> Texts:
        """Return the texts that `to_json` has returned the values of."""
        language, text, references, message = values
        return cls(SchemaType(language), text, tuple((name, each) for name, each in references), message)


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
    return avro_types.load(texts.text, [text for _, text in texts.references])


@lru_cache(_PLANS_KEPT)
def message_type(texts: Texts) -> Any:  # noqa: ANN401 - protobuf has no types
    """Return the descriptor of a Protobuf message.

    Raises:
        UsageError: the file has no such message.
        SchemaParseError: the schema cannot be parsed.
    """
    file: Any = protobuf_file(texts.schema_type, texts.text, texts.references)
    if not texts.message:
        return protobuf_plan.message_at(file, (0,))
    try:
        return file.pool.FindMessageTypeByName(texts.message)
    except KeyError:
        raise UsageError(f"the schema has no message {texts.message!r}") from None


@lru_cache(_PLANS_KEPT)
def protobuf_file(schema_type: SchemaType, text: str, references: tuple[tuple[str, str], ...]) -> Any:  # noqa: ANN401
    """Return the descriptor of a Protobuf schema's file."""
    if schema_type is not SchemaType.PROTOBUF:
        raise UsageError(f"the schema is {schema_type.value}, and the column is decoded as Protobuf")
    return parse(Texts(schema_type, text, references).bundle(), validate=False).native


@lru_cache(_PLANS_KEPT)
def json_schema(texts: Texts) -> JsonSchema:
    """Return a JSON schema.

    Raises:
        UsageError: it is another language.
        SchemaParseError: the schema cannot be parsed.
    """
    parsed = parse(texts.bundle()) if texts.schema_type is SchemaType.JSON else None
    if not isinstance(parsed, JsonSchema):
        raise UsageError(f"the schema is {texts.schema_type.value}, and the column is decoded as JSON Schema")
    return parsed


@lru_cache(_PLANS_KEPT)
def json_type(texts: Texts, recursion_max: int = 0) -> json_types.JsonType:
    """Return the type of the documents of a JSON schema; errors as for `json_schema` and `json_types.load`."""
    return json_types.load(json_schema(texts), recursion_max)


@lru_cache(_PLANS_KEPT)
def validator_for(texts: Texts) -> Validator:
    """Return what checks documents of a JSON schema.

    Raises:
        UsageError: it is another language, or no validator can be made of it.
        SchemaParseError: the schema cannot be parsed.
    """
    try:
        return Validator(json_schema(texts))
    except ValueError as error:
        first = str(error).partition("\n")[0]
        raise UsageError(f"documents cannot be validated with the schema: {first}") from None


@lru_cache(_PLANS_KEPT)
def columns_for(reader: Texts, recursion_max: int = 0) -> Column:
    """Return the columns of a reader's schema.

    Raises:
        UsageError: the schema has no columns, or cannot be parsed.
    """
    if reader.schema_type is SchemaType.PROTOBUF:
        return protobuf_plan.columns_of(message_type(reader), recursion_max)
    if reader.schema_type is SchemaType.JSON:
        return json_types.columns_of(json_type(reader, recursion_max))
    return avro_plan.columns_of(avro_type(reader), recursion_max)


@lru_cache(_PLANS_KEPT)
def plan_for(writer: Texts, reader: Texts, recursion_max: int = 0, indexes: tuple[int, ...] = ()) -> Plan:
    """Return the plan for records of a writer.

    Args:
        writer: the schema of the records.
        reader: the schema of the columns.
        recursion_max: how often a record may contain itself.
        indexes: of Protobuf: which message of the writer's schema.

    Raises:
        UsageError: the writer's schema cannot be parsed, or cannot be resolved to the reader's.
    """
    if reader.schema_type is SchemaType.PROTOBUF:
        return _protobuf_plan(writer, reader, recursion_max, indexes)
    program = avro_plan.program_for(avro_type(writer), avro_type(reader), columns_for(reader, recursion_max))
    return Plan(program, decoding.prepare(program))


def _protobuf_plan(writer: Texts, reader: Texts, recursion_max: int, indexes: tuple[int, ...]) -> Plan:
    file = protobuf_file(writer.schema_type, writer.text, writer.references)
    written, read = protobuf_plan.message_at(file, indexes or (0,)).full_name, message_type(reader)
    if written != read.full_name:
        raise UsageError(f"the message is {written}, and the columns are those of {read.full_name}")
    program = protobuf_plan.program_for(read, columns_for(reader, recursion_max))
    return Plan(program, decoding.prepare(program))


def as_schema(given: Schema | str, schema_type: SchemaType) -> Schema:
    """Return a schema that may be given as its text."""
    return Schema(given, schema_type) if isinstance(given, str) else given

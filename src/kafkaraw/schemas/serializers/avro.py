"""`AvroSerializer` and `AvroDeserializer`: objects as Avro, with the schema in a registry. Start at their classes.

The bytes equal those of confluent-kafka's serializers. `avro_nodes` turns schemas into what the compiled codec runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.errors import ConfigError, SerializationError
from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.framing import Framing
from kafkaraw.schemas.model import Schema, SchemaType
from kafkaraw.schemas.serializers.avro_codec import codec as codec_in_use
from kafkaraw.schemas.serializers.avro_nodes import UnresolvableError, decoder, encoder, type_of
from kafkaraw.schemas.serializers.classes import as_data, maker_of, schema_of
from kafkaraw.schemas.serializers.common import (
    LATEST_TTL_S,
    AnyRegistry,
    ObjectT,
    Prepared,
    Reader,
    SchemaDeserializer,
    SchemaSerializer,
    UnreadableError,
)
from kafkaraw.schemas.subjects import SubjectStrategy

_MismatchError: type[Exception] = codec_in_use.AvroMismatchError
_encode: Callable[..., bytes] = codec_in_use.encode
_decode: Callable[..., Any] = codec_in_use.decode


@dataclass(slots=True)
class _Encoder:
    """How the values of one schema are written; `is_bytes` as `_is_bytes`."""

    node: Any
    name: str
    is_bytes: bool


class AvroSerializer(SchemaSerializer):
    """Writes objects as Avro: for `key_serializer` or `value_serializer` of a producer.

    A record is a dictionary, or another mapping; an instance of a dataclass or a pydantic model. Logical types are
    Python's `datetime`, `date`, `time`, `Decimal` and `UUID`, or the numbers, bytes and texts themselves. In a union of
    several types, the first branch that fits is written, and of records the one with most fields in common; a tuple
    (name of the branch, value) or a key "-type" with the record's name chooses one.

    Args:
        registry: a `Registry`, for blocking producers, or an `AsyncRegistry`, for `AsyncProducer`.
        schema: the schema: its text, a `Schema`, or a class (dataclass, TypedDict, pydantic model) to derive it from.
        subject: see `SchemaSerializer`, as for the arguments that are not named here.
        auto_register: see there.
        normalize: see there.
        use_latest_version: see there.
        use_schema_id: see there.
        use_latest_with_metadata: see there.
        framing: see there.
        ignore_rules: see there.
        to_dict: see there.
        latest_ttl_s: see there.
        strict: refuse records with fields that the schema does not have, or without one that it has;
            "allow-defaults" accepts that a field with a default is left out.

    Raises:
        ConfigError: arguments that exclude each other, or none that says which schema to use.
        SchemaParseError: the schema is wrong; says where.
    """

    schema_type = SchemaType.AVRO

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        registry: AnyRegistry,
        schema: Schema | str | type | None = None,
        *,
        subject: SubjectStrategy = "topic",
        auto_register: bool | None = None,
        normalize: bool = False,
        use_latest_version: bool = False,
        use_schema_id: int | None = None,
        use_latest_with_metadata: Mapping[str, str] | None = None,
        framing: Framing | Literal["prefix", "header"] = "prefix",
        ignore_rules: bool = False,
        to_dict: Callable[[Any, SerializationContext], Any] | None = None,
        latest_ttl_s: float = LATEST_TTL_S,
        strict: bool | Literal["allow-defaults"] = False,
    ) -> None:
        if strict not in (False, True, "allow-defaults"):
            raise ConfigError(f"AvroSerializer: strict={strict!r} is neither a bool nor 'allow-defaults'")
        super().__init__(
            registry,
            schema_of(schema) if isinstance(schema, type) else schema,
            subject=subject,
            auto_register=auto_register,
            normalize=normalize,
            use_latest_version=use_latest_version,
            use_schema_id=use_schema_id,
            use_latest_with_metadata=use_latest_with_metadata,
            framing=framing,
            ignore_rules=ignore_rules,
            to_dict=to_dict,
            latest_ttl_s=latest_ttl_s,
        )
        self._strict = 2 if strict == "allow-defaults" else int(strict)

    def _schema_from(self, schema: Schema | str | None) -> Schema | None:
        if isinstance(schema, str) and schema.strip()[:1] not in ("{", "[", '"'):
            schema = f'"{schema.strip()}"'  # a primitive's name, as confluent-kafka accepts it
        return super()._schema_from(schema)

    def _encoder(self, parsed: Any) -> _Encoder:
        native = parsed.native
        return _Encoder(encoder(native), parsed.name or type_of(native), _is_bytes(native))

    def _encode(self, prepared: Prepared, value: Any) -> bytes:
        made = prepared.encoder
        if type(value) is not dict:
            value = as_data(value)
        if made.is_bytes:
            return prepared.prefix + _only_bytes(value)
        try:
            return _encode(made.node, value, prepared.prefix, self._strict)
        except _MismatchError as error:
            registered = prepared.registered
            raise SerializationError(
                f"{error} (Avro schema {made.name}, id {registered.id}"
                f"{'' if registered.subject is None else f', subject {registered.subject}'})"
            ) from None


class AvroDeserializer(SchemaDeserializer[ObjectT]):
    """Reads what `AvroSerializer`, or another client's, has written: for a consumer's `value_deserializer`.

    If there is a reader's schema, the writer's is resolved to it: fields by name and alias, defaults for those that the
    writer does not have, promotions of numbers.

    Args:
        registry: a `Registry`, for blocking consumers, or an `AsyncRegistry`, for `AsyncConsumer`.
        reader_schema: the schema of the objects: its text, a `Schema`, or a class; None for the writer's.
        into: make instances of this dataclass or pydantic model; it is the reader's schema, too, if none is given.
        subject: see `SchemaDeserializer`, as for the arguments that are not named here.
        use_latest_version: see there.
        use_latest_with_metadata: see there.
        ignore_rules: see there.
        from_dict: see there.
        latest_ttl_s: see there.
        logical_types: False returns numbers, bytes and texts instead of `datetime`, `Decimal` and so on.
        return_record_name: return a record inside of a union as (full name, record).

    Raises:
        ConfigError: arguments that exclude each other.
        SchemaParseError: the reader's schema is wrong; says where.
    """

    schema_type = SchemaType.AVRO

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        registry: AnyRegistry,
        reader_schema: Schema | str | type | None = None,
        *,
        into: type[ObjectT] | None = None,
        subject: SubjectStrategy = "topic",
        use_latest_version: bool = False,
        use_latest_with_metadata: Mapping[str, str] | None = None,
        ignore_rules: bool = False,
        from_dict: Callable[[Any, DeserializationContext], Any] | None = None,
        latest_ttl_s: float = LATEST_TTL_S,
        logical_types: bool = True,
        return_record_name: bool = False,
    ) -> None:
        latest = use_latest_version or use_latest_with_metadata is not None
        if into is not None and reader_schema is None and not latest:
            reader_schema = into
        super().__init__(
            registry,
            schema_of(reader_schema) if isinstance(reader_schema, type) else reader_schema,
            subject=subject,
            use_latest_version=use_latest_version,
            use_latest_with_metadata=use_latest_with_metadata,
            ignore_rules=ignore_rules,
            from_dict=from_dict,
            latest_ttl_s=latest_ttl_s,
        )
        self._logical_types = logical_types
        self._tagged = return_record_name
        self._make = None if into is None else maker_of(into)

    def _decoder(self, writer: Any, reader: Any) -> Any:
        if _is_bytes(writer.native):
            return None
        try:
            return decoder(
                writer.native,
                None if reader is None else reader.native,
                logical_types=self._logical_types,
                tagged=self._tagged,
            )
        except UnresolvableError as error:
            raise UnreadableError(f"{error}") from None

    def _decode(self, reader: Reader, data: bytes, start: int, header: bytes | None) -> Any:
        if reader.decoder is None:
            return data[start:]
        try:
            made = _decode(reader.decoder, data, start)
        except _MismatchError as error:
            raise UnreadableError(f"{error}") from None
        return made if self._make is None else self._make(made)


def _is_bytes(native: Any) -> bool:
    """Whether the schema is bytes and nothing else: Confluent's serializers write these without a length in front."""
    return native == "bytes" or (isinstance(native, dict) and native.get("type") == "bytes")


def _only_bytes(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise SerializationError(f"the schema is bytes, and the value is of type {type(value).__name__}")

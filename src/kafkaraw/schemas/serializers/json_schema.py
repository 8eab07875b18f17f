"""`JsonSchemaSerializer` and `JsonSchemaDeserializer`: objects as JSON, with the schema in a registry.

jsonschema-rs validates (150 times as fast as jsonschema), orjson writes and reads: the bytes equal those of
confluent-kafka's serializers. A schema's patterns come from strangers, so their matching is bounded, and no `$ref` is
fetched. Start at the two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.errors import SerializationError
from kafkaraw.schemas.framing import Framing
from kafkaraw.schemas.json_codec import ORJSON_IS_USED, dump, load
from kafkaraw.schemas.model import Schema, SchemaType
from kafkaraw.schemas.serializers.classes import as_json, json_schema_of, maker_of
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
from kafkaraw.schemas.serializers.json_validator import InvalidObjectError, Validator, dump_valid
from kafkaraw.schemas.subjects import SubjectStrategy


class JsonSchemaSerializer(SchemaSerializer):
    """Writes objects as JSON that its schema accepts: for `key_serializer` or `value_serializer` of a producer.

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
        validate: check each object against the schema.
        encode: writes JSON, as text or bytes; None is orjson, or the standard library where it is not installed. orjson
            refuses an integer beyond 64 bits, which `json.dumps` writes.

    Raises:
        ConfigError: arguments that exclude each other, or none that says which schema to use.
        SchemaParseError: the schema is wrong; says where.
    """

    schema_type = SchemaType.JSON

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
        validate: bool = True,
        encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        self._validate = validate
        self._dump = encode or dump
        self._bounds_depth = ORJSON_IS_USED and encode is None
        super().__init__(
            registry,
            json_schema_of(schema) if isinstance(schema, type) else schema,
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

    def _encoder(self, parsed: Any) -> Validator | None:
        return Validator(parsed) if self._validate else None

    def _encode(self, prepared: Prepared, value: Any) -> bytes:
        if type(value) is not dict:
            value = as_json(value)
        try:
            made = dump_valid(prepared.encoder, value, self._dump, bounds_depth=self._bounds_depth)
        except (InvalidObjectError, TypeError, ValueError, RecursionError) as error:
            registered = prepared.registered
            raise SerializationError(
                f"{error} (JSON schema, id {registered.id}"
                f"{'' if registered.subject is None else f', subject {registered.subject}'})"
            ) from None
        return prepared.prefix + (made.encode() if isinstance(made, str) else made)


class JsonSchemaDeserializer(SchemaDeserializer[ObjectT]):
    """Reads JSON and validates it: for a consumer's `value_deserializer`.

    Args:
        registry: a `Registry`, for blocking consumers, or an `AsyncRegistry`, for `AsyncConsumer`.
        reader_schema: the schema to validate against: its text, a `Schema`, or a class; None for the writer's.
        into: make instances of this dataclass or pydantic model.
        subject: see `SchemaDeserializer`, as for the arguments that are not named here.
        use_latest_version: see there.
        use_latest_with_metadata: see there.
        ignore_rules: see there.
        from_dict: see there.
        latest_ttl_s: see there.
        validate: check each object against the schema.
        decode: reads JSON; None is orjson, or the standard library where it is not installed. orjson makes a float of
            an integer beyond 64 bits, as in confluent-kafka; `json.loads` keeps it.

    Raises:
        ConfigError: arguments that exclude each other.
        SchemaParseError: the reader's schema is wrong; says where.
    """

    schema_type = SchemaType.JSON

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
        validate: bool = True,
        decode: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._validate = validate
        self._load = decode or load
        self._bounds_depth = ORJSON_IS_USED and decode is None
        self._make = None if into is None else maker_of(into)
        super().__init__(
            registry,
            json_schema_of(reader_schema) if isinstance(reader_schema, type) else reader_schema,
            subject=subject,
            use_latest_version=use_latest_version,
            use_latest_with_metadata=use_latest_with_metadata,
            ignore_rules=ignore_rules,
            from_dict=from_dict,
            latest_ttl_s=latest_ttl_s,
        )

    def _decoder(self, writer: Any, reader: Any) -> Validator | None:
        return Validator(reader or writer) if self._validate else None

    def _decode(self, reader: Reader, data: bytes, start: int, header: bytes | None) -> Any:
        try:
            made = self._load(data[start:])
            if reader.decoder is not None:
                (reader.decoder.check_shallow if self._bounds_depth else reader.decoder.check)(made)
        except (InvalidObjectError, ValueError, RecursionError) as error:
            raise UnreadableError(f"{error}") from None
        return made if self._make is None else self._make(made)

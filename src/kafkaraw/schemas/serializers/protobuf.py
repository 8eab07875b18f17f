"""`ProtobufSerializer` and `ProtobufDeserializer`: Protobuf messages, with their file in a registry.

The serializer registers the file of the message's class as base64 of its descriptor, as confluent-kafka does, and
before it the files that it imports. Start at the two classes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.errors import ConfigError, SerializationError
from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.framing import Framing, read_indexes
from kafkaraw.schemas.languages import ParsedSchema
from kafkaraw.schemas.languages.protobuf.descriptors import indexes_of
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaReference, SchemaType
from kafkaraw.schemas.serializers.common import (
    LATEST_TTL_S,
    AnyRegistry,
    ObjectT,
    Prepared,
    Reader,
    SchemaDeserializer,
    SchemaSerializer,
    UnreadableError,
    answer_of,
)
from kafkaraw.schemas.subjects import SubjectStrategy

_BUILT_IN: Final = ("confluent/", "google/protobuf/", "google/type/")
"""Imports that every registry and every client knows; they are not registered."""


class ProtobufSerializer(SchemaSerializer):
    """Writes Protobuf messages: for `key_serializer` or `value_serializer` of a producer.

    Args:
        registry: a `Registry`, for blocking producers, or an `AsyncRegistry`, for `AsyncProducer`.
        message_type: the generated class; its objects are written, or dictionaries with its fields.
        subject: see `SchemaSerializer`, as for the arguments that are not named here.
        auto_register: see there.
        normalize: see there.
        use_latest_version: see there.
        use_schema_id: see there.
        use_latest_with_metadata: see there.
        framing: see there.
        ignore_rules: see there.
        to_dict: called with object and context; returns the message.
        latest_ttl_s: see there.
        reference_subject: returns the subject for an imported file, from the context and its name; None is its name.
        skip_known_types: do not register the imports that every registry knows.

    Raises:
        ConfigError: arguments that exclude each other, or the class is none of Protobuf's.
    """

    schema_type = SchemaType.PROTOBUF

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        registry: AnyRegistry,
        message_type: type[Any],
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
        reference_subject: Callable[[SerializationContext, str], str] | None = None,
        skip_known_types: bool = True,
    ) -> None:
        descriptor = getattr(message_type, "DESCRIPTOR", None)
        if descriptor is None or not isinstance(message_type, type):
            raise ConfigError(f"ProtobufSerializer: message_type={message_type!r} is no class that protoc generates")
        self._message_type = message_type
        self._descriptor = descriptor
        self._path = indexes_of(descriptor)
        self._reference_subject = reference_subject
        self._skips_known = skip_known_types
        super().__init__(
            registry,
            Schema(_text_of(descriptor.file), SchemaType.PROTOBUF),
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

    def _parse_own(self, schema: Schema) -> ParsedSchema | None:
        return None  # the class has been compiled already

    @property
    def _record_name(self) -> str:
        return str(self._descriptor.full_name)

    async def _own_schema(self) -> None:
        return None  # as `_parse_own`

    def _encoder(self, parsed: Any) -> None:
        return None

    def _indexes(self, parsed: Any) -> tuple[int, ...]:
        return self._path

    async def _parsed_for(self, registered: RegisteredSchema) -> None:
        return None

    async def _register(self, subject: str, schema: Schema | None, context: SerializationContext) -> RegisteredSchema:
        references = await self._registered_imports(self._descriptor.file, context, {})
        own = Schema(_text_of(self._descriptor.file), SchemaType.PROTOBUF, references)
        return await super()._register(subject, own, context)

    async def _registered_imports(
        self,
        file: Any,
        context: SerializationContext,
        done: dict[str, SchemaReference],
    ) -> tuple[SchemaReference, ...]:
        """Register the files that a file imports, each after those that it imports itself."""
        made = []
        for imported in file.dependencies:
            if self._skips_known and imported.name.startswith(_BUILT_IN):
                continue
            if imported.name not in done:
                references = await self._registered_imports(imported, context, done)
                subject = imported.name
                if self._reference_subject is not None:
                    subject = self._reference_subject(context, imported.name)
                schema = Schema(_text_of(imported), SchemaType.PROTOBUF, references)
                found = await super()._register(subject, schema, context)
                if found.version is None:
                    found = await answer_of(self._registry.lookup(subject, schema, normalize=self._normalize))
                assert found.version is not None
                done[imported.name] = SchemaReference(imported.name, subject, found.version)
            made.append(done[imported.name])
        return tuple(made)

    def _encode(self, prepared: Prepared, value: Any) -> bytes:
        if type(value) is not self._message_type:
            value = self._message_of(value)
        try:
            made: bytes = value.SerializeToString()
        except _encode_error() as error:  # required fields of proto2 are missing
            raise SerializationError(f"message {self._descriptor.full_name}: {error}") from error
        return prepared.prefix + made

    def _message_of(self, value: Any) -> Any:
        if isinstance(value, self._message_type):
            return value
        if isinstance(value, Mapping):
            try:
                return self._message_type(**value)
            except (TypeError, ValueError) as error:
                raise SerializationError(f"message {self._descriptor.full_name}: {error}") from None
        raise SerializationError(
            f"the serializer writes messages of {self._descriptor.full_name}, not {type(value).__qualname__}; "
            f"pass one, or "
            f"a dictionary with its fields"
        )


@dataclass(slots=True)
class _Parser:
    """How messages are read.

    Attributes:
        writer: the writer's schema; its file is looked at when a message is read without a class.
        reader: the reader's schema, which has the class then; None if it is the writer's.
        classes: by message indexes.
    """

    writer: ParsedSchema | None
    reader: ParsedSchema | None
    classes: dict[tuple[int, ...], Any]


class ProtobufDeserializer(SchemaDeserializer[ObjectT]):
    """Reads Protobuf messages: for a consumer's `value_deserializer`.

    Args:
        registry: a `Registry`, for blocking consumers, or an `AsyncRegistry`, for `AsyncConsumer`.
        message_type: the generated class of the messages; None makes a class from the writer's schema.
        subject: see `SchemaDeserializer`, as for the arguments that are not named here.
        use_latest_version: make the class from the latest version of the subject; a given class stays.
        use_latest_with_metadata: the same, from the latest version with these properties.
        ignore_rules: see there.
        from_dict: called with message and context; returns the object for the application.
        latest_ttl_s: see there.

    Raises:
        ConfigError: the class is none of Protobuf's.
    """

    schema_type = SchemaType.PROTOBUF

    def __init__(
        self,
        registry: AnyRegistry,
        message_type: type[ObjectT] | None = None,
        *,
        subject: SubjectStrategy = "topic",
        use_latest_version: bool = False,
        use_latest_with_metadata: Mapping[str, str] | None = None,
        ignore_rules: bool = False,
        from_dict: Callable[[Any, DeserializationContext], Any] | None = None,
        latest_ttl_s: float = LATEST_TTL_S,
    ) -> None:
        if message_type is not None and not hasattr(message_type, "DESCRIPTOR"):
            raise ConfigError(f"ProtobufDeserializer: message_type={message_type!r} is no class that protoc generates")
        self._message_type = message_type
        super().__init__(
            registry,
            subject=subject,
            use_latest_version=use_latest_version,
            use_latest_with_metadata=use_latest_with_metadata,
            ignore_rules=ignore_rules,
            from_dict=from_dict,
            latest_ttl_s=latest_ttl_s,
        )

    def _record_name(self, writer: ParsedSchema | None) -> str | None:
        kind: Any = self._message_type
        return super()._record_name(writer) if kind is None else kind.DESCRIPTOR.full_name

    async def _parsed_writer(self, registered: RegisteredSchema) -> ParsedSchema | None:
        return None if self._message_type is not None else await super()._parsed_writer(registered)

    def _decoder(self, writer: Any, reader: Any) -> _Parser:
        return _Parser(writer, reader, {})

    def _decode(self, reader: Reader, data: bytes, start: int, header: bytes | None) -> Any:
        if header is not None:
            indexes, _ = read_indexes(header, 5 if header[0] == 0 else 17, "the header")
        elif data[start : start + 1] == b"\0":
            indexes, start = (0,), start + 1
        else:
            indexes, start = read_indexes(data, start, "the bytes")
        kind: Any = self._message_type or self._class_for(reader.decoder, indexes)
        try:
            return kind.FromString(data[start:])
        except _decode_error() as error:
            raise UnreadableError(
                f"the bytes are no message of {kind.DESCRIPTOR.full_name}: {error}; it may be nested more than 100 deep"
            ) from None

    def _class_for(self, parser: _Parser, indexes: tuple[int, ...]) -> Any:
        made = parser.classes.get(indexes)
        if made is None:
            from google.protobuf.message_factory import GetMessageClass

            assert parser.writer is not None
            found = message_at(parser.writer.native, indexes)
            if parser.reader is not None:
                found = _message_named(parser.reader.native, found.full_name)
            made = GetMessageClass(found)
            parser.classes[indexes] = made
        return made


def _decode_error() -> type[Exception]:
    from google.protobuf.message import DecodeError

    found: type[Exception] = DecodeError
    return found


def _encode_error() -> type[Exception]:
    from google.protobuf.message import EncodeError

    found: type[Exception] = EncodeError
    return found


def message_at(file: Any, indexes: tuple[int, ...]) -> Any:
    """Return the descriptor of the message at a path.

    Raises:
        UnreadableError: the file has no such message.
    """
    found = None
    messages = list(file.message_types_by_name.values())
    for index in indexes:
        if index >= len(messages):
            raise UnreadableError(
                f"the record has the message indexes {list(indexes)}, and the schema has only {len(messages)} messages "
                f"{'at the top' if found is None else f'in {found.full_name}'}"
            )
        found = messages[index]
        messages = list(found.nested_types)
    return found


def _message_named(file: Any, name: str) -> Any:
    """Return the descriptor of a message by its full name.

    Raises:
        UnreadableError: the file and its imports have no such message.
    """
    try:
        return file.pool.FindMessageTypeByName(name)
    except KeyError:
        raise UnreadableError(
            f"the record is a {name}, which the latest version of the subject does not have"
        ) from None


def _text_of(file: Any) -> str:
    """Return base64 of a file's descriptor, which registries accept as a schema."""
    return base64.standard_b64encode(file.serialized_pb).decode("ascii")

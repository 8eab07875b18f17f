"""What the serializers of all languages share: finding the schema, framing, rules, and waiting for a registry.

A serializer keeps what it has prepared for each topic and field, so that a record costs a look-up and the encoding. On
a miss it asks the registry: with `Registry` in the call itself, with `AsyncRegistry` it returns a coroutine, which
`AsyncProducer.send` awaits. The code that asks is written once, as coroutines; `run_now` runs them without a loop where
the registry blocks. Must not know a language. Start at `SchemaSerializer` and `SchemaDeserializer`.

Source: Confluent's AbstractKafkaSchemaSerDe (configuration, choice of the schema).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.errors import ConfigError, KafkaError, RetriableError, SerializationError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.net.process_hooks import ForkedLock
from kafkaraw.schemas.errors import FramingError, RegistryError, SchemaNotFoundError
from kafkaraw.schemas.framing import (
    HEADER_NAMES,
    Framed,
    Framing,
    header_of,
    looks_apicurio,
    read_frame,
    write_header,
    write_prefix,
)
from kafkaraw.schemas.languages import ParsedSchema, parse
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaBundle, SchemaType
from kafkaraw.schemas.subjects import (
    AssociatedName,
    SubjectContext,
    SubjectFunction,
    SubjectStrategy,
    depends_on_field_only,
    subject_strategy,
)

T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # PEP 696, in `typing` from Python 3.13

    ObjectT = TypeVarWithDefault("ObjectT", default=Any)
else:
    ObjectT = TypeVar("ObjectT")
"""The type of the objects that a deserializer returns: `Any` if neither `into` nor `message_type` names a class."""
AnyRegistry: TypeAlias = Any
"""`Registry` or `AsyncRegistry`: their methods have the same names, and return values or awaitables of them."""

PREPARED_MAX: Final = 10_000
"""Topics, subjects or ids that a serializer remembers; beyond it forgets all and asks the registry's cache again."""
_NOT_FOUND: Final = 404
LATEST_TTL_S: Final = 300.0
"""Seconds for which the answer to "the latest version" is used."""


def run_now(work: Coroutine[object, None, T]) -> T:
    """Run a coroutine that never waits, because its registry blocks instead."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise AssertionError("a coroutine of a blocking registry waited")


async def answer_of(answer: Any) -> Any:
    """Return the answer of a method of either registry."""
    return await answer if inspect.isawaitable(answer) else answer


def is_async(registry: object) -> bool:
    """Whether the methods of a registry are coroutines."""
    return inspect.iscoroutinefunction(getattr(registry, "schema_by_id", None))


async def subject_of(
    strategy: SubjectFunction | AssociatedName, registry: AnyRegistry, context: SubjectContext, record_name: str | None
) -> str:
    """Return the subject that a strategy makes; ask the registry for associations where it says so.

    Raises:
        UsageError: there is no subject, or it is no name.
        RegistryError: the registry does not answer.
    """
    if isinstance(strategy, AssociatedName):
        associated: Any = ()
        try:
            associated = await answer_of(
                registry.associations(
                    context.topic,
                    namespace=strategy.cluster_id,
                    resource_type="topic",
                    association_types=(context.field,),
                )
            )
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
        subject = strategy.subject_in(associated, context, record_name)
    else:
        subject = strategy(context, record_name)
    if not isinstance(subject, str) or not subject:
        raise UsageError(
            f"the subject strategy returned {subject!r} for topic {context.topic!r}; it must return a name"
        )
    return subject


def check_rules(registered: RegisteredSchema, *, ignore_rules: bool, writing: bool) -> None:
    """Refuse a schema with rules: to skip encryption silently is worse than to fail.

    Raises:
        SerializationError: the schema has rules that are not disabled, and `ignore_rules` is False.
        UnreadableError: as above, when reading.
    """
    rules = registered.schema.rule_set
    if ignore_rules or rules is None:
        return
    active = [
        rule
        for rule in (*rules.domain_rules, *rules.migration_rules, *rules.encoding_rules)
        if not rule.get("disabled")
    ]
    if not active:
        return
    names = ", ".join(f"{rule.get('name')} ({rule.get('type')})" for rule in active[:5])
    message = (
        f"schema {registered.id}{_of_subject(registered)} has rules, which kafkaraw does not run: {names}. "
        + (
            "Fields that they encrypt would be sent as plain text"
            if writing
            else "Fields that they encrypt stay encrypted"
        )
        + "; ignore_rules=True goes on without them"
    )
    raise SerializationError(message) if writing else UnreadableError(message)


class UnreadableError(KafkaError):
    """The bytes of a key or a value cannot be read; the deserialization error that follows names the record."""


def _of_subject(registered: RegisteredSchema) -> str:
    return "" if registered.subject is None else f" of subject {registered.subject!r}"


class _Waiting:
    """How a serializer waits for its registry: "await" or "block"; see `kafkaraw.client.serializers`."""

    def __init__(self, registry: AnyRegistry) -> None:
        self.registry = registry
        self.waits_by: Literal["await", "block"] = "await" if is_async(registry) else "block"
        self._lock = ForkedLock()
        self._flights: dict[Hashable, asyncio.Task[Any]] = {}

    async def parsed(self, schema: Schema) -> ParsedSchema:
        """Parse a schema with its references, which the registry has."""
        bundle = SchemaBundle(schema) if not schema.references else await answer_of(self.registry.bundle(schema))
        return parse(bundle, validate=False)

    async def once(self, key: Hashable, work: Callable[[], Coroutine[object, Any, T]]) -> T:
        """Do the work for a key once, if several tasks need it; one that is cancelled stops no other."""
        flight = self._flights.get(key)
        if flight is None or flight.get_loop() is not asyncio.get_running_loop():
            flight = self._flights[key] = asyncio.get_running_loop().create_task(work(), name=f"schema for {key}")
            flight.add_done_callback(lambda done: self._landed(key, done))
        result: T = await asyncio.shield(flight)
        return result

    def _landed(self, key: Hashable, flight: asyncio.Task[Any]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # read it: those who waited may all be cancelled

    def now(self, work: Callable[[], Coroutine[object, Any, T]]) -> T:
        """Do the work in this thread; others that need something wait, and find it done."""
        with self._lock:
            return run_now(work())


@dataclass(slots=True)
class Prepared:
    """What a serializer needs for the records of a topic and field.

    Attributes:
        registered: the schema, as the registry has it.
        encoder: what the language made of it.
        prefix: in front of each payload; empty with header framing.
        header: the record's header; None with prefix framing.
        expires_s: when to ask for the latest version again; None is never.
    """

    registered: RegisteredSchema
    encoder: Any
    prefix: bytes
    header: tuple[str, bytes] | None
    expires_s: float | None


class SchemaSerializer(ABC):
    """Base of the serializers, which are functions of value and `SerializationContext`.

    Args:
        registry: a `Registry`, for blocking producers, or an `AsyncRegistry`, for `AsyncProducer`.
        schema: the schema: a `Schema` or its text; None takes the registered one that `use_...` selects.
        subject: the strategy: "topic", "record", "topic-record", a function of context and record name, or
            "associated": the subject that the registry associates with the topic (see `AssociatedName`).
        auto_register: register the schema if the subject does not have it; else it must be there. None is True unless
            `use_...` selects a schema.
        normalize: let the registry normalize the schema before it compares.
        use_latest_version: write with the latest version of the subject.
        use_schema_id: write with the schema that has this id.
        use_latest_with_metadata: write with the latest version whose metadata has these properties.
        framing: "prefix", or "header" for a header with the schema's GUID.
        ignore_rules: write although the schema has rules, which kafkaraw does not run.
        to_dict: called with object and context; returns what the schema describes.
        latest_ttl_s: seconds for which "the latest version" is used before the registry is asked again.

    Raises:
        ConfigError: arguments that exclude each other, or none that says which schema to use.
        SchemaParseError: the schema is wrong; says where.
    """

    schema_type: ClassVar[SchemaType]

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        registry: AnyRegistry,
        schema: Schema | str | None = None,
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
    ) -> None:
        selections = [use_latest_version, use_schema_id is not None, use_latest_with_metadata is not None]
        name = type(self).__name__
        if sum(selections) > 1:
            raise ConfigError(
                f"{name}: give only one of use_latest_version, use_schema_id and use_latest_with_metadata"
            )
        if auto_register and any(selections):
            raise ConfigError(
                f"{name}: auto_register=True does not go with use_...: the registered schema is used then"
            )
        if schema is None and not any(selections):
            raise ConfigError(
                f"{name}: pass the schema, or say which registered one to use: use_latest_version=True, "
                f"use_schema_id=... "
                f"or use_latest_with_metadata=..."
            )
        if to_dict is not None and not callable(to_dict):
            raise ConfigError(f"{name}: to_dict must be a function of object and context, not {to_dict!r}")
        if framing not in tuple(Framing):
            raise ConfigError(f"{name}: framing={framing!r} is neither 'prefix' nor 'header'")
        self._waiting = _Waiting(registry)
        self.waits_by = self._waiting.waits_by
        self._registry = registry
        self._strategy = subject_strategy(subject)
        self._by_field = depends_on_field_only(self._strategy)
        self._auto_register = auto_register is not False
        self._normalize = normalize
        self._use_latest = use_latest_version
        self._use_id = use_schema_id
        self._use_metadata = None if use_latest_with_metadata is None else dict(use_latest_with_metadata)
        self._selects = any(selections)
        self._framing = Framing(framing)
        self._ignore_rules = ignore_rules
        self._to_dict = to_dict
        self._ttl_s = latest_ttl_s
        self._prepared: dict[Hashable, Prepared] = {}
        self._schema = self._schema_from(schema)
        self._own: ParsedSchema | None = None
        if self._schema is not None and not self._schema.references:
            self._own = self._parse_own(self._schema)

    def _parse_own(self, schema: Schema) -> ParsedSchema | None:
        return parse(SchemaBundle(schema))

    def _schema_from(self, schema: Schema | str | None) -> Schema | None:
        if schema is None or isinstance(schema, Schema):
            if schema is not None and schema.schema_type is not self.schema_type:
                raise ConfigError(f"{type(self).__name__}: the schema is {schema.schema_type}, not {self.schema_type}")
            return schema
        return Schema(schema, self.schema_type)

    # -- each record

    def __call__(self, value: Any, context: SerializationContext) -> bytes | Awaitable[bytes | None] | None:
        """Return the framed bytes of an object; with `AsyncRegistry` and a schema that is not known yet, a coroutine.

        Raises:
            SerializationError: the object does not fit the schema, or the schema has rules.
            RegistryError: the registry refuses the schema, or cannot be asked.
        """
        if value is None:
            return None
        prepared = self._prepared.get((context.topic, context.field) if self._by_field else self._subject_of(context))
        if prepared is None or (prepared.expires_s is not None and time.monotonic() >= prepared.expires_s):
            return self._after_asking(value, context, prepared)
        return self._write(prepared, value, context)

    def _write(self, prepared: Prepared, value: Any, context: SerializationContext) -> bytes:
        if self._to_dict is not None:
            value = self._to_dict(value, context)
        made = self._encode(prepared, value)
        if prepared.header is not None:
            context.headers.append(prepared.header)
        return made

    @abstractmethod
    def _encode(self, prepared: Prepared, value: Any) -> bytes:
        """Return prefix and payload."""

    @abstractmethod
    def _encoder(self, parsed: Any) -> Any:
        """Make of a `ParsedSchema` what `_encode` needs."""

    def _indexes(self, parsed: Any) -> tuple[int, ...] | None:
        """Return Protobuf's message indexes."""
        return None

    # -- asking the registry

    def prepare(self, topic: str, field: Literal["key", "value"] = "value") -> Any:
        """Find or register the schema for a topic now, rather than with the first record.

        Returns:
            the `RegisteredSchema`; with `AsyncRegistry` an awaitable of it.

        Raises:
            RegistryError: the registry refuses the schema, or cannot be asked.
            SerializationError: the schema has rules.
        """
        context = SerializationContext(topic, field, [])
        if self.waits_by == "await":
            return self._prepare_later(context)
        return self._waiting.now(lambda: self._prepare(context)).registered

    async def _prepare_later(self, context: SerializationContext) -> RegisteredSchema:
        return (await self._waiting.once(self._key(context), lambda: self._prepare(context))).registered

    def _key(self, context: SerializationContext) -> Hashable:
        return (context.topic, context.field) if self._by_field else self._subject_of(context)

    def _subject_of(self, context: SerializationContext) -> str:
        """Return the subject of a record, for strategies that look at more than topic and field: functions."""
        return run_now(subject_of(self._strategy, self._registry, context, self._record_name))

    @property
    def _record_name(self) -> str | None:
        return None if self._own is None else self._own.name

    def _after_asking(
        self,
        value: Any,
        context: SerializationContext,
        before: Prepared | None,
    ) -> bytes | Awaitable[bytes | None] | None:
        if self.waits_by == "await":
            return self._write_later(value, context, before)
        try:
            prepared = self._waiting.now(lambda: self._prepare(context))
        except RetriableError:
            if before is None:
                raise
            prepared = self._extended(before)
        return self._write(prepared, value, context)

    async def _write_later(self, value: Any, context: SerializationContext, before: Prepared | None) -> bytes | None:
        try:
            prepared = await self._waiting.once(self._key(context), lambda: self._prepare(context))
        except RetriableError:
            if before is None:
                raise
            prepared = self._extended(before)
        return self._write(prepared, value, context)

    def _extended(self, before: Prepared) -> Prepared:
        """Go on with the version that was the latest, because the registry has no answer at the moment."""
        before.expires_s = time.monotonic() + self._ttl_s
        return before

    async def _prepare(self, context: SerializationContext) -> Prepared:
        key = self._key(context)
        found = self._prepared.get(key)
        if found is not None and (found.expires_s is None or time.monotonic() < found.expires_s):
            return found  # another thread has asked meanwhile
        registered = await self._registered(await self._subject_to_ask(context), context)
        check_rules(registered, ignore_rules=self._ignore_rules, writing=True)
        parsed = await self._parsed_for(registered)
        made = self._framed(registered, self._encoder(parsed), self._indexes(parsed), context)
        if len(self._prepared) >= PREPARED_MAX:
            self._prepared.clear()
        self._prepared[key] = made
        return made

    def _framed(
        self,
        registered: RegisteredSchema,
        encoder: Any,
        indexes: tuple[int, ...] | None,
        context: SerializationContext,
    ) -> Prepared:
        expires_s = time.monotonic() + self._ttl_s if self._use_latest or self._use_metadata is not None else None
        if self._framing is Framing.PREFIX:
            return Prepared(registered, encoder, write_prefix(registered.id, indexes), None, expires_s)
        if registered.guid is None:
            raise SerializationError(
                f"the registry sends no GUID for schema {registered.id}{_of_subject(registered)}, and "
                f"framing='header' needs "
                f"it (Confluent Platform 8.0 or newer); use framing='prefix'"
            )
        header = (HEADER_NAMES[context.field], write_header(registered.guid, indexes))
        return Prepared(registered, encoder, b"", header, expires_s)

    async def _subject_to_ask(self, context: SerializationContext) -> str:
        await self._own_schema()
        return await subject_of(self._strategy, self._registry, context, self._record_name)

    async def _parsed_for(self, registered: RegisteredSchema) -> ParsedSchema | None:
        own = await self._own_schema()
        return await self._waiting.parsed(registered.schema) if self._selects or own is None else own

    async def _own_schema(self) -> ParsedSchema | None:
        if self._own is None and self._schema is not None:
            self._own = await self._waiting.parsed(self._schema)
        return self._own

    async def _registered(self, subject: str, context: SerializationContext) -> RegisteredSchema:
        registry = self._registry
        found: RegisteredSchema
        if self._use_id is not None:
            found = await answer_of(registry.schema_by_id(self._use_id, subject=subject))
        elif self._use_latest:
            found = await answer_of(registry.version(subject, "latest"))
        elif self._use_metadata is not None:
            found = await answer_of(registry.latest_with_metadata(subject, self._use_metadata))
        else:
            found = await self._register(subject, self._schema, context)
        if found.schema.schema_type is not self.schema_type:
            raise SerializationError(
                f"schema {found.id}{_of_subject(found)} is {found.schema.schema_type}, and {type(self).__name__} "
                f"writes "
                f"{self.schema_type}; use the serializer of that language, or another subject"
            )
        return found

    async def _register(self, subject: str, schema: Schema | None, context: SerializationContext) -> RegisteredSchema:
        assert schema is not None
        ask = self._registry.register if self._auto_register else self._registry.lookup
        found: RegisteredSchema = await answer_of(ask(subject, schema, normalize=self._normalize))
        return found


@dataclass(slots=True)
class Reader:
    """What a deserializer needs for the bytes with one id.

    Attributes:
        registered: the schema of the bytes.
        decoder: what the language made of it, and of the reader's schema.
        expires_s: when to ask for the latest version of the reader's schema again; None is never.
    """

    registered: RegisteredSchema
    decoder: Any
    expires_s: float | None


class SchemaDeserializer(ABC, Generic[ObjectT]):
    """Base of the deserializers: a function of bytes and `DeserializationContext`.

    It reads both framings, and prefers the header.

    Args:
        registry: a `Registry`, for blocking consumers, or an `AsyncRegistry`, for `AsyncConsumer`.
        reader_schema: the schema of the objects; None for that of the bytes. A `Schema` or its text.
        subject: the strategy that finds the subject, for `use_latest_...` and for ids in contexts.
        use_latest_version: the reader's schema is the latest version of the subject.
        use_latest_with_metadata: the reader's schema is the latest version whose metadata has these properties.
        ignore_rules: read although the schema has rules, which kafkaraw does not run.
        from_dict: called with the object and the context; returns the object for the application.
        latest_ttl_s: seconds for which "the latest version" is used before the registry is asked again.

    Raises:
        ConfigError: arguments that exclude each other.
        SchemaParseError: the reader's schema is wrong; says where.
    """

    schema_type: ClassVar[SchemaType]

    def __init__(
        self,
        registry: AnyRegistry,
        reader_schema: Schema | str | None = None,
        *,
        subject: SubjectStrategy = "topic",
        use_latest_version: bool = False,
        use_latest_with_metadata: Mapping[str, str] | None = None,
        ignore_rules: bool = False,
        from_dict: Callable[[Any, DeserializationContext], Any] | None = None,
        latest_ttl_s: float = LATEST_TTL_S,
    ) -> None:
        name = type(self).__name__
        latest = use_latest_version or use_latest_with_metadata is not None
        if (reader_schema is not None) + use_latest_version + (use_latest_with_metadata is not None) > 1:
            raise ConfigError(
                f"{name}: give only one of reader_schema, use_latest_version and use_latest_with_metadata"
            )
        if from_dict is not None and not callable(from_dict):
            raise ConfigError(f"{name}: from_dict must be a function of object and context, not {from_dict!r}")
        self._waiting = _Waiting(registry)
        self.waits_by = self._waiting.waits_by
        self._registry = registry
        self._strategy = subject_strategy(subject)
        self._by_subject = latest or not depends_on_field_only(self._strategy)
        self._use_latest = latest
        self._use_metadata = None if use_latest_with_metadata is None else dict(use_latest_with_metadata)
        self._ignore_rules = ignore_rules
        self._from_dict = from_dict
        self._ttl_s = latest_ttl_s
        self._readers: dict[Hashable, Reader] = {}
        self._reader_schema = None
        self._reader: ParsedSchema | None = None
        if reader_schema is not None:
            schema = reader_schema if isinstance(reader_schema, Schema) else Schema(reader_schema, self.schema_type)
            if schema.schema_type is not self.schema_type:
                raise ConfigError(f"{name}: the reader's schema is {schema.schema_type}, not {self.schema_type}")
            self._reader_schema = schema
            if not schema.references:
                self._reader = parse(SchemaBundle(schema))

    # -- each record

    def __call__(self, data: bytes, context: DeserializationContext) -> Any:
        """Return the object of framed bytes; with `AsyncRegistry` and an id that is not known yet, a coroutine.

        Raises:
            FramingError: the bytes carry no schema id; says what they look like.
            UnreadableError: the bytes are not valid for their schema, or the schema has rules.
            RegistryError: the registry does not know the id, or cannot be asked.
        """
        header = header_of(context.headers, context.field) if context.headers else None
        mark: Hashable = data[:5] if header is None else header
        if self._by_subject:
            mark = (context.topic, context.field, mark)
        reader = self._readers.get(mark)
        if reader is None or (reader.expires_s is not None and time.monotonic() >= reader.expires_s):
            return self._after_asking(data, header, context)
        return self._read(reader, data, 5 if header is None else 0, header, context)

    def _read(
        self, reader: Reader, data: bytes, start: int, header: bytes | None, context: DeserializationContext
    ) -> Any:
        try:
            made = self._decode(reader, data, start, header)
        except UnreadableError as error:
            raise UnreadableError(f"{error} (schema {reader.registered.id}{_of_subject(reader.registered)})") from error
        return made if self._from_dict is None else self._from_dict(made, context)

    @abstractmethod
    def _decode(self, reader: Reader, data: bytes, start: int, header: bytes | None) -> Any:
        """Return the object.

        Raises:
            UnreadableError: the bytes are not valid for the schema.
        """

    @abstractmethod
    def _decoder(self, writer: Any, reader: Any) -> Any:
        """Make of two `ParsedSchema`s what `_decode` needs; None as the reader's means the writer's.

        Raises:
            UnreadableError: the reader's schema cannot read what the writer's writes.
        """

    # -- asking the registry

    def _after_asking(self, data: bytes, header: bytes | None, context: DeserializationContext) -> Any:
        with_indexes = header is not None and self.schema_type is SchemaType.PROTOBUF
        frame = read_frame(data, header, with_indexes=with_indexes, source=f"the bytes of the {context.field}")
        if frame.guid is not None and header is None:  # a GUID in front: rare
            known = self._readers.get(self._mark(frame, data, context))
            if known is not None and (known.expires_s is None or time.monotonic() < known.expires_s):
                return self._read(known, data, len(data) - len(frame.payload), header, context)
        if self.waits_by == "await":
            return self._read_later(frame, data, header, context)
        reader = self._waiting.now(lambda: self._find(frame, data, context))
        return self._read(reader, data, len(data) - len(frame.payload), header, context)

    def _mark(self, frame: Framed, data: bytes, context: DeserializationContext) -> Hashable:
        if frame.framing is Framing.PREFIX:
            mark: Hashable = data[: len(data) - len(frame.payload)]
        else:
            mark = header_of(context.headers, context.field)
        return (context.topic, context.field, mark) if self._by_subject else mark

    async def _read_later(
        self, frame: Framed, data: bytes, header: bytes | None, context: DeserializationContext
    ) -> Any:
        mark = self._mark(frame, data, context)
        reader = await self._waiting.once(mark, lambda: self._find(frame, data, context))
        return self._read(reader, data, len(data) - len(frame.payload), header, context)

    async def _find(self, frame: Framed, data: bytes, context: DeserializationContext) -> Reader:
        mark = self._mark(frame, data, context)
        known = self._readers.get(mark)
        if known is not None and (known.expires_s is None or time.monotonic() < known.expires_s):
            return known
        try:
            made = await self._ask(frame, data, context)
        except RetriableError:
            if known is None:
                raise
            known.expires_s = time.monotonic() + self._ttl_s
            return known
        if len(self._readers) >= PREPARED_MAX:
            self._readers.clear()
        self._readers[mark] = made
        return made

    async def _ask(self, frame: Framed, data: bytes, context: DeserializationContext) -> Reader:
        registered = await self._writer_schema(frame, data, context)
        if registered.schema.schema_type is not self.schema_type:
            raise UnreadableError(
                f"schema {registered.id}{_of_subject(registered)} is {registered.schema.schema_type}, and "
                f"{type(self).__name__} reads {self.schema_type}; use the deserializer of that language"
            )
        check_rules(registered, ignore_rules=self._ignore_rules, writing=False)
        writer = await self._parsed_writer(registered)
        reader, expires_s = await self._reader_schema_for(writer, context)
        try:
            decoder = self._decoder(writer, reader)
        except UnreadableError as error:
            raise UnreadableError(
                f"{error} (the writer's is schema {registered.id}{_of_subject(registered)})"
            ) from error
        return Reader(registered, decoder, expires_s)

    def _record_name(self, writer: ParsedSchema | None) -> str | None:
        return None if writer is None else writer.name

    async def _parsed_writer(self, registered: RegisteredSchema) -> ParsedSchema | None:
        return await self._waiting.parsed(registered.schema)

    async def _writer_schema(self, frame: Framed, data: bytes, context: DeserializationContext) -> RegisteredSchema:
        found: RegisteredSchema
        try:
            if frame.guid is not None:
                found = await answer_of(self._registry.schema_by_guid(frame.guid))
            else:
                subject = None
                if not depends_on_field_only(self._strategy):
                    subject = await subject_of(self._strategy, self._registry, context, None)
                found = await answer_of(self._registry.schema_by_id(frame.schema_id, subject=subject))
        except SchemaNotFoundError as error:
            name = f"GUID {frame.guid}" if frame.guid is not None else f"id {frame.schema_id}"
            raise FramingError(
                f"the {frame.framing} of the {context.field} names a schema with {name}, which the registry does "
                f"not have: "
                f"{_why_unknown(frame, data)}; the {len(data)} bytes begin with {data[:16].hex(' ')}"
            ) from error
        return found

    async def _reader_schema_for(
        self, writer: ParsedSchema | None, context: DeserializationContext
    ) -> tuple[ParsedSchema | None, float | None]:
        if not self._use_latest:
            if self._reader is None and self._reader_schema is not None:
                self._reader = await self._waiting.parsed(self._reader_schema)
            return self._reader, None
        subject = await subject_of(self._strategy, self._registry, context, self._record_name(writer))
        if self._use_metadata is None:
            latest = await answer_of(self._registry.version(subject, "latest"))
        else:
            latest = await answer_of(self._registry.latest_with_metadata(subject, self._use_metadata))
        check_rules(latest, ignore_rules=self._ignore_rules, writing=False)
        return await self._waiting.parsed(latest.schema), time.monotonic() + self._ttl_s


def _why_unknown(frame: Framed, data: bytes) -> str:
    if frame.framing is Framing.HEADER:
        return "a producer with another registry wrote the record"
    if looks_apicurio(data):
        return "the bytes look like Apicurio's framing with an id of 8 bytes, which is not supported"
    return (
        "a producer with another registry wrote the record, or the bytes are not framed at all (bare Avro may "
        "begin with 00)"
    )

"""Framed keys and values as JSON: `consume -s value=avro -r URL` shows them, `produce -s value=avro -r URL` sends them.

Avro has Avro's JSON encoding, Protobuf its JSON mapping, JSON Schema the JSON itself. `Schemas.showing` and `.auto`
make converters for consuming, `.reading` for producing. A schema is fetched when the first record needs it. Start at
`Schemas`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kafkaraw.cli.registries import RegistryAddress
from kafkaraw.cli.serdes import AnyRecord, ToBytes, ToText
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import Header
from kafkaraw.schemas.errors import FramingError, SchemaNotFoundError
from kafkaraw.schemas.framing import Framed, header_of, read_frame, write_prefix
from kafkaraw.schemas.json_codec import standard_dump
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaType

if TYPE_CHECKING:
    from kafkaraw.schemas.blocking import Registry
    from kafkaraw.schemas.languages import ParsedSchema

_NAMES: Final = {"avro": SchemaType.AVRO, "json-schema": SchemaType.JSON, "protobuf": SchemaType.PROTOBUF}
_UNKNOWN_MAX: Final = 10_000
_FIRST_MESSAGE: Final = (0,)


class Form(Protocol):
    """How the payloads of one schema become JSON, and JSON payloads."""

    def text(self, payload: memoryview, indexes: tuple[int, ...]) -> bytes:
        """Return a payload as JSON on one line; ValueError: it does not fit the schema."""

    def payload(self, text: bytes) -> bytes:
        """Return JSON as a payload; ValueError: it does not fit the schema."""


class Schemas:
    """The registry behind the options of one command; it is asked when the first record needs a schema.

    Args:
        address: the registry.
        ignore_rules: show and write values although their schema has rules, which this package does not execute.
    """

    def __init__(self, address: RegistryAddress, *, ignore_rules: bool) -> None:
        self._address = address
        self._ignore_rules = ignore_rules
        self._registry: Registry | None = None
        self._forms: dict[tuple[int, str | None], tuple[SchemaType, Form]] = {}
        self._unknown: set[object] = set()

    @property
    def is_given(self) -> bool:
        """Whether the user has named a registry."""
        return self._address.is_given

    def close(self) -> None:
        """Close the registry's connections."""
        if self._registry is not None:
            self._registry.close()

    def showing(self, field: str, name: str) -> ToText:
        """Return the converter for `-s FIELD=NAME` of consume.

        Raises:
            UsageError: no registry is given.
        """
        self._connected(f"-s {field}={name}")
        return _FramedText(field, f"framed {name}", bytes, True, self, _NAMES[name])

    def auto(self, field: str) -> ToText:
        """Return the converter for a field without `-s`: what is framed is shown as JSON, the rest as it is."""
        self._connected("-r")
        return _AutoText(field, "framed", bytes, False, self, None)

    def reading(self, field: str, name: str, topic: str, file: str | None) -> ToBytes:
        """Return the converter for `-s FIELD=NAME` of produce.

        Args:
            field: "key" or "value".
            name: of the language.
            topic: of the messages; the subject is TOPIC-FIELD.
            file: the schema to register; None for the subject's latest version.

        Raises:
            UsageError: no registry is given, or the subject's schema has another language.
            RegistryError: the registry refuses the schema, or cannot be asked.
        """
        from kafkaraw.cli.schema_files import read_schema

        registry, subject = self._connected(f"-s {field}={name}"), f"{topic}-{field}"
        if file is None:
            registered = registry.version(subject)
        else:
            kind = name.removesuffix("-schema")
            schema = read_schema(file, schema_type=kind, references=(), metadata=())
            registered = registry.register(subject, schema)
        if registered.schema.schema_type is not _NAMES[name]:
            raise UsageError(f"-s {field}={name}: the schema of subject {subject!r} is {registered.schema.schema_type}")
        self._check_rules(registered, writing=True)
        form = self._form_of(registered)
        indexes = _FIRST_MESSAGE if registered.schema.schema_type is SchemaType.PROTOBUF else None
        prefix = write_prefix(registered.id, indexes)

        def convert(text: bytes) -> bytes:
            try:
                return prefix + form.payload(text)
            except RecursionError:
                raise ValueError("the JSON is nested too deep") from None

        return convert

    def text_of(self, field: str, headers: Iterable[Header], data: bytes, kind: SchemaType | None) -> bytes:
        """Return framed bytes as JSON.

        Args:
            field: "key" or "value".
            headers: of the record.
            data: the bytes.
            kind: the language that they must have; None for any.

        Raises:
            FramingError: they are not framed.
            SchemaNotFoundError: the registry does not know their schema.
            ValueError: they do not fit their schema, or it has another language.
            KafkaError: the registry cannot be asked, or the schema has rules.
        """
        header = header_of(headers, field)
        frame = read_frame(data, header)
        key = _key_of(frame)
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = self._fetched(frame)
        found_kind, form = found
        if kind is not None and found_kind is not kind:
            name = next(name for name, each in _NAMES.items() if each is found_kind)
            raise ValueError(f"its schema has another language: use -s {field}={name}")
        if found_kind is SchemaType.PROTOBUF:
            frame = read_frame(data, header, with_indexes=True)
        try:
            return form.text(frame.payload, frame.message_indexes or _FIRST_MESSAGE)
        except RecursionError:
            raise ValueError("they are nested too deep to be shown") from None

    def if_framed(self, field: str, headers: Iterable[Header], data: bytes) -> bytes | None:
        """Return framed bytes as JSON; None if they are not framed, or with an id that the registry does not know."""
        self._connected("-r")
        headers = list(headers)
        header = header_of(headers, field)
        start = header if header is not None else data[:5]
        if start in self._unknown or (header is None and data[:1] != b"\0"):
            return None
        if len(self._unknown) >= _UNKNOWN_MAX and not self._is_known(header, data):
            return None  # data that only looks framed: the registry is not asked about each record
        try:
            return self.text_of(field, headers, data, None)
        except (FramingError, SchemaNotFoundError):
            self._unknown.add(start)
            return None
        except ValueError:
            return None

    def _is_known(self, header: bytes | None, data: bytes) -> bool:
        try:
            return _key_of(read_frame(data, header)) in self._forms
        except FramingError:
            return False

    def _connected(self, option: str) -> Registry:
        if self._registry is None:
            if not self._address.is_given:
                raise UsageError(f"{option} needs a schema registry: -r URL")
            self._registry = self._address.connect()
        return self._registry

    def _fetched(self, frame: Framed) -> tuple[SchemaType, Form]:
        registry = self._connected("-s")
        if frame.guid is not None:
            registered = registry.schema_by_guid(frame.guid)
        else:
            assert frame.schema_id is not None
            registered = registry.schema_by_id(frame.schema_id)
        self._check_rules(registered, writing=False)
        return registered.schema.schema_type, self._form_of(registered)

    def _check_rules(self, registered: RegisteredSchema, *, writing: bool) -> None:
        rules = registered.schema.rule_set
        if rules and not self._ignore_rules:
            what = "write values in the clear that rules encrypt" if writing else "show what rules have changed"
            raise UsageError(
                f"schema {registered.id} has rules, which kafkaraw does not execute; --ignore-rules would {what}"
            )

    def _form_of(self, registered: RegisteredSchema) -> Form:
        from kafkaraw.schemas.languages import parse

        assert self._registry is not None
        schema: Schema = registered.schema
        parsed = parse(self._registry.bundle(schema, subject=registered.subject), validate=False)
        return _FORMS[schema.schema_type](parsed)


@dataclass(frozen=True)
class _FramedText(ToText):
    """Shows framed bytes of one language.

    Attributes:
        schemas: the registry.
        kind: the language; None for any.
    """

    schemas: Schemas
    kind: SchemaType | None

    def at(self, record: AnyRecord, data: bytes) -> bytes:
        """Return the text."""
        try:
            return self.schemas.text_of(self.field, record.headers, data, self.kind)
        except (ValueError, FramingError, SchemaNotFoundError) as error:
            where = f"{record.topic} [{record.partition}] at offset {record.offset}"
            raise KafkaError(
                f"the {self.field} of {where} is not {self.name}: {error}; leave out -s to show framed ones only, or "
                f"use -s {self.field}=hex to see the bytes"
            ) from error


class _AutoText(_FramedText):
    """Shows what is framed as JSON, and the rest as it is."""

    def at(self, record: AnyRecord, data: bytes) -> bytes:
        """Return the text."""
        shown = self.schemas.if_framed(self.field, record.headers, data)
        return data if shown is None else shown

    def json_at(self, record: AnyRecord, data: bytes) -> str | None:
        """Return the text as JSON for an envelope; None if the bytes themselves belong there."""
        shown = self.schemas.if_framed(self.field, record.headers, data)
        return None if shown is None else shown.decode()


class _AvroForm:
    def __init__(self, parsed: ParsedSchema) -> None:
        from kafkaraw.schemas.avro_json import AvroJson

        native = parsed.native
        self._form = AvroJson(native)
        self._is_bytes = native == "bytes" or (isinstance(native, dict) and native.get("type") == "bytes")

    def text(self, payload: memoryview, indexes: tuple[int, ...]) -> bytes:
        if self._is_bytes:  # Confluent's serializers write such values without a length
            return json.dumps(bytes(payload).decode("latin-1"), ensure_ascii=False).encode()
        return self._form.text(payload)

    def payload(self, text: bytes) -> bytes:
        made = self._form.payload(text)
        return str(json.loads(text)).encode("latin-1") if self._is_bytes else made


class _JsonForm:
    def __init__(self, parsed: ParsedSchema) -> None:
        from kafkaraw.schemas.serializers.json_validator import InvalidObjectError, Validator

        self._invalid = InvalidObjectError
        self._validator = Validator(parsed)

    def text(self, payload: memoryview, indexes: tuple[int, ...]) -> bytes:
        return _compact(json.loads(bytes(payload)))

    def payload(self, text: bytes) -> bytes:
        value = json.loads(text)
        try:
            self._validator.check(value)
        except self._invalid as error:
            raise ValueError(str(error)) from None
        return _compact(value)


class _ProtobufForm:
    def __init__(self, parsed: ParsedSchema) -> None:
        self._file: Any = parsed.native
        self._classes: dict[tuple[int, ...], Any] = {}

    def text(self, payload: memoryview, indexes: tuple[int, ...]) -> bytes:
        from google.protobuf.json_format import MessageToJson, SerializeToJsonError
        from google.protobuf.message import DecodeError

        try:
            message = self._class_of(indexes).FromString(bytes(payload))
            return cast("str", MessageToJson(message, indent=None, ensure_ascii=False)).encode()
        except (DecodeError, SerializeToJsonError, TypeError) as error:
            raise ValueError(f"they do not fit the Protobuf schema: {error}") from None

    def payload(self, text: bytes) -> bytes:
        from google.protobuf.json_format import Parse, ParseError

        try:
            message = Parse(text, self._class_of(_FIRST_MESSAGE)())
        except ParseError as error:
            raise ValueError(" ".join(str(error).split())) from None
        return cast("bytes", message.SerializeToString())

    def _class_of(self, indexes: tuple[int, ...]) -> Any:  # noqa: ANN401 - protobuf makes it
        from google.protobuf.message_factory import GetMessageClass

        from kafkaraw.schemas.serializers.protobuf import message_at

        if indexes not in self._classes:
            self._classes[indexes] = GetMessageClass(message_at(self._file, indexes))
        return self._classes[indexes]


def _key_of(frame: Framed) -> tuple[int, str | None]:
    return (-1 if frame.schema_id is None else frame.schema_id, frame.guid)


def _compact(value: Any) -> bytes:  # noqa: ANN401 - JSON
    return standard_dump(value)


_FORMS: Final[Mapping[SchemaType, Callable[[ParsedSchema], Form]]] = {
    SchemaType.AVRO: _AvroForm,
    SchemaType.JSON: _JsonForm,
    SchemaType.PROTOBUF: _ProtobufForm,
}

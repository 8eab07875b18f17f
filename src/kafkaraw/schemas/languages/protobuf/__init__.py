"""Protobuf schemas: read, write as the registry does, normalize, compare, and make descriptors.

Texts of proto2, proto3 and editions, and base64 of file descriptors, which serializers of other clients register. The
reader is our own (decision 0040); the descriptors are checked by protobuf's pool. Must not do I/O. Start at
`parse_protobuf`.
"""

from __future__ import annotations

import base64
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages.limits import check_bundle, check_encodable
from kafkaraw.schemas.languages.parsed import Incompatibility, ParsedSchema
from kafkaraw.schemas.languages.protobuf.descriptors import Pool, decoded_descriptor, elements_of
from kafkaraw.schemas.languages.protobuf.differences import (
    OWN,
    MessageChanges,
    TypeInfo,
    Version,
    compare_protobuf,
    message_changes,
)
from kafkaraw.schemas.languages.protobuf.elements import Enum, Extend, File, Message, declared_types
from kafkaraw.schemas.languages.protobuf.known import CONFLUENT_FILES, known_file
from kafkaraw.schemas.languages.protobuf.reading import read_proto
from kafkaraw.schemas.languages.protobuf.writing import write_normalized_proto, write_proto
from kafkaraw.schemas.model import SchemaBundle, SchemaType

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor

FILE_NAME = "default"
"""The name of the schema's own file in descriptors, unless it was given as a descriptor."""


def parse_protobuf(bundle: SchemaBundle, *, validate: bool = True) -> ProtobufSchema:
    """Read a Protobuf schema with its references, whose names are those of its imports.

    Args:
        bundle: the schema and what it references.
        validate: the schema is to be registered: make its descriptor now, so that every wrong name and number is found.

    Raises:
        SchemaParseError: the schema or a reference is wrong or exceeds a limit; says where.
    """
    return ProtobufSchema(bundle, validate=validate)


class ProtobufSchema:
    """A parsed Protobuf schema."""

    schema_type = SchemaType.PROTOBUF

    def __init__(self, bundle: SchemaBundle, *, validate: bool = True) -> None:
        try:
            from google.protobuf import descriptor_pool  # noqa: F401
        except ImportError:
            raise SchemaParseError(
                "Protobuf schemas need the package `protobuf`; pip install 'kafkaraw[schemas]'"
            ) from None
        self.references: tuple[tuple[str, SchemaBundle], ...] = check_bundle(bundle)
        self._origins = {one.name: (one.subject, one.version) for one in bundle.schema.references}
        self.file_name: str
        self.file: File
        self.file_name, self.file = _read(bundle.schema.text, FILE_NAME)
        self.canonical_text: str = write_proto(self.file)
        check_encodable(self.canonical_text)
        self._imports = self._read_imports()
        if validate:
            self.native  # noqa: B018 - makes the descriptor
            self.normalized_text  # noqa: B018

    def _read_imports(self) -> dict[str, File]:
        """Return the imported files by their names, each after those that it imports."""
        given = {name: _read(one.schema.text, name)[1] for name, one in self.references}
        found: dict[str, File] = {}
        waiting: list[tuple[str, bool]] = [(name, False) for name in reversed(self.file.all_imports)]
        opened: set[str] = set()
        while waiting:
            name, done = waiting.pop()
            if done:
                found[name] = self._file(name, given)
            elif name not in opened:
                opened.add(name)
                waiting.append((name, True))
                waiting += [(one, False) for one in reversed(self._file(name, given).all_imports)]
        return found

    def _file(self, name: str, given: dict[str, File]) -> File:
        file = given.get(name)
        if file is None and name in CONFLUENT_FILES:
            file = read_proto(CONFLUENT_FILES[name])
        if file is None:
            known = known_file(name)
            file = None if known is None else elements_of(known)
        if file is None:
            hint = "; pip install googleapis-common-protos" if name.startswith("google/type/") else ""
            raise SchemaParseError(
                f"the import {name!r} is not there: add a reference with this name to the schema{hint}", path=name
            )
        return file

    @property
    def name(self) -> str | None:
        """Full name of the first message, or of the first enum of a file without messages, as in Confluent's."""
        messages = [one for one in self.file.types if isinstance(one, Message)]
        first = messages[0] if messages else self.file.types[0] if self.file.types else None
        if first is None:
            return None
        return f"{self.file.package}.{first.name}" if self.file.package else first.name

    @cached_property
    def types(self) -> dict[str, TypeInfo]:
        """The messages and enums of the file and of its imports, by their full names."""
        found: dict[str, TypeInfo] = {}
        for name, file in self._imports.items():
            origin = self._origins.get(name)
            found |= {full: TypeInfo(file.package or "", origin, one) for full, one in declared_types(file)}
        found |= {full: TypeInfo(self.file.package or "", OWN, one) for full, one in declared_types(self.file)}
        return found

    @cached_property
    def compared(self) -> Version:
        """The schema as `differences` compares it."""
        return Version(self.file, self.types)

    @cached_property
    def identity(self) -> bytes:
        """Equal for schemas with the same text and the same imports."""
        imports = [(name, self._origins.get(name), write_proto(file)) for name, file in self._imports.items()]
        return blake2b(repr((self.canonical_text, imports)).encode(), digest_size=16).digest()

    @cached_property
    def normalized_text(self) -> str:
        """What the registry stores with `normalize=true`.

        Raises:
            SchemaParseError: a type is not defined.
        """
        types: dict[str, Message | Enum | None] = {name: one.element for name, one in self.types.items()}
        extensions = frozenset(
            f"{scope}.{field.name}" if scope else field.name
            for scope, extend in self._extends()
            for field in extend.fields
        )
        return write_normalized_proto(self.file, types, extensions)

    def _extends(self) -> list[tuple[str, Extend]]:
        files = (*self._imports.values(), self.file)
        found = [(file.package or "", extend) for file in files for extend in file.extends]
        inside = [(name, one.element) for name, one in self.types.items() if isinstance(one.element, Message)]
        return found + [(name, extend) for name, message in inside for extend in message.extends]

    @cached_property
    def native(self) -> FileDescriptor:
        """The descriptor of the file, in a pool of its own with its imports (`native.pool`).

        Raises:
            SchemaParseError: a name, type or number is wrong.
        """
        pool = Pool()
        for name, file in self._imports.items():
            known = known_file(name) if name not in dict(self.references) else None
            if known is not None:
                pool.add(known)
            else:
                pool.add_elements(file, name)
        pool.add_elements(self.file, self.file_name)
        return pool.pool.FindFileByName(self.file_name)

    @property
    def serialized(self) -> str:
        """The descriptor as base64 (`format=serialized`)."""
        return base64.b64encode(self.native.serialized_pb).decode()

    def incompatibilities(
        self, writer: ParsedSchema, *, lenient: bool = False, changes: object = None
    ) -> tuple[Incompatibility, ...]:
        """Return why this schema may read wrongly what the writer's writes. `lenient` changes nothing."""
        if not isinstance(writer, ProtobufSchema):
            raise TypeError(f"the writer's schema must be of Protobuf, not {writer.schema_type}")
        if self.identity == writer.identity:
            return ()
        only = changes if isinstance(changes, MessageChanges) else None
        return compare_protobuf(writer.compared, self.compared, only)

    def changes_since(self, latest: ParsedSchema) -> MessageChanges | None:
        """Return the messages and fields that differ from the version before; None if imports or package differ."""
        if not isinstance(latest, ProtobufSchema) or self.file.package != latest.file.package:
            return None
        if self._imports or latest.compared.types.keys() - {name for name, _ in declared_types(latest.file)}:
            return None
        return message_changes(latest.compared, self.compared)

    def has_top_level_field(self, name: str) -> bool:
        """Return whether the first message has this field."""
        messages = [one for one in self.file.types if isinstance(one, Message)]
        return bool(messages) and any(field.name == name for field in messages[0].all_fields)


def _read(text: str, name: str) -> tuple[str, File]:
    """Return the name and the elements of a file, which is a text or the base64 of a descriptor."""
    try:
        return name, read_proto(text)
    except SchemaParseError:
        descriptor = decoded_descriptor(text)
        if descriptor is None:
            raise
        try:
            return name, elements_of(descriptor)
        except (ValueError, LookupError, StopIteration) as error:
            raise SchemaParseError(f"the base64 is a descriptor of protobuf with a fault in it: {error!r}") from None

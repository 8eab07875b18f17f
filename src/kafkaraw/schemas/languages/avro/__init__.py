"""Avro schemas: read, write as the registry does, normalize, and compare a reader with a writer.

The rules are Apache Avro's (1.12, which Confluent's registry uses): `reading` has those of `Schema.Parser`, `writing`
those of `Schema.toString`, `resolution` those of `SchemaCompatibility`. Must not do I/O. Start at `parse_avro`.
"""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import blake2b

from kafkaraw.schemas.languages.avro.changes import AvroChanges, avro_changes
from kafkaraw.schemas.languages.avro.nodes import NAMED, Container, Enum, Fixed, Named, Node, Record, Union
from kafkaraw.schemas.languages.avro.reading import AvroReader
from kafkaraw.schemas.languages.avro.resolution import avro_incompatibilities as avro_incompatibilities
from kafkaraw.schemas.languages.avro.writing import check_depth, write, write_normalized
from kafkaraw.schemas.languages.limits import Json, check_bundle, check_encodable
from kafkaraw.schemas.languages.parsed import Incompatibility, ParsedSchema
from kafkaraw.schemas.model import SchemaBundle, SchemaType


def parse_avro(bundle: SchemaBundle, *, validate: bool = True) -> AvroSchema:
    """Read an Avro schema with its references.

    Args:
        bundle: the schema and what it references.
        validate: the schema is to be registered: check names and defaults as strictly as the registry does then.

    Raises:
        SchemaParseError: the schema or a reference is wrong or exceeds a limit; says where.
    """
    return AvroSchema(bundle, validate=validate)


class AvroSchema:
    """A parsed Avro schema. Its texts are computed when they are first asked for.

    Args:
        bundle: the schema and what it references.
        validate: see `parse_avro`.
    """

    schema_type = SchemaType.AVRO

    def __init__(self, bundle: SchemaBundle, *, validate: bool = True) -> None:
        self.references: tuple[tuple[str, SchemaBundle], ...] = check_bundle(bundle)
        self._validate = validate
        reader = AvroReader(validate=validate)
        roots = [reader.read(reference.schema.text) for _, reference in self.references]
        self._known = tuple(root.full_name for root in roots if isinstance(root, Named))
        self.root: Node = reader.read(bundle.schema.text)
        _Keys(unions_may_raise=reader.has_field_aliases).set(self.root, 0)
        self.canonical_text: str = write(self.root, self._known)
        check_encodable(self.canonical_text)

    @property
    def name(self) -> str | None:
        """Full name of the record; None for other types, as in Confluent's `AvroSchema.name`."""
        return self.root.full_name if isinstance(self.root, Record) else None

    @cached_property
    def resolved_text(self) -> str:
        """The text with the definitions of the references in it (`format=resolved`)."""
        return write(self.root) if self.references else self.canonical_text

    @cached_property
    def normalized_text(self) -> str:
        """What the registry stores with `normalize=true`."""
        reader = AvroReader(validate=self._validate)
        for _, reference in self.references:
            reader.read(reference.schema.text)
        return write(reader.read(write_normalized(self.root, self._known)), self._known)

    @cached_property
    def native(self) -> Json:
        """The schema as fastavro's `parse_schema` returns it, with the definitions of the references in it."""
        from fastavro import parse_schema

        return parse_schema(json.loads(self.resolved_text))

    @cached_property
    def identity(self) -> bytes:
        """Equal for schemas that have the same meaning to readers and writers."""
        return blake2b(self.resolved_text.encode(), digest_size=16).digest()

    def incompatibilities(
        self, writer: ParsedSchema, *, lenient: bool = False, changes: object = None
    ) -> tuple[Incompatibility, ...]:
        """Return why this schema cannot read what the writer's writes; nothing if it can. `lenient` changes nothing."""
        if not isinstance(writer, AvroSchema):
            raise TypeError(f"the writer's schema must be of Avro, not {writer.schema_type}")
        fields = None
        if isinstance(changes, AvroChanges) and isinstance(self.root, Record):
            fields = changes.of_reader(self.root)
            if not fields:
                return ()
        return avro_incompatibilities(self.root, writer.root, fields)

    def changes_since(self, latest: ParsedSchema) -> AvroChanges | None:
        """Return the fields that differ from the version before; None if the schemas are not records of one name."""
        return avro_changes(self.root, latest.root) if isinstance(latest, AvroSchema) else None

    def has_top_level_field(self, name: str) -> bool:
        """Return whether the schema is a record with this field."""
        return isinstance(self.root, Record) and name in self.root.by_name


class _Keys:
    """Sets `Node.key` of all types that are reachable from one."""

    def __init__(self, *, unions_may_raise: bool) -> None:
        self._unions_may_raise = unions_may_raise
        self._seen: set[int] = set()

    def set(self, node: Node, depth: int) -> bytes | None:
        """Return the key, which stays None for types that contain themselves."""
        check_depth(node, depth)
        if node.kind in NAMED:
            if id(node) in self._seen:
                return node.key
            self._seen.add(id(node))
        below = [self.set(child, depth + 1) for child in node.children()]
        if None not in below:
            node.key = self._key(node, below)
        return node.key

    def _key(self, node: Node, below: list[bytes | None]) -> bytes | None:
        if isinstance(node, Record):
            if any(alias in node.by_name for field in node.fields for alias in field.aliases):
                return None  # a reader's alias that also is a field's name is an error of the comparison
            parts = [node.full_name, *node.by_name]
        elif isinstance(node, Enum):
            parts = [node.full_name, *node.symbols]
        elif isinstance(node, Fixed):
            parts = [node.full_name, str(node.size)]
        elif isinstance(node, Union):
            if self._unions_may_raise and sum(branch.kind == "record" for branch in node.branches) > 1:
                return None
            parts = []
        elif isinstance(node, Container):
            parts = []
        else:
            return node.kind.encode()
        text = "\0".join((node.kind, *parts)).encode("utf-8", "surrogatepass")
        return blake2b(b"\1".join((text, *(key or b"" for key in below))), digest_size=16).digest()

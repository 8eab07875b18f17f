"""What the parsers of all schema languages return: `ParsedSchema` and `Incompatibility`. Must not do I/O."""

from __future__ import annotations

from typing import Protocol

from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.languages.limits import Json
from kafkaraw.schemas.model import SchemaType


class ParsedSchema(Protocol):
    """A schema of any language, parsed together with its references."""

    @property
    def schema_type(self) -> SchemaType:
        """The language."""

    @property
    def name(self) -> str | None:
        """Full name of the record or message, for the record-name strategies; None if the schema has none."""

    @property
    def canonical_text(self) -> str:
        """What the registry stores and compares, without changing the meaning of the text."""

    @property
    def normalized_text(self) -> str:
        """As `canonical_text`, with everything in one order that has no order of its own (`normalize=true`)."""

    @property
    def native(self) -> Json:
        """What libraries work with: fastavro's parsed schema, a JSON schema's dictionary, protobuf's FileDescriptor."""

    def incompatibilities(self, writer: ParsedSchema, *, lenient: bool = False) -> tuple[Incompatibility, ...]:
        """Return why this schema cannot read what a schema of the same language writes; nothing if it can.

        Args:
            writer: the schema that data was written with.
            lenient: Confluent's compatibility policy LENIENT, which changes the rules of JSON Schema only.
        """


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """Why a reader cannot read what a writer writes.

    Attributes:
        rule: the violated rule, in Confluent's words, such as READER_FIELD_MISSING_DEFAULT_VALUE.
        path: where in the schema, as Confluent writes it, such as `/fields/1` or `#/properties/age`.
        template: Confluent's message, with `%s` for "new" or "old" where it names the reader and then the writer.
    """

    rule: str
    path: str
    template: str

    def message(self, reader: str, writer: str) -> str:
        """Return the message with words for the reader and for the writer, such as "new" and "old"."""
        words = iter((reader, writer))
        parts = self.template.split("%s")
        return parts[0] + "".join(next(words, "%s") + part for part in parts[1:])

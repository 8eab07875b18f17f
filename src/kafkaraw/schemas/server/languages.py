"""The schema languages of this package, as the registry uses them: see `parsing.Languages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages import ParsedSchema, check, guid_of, parse
from kafkaraw.schemas.model import CompatibilityLevel, Schema, SchemaBundle
from kafkaraw.schemas.server.parsing import Parsed


class _HasFields(Protocol):
    def has_top_level_field(self, name: str) -> bool: ...


class StandardLanguages:
    """Avro, JSON Schema and Protobuf."""

    def parse(self, bundle: SchemaBundle, *, validate: bool) -> Parsed:
        """Parse a schema with its references."""
        return parse(bundle, validate=validate)

    def check(
        self,
        new: Parsed,
        earlier: Sequence[Parsed],
        level: CompatibilityLevel,
        *,
        versions: Sequence[int],
        lenient: bool,
    ) -> tuple[str, ...]:
        """Return why a level forbids a schema."""
        known = cast("Sequence[ParsedSchema]", earlier)
        return check(cast("ParsedSchema", new), known, level, versions=versions, lenient=lenient)

    def guid_of(self, schema: Schema) -> str:
        """Return the GUID of a schema."""
        return guid_of(schema)

    def formatted(self, parsed: Parsed, schema: Schema, style: str) -> str:
        """Return the text of a schema in another format.

        Raises:
            SchemaParseError: its language has no such format.
        """
        name = {"resolved": "resolved_text", "serialized": "serialized_text"}.get(style.lower())
        text = schema.text if style.lower() == "default" else getattr(parsed, name or "", None)
        if not isinstance(text, str):
            raise SchemaParseError(f"Unsupported format {style}")
        return text

    def has_top_level_field(self, parsed: Parsed, name: str) -> bool:
        """Return whether a schema has a field of this name at its top."""
        return cast("_HasFields", parsed).has_top_level_field(name)

"""The schema languages of this package, as the registry uses them: see `parsing.Languages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages import check, guid_of, parse
from kafkaraw.schemas.model import CompatibilityLevel, Schema, SchemaBundle


class StandardLanguages:
    """Avro, JSON Schema and Protobuf."""

    def parse(self, bundle: SchemaBundle, *, validate: bool) -> Any:  # noqa: ANN401 -- one type for each language
        """Parse a schema with its references."""
        return parse(bundle, validate=validate)

    def check(
        self, new: Any, earlier: Sequence[Any], level: CompatibilityLevel, *, versions: Sequence[int], lenient: bool
    ) -> tuple[str, ...]:
        """Return why a level forbids a schema."""
        return check(new, earlier, level, versions=versions, lenient=lenient)

    def guid_of(self, schema: Schema) -> str:
        """Return the GUID of a schema."""
        return guid_of(schema)

    def formatted(self, parsed: Any, schema: Schema, style: str) -> str:
        """Return the text of a schema in another format.

        Raises:
            SchemaParseError: its language has no such format.
        """
        name = {"resolved": "resolved_text", "serialized": "serialized_text"}.get(style.lower())
        text = schema.text if style.lower() == "default" else getattr(parsed, name or "", None)
        if not isinstance(text, str):
            raise SchemaParseError(f"Unsupported format {style}")
        return text

    def has_top_level_field(self, parsed: Any, name: str) -> bool:
        """Return whether a schema has a field of this name at its top."""
        found: bool = parsed.has_top_level_field(name)
        return found

"""Parsing of schemas for the registry: references out of the state, parsed schemas kept, comparisons by content.

`Parser` resolves references on the event loop, where the state belongs; `parse` and what follows may run on another
thread, because they only see frozen objects. Start at `Parser.resolve`.
Source: Confluent's `AbstractSchemaProvider` and `ParsedSchema.canLookup`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.schemas.model import CompatibilityLevel, Schema, SchemaBundle, SchemaReference, SchemaType
from kafkaraw.schemas.server.api_errors import ApiError, invalid_schema
from kafkaraw.schemas.server.names import in_context_of
from kafkaraw.schemas.server.requests import confluent_version, without_confluent_version
from kafkaraw.schemas.server.state import State, StoredSchema

CACHED_SCHEMAS_MAX: Final = 10_000
CACHED_CHARACTERS_MAX: Final = 32 << 20
"""Limits of the parsed schemas that are kept, by number and by their texts. The least recently used ones are dropped."""
_REFERENCES_MAX: Final = 1_000


class Parsed(Protocol):
    """What the registry needs of a parsed schema."""

    @property
    def canonical_text(self) -> str:
        """What is stored and compared."""

    @property
    def normalized_text(self) -> str:
        """What is stored and compared with `normalize`."""


class Languages(Protocol):
    """The schema languages; `languages.StandardLanguages` are those of this package."""

    def parse(self, bundle: SchemaBundle, *, validate: bool) -> Parsed:
        """Parse a schema with its references; `validate` checks it as a new one. Raises SchemaParseError."""

    def check(
        self,
        new: Parsed,
        earlier: Sequence[tuple[StoredSchema, Resolved]],
        level: CompatibilityLevel,
        *,
        lenient: bool = False,
    ) -> tuple[str, ...]:
        """Return why a level forbids a schema, given the earlier versions in order; empty if it does not.

        Raises:
            ApiError: an earlier version cannot be parsed.
        """
        if level is CompatibilityLevel.NONE or not earlier:
            return ()
        versions = [stored.value.version for stored, _ in earlier]
        parsed = [self.parse(resolved) for _, resolved in earlier]
        return self._languages.check(new, parsed, level, versions=versions, lenient=lenient)

    def formatted(self, resolved: Resolved, style: str) -> str:
        """Return the text of a schema in another format.

        Raises:
            ApiError: the language has no such format.
        """
        parsed = self.parse(resolved)
        try:
            return self._languages.formatted(parsed, resolved.schema, style)
        except KafkaError as error:
            raise self.refusal(resolved.schema.schema_type, str(error)) from error

    @staticmethod
    def refusal(schema_type: SchemaType, details: str) -> ApiError:
        """Return the error of a schema that cannot be parsed."""
        return invalid_schema(f"Invalid schema of type {schema_type.value}, details: {details}")


_DEPTH_MAX: Final = 100


def _same_metadata(schema: Schema, stored: StoredSchema) -> bool:
    """Compare metadata; `confluent:version` may be missing on one side, if it is the version on the other."""
    ours, theirs = schema.metadata, stored.value.schema.metadata
    our_version, their_version = confluent_version(ours), confluent_version(theirs)
    if (our_version is None) == (their_version is None):
        return ours == theirs
    if our_version is not None and our_version != str(stored.value.version):
        return False
    first, second = without_confluent_version(ours), without_confluent_version(theirs)
    return (first.to_json() if first else {}) == (second.to_json() if second else {})

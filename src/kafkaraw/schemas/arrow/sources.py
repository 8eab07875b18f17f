"""Where decoding gets schemas: a registry, with the texts of references in an order that can be loaded.

`SchemaSource` is the part of `Registry` that this package uses. Start there.
"""

from __future__ import annotations

from typing import Protocol

from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaBundle


class SchemaSource(Protocol):
    """The methods of a `Registry` that decoding calls; each caches its answers."""

    def schema_by_id(self, schema_id: int, /) -> RegisteredSchema:
        """Return the schema with an id."""
        ...

    def schema_by_guid(self, guid: str, /) -> RegisteredSchema:
        """Return the schema with a GUID."""
        ...

    def bundle(self, schema: Schema, /) -> SchemaBundle:
        """Return the schema with its references."""
        ...


def referenced(bundle: SchemaBundle) -> tuple[tuple[str, str], ...]:
    """Return names and texts that a bundle refers to, once each, those first to which others refer."""
    found: dict[tuple[str, str], None] = {}

    def collect(each: SchemaBundle) -> None:
        for name, deeper in each.references.items():
            collect(deeper)
            found[name, deeper.schema.text] = None

    collect(bundle)
    return tuple(found)

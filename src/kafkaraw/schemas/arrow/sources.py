"""Where decoding gets schemas: a registry, with the texts of references in an order that can be loaded.

`SchemaSource` is the part of `Registry` that this package uses. Start there.
"""

from __future__ import annotations

from typing import Protocol

from kafkaraw.errors import UsageError
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


def check_rules(registered: RegisteredSchema, *, ignore_rules: bool) -> None:
    """Refuse a schema whose rules, such as encryption, would have to run: to skip them silently is worse than to fail.

    Raises:
        UsageError: the schema has rules that are not disabled.
    """
    rules = registered.schema.rule_set
    if ignore_rules or rules is None:
        return
    every = (*rules.domain_rules, *rules.migration_rules, *rules.encoding_rules)
    active = [f"{rule.get('name')} ({rule.get('type')})" for rule in every if not rule.get("disabled")]
    if active:
        raise UsageError(
            f"schema {registered.id} has rules, which kafkaraw does not run: {', '.join(active[:5])}. Fields that they "
            "encrypt would stay as they are; ignore_rules=True (in Spark ignoreSchemaRules=true) goes on without them"
        )

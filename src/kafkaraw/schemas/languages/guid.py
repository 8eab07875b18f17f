"""The GUID of a schema, as Confluent's registry computes it, so that every registry gives a schema the same one.

It is the MD5 digest of text, references, metadata and rules, in the order of
`io.confluent.kafka.schemaregistry.client.rest.entities.Schema.updateHash` (client of Confluent Platform 8), written as
a UUID. It depends on the text that the registry stores, which is the canonical one. Must not do I/O.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from hashlib import md5
from typing import Any, Final

from kafkaraw.schemas.languages.java_order import in_text_order
from kafkaraw.schemas.model import Metadata, RuleSet, Schema

_DEFAULTS: Final = {"kind": "TRANSFORM", "mode": "WRITEREAD"}
"""What Confluent's `Rule` has where the JSON object has nothing."""


def guid_of(schema: Schema) -> str:
    """Return the GUID of a schema whose text is the one that the registry stores (`canonical_text`)."""
    digest = md5(schema.text.encode(), usedforsecurity=False)
    for reference in schema.references:
        digest.update(reference.name.encode() + reference.subject.encode())
        digest.update((reference.version & 0xFFFFFFFF).to_bytes(4, "big"))
    if schema.metadata is not None:
        digest.update(b"\1")
        digest.update("".join(_metadata_parts(schema.metadata)).encode())
    if schema.rule_set is not None:
        digest.update(b"\1")
        for part in _rule_parts(schema.rule_set):
            digest.update(part)
    return str(uuid.UUID(bytes=digest.digest()))


def _metadata_parts(metadata: Metadata) -> Iterator[str]:
    for path in in_text_order(metadata.tags):  # Confluent keeps tags and properties in sorted maps
        yield path
        yield from in_text_order(set(metadata.tags[path]))
    for name in in_text_order(metadata.properties):
        yield name
        yield metadata.properties[name]
    yield from in_text_order(set(metadata.sensitive))


def _rule_parts(rules: RuleSet) -> Iterator[bytes]:
    for rule in (*rules.migration_rules, *rules.domain_rules, *rules.encoding_rules):
        for name in ("name", "doc", "kind", "mode", "type"):
            yield _text(rule, name, _DEFAULTS.get(name))
        yield from _texts(in_text_order(set(rule.get("tags") or ())))
        params = rule.get("params") or {}
        yield from _texts(part for name in in_text_order(params) for part in (name, params[name]))
        for name in ("expr", "onSuccess", "onFailure"):
            yield _text(rule, name)
        if rule.get("disabled"):
            yield b"\1"
    yield (rules.enable_at or "").encode()


def _text(rule: Mapping[str, Any], name: str, default: str | None = None) -> bytes:
    value = rule.get(name)
    return str((default or "") if value is None else value).encode()


def _texts(values: Iterable[Any]) -> Iterator[bytes]:
    return (str(value).encode() for value in values)

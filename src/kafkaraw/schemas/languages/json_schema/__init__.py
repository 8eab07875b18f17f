"""JSON schemas: read, write as the registry does, normalize, compare, and validate values.

Drafts 4, 6, 7, 2019-09 and 2020-12. The text is never the instruction to fetch anything: a `$ref` finds parts of the
schema, the schemas of the bundle and the metaschemas. Must not do I/O. Start at `parse_json_schema`.
"""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import blake2b
from typing import Final

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages.json_schema.differences import compare_json
from kafkaraw.schemas.languages.json_schema.documents import Documents, draft_of
from kafkaraw.schemas.languages.json_schema.loading import Loader
from kafkaraw.schemas.languages.json_schema.nodes import Node
from kafkaraw.schemas.languages.limits import Json, check_bundle, check_encodable, json_text, load_json
from kafkaraw.schemas.languages.parsed import Incompatibility, ParsedSchema
from kafkaraw.schemas.model import SchemaBundle, SchemaType


def parse_json_schema(bundle: SchemaBundle, *, validate: bool = True) -> JsonSchema:
    """Read a JSON schema with its references.

    Args:
        bundle: the schema and what it references.
        validate: changes nothing: the registry applies the same checks to new schemas and to old ones.

    Raises:
        SchemaParseError: the schema or a reference is wrong or exceeds a limit; says where.
    """
    return JsonSchema(bundle)


class JsonSchema:
    """A parsed JSON schema."""

    schema_type = SchemaType.JSON

    def __init__(self, bundle: SchemaBundle) -> None:
        self.references: tuple[tuple[str, SchemaBundle], ...] = check_bundle(bundle)
        contents = _load(bundle.schema.text)
        if not isinstance(contents, dict | bool):
            raise SchemaParseError("a JSON schema must be an object or a boolean; write one", path="#")
        self._contents = contents
        self._text = bundle.schema.text
        self.draft: str = draft_of(contents)
        self.canonical_text: str = json_text(contents)
        check_encodable(self.canonical_text)
        referenced = [(name, _load(one.schema.text)) for name, one in self.references]
        self.closure: tuple[str, tuple[tuple[str, str], ...]] = (
            self.canonical_text,
            tuple((name, json_text(one)) for name, one in referenced),
        )
        self.documents: Documents = Documents(contents, referenced)
        loader = Loader(self.documents, self.draft)
        try:
            self.root: Node = loader.load()
        except RecursionError:
            raise SchemaParseError("the schema is nested too deep; use $defs and $ref") from None
        self.patterns: frozenset[str] = frozenset(loader.patterns)

    @property
    def name(self) -> str | None:
        """The title, as in Confluent's `JsonSchema.name`."""
        title = self._contents.get("title") if isinstance(self._contents, dict) else None
        return title if isinstance(title, str) else None if title is None else json_text(title)

    @cached_property
    def normalized_text(self) -> str:
        """The text with the names of all objects sorted."""
        return json_text(_sorted(self._contents))

    @cached_property
    def native(self) -> Json:
        """The schema as dictionaries and lists, with floating-point numbers."""
        return json.loads(self._text)

    @cached_property
    def identity(self) -> bytes:
        """Equal for schemas with the same texts and references."""
        return blake2b(repr(self.closure).encode(), digest_size=16).digest()

    @cached_property
    def frame(self) -> str | None:
        """What an object says besides its properties; None if the schema is more than one object."""
        if not isinstance(self._contents, dict) or self.root.kind != "object" or not self.root.is_closed:
            return None
        return json_text({name: one for name, one in sorted(self._contents.items()) if name not in _INDEPENDENT})

    def incompatibilities(
        self, writer: ParsedSchema, *, lenient: bool = False, changes: object = None
    ) -> tuple[Incompatibility, ...]:
        """Return why this schema may refuse what the writer's accepts; nothing if it accepts all of it."""
        if not isinstance(writer, JsonSchema):
            raise TypeError(f"the writer's schema must be a JSON schema, not {writer.schema_type}")
        if self.closure == writer.closure:
            return ()
        names = changes if isinstance(changes, frozenset) and writer.root.kind == self.root.kind == "object" else None
        same_draft = self.draft == writer.draft
        return compare_json(writer.root, self.root, lenient=lenient, same_draft=same_draft, properties=names)

    def changes_since(self, latest: ParsedSchema) -> frozenset[str] | None:
        """Return the names of properties that differ from the version before; None if other things differ, too."""
        if not isinstance(latest, JsonSchema) or self.draft != latest.draft or self.frame is None:
            return None
        if self.frame != latest.frame:
            return None
        names = {name for name, _ in self.root.property_keys[0] ^ latest.root.property_keys[0]}
        required, required_before = (set(one.values.get("required", ())) for one in (self.root, latest.root))
        return frozenset(names | (required ^ required_before))

    def has_top_level_field(self, name: str) -> bool:
        """Return whether the schema has this property."""
        properties = self._contents.get("properties") if isinstance(self._contents, dict) else None
        return isinstance(properties, dict) and name in properties


_INDEPENDENT: Final = frozenset(
    ("$id", "$comment", "$schema", "title", "description", "default", "examples", "properties", "required")
)
"""Keywords of an object that do not decide what its other keywords mean."""


def _load(text: str) -> Json:
    return load_json(text, decimals=True)


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(one) for one in value]
    return value

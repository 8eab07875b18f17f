"""Parsing of schemas for the registry: references out of the state, parsed schemas kept, comparisons by content.

`Parser` resolves references on the event loop, where the state belongs; `parse` and what follows may run on another
thread, because they only see frozen objects. Start at `Parser.resolve`.
Source: Confluent's AbstractSchemaProvider and ParsedSchema.canLookup.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import KeysView, Sequence
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.schemas.model import CompatibilityLevel, Schema, SchemaBundle, SchemaReference, SchemaType
from kafkaraw.schemas.server.api_errors import ApiError, invalid_schema
from kafkaraw.schemas.server.names import in_context_of
from kafkaraw.schemas.server.requests import confluent_version, without_confluent_version
from kafkaraw.schemas.server.state import State, StoredSchema

CACHED_SCHEMAS_MAX: Final = 10_000
CACHED_CHARACTERS_MAX: Final = 8 << 20
"""Limits of what is kept, by number and by size of texts with what they reference. The least recently used are dropped.
A parsed schema takes up to 35 bytes per character of its text."""
_REFERENCES_MAX: Final = 1_000
_REFERENCE_DEPTH_MAX: Final = 100

_Place = tuple[str, int]
_K = TypeVar("_K")
_V = TypeVar("_V")


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
        earlier: Sequence[Parsed],
        level: CompatibilityLevel,
        *,
        versions: Sequence[int],
        lenient: bool,
    ) -> tuple[str, ...]:
        """Return why a level forbids a schema, given the earlier versions in order; empty if it does not."""

    def guid_of(self, schema: Schema) -> str:
        """Return the GUID of a schema."""

    def formatted(self, parsed: Parsed, schema: Schema, style: str) -> str:
        """Return the text of a schema in another format, such as `serialized`; raises SchemaParseError."""

    def has_top_level_field(self, parsed: Parsed, name: str) -> bool:
        """Return whether a schema has a field of this name at its top."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A schema with everything that it references.

    Attributes:
        schema: the schema, whose references name versions.
        bundle: what is parsed.
        key: what makes the result of parsing it the same; begins with the language and the text.
        characters: of its text and of the texts that it references.
    """

    schema: Schema
    bundle: SchemaBundle
    key: tuple[object, ...]
    characters: int


class _Kept(Generic[_K, _V]):
    """A map that drops what was used least recently when it has too many entries, or too many characters."""

    def __init__(self) -> None:
        self._entries: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._characters = 0

    def get(self, key: _K) -> _V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: _K, value: _V, characters: int) -> None:
        _, before = self._entries.pop(key, (None, 0))
        self._entries[key] = (value, characters)
        self._characters += characters - before
        while len(self._entries) > CACHED_SCHEMAS_MAX or self._characters > CACHED_CHARACTERS_MAX:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._characters -= dropped

    def get_all(self, keys: Sequence[_K]) -> list[_V | None]:
        """Return many values at once; they do not count as used."""
        nothing = (None, 0)
        get = self._entries.get
        return [get(key, nothing)[0] for key in keys]

    def keys(self) -> KeysView[_K]:
        return self._entries.keys()

    def __contains__(self, key: _K) -> bool:
        return key in self._entries


Known = tuple[StoredSchema, "Parsed | Resolved"]
"""A version of a subject, parsed, or ready to be parsed."""


class Parser:
    """Parses schemas, and keeps what it has parsed.

    Args:
        languages: the schema languages.
        state: where references are looked up.
    """

    def __init__(self, languages: Languages, state: State) -> None:
        self._languages = languages
        self._state = state
        self._lock = threading.Lock()
        self._cache: _Kept[tuple[object, ...], Parsed] = _Kept()
        # Versions without references, by offset: a subject of 1,000 versions looks 1,000 of them up for each new one.
        self._versions: _Kept[int, tuple[StoredSchema, Parsed]] = _Kept()
        self._canonical_texts: dict[SchemaType, _Kept[str, None]] = {kind: _Kept() for kind in SchemaType}

    @property
    def languages(self) -> Languages:
        """The schema languages."""
        return self._languages

    # -- on the event loop

    def resolve(self, schema: Schema, subject: str, *, deleted: bool = True) -> Resolved:
        """Look up what a schema references.

        Args:
            schema: the schema; references to version -1 mean the latest one.
            subject: its subject, whose context its references are in.
            deleted: whether references to versions that are deleted softly are accepted.

        Raises:
            ApiError: a reference leads nowhere, or in a circle.
        """
        if not schema.references:
            return Resolved(schema, SchemaBundle(schema), (schema.schema_type, schema.text), len(schema.text))
        seen: dict[_Place, tuple[SchemaBundle, str]] = {}
        references, found = self._referenced(schema, subject, deleted, seen, ())
        schema = replace(schema, references=references)
        contents = frozenset((place, guid) for place, (_, guid) in seen.items())
        key = (schema.schema_type, schema.text, references, contents)
        characters = len(schema.text) + sum(len(bundle.schema.text) for bundle, _ in seen.values())
        return Resolved(schema, SchemaBundle(schema, found), key, characters)

    def _referenced(
        self,
        schema: Schema,
        subject: str,
        deleted: bool,
        seen: dict[_Place, tuple[SchemaBundle, str]],
        path: tuple[_Place, ...],
    ) -> tuple[tuple[SchemaReference, ...], dict[str, SchemaBundle]]:
        references: list[SchemaReference] = []
        found: dict[str, SchemaBundle] = {}
        for reference in schema.references:
            target = in_context_of(subject, reference.subject)
            stored = self._state.version(target, reference.version, deleted=deleted)
            if stored is None:
                missing = f'No schema reference found for subject "{target}" and version {reference.version}'
                raise self.refusal(schema.schema_type, missing)
            place = (target, stored.value.version)
            references.append(replace(reference, version=place[1]))
            if place not in seen:
                self._check_path(schema.schema_type, place, path, len(seen))
                inner = stored.value.schema
                _, below = self._referenced(inner, target, True, seen, (*path, place))
                seen[place] = (SchemaBundle(inner, below), stored.guid)
            found.setdefault(reference.name, seen[place][0])
        return tuple(references), found

    def _check_path(self, schema_type: SchemaType, place: _Place, path: tuple[_Place, ...], count: int) -> None:
        subject, version = place
        if place in path:
            raise self.refusal(schema_type, f"the references of subject {subject!r} version {version} form a circle")
        if count >= _REFERENCES_MAX or len(path) >= _REFERENCE_DEPTH_MAX:
            limits = f"more than {_REFERENCES_MAX} references, or {_REFERENCE_DEPTH_MAX} levels of them"
            raise self.refusal(schema_type, f"{limits}, at subject {subject!r} version {version}")

    def resolve_stored(self, stored: StoredSchema) -> Resolved:
        """Look up what a version references."""
        return self.resolve(stored.value.schema, stored.value.subject)

    def known(self, versions: Sequence[StoredSchema]) -> list[Known]:
        """Return versions for `check`, with what they reference looked up.

        Raises:
            ApiError: a reference leads nowhere, or in a circle.
        """
        with self._lock:
            found = self._versions.get_all([stored.offset for stored in versions])
        return [
            one if one is not None and one[0] is stored else (stored, self.resolve_stored(stored))
            for one, stored in zip(found, versions, strict=True)
        ]

    def candidates(self, schema: Schema, versions: Sequence[StoredSchema]) -> list[Known]:
        """Return the versions that `find_equal` has to look at: those whose texts are equal or not canonical."""
        with self._lock:
            canonical = self._canonical_texts[schema.schema_type].keys()
            texts = [(stored.value.schema.text, stored) for stored in versions]
            selected = [stored for text, stored in texts if text == schema.text or text not in canonical]
        found: list[Known] = []
        for stored in selected:
            with suppress(ApiError):  # its references are gone, so nothing equals it
                found += self.known([stored])
        return found

    # -- on any thread

    def parse(self, resolved: Resolved, *, validate: bool = False) -> Parsed:
        """Parse a schema, or return what was parsed before.

        Args:
            resolved: the schema.
            validate: check it as a new schema; one that a registry has accepted before may be laxer.

        Raises:
            ApiError: it is no schema of its language, or exceeds a limit.
        """
        key = (*resolved.key, "validated") if validate else resolved.key
        with self._lock:
            known = self._cache.get(key)
        if known is not None:
            return known
        try:
            parsed = self._languages.parse(resolved.bundle, validate=validate)
        except (KafkaError, RecursionError) as error:
            raise self.refusal(resolved.schema.schema_type, str(error)) from error
        self._keep(key, parsed, resolved.characters)
        if validate:
            self._keep(resolved.key, parsed, resolved.characters)
        return parsed

    def _keep(self, key: tuple[object, ...], parsed: Parsed, characters: int) -> None:
        with self._lock:
            if key not in self._cache:
                self._cache.put(key, parsed, characters)

    def canonical(self, resolved: Resolved, *, normalize: bool, validate: bool = False) -> tuple[Schema, Parsed]:
        """Return a schema with the text that is stored, and its parsed form.

        Raises:
            ApiError: it is no schema of its language, or exceeds a limit.
        """
        parsed = self.parse(resolved, validate=validate)
        try:
            text = parsed.normalized_text if normalize else parsed.canonical_text
        except (KafkaError, RecursionError) as error:
            raise self.refusal(resolved.schema.schema_type, str(error)) from error
        if not normalize:
            self._keep((resolved.key[0], text, *resolved.key[2:]), parsed, resolved.characters)
            self._note_canonical(replace(resolved.schema, text=text))
        return replace(resolved.schema, text=text), parsed

    def _parsed(self, known: Known) -> Parsed:
        """Return a version, parsed.

        Raises:
            ApiError: it cannot be parsed.
        """
        stored, found = known
        if not isinstance(found, Resolved):
            return found
        parsed = self.parse(found)
        if not stored.value.schema.references:  # others may change with what they reference
            with self._lock:
                self._versions.put(stored.offset, (stored, parsed), found.characters)
        return parsed

    def _note_canonical(self, schema: Schema) -> None:
        """Remember that a text is canonical: a schema with another canonical text is not equal to it."""
        if schema.references:
            return
        with self._lock:
            self._canonical_texts[schema.schema_type].put(schema.text, None, len(schema.text))

    def find_equal(self, schema: Schema, candidates: Sequence[Known]) -> StoredSchema | None:
        """Return the first version with the content of a schema, whose text is canonical.

        Args:
            schema: the schema; its references name versions.
            candidates: where to search, in this order.
        """
        for known in candidates:
            stored, other = known[0], known[0].value.schema
            if other.schema_type is not schema.schema_type or other.rule_set != schema.rule_set:
                continue
            if schema.references != other.references or not _has_same_metadata(schema, stored):
                continue
            if other.text == schema.text:
                return stored
            try:
                text = self._parsed(known).canonical_text
            except ApiError:  # written by a registry that accepts more
                continue
            if text == schema.text:
                return stored
            if text == other.text:
                self._note_canonical(other)
        return None

    def check(
        self, new: Parsed, earlier: Sequence[Known], level: CompatibilityLevel, *, lenient: bool = False
    ) -> tuple[str, ...]:
        """Return why a level forbids a schema, given the earlier versions in order; empty if it does not.

        Raises:
            ApiError: an earlier version cannot be parsed.
        """
        if level is CompatibilityLevel.NONE or not earlier:
            return ()
        versions = [stored.value.version for stored, _ in earlier]
        parsed = list(map(self._parsed, earlier))
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


def _has_same_metadata(schema: Schema, stored: StoredSchema) -> bool:
    """Compare metadata; `confluent:version` may be missing on one side, if it is the version on the other."""
    ours, theirs = schema.metadata, stored.value.schema.metadata
    our_version, their_version = confluent_version(ours), confluent_version(theirs)
    if (our_version is None) == (their_version is None):
        return ours == theirs
    if our_version is not None and our_version != str(stored.value.version):
        return False
    first, second = without_confluent_version(ours), without_confluent_version(theirs)
    return (first.to_json() if first else {}) == (second.to_json() if second else {})

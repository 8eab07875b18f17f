"""What a registry knows: the state that the records of `_schemas` make, and the questions to it. Pure.

Every instance applies the same records in the same order and so has the same state. `State.apply` refuses records that
would give an id or a version twice: two instances that both took themselves for the primary have then written at the
same time, and the first one counts. Start at `State.apply`. Source: Confluent's InMemoryCache and
KafkaStoreMessageHandler.
"""

from __future__ import annotations

from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar
from uuid import UUID

from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.schemas.model import CompatibilityLevel, Schema
from kafkaraw.schemas.server.names import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    QualifiedSubject,
    SubjectFilter,
    context_of,
    context_prefix,
    in_context_of,
    is_context,
    matches,
)
from kafkaraw.schemas.server.records import (
    ConfigValue,
    DeleteSubjectValue,
    HighestId,
    Key,
    KeyType,
    ModeValue,
    RegistryMode,
    RegistryRecord,
    SchemaValue,
)

_V = TypeVar("_V")

LATEST: Final = -1
_GLOBAL_PREFIX: Final = f":{GLOBAL_CONTEXT}:"


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A version of a subject.

    Attributes:
        value: the record's value.
        offset: of the record in the topic.
        timestamp_ms: of the record.
        guid: the identifier that its content has in every registry.
    """

    value: SchemaValue
    offset: int
    timestamp_ms: int
    guid: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a record.

    Attributes:
        applied: whether it counts.
        reason: why not.
        previous: what the key had before; of SCHEMA records that do not count, it is what the key still has.
    """

    applied: bool
    reason: str = ""
    previous: SchemaValue | None = None


_APPLIED: Final = Outcome(True)


@dataclass(slots=True)
class _Context:
    """The ids of one context.

    Attributes:
        versions_by_id: id to subject to the version that was registered last with this id.
        id_by_guid: the id of a content.
        max_id: the highest id that was ever seen.
        kept_id: the highest id that a record of the topic names, which stays when its schema is deleted.
    """

    versions_by_id: dict[int, dict[str, int]] = field(default_factory=dict)
    id_by_guid: dict[str, int] = field(default_factory=dict)
    max_id: int = 0
    kept_id: int = 0


class State:
    """The state of a registry.

    Args:
        guid_of: returns the GUID of a schema.
        default_level: the level where no configuration sets one.

    Attributes:
        contexts: names of the contexts other than the default one.
        applied_offset: offset of the last record; -1 before the first one.
    """

    def __init__(
        self, guid_of: Callable[[Schema], str], default_level: CompatibilityLevel = CompatibilityLevel.BACKWARD
    ) -> None:
        self._guid_of = guid_of
        self._default = ConfigValue(compatibility_level=default_level)
        self._subjects: dict[str, dict[int, StoredSchema]] = {}
        self._contexts: defaultdict[str, _Context] = defaultdict(_Context)
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._configs: dict[str | None, ConfigValue] = {}
        self._modes: dict[str | None, RegistryMode] = {}
        self.contexts: set[str] = set()
        self.applied_offset: int = -1

    def clear(self) -> None:
        """Forget everything, before the topic is read from its beginning again."""
        for found in (self._subjects, self._contexts, self._referrers, self._configs, self._modes, self.contexts):
            found.clear()
        self.applied_offset = -1

    # -- records

    def apply(self, record: RegistryRecord, offset: int, timestamp_ms: int) -> Outcome:
        """Take note of a record of the topic, in the order of the topic.

        Returns:
            whether it counts. A SCHEMA record does not if its id belongs to another text already, or if it replaces
            another schema outside of an import.

        Raises:
            ValueError: the record has text that is no Unicode; the state is as before.
        """
        self.applied_offset = offset
        key, value = record.key, record.value
        if key.kind is KeyType.SCHEMA:
            assert key.subject is not None and key.version is not None
            if value is None:
                return self._forget(key.subject, key.version)
            assert isinstance(value, SchemaValue)
            return self._keep(key, value, offset, timestamp_ms)
        if key.kind is KeyType.CONFIG:
            _put(self._configs, key.subject, value if isinstance(value, ConfigValue) else None)
        elif key.kind is KeyType.MODE:
            _put(self._modes, key.subject, value.mode if isinstance(value, ModeValue) else None)
        elif key.kind is KeyType.CONTEXT and key.context is not None:
            (self.contexts.discard if value is None else self.contexts.add)(key.context)
        elif isinstance(value, HighestId) and key.context is not None:
            context = self._contexts[key.context]
            context.max_id, context.kept_id = max(context.max_id, value.id), max(context.kept_id, value.id)
        elif isinstance(value, DeleteSubjectValue) and key.subject is not None:
            self._delete_softly(key.subject, value.version)
        elif key.kind is KeyType.CLEAR_SUBJECT and value is not None:
            self._clear_deleted(key.subject)
        return _APPLIED

    def skip(self, offset: int) -> None:
        """Take note of a record that says nothing to this registry: damaged, foreign, or NOOP."""
        self.applied_offset = offset

    def _keep(self, key: Key, value: SchemaValue, offset: int, timestamp_ms: int) -> Outcome:
        assert key.subject is not None and key.version is not None
        value = replace(value, subject=key.subject, version=key.version)
        versions = self._subjects.get(key.subject, {})
        earlier = versions.get(key.version)
        refusal = self._refusal(value, earlier)
        if refusal is not None:
            return Outcome(False, refusal, None if earlier is None else earlier.value)
        guid = _guid_of_md5(value.md5) or self._guid_of(value.schema)
        if earlier is not None and earlier.value.id != value.id:  # an import replaces it
            self._forget(key.subject, key.version)
        self._subjects.setdefault(key.subject, {})[key.version] = StoredSchema(value, offset, timestamp_ms, guid)
        context = self._contexts[context_of(key.subject)]
        context.max_id = max(context.max_id, value.id)
        context.versions_by_id.setdefault(value.id, {})[key.subject] = key.version
        context.id_by_guid[guid] = value.id
        referrer = (context_of(key.subject), value.id)
        for target in _references_of(value):
            self._referrers.setdefault(target, set()).add(referrer)
        return Outcome(True, previous=None if earlier is None else earlier.value)

    def _refusal(self, value: SchemaValue, earlier: StoredSchema | None) -> str | None:
        known = self._contexts[context_of(value.subject)].versions_by_id.get(value.id, {})
        for subject, version in known.items():
            owner = self._subjects.get(subject, {}).get(version)
            if owner is not None and owner.value.schema.text != value.schema.text:
                return f"id {value.id} belongs to another schema, of subject {subject!r} version {version}"
            break
        if earlier is None or earlier.value.id == value.id:
            return None
        if self.mode_in_scope(value.subject).is_import_or_forward:
            return None
        return f"version {value.version} of subject {value.subject!r} has another schema, with id {earlier.value.id}"

    def _forget(self, subject: str, version: int) -> Outcome:
        versions = self._subjects.get(subject, {})
        gone = versions.pop(version, None)
        if gone is None:
            return _APPLIED
        if not versions:
            self._subjects.pop(subject, None)
        name = context_of(subject)
        context = self._contexts[name]
        by_subject = context.versions_by_id.get(gone.value.id, {})
        if by_subject.get(subject) == version:
            del by_subject[subject]
            others = [other for other, stored in versions.items() if stored.value.id == gone.value.id]
            if others:
                by_subject[subject] = max(others)
            if not by_subject:
                del context.versions_by_id[gone.value.id]
                context.id_by_guid.pop(gone.guid, None)
        if gone.value.id in context.versions_by_id:  # another version still references the same
            return Outcome(True, previous=gone.value)
        for target in _references_of(gone.value):
            referrers = self._referrers.get(target, set())
            referrers.discard((name, gone.value.id))
            if not referrers:
                self._referrers.pop(target, None)
        return Outcome(True, previous=gone.value)

    def _delete_softly(self, subject: str, until: int) -> None:
        versions = self._subjects.get(subject, {})
        for version, stored in versions.items():
            if version <= until and not stored.value.deleted:
                versions[version] = replace(stored, value=replace(stored.value, deleted=True))

    def _clear_deleted(self, subject: str | None) -> None:
        gone = [
            (name, version)
            for name, versions in self._subjects.items()
            if matches(name, subject)
            for version, stored in versions.items()
            if stored.value.deleted
        ]
        for name, version in gone:
            self._forget(name, version)

    # -- subjects and versions

    def versions(self, subject: str) -> list[StoredSchema]:
        """Return all versions of a subject in order, with those deleted softly."""
        found = self._subjects.get(subject, {})
        return [found[version] for version in sorted(found)]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema | None:
        """Return a version of a subject; `LATEST` is the latest one that is not deleted.

        Args:
            subject: the subject.
            version: the version.
            deleted: whether one that is deleted softly is returned, too.
        """
        if version == LATEST:
            return self.latest(subject)
        stored = self._subjects.get(subject, {}).get(version)
        return stored if stored is not None and (deleted or not stored.value.deleted) else None

    def latest(self, subject: str) -> StoredSchema | None:
        """Return the latest version of a subject that is not deleted."""
        found = self._subjects.get(subject, {})
        current = [version for version, stored in found.items() if not stored.value.deleted]
        return found[max(current)] if current else None

    def has_subjects(self, subject: str | None, *, deleted: bool) -> bool:
        """Return whether there is a subject of this name, or one in the context of this name.

        Args:
            subject: the name of a subject or a context; None for all.
            deleted: whether subjects count that are deleted softly.
        """
        if subject in self._subjects and (deleted or self._is_current(subject)):
            return True
        names = self._subjects if is_context(subject) else ()
        return any(matches(name, subject) and (deleted or self._is_current(name)) for name in names)

    def _is_current(self, subject: str) -> bool:
        return any(not stored.value.deleted for stored in self._subjects[subject].values())

    def subjects(self, selected: SubjectFilter, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """Return names of subjects in order.

        Args:
            selected: which names.
            deleted: whether those that are deleted softly are returned, too.
            deleted_only: whether only those are returned.
        """
        return sorted(
            name
            for name in self._subjects
            if ((deleted and not deleted_only) or self._is_current(name) != deleted_only) and selected(name)
        )

    def subjects_within(self, subject: str | None) -> list[str]:
        """Return the names of a subject, or of the subjects in a context, with those deleted softly, in order."""
        return sorted(name for name in self._subjects if matches(name, subject))

    def contexts_to_search(self, subject: str) -> Iterator[str]:
        """Yield a subject as it is and, if it names no context, with each context in order."""
        yield subject
        named = QualifiedSubject.parse(subject)
        if named.context == DEFAULT_CONTEXT:
            for context in sorted(self.contexts):
                yield str(QualifiedSubject(context, named.subject))

    def version_in_contexts(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema | None:
        """Return a version as `version` does; a subject that names no context is searched in all of them."""
        for name in self.contexts_to_search(subject):
            stored = self.version(name, version, deleted=deleted)
            if stored is not None:
                return stored
        return None

    # -- ids

    def next_id(self, subject: str) -> int:
        """Return an id that is free in the context of a subject."""
        return self._contexts[context_of(subject)].max_id + 1

    def ids_to_keep(self, deleted: Iterable[Key]) -> list[RegistryRecord]:
        """Return the records that must be in the topic before schemas are deleted, so that no id is given again."""
        names = sorted({context_of(key.subject) for key in deleted if key.subject is not None})
        found = [(name, self._contexts[name]) for name in names]
        return [
            RegistryRecord(Key(KeyType.NOOP, context=name), HighestId(context.max_id))
            for name, context in found
            if context.kept_id < context.max_id
        ]

    def max_id(self, subject: str | None) -> int:
        """Return the highest id of a context; 1 if there is none."""
        return max(self._contexts[DEFAULT_CONTEXT if subject is None else context_of(subject)].max_id, 1)

    def by_id(self, schema_id: int, subject: str | None) -> StoredSchema | None:
        """Return a version that has an id.

        Args:
            schema_id: the id.
            subject: prefer this subject; its context is searched, and if it names none, all others, too.
        """
        named = QualifiedSubject.parse(subject or "")
        if not named.subject:
            return self._any_with_id(named.context, schema_id)
        for name in self.contexts_to_search(str(named)):
            version = self._contexts[context_of(name)].versions_by_id.get(schema_id, {}).get(name)
            if version is not None:
                return self._subjects[name][version]
        return self._any_with_id(named.context, schema_id) if named.context == DEFAULT_CONTEXT else None

    def _any_with_id(self, context: str, schema_id: int) -> StoredSchema | None:
        for subject, version in self._contexts[context].versions_by_id.get(schema_id, {}).items():
            return self._subjects[subject][version]
        return None

    def versions_with_id(self, stored: StoredSchema, *, deleted: bool) -> list[StoredSchema]:
        """Return the last version of each subject that has the id of a version, in its context."""
        known = self._contexts[context_of(stored.value.subject)].versions_by_id.get(stored.value.id, {})
        found = [self._subjects[subject][version] for subject, version in known.items()]
        return [one for one in found if deleted or not one.value.deleted]

    def id_of_content(self, subject: str, schema: Schema) -> int | None:
        """Return the id that a content has in the context of a subject."""
        context = self._contexts[context_of(subject)]
        number = context.id_by_guid.get(self._guid_of(schema))
        return number if number in context.versions_by_id else None

    def version_with_id(self, subject: str, schema_id: int) -> int | None:
        """Return the version of a subject that was registered last with an id."""
        return self._contexts[context_of(subject)].versions_by_id.get(schema_id, {}).get(subject)

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """Return contexts and ids of a content, in order; the default context is the first one."""
        found = [
            (name, self._contexts[name].id_by_guid.get(guid)) for name in (DEFAULT_CONTEXT, *sorted(self.contexts))
        ]
        return [(name, number) for name, number in found if number is not None]

    def by_guid(self, guid: str) -> StoredSchema | None:
        """Return a version with this content."""
        for context, number in self.ids_of_guid(guid):
            return self._any_with_id(context, number)
        return None

    # -- references

    def referrers(self, subject: str, version: int, *, deleted: bool) -> list[tuple[str, int]]:
        """Return contexts and ids of the schemas that reference a version, in order.

        Args:
            subject: the subject.
            version: its version.
            deleted: whether schemas count that are deleted softly everywhere.
        """
        found = self._referrers.get((subject, version), set())
        return sorted(one for one in found if deleted or self._is_id_current(*one))

    def referring_subjects(self, subject: str, version: int, *, deleted: bool) -> set[str]:
        """Return the subjects with schemas that reference a version."""
        names: set[str] = set()
        for context, number in self._referrers.get((subject, version), set()):
            known = self._contexts[context].versions_by_id.get(number, {})
            names.update(name for name, at in known.items() if deleted or not self._subjects[name][at].value.deleted)
        return names

    def _is_id_current(self, context: str, number: int) -> bool:
        known = self._contexts[context].versions_by_id.get(number, {})
        return any(not self._subjects[name][version].value.deleted for name, version in known.items())

    # -- configurations and modes

    def config(self, subject: str | None) -> ConfigValue | None:
        """Return the configuration of a subject, a context or the registry; None if a subject has none of its own."""
        found = self._configs.get(subject)
        if found is not None:
            return self._with_level(found)
        return self._default if _is_top(subject) else None

    def stored_config(self, subject: str | None) -> ConfigValue | None:
        """Return the configuration as it is stored."""
        return self._configs.get(subject)

    def config_in_scope(self, subject: str | None) -> ConfigValue:
        """Return the configuration that counts for a subject: its own, its context's, the global one, the default."""
        own = self._configs.get(subject)
        if own is None:
            return self._with_level(self._inherited(self._configs, subject) or self._default)
        top = self.config(None)
        if subject is None or top is None:
            return self._with_level(own)
        inherited = {name: getattr(top, name) for name in _INHERITED_FIELDS if getattr(own, name) is None}
        return self._with_level(replace(own, **inherited))

    def _with_level(self, found: ConfigValue) -> ConfigValue:
        if found.compatibility_level is not None:
            return found
        return replace(found, compatibility_level=self._default.compatibility_level)

    def aliases(self) -> list[tuple[str, str]]:
        """Return the names that stand for another subject, with that subject, in order."""
        found = [(name, config.alias) for name, config in self._configs.items() if name is not None]
        return sorted((name, alias) for name, alias in found if alias)

    def mode(self, subject: str | None) -> RegistryMode | None:
        """Return the mode of a subject, a context or the registry; None if a subject has none of its own."""
        found = self._modes.get(subject)
        if found is not None:
            return found
        return RegistryMode.READWRITE if _is_top(subject) else None

    def has_own(self, kind: KeyType, subject: str) -> bool:
        """Return whether a subject has a configuration or a mode of its own."""
        return subject in (self._configs if kind is KeyType.CONFIG else self._modes)

    def mode_in_scope(self, subject: str | None) -> RegistryMode:
        """Return the mode that counts for a subject: its own, its context's, the global one, READWRITE."""
        own = self._modes.get(subject)
        return own or self._inherited(self._modes, subject) or RegistryMode.READWRITE

    def modes_within(self, prefix: str) -> list[str]:
        """Return the subjects of a context that have a mode, in order; an empty prefix is the default context."""
        return sorted(name for name in self._modes if name is not None and context_prefix(name) == prefix)

    @staticmethod
    def _inherited(found: dict[str | None, _V], subject: str | None) -> _V | None:
        context = found.get(context_prefix(subject) or None)
        return found.get(_GLOBAL_PREFIX) if context is None else context


_INHERITED_FIELDS: Final = (
    "normalize",
    "validate_fields",
    "validate_new_schemas",
    "validate_rules",
    "compatibility_policy",
    "compatibility_group",
)


def _put(found: dict[str | None, _V], subject: str | None, value: _V | None) -> None:
    if value is None:
        found.pop(subject, None)
    else:
        found[subject] = value


def _is_top(subject: str | None) -> bool:
    return subject is None or QualifiedSubject.parse(subject).context == GLOBAL_CONTEXT


def _references_of(value: SchemaValue) -> Iterator[tuple[str, int]]:
    for reference in value.schema.references:
        yield in_context_of(value.subject, reference.subject), reference.version


def _guid_of_md5(md5: str | None) -> str | None:
    """Return the GUID of a stored hash, which is its base64; None if there is none or it is damaged."""
    if md5 is None:
        return None
    try:
        digest = b64decode(md5, validate=True)
    except ValueError:
        return None
    return str(UUID(bytes=digest)) if len(digest) == _MD5_BYTES else None


_MD5_BYTES: Final = 16

"""The operations of a schema registry: a request and the state make records and an answer.

Reads answer from the state. A write holds the write lock: it catches up with the log, plans its records from the state,
writes them, and reads them back. If the state refuses one of them, because another instance that also took itself for
the primary was first, the write is rolled back and planned again: an id or a version is never answered twice.
Parsing and comparing run on worker threads, so a large schema delays no other request.

Must not know HTTP. Start at `RegistryService.register`. Source: Confluent's KafkaSchemaRegistry,
AbstractSchemaRegistry and rest.resources.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from kafkaraw.errors import KafkaError, KafkaTimeoutError, RecordTooLargeError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.schemas.model import CompatibilityLevel, Schema, SchemaType
from kafkaraw.schemas.server import answers, api_errors
from kafkaraw.schemas.server.api_errors import ApiError
from kafkaraw.schemas.server.log import SchemaLog
from kafkaraw.schemas.server.names import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    SubjectFilter,
    context_of,
    context_prefix,
    in_context_of,
    is_context,
    is_default_context,
    is_valid,
    normalize,
)
from kafkaraw.schemas.server.parsing import Languages, Parsed, Parser, Resolved
from kafkaraw.schemas.server.records import (
    NUMBER_MAX,
    ConfigValue,
    DeleteSubjectValue,
    Key,
    KeyType,
    Marker,
    ModeValue,
    RegistryMode,
    RegistryRecord,
    SchemaValue,
)
from kafkaraw.schemas.server.requests import (
    UNASSIGNED,
    SchemaRequest,
    config_answer,
    confluent_version,
    merged_metadata,
    merged_rules,
    mode_of,
    updated_config,
    with_confluent_version,
)
from kafkaraw.schemas.server.state import LATEST, State, StoredSchema

log: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

WRITE_ATTEMPTS: Final = 5
"""How often a write is planned when another instance writes the same ids or versions at the same time."""
TURN_TIMEOUT_S: Final = 30.0
"""How long a write waits for the writes before it, in seconds: each of them may wait for a Kafka that is down."""
SCHEMAS_LIMIT: Final = 1_000
"""Schemas in one answer of `GET /schemas`, as in Confluent's default."""
_WORKERS: Final = 2


class NotPrimaryError(Exception):
    """Another instance is the primary: forward the request to it.

    Args:
        url: its URL; None when no primary is known.
    """

    def __init__(self, url: str | None) -> None:
        super().__init__(url or "no primary is known")
        self.url = url


class Leadership:
    """Which instance is the primary. This base class is for a registry of one instance."""

    @property
    def is_primary(self) -> bool:
        """Whether this instance writes."""
        return True

    @property
    def primary_url(self) -> str | None:
        """The URL of the primary; None when it is unknown."""
        return None

    async def settle(self) -> None:
        """Wait while the primary is being elected."""

    async def has_replaced(self, url: str) -> bool:
        """Wait until another instance than the one of this URL is the primary; return whether that has happened."""
        return False


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted.

    Attributes:
        offset: how many entries to skip.
        limit: how many to return; all, if it is not positive.
    """

    offset: int = 0
    limit: int = -1

    def of(self, found: Sequence[T], limit_max: int | None = None) -> list[T]:
        """Return the part of a list."""
        limit = self.limit if self.limit > 0 else len(found)
        if limit_max is not None:
            limit = min(limit, limit_max)
        first = max(self.offset, 0)
        return list(found[first : first + limit])


@dataclass(frozen=True, slots=True)
class _Plan:
    """Records to write, and the answer when they are written."""

    records: tuple[RegistryRecord, ...]
    answer: Any


@dataclass(frozen=True, slots=True)
class _Found:
    """A schema that the subject has.

    Attributes:
        schema: its content.
        version: its version.
        id: its id.
        guid: its GUID.
        stored: the version, if it was found by comparing; None if by its hash.
    """

    schema: Schema
    version: int
    id: int
    guid: str
    stored: StoredSchema | None = None

    def to_json(self, subject: str) -> dict[str, Any]:
        """Return the answer to a look-up."""
        if self.stored is not None:
            return answers.stored_schema(self.stored)
        return answers.found_schema(subject, self.version, self.id, self.guid, self.schema)


class RegistryService:
    """A schema registry.

    Args:
        schema_log: where the records are.
        languages: the schema languages.
        leadership: which instance writes; None for a registry of one instance.
        read_only: refuse every change.
        mode_changes: accept changes of modes.
        turn_timeout_s: how long a write waits for earlier ones, in seconds.
    """

    def __init__(
        self,
        schema_log: SchemaLog,
        languages: Languages,
        *,
        leadership: Leadership | None = None,
        read_only: bool = False,
        mode_changes: bool = True,
        turn_timeout_s: float = TURN_TIMEOUT_S,
    ) -> None:
        self._log = schema_log
        self._parser = Parser(languages, schema_log.state)
        self._leadership = leadership or Leadership()
        self._read_only = read_only
        self._mode_changes = mode_changes
        self._turn_timeout_s = turn_timeout_s
        self._write_lock = asyncio.Lock()
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="kafkaraw-registry")

    @property
    def state(self) -> State:
        """What the registry knows."""
        return self._log.state

    async def has_replaced(self, url: str) -> bool:
        """Wait until a primary that cannot be reached is replaced; return whether that has happened."""
        return await self._leadership.has_replaced(url)

    def close(self) -> None:
        """Give the worker threads up; a call that they are at ends by itself."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    # -- schemas by id

    async def schema_by_id(
        self, schema_id: int, subject: str | None, *, style: str = "", reference_style: str = "", with_max: bool = False
    ) -> dict[str, Any]:
        """Answer `GET /schemas/ids/{id}`."""
        stored = self._with_id(schema_id, subject)
        text = await self._formatted(stored, style)
        max_id = self.state.max_id(stored.value.subject) if with_max else None
        answer = answers.schema_by_id(stored, with_subject=subject is not None, text=text, max_id=max_id)
        return self._qualified(answer, stored, reference_style)

    async def text_by_id(self, schema_id: int, subject: str | None, *, style: str = "") -> str:
        """Answer `GET /schemas/ids/{id}/schema`."""
        stored = self._with_id(schema_id, subject)
        return await self._formatted(stored, style) or stored.value.schema.text

    async def schema_by_guid(self, guid: str, *, style: str = "") -> dict[str, Any]:
        """Answer `GET /schemas/guids/{guid}`."""
        stored = self.state.by_guid(guid.lower())
        if stored is None:
            raise api_errors.schema_not_found(guid)
        return answers.schema_by_id(stored, with_subject=False, text=await self._formatted(stored, style))

    def ids_of_guid(self, guid: str) -> list[dict[str, Any]]:
        """Answer `GET /schemas/guids/{guid}/ids`."""
        return [{"context": context, "id": number} for context, number in self.state.ids_of_guid(guid.lower())]

    def subjects_with_id(self, schema_id: int, subject: str | None, page: Page, *, deleted: bool) -> list[str]:
        """Answer `GET /schemas/ids/{id}/subjects`."""
        return page.of([stored.value.subject for stored in self._all_with_id(schema_id, subject, deleted)])

    def versions_with_id(
        self, schema_id: int, subject: str | None, page: Page, *, deleted: bool
    ) -> list[dict[str, Any]]:
        """Answer `GET /schemas/ids/{id}/versions`."""
        found = self._all_with_id(schema_id, subject, deleted)
        return page.of([{"subject": it.value.subject, "version": it.value.version} for it in found])

    def _with_id(self, schema_id: int, subject: str | None) -> StoredSchema:
        stored = self.state.by_id(schema_id, subject)
        if stored is None:
            raise api_errors.schema_not_found(schema_id)
        return stored

    def _all_with_id(self, schema_id: int, subject: str | None, deleted: bool) -> list[StoredSchema]:
        stored = self.state.by_id(schema_id, subject)
        if stored is None:
            raise api_errors.schema_not_found()
        return self.state.versions_with_id(stored, deleted=deleted)

    def all_schemas(
        self,
        prefix: str,
        page: Page,
        *,
        aliases: bool = False,
        deleted: bool = False,
        latest_only: bool = False,
        rule_type: str = "",
    ) -> list[dict[str, Any]]:
        """Answer `GET /schemas`."""
        selected = SubjectFilter(prefix)
        names = self.state.subjects(selected, deleted=deleted)
        by_subject = self._aliases(selected) if aliases else {}
        names = sorted({*names, *(name for name in by_subject if self.state.has_subjects(name, deleted=deleted))})
        found: list[StoredSchema] = []
        for name in names:
            versions = [it for it in self.state.versions(name) if deleted or not it.value.deleted]
            selected_versions = versions[-1:] if latest_only else versions
            found += [it for it in selected_versions if not rule_type or _has_rule(it, rule_type)]
        answered = [(it, answers.stored_schema(it)) for it in page.of(found, SCHEMAS_LIMIT)]
        for stored, answer in answered:
            if stored.value.subject in by_subject:
                answer["aliases"] = by_subject[stored.value.subject]
        return [answer for _, answer in answered]

    def _aliases(self, selected: SubjectFilter) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for subject, alias in self.state.aliases():
            if selected(subject):
                found.setdefault(in_context_of(subject, alias), []).append(subject)
        return found

    # -- subjects and versions

    def subjects(self, prefix: str, page: Page, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """Answer `GET /subjects`."""
        return page.of(self.state.subjects(SubjectFilter(prefix), deleted=deleted, deleted_only=deleted_only))

    def versions(
        self,
        subject: str,
        page: Page,
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        deleted_as_negative: bool = False,
    ) -> list[int]:
        """Answer `GET /subjects/{subject}/versions`."""
        subject = normalize(subject)
        if not self.state.has_subjects(subject, deleted=deleted or deleted_only):
            raise api_errors.subject_not_found(subject)
        found = []
        for stored in self.state.versions(subject):
            gone = stored.value.deleted
            if deleted_as_negative:
                found.append(-stored.value.version if gone else stored.value.version)
            elif gone if deleted_only else deleted or not gone:
                found.append(stored.value.version)
        return page.of(found)

    async def version(
        self, subject: str, version: int, *, deleted: bool = False, style: str = "", reference_style: str = ""
    ) -> dict[str, Any]:
        """Answer `GET /subjects/{subject}/versions/{version}`."""
        stored = self._version(normalize(subject), version, deleted=deleted)
        answer = answers.stored_schema(stored, await self._formatted(stored, style))
        return self._qualified(answer, stored, reference_style)

    async def version_text(self, subject: str, version: int, *, deleted: bool = False, style: str = "") -> str:
        """Answer `GET /subjects/{subject}/versions/{version}/schema`."""
        stored = self._version(normalize(subject), version, deleted=deleted)
        return await self._formatted(stored, style) or stored.value.schema.text

    def referenced_by(self, subject: str, version: int, page: Page, *, deleted: bool = False) -> list[int]:
        """Answer `GET /subjects/{subject}/versions/{version}/referencedby`."""
        value = self._version(normalize(subject), version, deleted=True).value
        found = self.state.referrers(value.subject, value.version, deleted=deleted)
        return page.of([number for _, number in found], SCHEMAS_LIMIT)

    async def latest_with_metadata(
        self, subject: str, wanted: Mapping[str, str], *, deleted: bool = False, style: str = ""
    ) -> dict[str, Any]:
        """Answer `GET /subjects/{subject}/metadata`."""
        subject = normalize(subject)
        for stored in reversed(self.state.versions(subject)):
            metadata = stored.value.schema.metadata
            if metadata is None or (stored.value.deleted and not deleted):
                continue
            if wanted.items() <= metadata.properties.items():
                return answers.stored_schema(stored, await self._formatted(stored, style))
        if not self.state.has_subjects(subject, deleted=deleted):
            raise api_errors.subject_not_found(subject)
        raise api_errors.schema_not_found()

    def _version(self, subject: str, version: int, *, deleted: bool) -> StoredSchema:
        stored = self.state.version_in_contexts(subject, version, deleted=deleted)
        if stored is not None:
            return stored
        if not self.state.has_subjects(subject, deleted=deleted):
            raise api_errors.subject_not_found(subject)
        raise api_errors.version_not_found(version)

    async def _formatted(self, stored: StoredSchema, style: str) -> str | None:
        if not style.strip():
            return None
        resolved = self._parser.resolve_stored(stored)
        return await self._on_worker(lambda: self._parser.formatted(resolved, style))

    @staticmethod
    def _qualified(answer: dict[str, Any], stored: StoredSchema, reference_style: str) -> dict[str, Any]:
        if reference_style == "qualified":
            references = answers.qualified_references(stored.value.subject, stored.value.schema.references)
            if references is not None:
                answer["references"] = references
        return answer

    # -- looking up, comparing

    async def lookup(
        self, subject: str, request: SchemaRequest, *, normalized: bool = False, deleted: bool = False, style: str = ""
    ) -> dict[str, Any]:
        """Answer `POST /subjects/{subject}`."""
        subject = normalize(subject)
        for number, name in enumerate(self.state.contexts_to_search(subject)):
            try:
                found = await self._look_up(name, request, normalized=normalized, deleted=deleted)
            except ApiError:
                if number == 0:
                    raise
                continue  # references may lead nowhere in another context
            if found is not None:
                answer = found.to_json(name)
                if style.strip():
                    resolved = self._parser.resolve(found.schema, name)
                    answer["schema"] = await self._on_worker(partial(self._parser.formatted, resolved, style))
                return answer
        if not self.state.has_subjects(subject, deleted=deleted):
            raise api_errors.subject_not_found(subject)
        raise api_errors.schema_not_found()

    async def _look_up(self, subject: str, request: SchemaRequest, *, normalized: bool, deleted: bool) -> _Found | None:
        found = await self._find(subject, request, normalized=normalized, deleted=deleted, latest_only=False)
        latest = self.state.latest(subject)
        if found is not None or latest is None:
            return found
        # A registration adds metadata and rules of the configuration and of the latest version, so look for them, too.
        complete = _with_metadata_and_rules(self.state.config_in_scope(subject), request, latest, None)
        if complete == request:
            return None
        return await self._find(subject, complete, normalized=normalized, deleted=deleted, latest_only=False)

    async def _find(
        self, subject: str, request: SchemaRequest, *, normalized: bool, deleted: bool, latest_only: bool
    ) -> _Found | None:
        """Return the version of a subject that has the content of a request."""
        if request.is_empty:
            return None
        resolved = self._parser.resolve(request.to_schema(), subject)
        normalized = self._normalizes(subject, normalized)
        schema, _ = await self._on_worker(lambda: self._parser.canonical(resolved, normalize=normalized))
        if not latest_only:
            found = self._by_hash(subject, schema, deleted=deleted)
            if found is not None:
                return found
        latest = self.state.latest(subject)
        if latest_only:
            versions = [] if latest is None else [latest]
        else:
            versions = [it for it in reversed(self.state.versions(subject)) if deleted or not it.value.deleted]
        stored = await self._equal(schema, versions)
        if stored is None:
            return None
        return _Found(stored.value.schema, stored.value.version, stored.value.id, stored.guid, stored)

    async def _equal(self, schema: Schema, versions: Sequence[StoredSchema]) -> StoredSchema | None:
        candidates = self._parser.candidates(schema, versions)
        return await self._on_worker(partial(self._parser.find_equal, schema, candidates)) if candidates else None

    def _by_hash(self, subject: str, schema: Schema, *, deleted: bool) -> _Found | None:
        number = self.state.id_of_content(subject, schema)
        if number is None:
            return None
        version = self.state.version_with_id(subject, number)
        if version is None:
            return None
        stored = self.state.version(subject, version, deleted=deleted)
        return None if stored is None else _Found(schema, version, number, stored.guid)

    def _normalizes(self, subject: str, asked: bool) -> bool:
        return asked or self.state.config_in_scope(subject).normalize is True

    async def check_compatibility(
        self, subject: str, request: SchemaRequest, *, version: int | None, normalized: bool, verbose: bool
    ) -> dict[str, Any]:
        """Answer `POST /compatibility/subjects/{subject}/versions[/{version}]`; version None compares with all."""
        subject = normalize(subject)
        if version is None:
            earlier = [it for it in self.state.versions(subject) if not it.value.deleted]
        else:
            stored = self.state.version(subject, version)
            if stored is None and version != LATEST:
                raise api_errors.version_not_found(version)
            earlier = [] if stored is None else [stored]
        try:
            resolved = self._parser.resolve(request.to_schema(), subject, deleted=False)
            normalized = self._normalizes(subject, normalized)
            messages = await self._incompatibilities(subject, resolved, earlier, normalized)
        except ApiError as error:
            if not verbose or error.status != api_errors.invalid_schema("").status:
                raise
            messages = (error.message,)
        answer: dict[str, Any] = {"is_compatible": not messages}
        if verbose:
            answer["messages"] = list(messages)
        return answer

    async def _incompatibilities(
        self, subject: str, resolved: Resolved, earlier: Sequence[StoredSchema], normalized: bool
    ) -> tuple[str, ...]:
        config = self.state.config_in_scope(subject)
        latest = earlier[-1].value.schema if earlier else None  # of every compatibility group
        if config.compatibility_group is not None:
            group = config.compatibility_group
            wanted = _property_of(resolved.schema, group)
            earlier = [it for it in earlier if _property_of(it.value.schema, group) == wanted]
        level = config.compatibility_level or CompatibilityLevel.BACKWARD
        if not level.value.endswith("_TRANSITIVE"):
            earlier = earlier[-1:]
        known = [] if level is CompatibilityLevel.NONE else self._parser.known(earlier)
        validate, lenient = config.validate_new_schemas is not False, config.compatibility_policy == "LENIENT"

        def check() -> tuple[str, ...]:
            _, parsed = self._parser.canonical(resolved, normalize=normalized, validate=validate)
            reserved = self._reserved_fields(parsed, resolved.schema, latest) if config.validate_fields else ()
            found = self._parser.check(parsed, known, level, lenient=lenient)
            if not found and not reserved:
                return ()
            fields = str(bool(config.validate_fields)).lower()
            return (*reserved, *found[:-1], f"{{validateFields: '{fields}', compatibility: '{level}'}}")

        return await self._on_worker(check)

    def _reserved_fields(self, parsed: Parsed, schema: Schema, latest: Schema | None) -> tuple[str, ...]:
        """Return the messages about reserved fields that a schema has, or reserves no longer."""
        reserved, before = _reserved(schema), _reserved(latest)
        gone = [
            f"The new schema has reserved field {name} removed from its metadata which is present in the old "
            "schema's metadata."
            for name in sorted(before - reserved)
        ]
        has_field = self._parser.languages.has_top_level_field
        taken = [
            f"The new schema has field that conflicts with the reserved field {name}."
            for name in sorted(reserved)
            if has_field(parsed, name)
        ]
        return (*gone, *taken)

    # -- registering

    async def register(
        self, subject: str, request: SchemaRequest, *, normalized: bool = False, force: bool = False
    ) -> dict[str, Any]:
        """Answer `POST /subjects/{subject}/versions`."""
        if not is_valid(subject):
            raise api_errors.invalid_subject(subject)
        subject = normalize(subject)
        known = await self._registered_already(subject, request, normalized)
        if known is not None:
            return answers.registered(known.to_json(subject))
        answer: dict[str, Any] = await self._write(
            lambda: self._plan_registration(subject, request, normalized, force),
            "Register",
            "Register schema operation failed while writing to the Kafka store",
        )
        return answer

    async def _registered_already(self, subject: str, request: SchemaRequest, normalized: bool) -> _Found | None:
        if self.state.config_in_scope(subject).has_defaults_or_overrides:
            return None
        is_latest = request.version == LATEST
        found = await self._find(subject, request, normalized=normalized, deleted=False, latest_only=is_latest)
        if found is None:
            return None
        if request.version == 0 or is_latest:
            return found if request.id < 0 or request.id == found.id else None
        if request.id != found.id:
            return None
        if request.version == found.version:
            return found
        older = self.state.version(subject, request.version)  # an import may have one schema in several versions
        if older is None or older.value.id != found.id or older.guid != found.guid:
            return None
        return _Found(older.value.schema, older.value.version, older.value.id, older.guid, older)

    async def _plan_registration(self, subject: str, request: SchemaRequest, normalized: bool, force: bool) -> _Plan:
        mode = self._check_register_mode(subject, request)
        versions = self.state.versions(subject)
        current = [it for it in versions if not it.value.deleted]
        next_version = versions[-1].value.version + 1 if versions else 1
        config = self.state.config_in_scope(subject)
        if not mode.is_import_or_forward:
            request = _completed(config, request, current[-1] if current else None, next_version)
        schema_id = request.id if mode is RegistryMode.IMPORT else UNASSIGNED
        resolved = self._parser.resolve(request.to_schema(), subject, deleted=schema_id >= 0)
        normalized = self._normalizes(subject, normalized) and not mode.is_import_or_forward
        validate = schema_id < 0 and config.validate_new_schemas is not False
        schema, _ = await self._on_worker(
            lambda: self._parser.canonical(resolved, normalize=normalized, validate=validate)
        )

        content_id = self.state.id_of_content(subject, schema)
        if content_id is not None and schema_id in (UNASSIGNED, content_id):
            found = self._by_hash(subject, schema, deleted=False)
            if request.version == 0 and found is not None:
                return _Plan((), answers.registered(found.to_json(subject)))
            schema_id = content_id
        if request.version == 0:
            equal = [it for it in reversed(current) if schema_id in (UNASSIGNED, it.value.id)]
            stored = await self._equal(schema, equal)
            if stored is not None:
                return _Plan((), answers.registered(answers.stored_schema(stored)))

        if not mode.is_import_or_forward and not force:
            messages = await self._incompatibilities(subject, resolved, current, normalized)
            if messages:
                raise api_errors.incompatible_schema(subject, messages)
        version = next_version if request.version <= 0 else request.version
        if version != next_version and not mode.is_import_or_forward:
            raise api_errors.invalid_schema("Version is not one more than previous version")
        if schema_id >= 0:
            self._check_id_free(subject, schema_id, schema)
        else:
            schema_id = self.state.next_id(subject)
        if schema_id > NUMBER_MAX or version > NUMBER_MAX:
            raise api_errors.numbers_used_up(subject, "id" if schema_id > NUMBER_MAX else "version")
        value = SchemaValue(subject, version, schema_id, schema)
        guid = self._parser.languages.guid_of(schema)
        records = (*self._new_context(subject), *self._superseded(value, versions), RegistryRecord(value.key, value))
        return _Plan(records, answers.registered(answers.found_schema(subject, version, schema_id, guid, schema)))

    def _check_register_mode(self, subject: str, request: SchemaRequest) -> RegistryMode:
        mode = self.state.mode_in_scope(subject)
        place = f"Subject {subject} in context {context_prefix(subject)}"
        if mode.is_read_only:
            raise api_errors.not_permitted(f"{place} is in read-only mode")
        if request.id >= 0:
            if not mode.is_import_or_forward:
                raise api_errors.not_permitted(f"{place} is not in import mode")
        elif mode is not RegistryMode.READWRITE:
            raise api_errors.not_permitted(f"{place} is not in read-write mode")
        return mode

    def _check_id_free(self, subject: str, schema_id: int, schema: Schema) -> None:
        prefix = context_prefix(subject)
        owner = self.state.by_id(schema_id, prefix or None)
        if (
            owner is not None
            and context_of(owner.value.subject) == context_of(subject)
            and owner.value.schema != schema
        ):
            text = f"Overwrite new schema with id {schema_id} in context {prefix} is not permitted."
            raise api_errors.not_permitted(text)

    def _new_context(self, subject: str) -> tuple[RegistryRecord, ...]:
        context = context_of(subject)
        if context == DEFAULT_CONTEXT or context in self.state.contexts:
            return ()
        return (RegistryRecord(Key(KeyType.CONTEXT, context=context), Marker()),)

    def _superseded(self, value: SchemaValue, versions: Sequence[StoredSchema]) -> tuple[RegistryRecord, ...]:
        """Return tombstones for versions that are deleted softly and have the id that is registered again."""
        return tuple(
            RegistryRecord(it.value.key, None)
            for it in versions
            if it.value.deleted and it.value.id == value.id and it.value.version < value.version
            if not self.state.referrers(it.value.subject, it.value.version, deleted=True)
        )

    # -- deleting

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Answer `DELETE /subjects/{subject}/versions/{version}`."""
        subject = normalize(subject)
        answer: int = await self._write(
            lambda: self._plan_version_deletion(subject, version, permanent),
            "Delete Schema Version",
            "Delete Schema Version operation failed while writing to the Kafka store",
        )
        return answer

    async def _plan_version_deletion(self, subject: str, version: int, permanent: bool) -> _Plan:
        stored = self.state.version(subject, version, deleted=True)
        if stored is None:
            if not self.state.has_subjects(subject, deleted=True):
                raise api_errors.subject_not_found(subject)
            raise api_errors.version_not_found(version)
        if stored.value.deleted and not permanent:
            raise api_errors.version_soft_deleted(subject, version)
        self._check_not_read_only(subject)
        key, number = stored.value.key, stored.value.version
        if self.state.referrers(subject, number, deleted=permanent):
            raise api_errors.reference_exists(key)
        if not permanent:
            return _Plan((RegistryRecord(key, replace(stored.value, deleted=True)),), number)
        if not stored.value.deleted:
            raise api_errors.version_not_soft_deleted(subject, number)
        rest = () if len(self.state.versions(subject)) > 1 else self._settings_tombstones(subject)
        return _Plan((RegistryRecord(key, None), *rest), number)

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Answer `DELETE /subjects/{subject}`."""
        subject = normalize(subject)
        answer: list[int] = await self._write(
            lambda: self._plan_subject_deletion(subject, permanent),
            "Delete subject",
            f"Error while deleting the subject {subject}",
        )
        return answer

    async def _plan_subject_deletion(self, subject: str, permanent: bool) -> _Plan:
        if not self.state.has_subjects(subject, deleted=True):
            raise api_errors.subject_not_found(subject)
        if not permanent and not self.state.has_subjects(subject, deleted=False):
            raise api_errors.subject_soft_deleted(subject)
        self._check_not_read_only(subject)
        versions = [it for it in self.state.versions(subject) if permanent or not it.value.deleted]
        for stored in versions:
            number = stored.value.version
            if self.state.referring_subjects(subject, number, deleted=permanent) - {subject}:
                raise api_errors.reference_exists(stored.value.key)
            if permanent and not stored.value.deleted:
                raise api_errors.subject_not_soft_deleted(subject)
        numbers = [stored.value.version for stored in versions]
        if not permanent:
            key = Key(KeyType.DELETE_SUBJECT, subject)
            return _Plan((RegistryRecord(key, DeleteSubjectValue(numbers[-1] if numbers else 0)),), numbers)
        gone = (RegistryRecord(stored.value.key, None) for stored in reversed(versions))
        return _Plan((*gone, *self._settings_tombstones(subject)), numbers)

    def _settings_tombstones(self, subject: str) -> tuple[RegistryRecord, ...]:
        kinds = (KeyType.MODE, KeyType.CONFIG)
        return tuple(RegistryRecord(Key(kind, subject), None) for kind in kinds if self.state.has_own(kind, subject))

    def _check_not_read_only(self, subject: str | None) -> None:
        if self.state.mode_in_scope(subject).is_read_only:
            text = f"Subject {api_errors.subject_text(subject)} in context {context_prefix(subject)}"
            raise api_errors.not_permitted(f"{text} is in read-only mode")

    # -- contexts

    def contexts(self, page: Page, prefix: str = "") -> list[str]:
        """Answer `GET /contexts`."""
        found = [DEFAULT_CONTEXT, *sorted(self.state.contexts)]
        return page.of([name for name in found if name.startswith(prefix)])

    async def delete_context(self, context: str) -> None:
        """Answer `DELETE /contexts/{context}`."""
        name = normalize(context)

        async def plan() -> _Plan:
            if self.state.has_subjects(context_prefix(name), deleted=True):
                raise api_errors.context_not_empty(name)
            return _Plan((RegistryRecord(Key(KeyType.CONTEXT, context=context_of(name)), None),), None)

        await self._write(plan, "Delete context", "Error while deleting context")

    # -- configurations

    def config(self, subject: str | None, *, in_scope: bool = False) -> dict[str, Any]:
        """Answer `GET /config[/{subject}]`."""
        name = _setting_name(subject)
        found = self.state.config_in_scope(name) if in_scope else self.state.config(name)
        if found is None:
            raise api_errors.no_subject_level(name or "")
        return found.to_json()

    async def update_config(self, subject: str | None, body: object) -> dict[str, Any]:
        """Answer `PUT /config[/{subject}]`."""
        updated_config(None, body)  # a wrong request is refused by every instance
        if subject is not None and not is_valid(subject, for_config=True):
            raise api_errors.invalid_subject(subject)
        name = _setting_name(subject)

        async def plan() -> _Plan:
            self._check_not_read_only(name)
            config = updated_config(self.state.stored_config(name), body)
            return _Plan((RegistryRecord(Key(KeyType.CONFIG, name), config),), config_answer(config))

        answer: dict[str, Any] = await self._write(plan, "Update config", "Failed to update compatibility level")
        return answer

    async def delete_config(self, subject: str | None) -> dict[str, Any]:
        """Answer `DELETE /config[/{subject}]`."""
        name = _setting_name(subject)

        async def plan() -> _Plan:
            found = self.state.config(name)
            if found is None:
                raise api_errors.subject_not_found(name)
            self._check_not_read_only(name)
            return _Plan((RegistryRecord(Key(KeyType.CONFIG, name), None),), found.to_json())

        answer: dict[str, Any] = await self._write(plan, "Delete config", "Failed to delete compatibility level")
        return answer

    def alias_of(self, subject: str) -> str:
        """Return the subject that a name stands for: that of its alias, if its configuration has one."""
        config = self.state.stored_config(normalize(subject))
        return in_context_of(subject, config.alias) if config is not None and config.alias else subject

    # -- modes

    def mode(self, subject: str | None, *, in_scope: bool = False) -> dict[str, Any]:
        """Answer `GET /mode[/{subject}]`."""
        name = _setting_name(subject)
        found = self.state.mode_in_scope(name) if in_scope else self.state.mode(name)
        if found is None:
            raise api_errors.no_subject_mode(name or "")
        return {"mode": found.value}

    async def set_mode(self, subject: str | None, body: object, *, force: bool = False) -> dict[str, Any]:
        """Answer `PUT /mode[/{subject}]`."""
        if subject is not None and not is_valid(subject, for_config=True):
            raise api_errors.invalid_subject(subject)
        name, mode = _setting_name(subject), mode_of(body)
        if mode is RegistryMode.FORWARD and name != f":{GLOBAL_CONTEXT}:":
            raise api_errors.invalid_mode("Forward mode only supported on global level")

        async def plan() -> _Plan:
            self._check_mode_changes()
            records: list[RegistryRecord] = []
            if mode is RegistryMode.IMPORT and self.state.mode_in_scope(name) is not mode and not force:
                records += self._cleared_for_import(name)
            records.append(RegistryRecord(Key(KeyType.MODE, name), None if mode is None else ModeValue(mode)))
            return _Plan(tuple(records), {} if mode is None else {"mode": mode.value})

        answer: dict[str, Any] = await self._write(plan, "Update mode", "Failed to update mode")
        return answer

    def _cleared_for_import(self, subject: str | None) -> list[RegistryRecord]:
        if self.state.has_subjects(subject, deleted=False):
            raise api_errors.not_permitted("Cannot import since found existing subjects")
        gone = [it for name in self.state.subjects_within(subject) for it in self.state.versions(name)]
        for stored in gone:
            if self.state.referrers(stored.value.subject, stored.value.version, deleted=True):
                raise api_errors.reference_exists(stored.value.key)
        cleared = RegistryRecord(Key(KeyType.CLEAR_SUBJECT, subject), Marker())
        return [*(RegistryRecord(stored.value.key, None) for stored in gone), cleared]

    async def delete_mode(self, subject: str | None, *, recursive: bool = False) -> dict[str, Any]:
        """Answer `DELETE /mode[/{subject}]`."""
        name = _setting_name(subject)

        async def plan() -> _Plan:
            found = self.state.mode(name)
            if found is None and not recursive:
                raise api_errors.subject_not_found(name)
            self._check_mode_changes()
            names: list[str | None] = [name]
            if recursive and is_context(name):
                names += [it for it in self.state.modes_within(context_prefix(name)) if it != name]
            records = tuple(RegistryRecord(Key(KeyType.MODE, it), None) for it in names)
            return _Plan(records, {} if found is None else {"mode": found.value})

        answer: dict[str, Any] = await self._write(plan, "Delete mode", "Failed to delete mode")
        return answer

    def _check_mode_changes(self) -> None:
        if not self._mode_changes:
            raise api_errors.not_permitted("Mode changes are not allowed")

    # -- writing

    async def _write(self, plan: Callable[[], Awaitable[_Plan]], operation: str, failure: str) -> Any:  # noqa: ANN401
        """Plan a change, write it, and return its answer when the state has it.

        Raises:
            ApiError: the request is refused, or Kafka failed.
            NotPrimaryError: another instance must do this.
        """
        if self._read_only:
            raise api_errors.not_permitted("This registry is in read-only mode")
        await self._leadership.settle()
        self._check_primary()
        async with self._turn(operation):
            self._check_primary()
            try:
                return await self._written(plan, failure)
            except RecordTooLargeError as error:
                raise api_errors.schema_too_large() from error
            except KafkaTimeoutError as error:
                log.warning("%s: whether it was written is not known: %s", operation, error)
                raise api_errors.timed_out(operation) from error
            except KafkaError as error:
                log.warning("%s: %s", operation, error)
                raise api_errors.store_failed(failure) from error

    @asynccontextmanager
    async def _turn(self, operation: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._turn_timeout_s):
                await self._write_lock.acquire()
        except TimeoutError:
            log.warning("%s: not begun, because earlier writes wait for Kafka", operation)
            raise api_errors.timed_out(operation) from None
        try:
            yield
        finally:
            self._write_lock.release()

    async def _written(self, plan: Callable[[], Awaitable[_Plan]], failure: str) -> Any:  # noqa: ANN401
        for _ in range(WRITE_ATTEMPTS):
            await self._log.catch_up()
            planned = await plan()
            if not planned.records:
                return planned.answer
            deleted = [it.key for it in planned.records if it.key.kind is KeyType.SCHEMA and it.value is None]
            records = (*self.state.ids_to_keep(deleted), *planned.records)
            outcomes = await self._log.append(records)
            refused = [(it, what) for it, what in zip(records, outcomes, strict=True) if not what.applied]
            if not refused:
                return planned.answer
            for record, outcome in refused:
                log.warning(
                    "another instance writes, too: %s: %s; this write is rolled back", record.key, outcome.reason
                )
            await self._log.append([self._rolled_back(record.key) for record, _ in refused])
            self._check_primary()
        raise api_errors.store_failed(failure)

    def _rolled_back(self, key: Key) -> RegistryRecord:
        """Return what the key has, so that compaction keeps that, and other registries read it."""
        assert key.subject is not None and key.version is not None
        stored = self.state.version(key.subject, key.version, deleted=True)
        return RegistryRecord(key, None if stored is None else stored.value)

    def _check_primary(self) -> None:
        if not self._leadership.is_primary:
            raise NotPrimaryError(self._leadership.primary_url)

    async def _on_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)


def schema_types() -> list[str]:
    """Answer `GET /schemas/types`."""
    return [SchemaType.JSON.value, SchemaType.PROTOBUF.value, SchemaType.AVRO.value]


def _setting_name(subject: str | None) -> str | None:
    """Return the subject of a configuration or a mode; None for that of the default context."""
    return None if subject is None or is_default_context(subject) else normalize(subject)


def _property_of(schema: Schema, name: str) -> str | None:
    return None if schema.metadata is None else schema.metadata.properties.get(name)


def _reserved(schema: Schema | None) -> set[str]:
    names = None if schema is None else _property_of(schema, "confluent:reserved")
    return {name.strip() for name in names.split(",") if name.strip()} if names else set()


def _has_rule(stored: StoredSchema, rule_type: str) -> bool:
    rules = stored.value.schema.rule_set
    if rules is None:
        return False
    every = (*rules.domain_rules, *rules.migration_rules, *rules.encoding_rules)
    return any(rule.get("type") == rule_type for rule in every)


def _completed(
    config: ConfigValue, request: SchemaRequest, latest: StoredSchema | None, next_version: int
) -> SchemaRequest:
    """Return a request with what it leaves to the latest version and to the configuration."""
    if request.is_empty:
        if latest is None:
            raise api_errors.invalid_schema("Empty schema")
        schema = latest.value.schema
        request = replace(request, text=schema.text, schema_type=schema.schema_type.value, references=schema.references)
    return _with_metadata_and_rules(config, request, latest, next_version)


def _with_metadata_and_rules(
    config: ConfigValue, request: SchemaRequest, latest: StoredSchema | None, next_version: int | None
) -> SchemaRequest:
    before = None if latest is None else latest.value.schema
    metadata = request.metadata or (before.metadata if before is not None else None)
    metadata = merged_metadata(merged_metadata(config.default_metadata, metadata), config.override_metadata)
    rules = request.rule_set if request.rule_set is not None else (before.rule_set if before is not None else None)
    rules = merged_rules(merged_rules(config.default_rule_set, rules), config.override_rule_set)
    if next_version is not None and (request.version != 0 or confluent_version(metadata) is not None):
        metadata = with_confluent_version(metadata, next_version)
    if metadata is None and rules is None:
        return request
    return replace(request, metadata=metadata, rule_set=rules)

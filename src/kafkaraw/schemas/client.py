"""`AsyncRegistry`: the client of a schema registry for asyncio; `Registry` in `schemas.blocking` is its blocking form.

A method makes a `Call` of `schemas.rest` and passes it to `_ask`, which sends it to one URL after the other, retries
with backoff, and keeps one deadline for the whole call. Answers that do not change are cached; two calls for the same
answer at the same time share one request. Must not know about bytes of records. Start at `AsyncRegistry._ask`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ClosedError, KafkaError, UsageError, copy_to_raise
from kafkaraw.schemas import rest
from kafkaraw.schemas.cache import Cache
from kafkaraw.schemas.errors import (
    RegistryError,
    RegistryTimeoutError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SubjectNotFoundError,
)
from kafkaraw.schemas.missing import MissingSchemas
from kafkaraw.schemas.model import (
    CompatibilityLevel,
    Mode,
    RegisteredSchema,
    Schema,
    SchemaBundle,
    SubjectConfig,
)
from kafkaraw.schemas.references import References, context_of
from kafkaraw.schemas.registry_config import config_from, settings_from_config
from kafkaraw.schemas.rest import LATEST, Call
from kafkaraw.schemas.transport import Transport

if TYPE_CHECKING:
    from kafkaraw.schemas.settings_types import RegistrySettings

log: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")
E = TypeVar("E", CompatibilityLevel, Mode)

_left_behind: list[Transport] = []
"""Connections of a parent process: closing them here would disturb it."""


class AsyncRegistry:
    """A client of a schema registry, for asyncio. It connects on first use.

    Args:
        url: the registry's URL, or several URLs of one registry.
        settings: see `RegistryConfig`.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.

    All methods that ask the registry raise:
        RegistryError: the registry refuses; the subclasses in `kafkaraw.schemas.errors` say what can be done.
        RegistryUnavailableError: no URL answers, after all retries.
        RegistryTimeoutError: no answer within `default_api_timeout_ms`.
    """

    def __init__(self, url: str | Sequence[str], **settings: Unpack[RegistrySettings]) -> None:
        self._config = config_from({"url": url, **settings})
        self._rng = random.SystemRandom()
        self._backoff = Backoff(
            self._config.retry_backoff_ms, max(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        )
        self._preferred = 0  # index of the URL that answered last
        self._transport: Transport | None = None
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}
        self._is_closed = False
        size = self._config.cache_size_max
        self._by_id: Cache[int | tuple[str, int], RegisteredSchema] = Cache(size)
        self._by_guid: Cache[str, RegisteredSchema] = Cache(size)
        self._registrations: tuple[Cache[tuple[str, Schema], RegisteredSchema], ...] = (Cache(size), Cache(size))
        self._versions: Cache[tuple[str, int], RegisteredSchema] = Cache(size)
        self._latest: Cache[tuple[str, Hashable], tuple[RegisteredSchema, float]] = Cache(size)
        self._bundles: Cache[tuple[str, Schema], SchemaBundle] = Cache(size)
        self._missing = MissingSchemas(
            size, self._config.missing_cache_ttl_ms / 1000, self._config.missing_per_second_max
        )
        self._has_warned = False

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Return a client with the settings of a dict that was written for confluent-kafka or for Java's serializers.

        Args:
            config: such as `{"url": ..., "basic.auth.user.info": "user:password"}`; a name may begin with
                `schema.registry.`. Values may be strings.

        Raises:
            ConfigError: a name is unknown or a value does not fit.
        """
        return cls(**settings_from_config(config))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Calls that wait fail with ClosedError; cached answers stay available."""
        self._is_closed = True
        for task in self._shared.values():
            if task.get_loop() is asyncio.get_running_loop():
                task.cancel()
        transport, self._transport = self._transport, None
        if transport is not None and transport.is_usable:
            await transport.close()

    # -- answers without I/O

    def cached_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema | None:
        """Return what `schema_by_id` has returned before, without I/O; None if it must be asked for."""
        if subject is None:
            return self._by_id.get(schema_id)
        return self._by_id.get(_key_of_id(schema_id, subject))

    def cached_by_guid(self, guid: str) -> RegisteredSchema | None:
        """Return what `schema_by_guid` has returned before, without I/O; None if it must be asked for."""
        return self._by_guid.get(guid)

    def cached_registration(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema | None:
        """Return what `register` or `lookup` has returned before, without I/O; None if it must be asked for."""
        return self._registrations[normalize].get((subject, schema))

    def cached_version(self, subject: str, version: int | str) -> RegisteredSchema | None:
        """Return what `version` has returned before, without I/O; None if it must be asked for.

        The latest version is returned for `latest_cache_ttl_ms`.
        """
        if isinstance(version, int) and version > 0:
            return self._versions.get((subject, version))
        return self._fresh(self._latest.get((subject, None)))

    def cached_latest_with_metadata(self, subject: str, properties: Mapping[str, str]) -> RegisteredSchema | None:
        """Return what `latest_with_metadata` has returned within `latest_cache_ttl_ms`, without I/O; else None."""
        return self._fresh(self._latest.get((subject, frozenset(properties.items()))))

    def cached_bundle(self, schema: Schema, *, subject: str | None = None) -> SchemaBundle | None:
        """Return what `bundle` has returned before, without I/O; None if references must be asked for."""
        if not schema.references:
            return SchemaBundle(schema)
        return self._bundles.get((context_of(subject), schema))

    def clear_caches(self) -> None:
        """Forget all answers."""
        caches: tuple[Cache[Any, Any], ...] = (self._by_id, self._by_guid, *self._registrations, self._versions)
        for cache in (*caches, self._latest, self._bundles):
            cache.clear()
        self._missing.clear()

    def _fresh(self, entry: tuple[RegisteredSchema, float] | None) -> RegisteredSchema | None:
        return entry[0] if entry is not None and time.monotonic() < entry[1] else None

    # -- schemas

    async def check(self, subject: str | None = None) -> None:
        """Check the URLs, the credentials and the subject before the first record.

        Args:
            subject: must have at least one version; None checks no subject.

        Raises:
            NotARegistryError: one of the URLs is no registry.
            RegistryAuthenticationError: the registry wants other credentials.
            RegistryAuthorizationError: the subject may not be read.
            SubjectNotFoundError: there is no such subject; the message names a similar one.
        """
        failures = []
        seconds = self._config.default_api_timeout_ms / 1000 / len(self._config.url)
        for url in self._config.url:
            try:
                deadline = asyncio.get_running_loop().time() + seconds
                await self._ask(rest.schema_types(), urls=(url,), deadline=deadline)
            except RegistryUnavailableError as error:
                failures.append(error)
        if len(failures) == len(self._config.url):
            raise failures[0]
        for failure in failures:
            log.warning("one of %d registry URLs does not answer: %s", len(self._config.url), failure)
        if subject is None:
            return
        try:
            await self.version(subject, LATEST)
        except SubjectNotFoundError as error:
            try:
                known = await self.subjects()
            except RegistryError:
                known = ()
            if hint := rest.nearest(subject, known):
                raise SubjectNotFoundError(
                    f"{error}{hint}", status=error.status, error_code=error.error_code, url=error.url
                ) from None
            raise

    async def schema_types(self) -> tuple[str, ...]:
        """Return the languages that the registry knows."""
        return await self._ask(rest.schema_types())

    async def schemas(
        self, prefix: str = "", *, deleted: bool = False, latest_only: bool = False
    ) -> tuple[RegisteredSchema, ...]:
        """Return all schemas.

        Args:
            prefix: only of subjects that begin with it.
            deleted: also those that are deleted softly.
            latest_only: only the latest version of each subject.
        """
        found = await self._ask(rest.schemas(self._prefixed(prefix), deleted=deleted, latest_only=latest_only))
        return tuple(map(self._plain, found))

    async def schema_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema:
        """Return the schema with an id, from the cache if possible.

        Args:
            schema_id: the number in framed bytes.
            subject: a subject in whose context the id is, as in `:.context:`; None is the client's context.

        Raises:
            SchemaNotFoundError: the registry has no such id.
        """
        key = schema_id if subject is None else _key_of_id(schema_id, subject)
        found = self._by_id.get(key)
        if found is not None:
            return found
        asked = self._scope(subject)
        found = self._plain(await self._existing(("id", key, asked), lambda: rest.schema_by_id(schema_id, asked)))
        self._by_id.put(key, found)
        if found.guid is not None:
            self._by_guid.put(found.guid, found)
        return found

    async def schema_by_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema with a GUID, from the cache if possible. Its id is -1 if the registry sends none.

        Raises:
            SchemaNotFoundError: the registry has no such GUID.
        """
        found = self._by_guid.get(guid)
        if found is None:
            found = self._plain(await self._existing(("guid", guid), lambda: rest.schema_by_guid(guid)))
            self._by_guid.put(guid, found)
        return found

    async def ids_of_guid(self, guid: str) -> tuple[tuple[str, int], ...]:
        """Return the ids of a GUID: pairs of context and id."""
        return await self._ask(rest.ids_of_guid(guid))

    async def subjects_of_id(self, schema_id: int, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the subjects that have a schema id."""
        found = await self._ask(rest.subjects_of_id(schema_id, self._scope(None), deleted=deleted))
        return tuple(map(self._plain_name, found))

    async def versions_of_id(self, schema_id: int, *, deleted: bool = False) -> tuple[tuple[str, int], ...]:
        """Return the versions that have a schema id: pairs of subject and version."""
        found = await self._ask(rest.versions_of_id(schema_id, self._scope(None), deleted=deleted))
        return tuple((self._plain_name(subject), version) for subject, version in found)

    # -- subjects and versions

    async def subjects(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> tuple[str, ...]:
        """Return the names of subjects.

        Args:
            prefix: only those that begin with it.
            deleted: also those that are deleted softly.
            deleted_only: only those that are deleted softly.
        """
        found = await self._ask(rest.subjects(self._prefixed(prefix), deleted=deleted, deleted_only=deleted_only))
        return tuple(map(self._plain_name, found))

    async def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> tuple[int, ...]:
        """Return the numbers of a subject's versions.

        Args:
            subject: name of the subject.
            deleted: also those that are deleted softly.
            deleted_only: only those that are deleted softly.

        Raises:
            SubjectNotFoundError: there is no such subject.
        """
        return await self._ask(rest.versions(self._qualified(subject), deleted=deleted, deleted_only=deleted_only))

    async def version(self, subject: str, version: int | str = LATEST, *, deleted: bool = False) -> RegisteredSchema:
        """Return a version of a subject: a number from the cache if possible, the latest one always from the registry.

        Args:
            subject: name of the subject.
            version: number of the version; "latest" or -1 for the latest one.
            deleted: also if it is deleted softly.

        Raises:
            SubjectNotFoundError: there is no such subject.
            VersionNotFoundError: the subject has no such version.
        """
        return await self._version(subject, version, deleted, None)

    async def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], *, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the latest version of a subject whose metadata has these properties.

        Raises:
            SchemaNotFoundError: the subject has no such version.
        """
        call = rest.latest_with_metadata(self._qualified(subject), properties, deleted=deleted)
        found = self._plain(await self._ask(call))
        if not deleted:
            self._latest.put((subject, frozenset(properties.items())), (found, self._latest_until()))
        return found

    async def referenced_by(self, subject: str, version: int | str = LATEST) -> tuple[int, ...]:
        """Return the ids of schemas that reference a version."""
        return await self._ask(rest.referenced_by(self._qualified(subject), _number(version)))

    async def register(
        self,
        subject: str,
        schema: Schema,
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> RegisteredSchema:
        """Register a schema as a new version of a subject, or return the version that has it; cached.

        Args:
            subject: name of the subject.
            schema: the schema.
            normalize: let the registry normalize the schema, so that differences without a meaning make no version.
            schema_id: the id to give it, in mode IMPORT.
            version: the version to give it, in mode IMPORT.

        Raises:
            IncompatibleSchemaError: the subject's compatibility level forbids it; says which rule and path.
            InvalidSchemaError: the registry cannot parse it.
        """
        body = {name: number for name, number in (("id", schema_id), ("version", version)) if number is not None}
        found = None if body else self.cached_registration(subject, schema, normalize=normalize)
        if found is not None:
            return found
        name = self._qualified(subject)
        found = self._plain(
            await self._once(
                ("register", name, schema, normalize, schema_id, version),
                lambda: rest.register(name, schema, normalize=normalize, body=body),
            )
        )
        self._missing.clear()
        self._registrations[normalize].put((subject, schema), found)
        return found

    async def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the version of a subject that has a schema; cached.

        Args:
            subject: name of the subject.
            schema: the schema.
            normalize: let the registry normalize the schema first.
            deleted: also if the version is deleted softly.

        Raises:
            SubjectNotFoundError: there is no such subject.
            SchemaNotFoundError: no version of the subject has the schema.
        """
        found = None if deleted else self.cached_registration(subject, schema, normalize=normalize)
        if found is not None:
            return found
        name = self._qualified(subject)
        found = self._plain(
            await self._once(
                ("lookup", name, schema, normalize, deleted),
                lambda: rest.lookup(name, schema, normalize=normalize, deleted=deleted),
            )
        )
        if not deleted:
            self._registrations[normalize].put((subject, schema), found)
        return found

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> tuple[int, ...]:
        """Delete all versions of a subject; return their numbers.

        Args:
            subject: name of the subject.
            permanent: remove what was deleted softly before.
        """
        self._forget(subject)
        return await self._ask(rest.delete_subject(self._qualified(subject), permanent=permanent))

    async def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Delete a version; return its number.

        Args:
            subject: name of the subject.
            version: number of the version, or "latest".
            permanent: remove what was deleted softly before.
        """
        self._forget(subject)
        call = rest.delete_version(self._qualified(subject), _number(version), permanent=permanent)
        return await self._ask(call)

    async def incompatibilities(
        self, subject: str, schema: Schema, *, version: int | str | None = None, normalize: bool = False
    ) -> tuple[str, ...]:
        """Return why a schema cannot be registered; empty if it is compatible. Nothing is registered.

        Args:
            subject: name of the subject. Any schema is compatible with a subject without versions.
            schema: the schema.
            version: compare with this version only; None compares as the subject's level says.
            normalize: let the registry normalize the schema first.
        """
        number = None if version is None else _number(version)
        call = rest.incompatibilities(self._qualified(subject), schema, number, normalize=normalize)
        return await self._ask(call)

    async def bundle(self, schema: Schema, *, subject: str | None = None) -> SchemaBundle:
        """Return a schema with everything that it references; cached.

        Args:
            schema: the schema.
            subject: the subject that has the schema, if its references are in another context than the client's.

        Raises:
            SchemaReferenceError: the references form a circle, are nested too deep, or are too many.
        """
        found = self.cached_bundle(schema, subject=subject)
        if found is None:
            context = context_of(subject)
            deadline = asyncio.get_running_loop().time() + self._config.default_api_timeout_ms / 1000

            def fetch(subject: str, number: int) -> Awaitable[RegisteredSchema]:
                # A referenced version that was deleted softly still counts: the schema that uses it is in force.
                return self._version(subject, number, True, deadline)

            found = await References(fetch, context, self._config.answer_size_max).bundle(schema)
            self._bundles.put((context, schema), found)
        return found

    # -- configuration and mode

    async def config(self, subject: str | None = None, *, default_to_global: bool = True) -> SubjectConfig:
        """Return the configuration of a subject, or of the registry.

        Args:
            subject: name of the subject; None for the registry.
            default_to_global: if the subject has none, return that of the registry instead of raising.
        """
        return await self._ask(rest.config(self._scope(subject), default_to_global=default_to_global))

    async def set_config(self, config: SubjectConfig, subject: str | None = None) -> SubjectConfig:
        """Change the configuration of a subject, or of the registry; return what was sent."""
        return await self._ask(rest.set_config(self._scope(subject), config))

    async def delete_config(self, subject: str | None = None) -> SubjectConfig:
        """Let a subject have the configuration of the registry again; return what was set."""
        return await self._ask(rest.delete_config(self._scope(subject)))

    async def compatibility(self, subject: str | None = None) -> CompatibilityLevel:
        """Return the compatibility level of a subject, its own or the registry's; or that of the registry."""
        level = (await self.config(subject)).compatibility
        if level is None:
            raise RegistryError(
                "the registry's answer has no compatibilityLevel; is it a Confluent-compatible registry?"
            )
        return level

    async def set_compatibility(self, level: CompatibilityLevel | str, subject: str | None = None) -> None:
        """Set the compatibility level of a subject, or of the registry.

        Raises:
            UsageError: there is no such level.
        """
        await self.set_config(SubjectConfig(compatibility=_member(CompatibilityLevel, level)), subject)

    async def mode(self, subject: str | None = None, *, default_to_global: bool = True) -> Mode:
        """Return the mode of a subject, or of the registry.

        Args:
            subject: name of the subject; None for the registry.
            default_to_global: if the subject has none, return that of the registry instead of raising.
        """
        return await self._ask(rest.mode(self._scope(subject), default_to_global=default_to_global))

    async def set_mode(self, mode: Mode | str, subject: str | None = None, *, force: bool = False) -> Mode:
        """Set the mode of a subject, or of the registry.

        Args:
            mode: the new mode.
            subject: name of the subject; None for the registry.
            force: change to IMPORT although there are schemas.

        Raises:
            UsageError: there is no such mode.
        """
        return await self._ask(rest.set_mode(_member(Mode, mode), self._scope(subject), force=force))

    async def delete_mode(self, subject: str | None = None) -> Mode:
        """Let a subject have the mode of the registry again; return the mode that was set."""
        return await self._ask(rest.delete_mode(self._scope(subject)))

    async def contexts(self) -> tuple[str, ...]:
        """Return the names of contexts; the default one is "."."""
        return await self._ask(rest.contexts())

    # -- what only some registries have

    async def exporters(self) -> tuple[str, ...]:
        """Return the names of exporters (Schema Linking)."""
        return await self._ask(rest.exporters())

    async def exporter(self, name: str, part: str = "") -> Mapping[str, Any]:
        """Return an exporter, or its part "status" or "config", as the registry's JSON."""
        return await self._ask(rest.exporter(name, part))

    async def create_exporter(self, described: Mapping[str, Any]) -> str:
        """Create an exporter from the registry's JSON; return its name."""
        return await self._ask(rest.create_exporter(described))

    async def change_exporter(self, name: str, changed: Mapping[str, Any] | None = None, part: str = "") -> str:
        """Change an exporter, or its part "config", or "pause", "resume" or "reset" it; return its name."""
        return await self._ask(rest.change_exporter(name, changed, part))

    async def delete_exporter(self, name: str) -> None:
        """Delete an exporter."""
        await self._ask(rest.delete_exporter(name))

    async def associations(
        self,
        resource: str,
        *,
        namespace: str = "-",
        resource_type: str | None = None,
        association_types: Sequence[str] = (),
    ) -> tuple[Mapping[str, Any], ...]:
        """Return the subjects that are associated with a resource such as a topic, as the registry's JSON.

        Args:
            resource: name of the resource.
            namespace: of the resource, such as the id of a Kafka cluster; "-" is any.
            resource_type: such as "topic".
            association_types: only these, such as "key" or "value"; all if empty.
        """
        return await self._ask(rest.associations(namespace, resource, resource_type, association_types))

    async def associations_of_subject(
        self, subject: str, *, resource_type: str | None = None, association_types: Sequence[str] = ()
    ) -> tuple[Mapping[str, Any], ...]:
        """Return the resources that are associated with a subject, as the registry's JSON."""
        name = self._qualified(subject)
        return await self._ask(rest.associations_of_subject(name, resource_type, association_types))

    async def create_association(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Associate subjects with a resource, from and to the registry's JSON."""
        return await self._ask(rest.create_association(described))

    async def change_association(self, resource_id: str, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create or change the associations of a resource, from and to the registry's JSON."""
        return await self._ask(rest.change_association(resource_id, described))

    async def delete_associations(
        self,
        resource_id: str,
        *,
        resource_type: str | None = None,
        association_types: Sequence[str] = (),
        cascade: bool = False,
    ) -> None:
        """Delete the associations of a resource; with `cascade` also subjects that depend on it."""
        await self._ask(rest.delete_associations(resource_id, resource_type, association_types, cascade=cascade))

    # -- encryption keys (DEK registry)

    async def keks(self, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the names of key encryption keys; with `deleted` also those that are deleted softly."""
        return await self._ask(rest.keks(deleted=deleted))

    async def kek(self, name: str, *, deleted: bool = False) -> Mapping[str, Any]:
        """Return a key encryption key, as the registry's JSON."""
        return await self._ask(rest.kek(name, deleted=deleted))

    async def create_kek(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a key encryption key, from and to the registry's JSON: name, kmsType, kmsKeyId, shared, ..."""
        return await self._ask(rest.create_kek(described))

    async def change_kek(self, name: str, changed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change kmsProps, doc or shared of a key encryption key, from and to the registry's JSON."""
        return await self._ask(rest.change_kek(name, changed))

    async def delete_kek(self, name: str, *, permanent: bool = False) -> None:
        """Delete a key encryption key; with `permanent` one that was deleted softly before."""
        await self._ask(rest.delete_kek(name, permanent=permanent))

    async def undelete_kek(self, name: str) -> None:
        """Restore a key encryption key that was deleted softly."""
        await self._ask(rest.undelete_kek(name))

    async def deks(self, kek: str, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the subjects that have a data encryption key under a key encryption key."""
        return await self._ask(rest.deks(kek, deleted=deleted))

    async def dek_versions(
        self, kek: str, subject: str, *, algorithm: str | None = None, deleted: bool = False
    ) -> tuple[int, ...]:
        """Return the versions of a subject's data encryption key."""
        return await self._ask(rest.dek_versions(kek, subject, algorithm, deleted=deleted))

    async def dek(
        self,
        kek: str,
        subject: str,
        *,
        version: int | str | None = None,
        algorithm: str | None = None,
        deleted: bool = False,
    ) -> Mapping[str, Any]:
        """Return a subject's data encryption key, as the registry's JSON; encrypted, unless the registry decrypts it.

        Args:
            kek: name of the key encryption key.
            subject: name of the subject.
            version: number of the version, or "latest"; None leaves the choice to the registry.
            algorithm: such as "AES256_GCM"; None is the registry's default.
            deleted: also if it is deleted softly.
        """
        number = None if version is None else _number(version)
        return await self._ask(rest.dek(kek, subject, number, algorithm, deleted=deleted))

    async def create_dek(self, kek: str, subject: str, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a subject's data encryption key, from and to the registry's JSON.

        Args:
            kek: name of the key encryption key.
            subject: name of the subject.
            described: version, algorithm, encryptedKeyMaterial; `subject` is added.
        """
        return await self._ask(rest.create_dek(kek, subject, described))

    async def delete_dek(
        self,
        kek: str,
        subject: str,
        *,
        version: int | str | None = None,
        algorithm: str | None = None,
        permanent: bool = False,
    ) -> None:
        """Delete all versions of a subject's data encryption key, or one; with `permanent` what was deleted softly."""
        number = None if version is None else _number(version)
        await self._ask(rest.delete_dek(kek, subject, number, algorithm, permanent=permanent))

    async def undelete_dek(
        self, kek: str, subject: str, *, version: int | str | None = None, algorithm: str | None = None
    ) -> None:
        """Restore all versions of a subject's data encryption key, or one, that were deleted softly."""
        number = None if version is None else _number(version)
        await self._ask(rest.undelete_dek(kek, subject, number, algorithm))

    async def registry_id(self) -> str:
        """Return the id of the registry's cluster."""
        return await self._ask(rest.registry_id())

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """Ask an endpoint that has no method here, such as those below `/catalog/v1`; return the answer's JSON.

        Args:
            method: GET, POST, PUT or DELETE.
            path: below the registry's URL, quoted, beginning with "/".
            query: names and values.
            body: JSON to send.

        Raises:
            UsageError: another method, or a path that does not begin with "/".
        """
        if method not in ("GET", "POST", "PUT", "DELETE") or not path.startswith("/") or "?" in path or "#" in path:
            raise UsageError(f"{method} {path}: give GET, POST, PUT or DELETE, and a path such as /subjects")
        return await self._ask(rest.any_request(method, path, query or {}, body))

    # -- contexts

    def _qualified(self, subject: str) -> str:
        if not subject:
            raise UsageError("the name of a subject must not be empty")
        return f":{self._config.context}:{subject}" if self._config.context and subject[0] != ":" else subject

    def _scope(self, subject: str | None) -> str | None:
        if subject is None:
            return f":{self._config.context}:" if self._config.context else None
        return self._qualified(subject)

    def _prefixed(self, prefix: str) -> str:
        return f":{self._config.context}:{prefix}" if self._config.context and prefix[:1] != ":" else prefix

    def _plain_name(self, subject: str) -> str:
        return subject.removeprefix(f":{self._config.context}:") if self._config.context else subject

    def _plain(self, found: RegisteredSchema) -> RegisteredSchema:
        if found.subject is None or not self._config.context:
            return found
        subject = self._plain_name(found.subject)
        return RegisteredSchema(subject, found.version, found.id, found.guid, found.schema, found.deleted)

    # -- caches

    async def _version(
        self, subject: str, version: int | str, deleted: bool, deadline: float | None
    ) -> RegisteredSchema:
        number = _number(version)
        if isinstance(number, int):
            found = self._versions.get((subject, number))
            if found is not None:
                return found
        call = rest.version(self._qualified(subject), number, deleted=deleted)
        found = self._plain(await self._ask(call, deadline=deadline))
        if not deleted and found.version is not None:
            self._versions.put((subject, found.version), found)
            if number == LATEST:
                self._latest.put((subject, None), (found, self._latest_until()))
        return found

    def _latest_until(self) -> float:
        return time.monotonic() + self._config.latest_cache_ttl_ms / 1000

    def _forget(self, subject: str) -> None:
        caches: tuple[Cache[Any, Any], ...] = (*self._registrations, self._versions, self._latest)
        for cache in caches:
            cache.discard(lambda key, _: key[0] == subject)

    async def _existing(self, key: Hashable, make: Callable[[], Call[T]]) -> T:
        """Ask for a schema that records name, which need not exist; see `schemas.missing`."""
        missing = self._missing.answer(key, time.monotonic())
        if missing is not None:
            raise copy_to_raise(missing)
        return await self._once(key, make, lambda call: self._ask_in_turn(key, call))

    async def _ask_in_turn(self, key: Hashable, call: Call[T]) -> T:
        timeout = self._config.default_api_timeout_ms / 1000
        deadline = asyncio.get_running_loop().time() + timeout
        pause = self._missing.pause_s(time.monotonic())
        if pause:
            limit = f"missing_per_second_max={self._config.missing_per_second_max}"
            if not self._has_warned:
                self._has_warned = True
                log.warning("many records name schemas that the registry does not have: look-ups wait (%s)", limit)
            if pause >= timeout:
                raise RegistryTimeoutError(
                    f"cannot {call.about} before the call's deadline (default_api_timeout_ms): so many records name "
                    f"schemas that the registry does not have that look-ups wait {pause:.0f} s ({limit})"
                )
            await asyncio.sleep(pause)
        try:
            return await self._ask(call, deadline=deadline)
        except SchemaNotFoundError as error:
            self._missing.add(key, error, time.monotonic())
            raise

    async def _once(
        self, key: Hashable, make: Callable[[], Call[T]], ask: Callable[[Call[T]], Coroutine[Any, Any, T]] | None = None
    ) -> T:
        """Ask once for all tasks that want the same answer at the same time."""
        loop = asyncio.get_running_loop()
        task = cast("asyncio.Task[T] | None", self._shared.get(key))
        if task is None or task.get_loop() is not loop or task.done():
            task = loop.create_task((ask or self._ask)(make()))
            self._shared[key] = task
            task.add_done_callback(lambda ended: self._over(key, ended))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and self._is_closed:
                raise _closed() from None
            raise
        except KafkaError as error:
            raise copy_to_raise(error) from error.__cause__

    def _over(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if self._shared.get(key) is task:
            del self._shared[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved, even if no caller waits any more

    # -- requests

    async def _ask(self, call: Call[T], *, urls: Sequence[str] = (), deadline: float | None = None) -> T:
        """Send a call until a URL answers.

        Args:
            call: the call.
            urls: ask only these; all if empty.
            deadline: time of the loop at which the call ends; None is `default_api_timeout_ms` from now.
        """
        loop = asyncio.get_running_loop()
        if deadline is None:
            deadline = loop.time() + self._config.default_api_timeout_ms / 1000
        attempts, failure = 0, RegistryUnavailableError(f"cannot {call.about}: no time is left")
        for round_number in range(self._config.retries + 1):
            for url in urls or self._in_order():
                if loop.time() >= deadline:
                    raise _timed_out(call, attempts, failure)
                attempts += 1
                try:
                    return await self._attempt(url, call, deadline, is_chosen=bool(urls))
                except RegistryUnavailableError as error:
                    failure = error
            pause = self._backoff.delay_ms(round_number, self._rng) / 1000
            if round_number == self._config.retries or loop.time() + pause >= deadline:
                break
            await asyncio.sleep(pause)
        if attempts == 1:
            raise failure
        raise type(failure)(
            f"{failure} ({attempts} attempts)", status=failure.status, error_code=failure.error_code, url=failure.url
        ) from failure.__cause__

    async def _attempt(self, url: str, call: Call[T], deadline: float, *, is_chosen: bool) -> T:
        loop = asyncio.get_running_loop()
        until = min(deadline, loop.time() + self._config.request_timeout_ms / 1000)
        transport = self._usable_transport()
        limit = asyncio.timeout_at(until)
        try:
            async with limit:
                # A little less, so that an error of the token's source can say why there is none.
                answer = await transport.send(url, call, (until - loop.time()) * 0.95)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RegistryTimeoutError(
                f"cannot {call.about} at {url}: no answer within {self._config.request_timeout_ms} ms "
                "(request_timeout_ms) or before the call's deadline (default_api_timeout_ms)",
                url=url,
            ) from None
        result = rest.answer_of(call, answer)
        if not is_chosen:
            self._preferred = self._config.url.index(url)
        return result

    def _in_order(self) -> tuple[str, ...]:
        urls = self._config.url
        return urls[self._preferred :] + urls[: self._preferred]

    def _usable_transport(self) -> Transport:
        if self._is_closed:
            raise _closed()
        transport = self._transport
        if transport is None or not transport.is_usable:
            if transport is not None and transport.is_foreign:
                _left_behind.append(transport)
            transport = self._transport = Transport(self._config, self._rng)
        return transport


def _closed() -> ClosedError:
    return ClosedError("this registry client was closed")


def _timed_out(call: Call[Any], attempts: int, failure: RegistryError) -> RegistryTimeoutError:
    return RegistryTimeoutError(
        f"cannot {call.about}: the call's deadline (default_api_timeout_ms) passed after {attempts} attempts; the last "
        f"one: {failure}",
        status=failure.status,
        error_code=failure.error_code,
        url=failure.url,
    )


def _number(version: int | str) -> int | str:
    """Return a version as it stands in a path: a number from 1, or "latest".

    Raises:
        UsageError: it is neither.
    """
    if version in (LATEST, -1, "-1"):
        return LATEST
    if isinstance(version, str) and version.isascii() and version.isdigit():
        version = int(version)
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version < 2**31:
        raise UsageError(f'version {version!r}: must be a number from 1, or "latest"')
    return version


def _member(kind: type[E], value: str) -> E:
    if value not in kind.__members__:
        raise UsageError(f"{value!r}: must be one of {', '.join(kind.__members__)}")
    return kind(value)


def _key_of_id(schema_id: int, subject: str) -> int | tuple[str, int]:
    context = context_of(subject)
    return (context, schema_id) if context else schema_id

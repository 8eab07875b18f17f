"""`Registry`: the blocking client of a schema registry; every method runs that of `AsyncRegistry` on a loop thread.

An answer from a cache costs no change of threads. All blocking registries of a process share one loop thread, which is
not that of the Kafka clients: a serializer that asks the registry on the clients' loop thread would wait for itself.
After a fork, a registry goes on working in the child with connections of its own. `docs/generate_docstrings.py` copies
the docstrings of its methods from `AsyncRegistry`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from kafkaraw.net.loop_thread import LoopThread
from kafkaraw.schemas.client import AsyncRegistry
from kafkaraw.schemas.model import (
    CompatibilityLevel,
    Mode,
    RegisteredSchema,
    Schema,
    SchemaBundle,
    SubjectConfig,
)
from kafkaraw.schemas.registry_config import settings_from_config
from kafkaraw.schemas.rest import LATEST

if TYPE_CHECKING:
    from kafkaraw.schemas.settings_types import RegistrySettings

T = TypeVar("T")

_LOOP_THREAD: Final = LoopThread("kafkaraw-registry")


class Registry:
    """A client of a schema registry: the blocking form of `AsyncRegistry`. It connects on first use.

    Args:
        url: the registry's URL, or several URLs of one registry.
        settings: see `RegistryConfig`.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.

    Errors of the methods: see `AsyncRegistry`.
    """

    def __init__(self, url: str | Sequence[str], **settings: Unpack[RegistrySettings]) -> None:
        self._async = AsyncRegistry(url, **settings)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Calls that wait fail with ClosedError; cached answers stay available."""
        self._run(self._async.close())

    def cached_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema | None:
        """Return what `schema_by_id` has returned before, without I/O; None if it must be asked for."""
        return self._async.cached_by_id(schema_id, subject=subject)

    def cached_by_guid(self, guid: str) -> RegisteredSchema | None:
        """Return what `schema_by_guid` has returned before, without I/O; None if it must be asked for."""
        return self._async.cached_by_guid(guid)

    def cached_registration(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema | None:
        """Return what `register` or `lookup` has returned before, without I/O; None if it must be asked for."""
        return self._async.cached_registration(subject, schema, normalize=normalize)

    def cached_version(self, subject: str, version: int | str) -> RegisteredSchema | None:
        """Return what `version` has returned before, without I/O; None if it must be asked for.

        The latest version is returned for `latest_cache_ttl_ms`.
        """
        return self._async.cached_version(subject, version)

    def cached_latest_with_metadata(self, subject: str, properties: Mapping[str, str]) -> RegisteredSchema | None:
        """Return what `latest_with_metadata` has returned within `latest_cache_ttl_ms`, without I/O; else None."""
        return self._async.cached_latest_with_metadata(subject, properties)

    def cached_bundle(self, schema: Schema, *, subject: str | None = None) -> SchemaBundle | None:
        """Return what `bundle` has returned before, without I/O; None if references must be asked for."""
        return self._async.cached_bundle(schema, subject=subject)

    def clear_caches(self) -> None:
        """Forget all answers."""
        self._async.clear_caches()

    def check(self, subject: str | None = None) -> None:
        """Check the URLs, the credentials and the subject before the first record.

        Args:
            subject: must have at least one version; None checks no subject.

        Raises:
            NotARegistryError: one of the URLs is no registry.
            RegistryAuthenticationError: the registry wants other credentials.
            RegistryAuthorizationError: the subject may not be read.
            SubjectNotFoundError: there is no such subject; the message names a similar one.
        """
        self._run(self._async.check(subject))

    def schema_types(self) -> tuple[str, ...]:
        """Return the languages that the registry knows."""
        return self._run(self._async.schema_types())

    def schemas(
        self, prefix: str = "", *, deleted: bool = False, latest_only: bool = False
    ) -> tuple[RegisteredSchema, ...]:
        """Return all schemas.

        Args:
            prefix: only of subjects that begin with it.
            deleted: also those that are deleted softly.
            latest_only: only the latest version of each subject.
        """
        return self._run(self._async.schemas(prefix, deleted=deleted, latest_only=latest_only))

    def schema_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema:
        """Return the schema with an id, from the cache if possible.

        Args:
            schema_id: the number in framed bytes.
            subject: a subject in whose context the id is, as in `:.context:`; None is the client's context.

        Raises:
            SchemaNotFoundError: the registry has no such id.
        """
        found = self._async.cached_by_id(schema_id, subject=subject)
        return found if found is not None else self._run(self._async.schema_by_id(schema_id, subject=subject))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema with a GUID, from the cache if possible. Its id is -1 if the registry sends none.

        Raises:
            SchemaNotFoundError: the registry has no such GUID.
        """
        found = self._async.cached_by_guid(guid)
        return found if found is not None else self._run(self._async.schema_by_guid(guid))

    def ids_of_guid(self, guid: str) -> tuple[tuple[str, int], ...]:
        """Return the ids of a GUID: pairs of context and id."""
        return self._run(self._async.ids_of_guid(guid))

    def subjects_of_id(self, schema_id: int, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the subjects that have a schema id."""
        return self._run(self._async.subjects_of_id(schema_id, deleted=deleted))

    def versions_of_id(self, schema_id: int, *, deleted: bool = False) -> tuple[tuple[str, int], ...]:
        """Return the versions that have a schema id: pairs of subject and version."""
        return self._run(self._async.versions_of_id(schema_id, deleted=deleted))

    def subjects(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> tuple[str, ...]:
        """Return the names of subjects.

        Args:
            prefix: only those that begin with it.
            deleted: also those that are deleted softly.
            deleted_only: only those that are deleted softly.
        """
        return self._run(self._async.subjects(prefix, deleted=deleted, deleted_only=deleted_only))

    def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> tuple[int, ...]:
        """Return the numbers of a subject's versions.

        Args:
            subject: name of the subject.
            deleted: also those that are deleted softly.
            deleted_only: only those that are deleted softly.

        Raises:
            SubjectNotFoundError: there is no such subject.
        """
        return self._run(self._async.versions(subject, deleted=deleted, deleted_only=deleted_only))

    def version(self, subject: str, version: int | str = LATEST, *, deleted: bool = False) -> RegisteredSchema:
        """Return a version of a subject: a number from the cache if possible, the latest one always from the registry.

        Args:
            subject: name of the subject.
            version: number of the version; "latest" or -1 for the latest one.
            deleted: also if it is deleted softly.

        Raises:
            SubjectNotFoundError: there is no such subject.
            VersionNotFoundError: the subject has no such version.
        """
        is_number = isinstance(version, int) and version > 0  # the latest version is asked for each time
        found = self._async.cached_version(subject, version) if is_number else None
        return found if found is not None else self._run(self._async.version(subject, version, deleted=deleted))

    def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], *, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the latest version of a subject whose metadata has these properties.

        Raises:
            SchemaNotFoundError: the subject has no such version.
        """
        return self._run(self._async.latest_with_metadata(subject, properties, deleted=deleted))

    def referenced_by(self, subject: str, version: int | str = LATEST) -> tuple[int, ...]:
        """Return the ids of schemas that reference a version."""
        return self._run(self._async.referenced_by(subject, version))

    def register(
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
        found = None
        if schema_id is None and version is None:
            found = self._async.cached_registration(subject, schema, normalize=normalize)
        if found is not None:
            return found
        return self._run(
            self._async.register(subject, schema, normalize=normalize, schema_id=schema_id, version=version)
        )

    def lookup(
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
        found = None if deleted else self._async.cached_registration(subject, schema, normalize=normalize)
        if found is not None:
            return found
        return self._run(self._async.lookup(subject, schema, normalize=normalize, deleted=deleted))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> tuple[int, ...]:
        """Delete all versions of a subject; return their numbers.

        Args:
            subject: name of the subject.
            permanent: remove what was deleted softly before.
        """
        return self._run(self._async.delete_subject(subject, permanent=permanent))

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Delete a version; return its number.

        Args:
            subject: name of the subject.
            version: number of the version, or "latest".
            permanent: remove what was deleted softly before.
        """
        return self._run(self._async.delete_version(subject, version, permanent=permanent))

    def incompatibilities(
        self, subject: str, schema: Schema, *, version: int | str | None = None, normalize: bool = False
    ) -> tuple[str, ...]:
        """Return why a schema cannot be registered; empty if it is compatible. Nothing is registered.

        Args:
            subject: name of the subject. Any schema is compatible with a subject without versions.
            schema: the schema.
            version: compare with this version only; None compares as the subject's level says.
            normalize: let the registry normalize the schema first.
        """
        return self._run(self._async.incompatibilities(subject, schema, version=version, normalize=normalize))

    def bundle(self, schema: Schema, *, subject: str | None = None) -> SchemaBundle:
        """Return a schema with everything that it references; cached.

        Args:
            schema: the schema.
            subject: the subject that has the schema, if its references are in another context than the client's.

        Raises:
            SchemaReferenceError: the references form a circle, are nested too deep, or are too many.
        """
        found = self._async.cached_bundle(schema, subject=subject)
        return found if found is not None else self._run(self._async.bundle(schema, subject=subject))

    def config(self, subject: str | None = None, *, default_to_global: bool = True) -> SubjectConfig:
        """Return the configuration of a subject, or of the registry.

        Args:
            subject: name of the subject; None for the registry.
            default_to_global: if the subject has none, return that of the registry instead of raising.
        """
        return self._run(self._async.config(subject, default_to_global=default_to_global))

    def set_config(self, config: SubjectConfig, subject: str | None = None) -> SubjectConfig:
        """Change the configuration of a subject, or of the registry; return what was sent."""
        return self._run(self._async.set_config(config, subject))

    def delete_config(self, subject: str | None = None) -> SubjectConfig:
        """Let a subject have the configuration of the registry again; return what was set."""
        return self._run(self._async.delete_config(subject))

    def compatibility(self, subject: str | None = None) -> CompatibilityLevel:
        """Return the compatibility level of a subject, its own or the registry's; or that of the registry."""
        return self._run(self._async.compatibility(subject))

    def set_compatibility(self, level: CompatibilityLevel | str, subject: str | None = None) -> None:
        """Set the compatibility level of a subject, or of the registry.

        Raises:
            UsageError: there is no such level.
        """
        self._run(self._async.set_compatibility(level, subject))

    def mode(self, subject: str | None = None, *, default_to_global: bool = True) -> Mode:
        """Return the mode of a subject, or of the registry.

        Args:
            subject: name of the subject; None for the registry.
            default_to_global: if the subject has none, return that of the registry instead of raising.
        """
        return self._run(self._async.mode(subject, default_to_global=default_to_global))

    def set_mode(self, mode: Mode | str, subject: str | None = None, *, force: bool = False) -> Mode:
        """Set the mode of a subject, or of the registry.

        Args:
            mode: the new mode.
            subject: name of the subject; None for the registry.
            force: change to IMPORT although there are schemas.

        Raises:
            UsageError: there is no such mode.
        """
        return self._run(self._async.set_mode(mode, subject, force=force))

    def delete_mode(self, subject: str | None = None) -> Mode:
        """Let a subject have the mode of the registry again; return the mode that was set."""
        return self._run(self._async.delete_mode(subject))

    def contexts(self) -> tuple[str, ...]:
        """Return the names of contexts; the default one is "."."""
        return self._run(self._async.contexts())

    def exporters(self) -> tuple[str, ...]:
        """Return the names of exporters (Schema Linking)."""
        return self._run(self._async.exporters())

    def exporter(self, name: str, part: str = "") -> Mapping[str, Any]:
        """Return an exporter, or its part "status" or "config", as the registry's JSON."""
        return self._run(self._async.exporter(name, part))

    def create_exporter(self, described: Mapping[str, Any]) -> str:
        """Create an exporter from the registry's JSON; return its name."""
        return self._run(self._async.create_exporter(described))

    def change_exporter(self, name: str, changed: Mapping[str, Any] | None = None, part: str = "") -> str:
        """Change an exporter, or its part "config", or "pause", "resume" or "reset" it; return its name."""
        return self._run(self._async.change_exporter(name, changed, part))

    def delete_exporter(self, name: str) -> None:
        """Delete an exporter."""
        self._run(self._async.delete_exporter(name))

    def associations(
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
        return self._run(
            self._async.associations(
                resource, namespace=namespace, resource_type=resource_type, association_types=association_types
            )
        )

    def associations_of_subject(
        self, subject: str, *, resource_type: str | None = None, association_types: Sequence[str] = ()
    ) -> tuple[Mapping[str, Any], ...]:
        """Return the resources that are associated with a subject, as the registry's JSON."""
        return self._run(
            self._async.associations_of_subject(
                subject, resource_type=resource_type, association_types=association_types
            )
        )

    def create_association(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Associate subjects with a resource, from and to the registry's JSON."""
        return self._run(self._async.create_association(described))

    def change_association(self, resource_id: str, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create or change the associations of a resource, from and to the registry's JSON."""
        return self._run(self._async.change_association(resource_id, described))

    def delete_associations(
        self,
        resource_id: str,
        *,
        resource_type: str | None = None,
        association_types: Sequence[str] = (),
        cascade: bool = False,
    ) -> None:
        """Delete the associations of a resource; with `cascade` also subjects that depend on it."""
        self._run(
            self._async.delete_associations(
                resource_id, resource_type=resource_type, association_types=association_types, cascade=cascade
            )
        )

    def keks(self, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the names of key encryption keys; with `deleted` also those that are deleted softly."""
        return self._run(self._async.keks(deleted=deleted))

    def kek(self, name: str, *, deleted: bool = False) -> Mapping[str, Any]:
        """Return a key encryption key, as the registry's JSON."""
        return self._run(self._async.kek(name, deleted=deleted))

    def create_kek(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a key encryption key, from and to the registry's JSON: name, kmsType, kmsKeyId, shared, ..."""
        return self._run(self._async.create_kek(described))

    def change_kek(self, name: str, changed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change kmsProps, doc or shared of a key encryption key, from and to the registry's JSON."""
        return self._run(self._async.change_kek(name, changed))

    def delete_kek(self, name: str, *, permanent: bool = False) -> None:
        """Delete a key encryption key; with `permanent` one that was deleted softly before."""
        self._run(self._async.delete_kek(name, permanent=permanent))

    def undelete_kek(self, name: str) -> None:
        """Restore a key encryption key that was deleted softly."""
        self._run(self._async.undelete_kek(name))

    def deks(self, kek: str, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the subjects that have a data encryption key under a key encryption key."""
        return self._run(self._async.deks(kek, deleted=deleted))

    def dek_versions(
        self, kek: str, subject: str, *, algorithm: str | None = None, deleted: bool = False
    ) -> tuple[int, ...]:
        """Return the versions of a subject's data encryption key."""
        return self._run(self._async.dek_versions(kek, subject, algorithm=algorithm, deleted=deleted))

    def dek(
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
        return self._run(self._async.dek(kek, subject, version=version, algorithm=algorithm, deleted=deleted))

    def create_dek(self, kek: str, subject: str, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a subject's data encryption key, from and to the registry's JSON.

        Args:
            kek: name of the key encryption key.
            subject: name of the subject.
            described: version, algorithm, encryptedKeyMaterial; `subject` is added.
        """
        return self._run(self._async.create_dek(kek, subject, described))

    def delete_dek(
        self,
        kek: str,
        subject: str,
        *,
        version: int | str | None = None,
        algorithm: str | None = None,
        permanent: bool = False,
    ) -> None:
        """Delete all versions of a subject's data encryption key, or one; with `permanent` what was deleted softly."""
        self._run(self._async.delete_dek(kek, subject, version=version, algorithm=algorithm, permanent=permanent))

    def undelete_dek(
        self, kek: str, subject: str, *, version: int | str | None = None, algorithm: str | None = None
    ) -> None:
        """Restore all versions of a subject's data encryption key, or one, that were deleted softly."""
        self._run(self._async.undelete_dek(kek, subject, version=version, algorithm=algorithm))

    def registry_id(self) -> str:
        """Return the id of the registry's cluster."""
        return self._run(self._async.registry_id())

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
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
        return self._run(self._async.request(method, path, query=query, body=body))

    def _run(self, work: Coroutine[object, None, T]) -> T:
        return _LOOP_THREAD.run(work)

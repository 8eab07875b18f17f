"""`Registry`: the blocking client of a schema registry; every method runs that of `AsyncRegistry` on a loop thread.

An answer from a cache costs no change of threads. All blocking registries of a process share one loop thread, which is
not that of the Kafka clients: a serializer that asks the registry on the clients' loop thread would wait for itself.
After a fork, a registry goes on working in the child with connections of its own. Methods are documented in
`AsyncRegistry`; `documented_by` copies the docstrings.
"""

# ruff: noqa: D102 - the docstrings come from the async face, see `documented_by`

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from kafkaraw.client.documentation import documented_by
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

T = TypeVar("T")

_LOOP_THREAD: Final = LoopThread("kafkaraw-registry")


@documented_by(AsyncRegistry)
class Registry:
    """A client of a schema registry: the blocking form of `AsyncRegistry`. It connects on first use.

    Args:
        url: the registry's URL, or several URLs of one registry.
        settings: see `RegistryConfig`.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.

    Errors of the methods: see `AsyncRegistry`.
    """

    def __init__(self, url: str | Sequence[str], **settings: object) -> None:
        self._async = AsyncRegistry(url, **settings)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(**settings_from_config(config))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._run(self._async.close())

    def cached_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema | None:
        return self._async.cached_by_id(schema_id, subject=subject)

    def cached_by_guid(self, guid: str) -> RegisteredSchema | None:
        return self._async.cached_by_guid(guid)

    def cached_registration(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema | None:
        return self._async.cached_registration(subject, schema, normalize=normalize)

    def cached_version(self, subject: str, version: int | str) -> RegisteredSchema | None:
        return self._async.cached_version(subject, version)

    def cached_latest_with_metadata(self, subject: str, properties: Mapping[str, str]) -> RegisteredSchema | None:
        return self._async.cached_latest_with_metadata(subject, properties)

    def cached_bundle(self, schema: Schema, *, subject: str | None = None) -> SchemaBundle | None:
        return self._async.cached_bundle(schema, subject=subject)

    def clear_caches(self) -> None:
        self._async.clear_caches()

    def check(self, subject: str | None = None) -> None:
        self._run(self._async.check(subject))

    def schema_types(self) -> tuple[str, ...]:
        return self._run(self._async.schema_types())

    def schemas(
        self, prefix: str = "", *, deleted: bool = False, latest_only: bool = False
    ) -> tuple[RegisteredSchema, ...]:
        return self._run(self._async.schemas(prefix, deleted=deleted, latest_only=latest_only))

    def schema_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema:
        found = self._async.cached_by_id(schema_id, subject=subject)
        return found if found is not None else self._run(self._async.schema_by_id(schema_id, subject=subject))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        found = self._async.cached_by_guid(guid)
        return found if found is not None else self._run(self._async.schema_by_guid(guid))

    def ids_of_guid(self, guid: str) -> tuple[tuple[str, int], ...]:
        return self._run(self._async.ids_of_guid(guid))

    def subjects_of_id(self, schema_id: int, *, deleted: bool = False) -> tuple[str, ...]:
        return self._run(self._async.subjects_of_id(schema_id, deleted=deleted))

    def versions_of_id(self, schema_id: int, *, deleted: bool = False) -> tuple[tuple[str, int], ...]:
        return self._run(self._async.versions_of_id(schema_id, deleted=deleted))

    def subjects(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> tuple[str, ...]:
        return self._run(self._async.subjects(prefix, deleted=deleted, deleted_only=deleted_only))

    def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> tuple[int, ...]:
        return self._run(self._async.versions(subject, deleted=deleted, deleted_only=deleted_only))

    def version(self, subject: str, version: int | str = LATEST, *, deleted: bool = False) -> RegisteredSchema:
        is_number = isinstance(version, int) and version > 0  # the latest version is asked for each time
        found = self._async.cached_version(subject, version) if is_number else None
        return found if found is not None else self._run(self._async.version(subject, version, deleted=deleted))

    def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], *, deleted: bool = False
    ) -> RegisteredSchema:
        return self._run(self._async.latest_with_metadata(subject, properties, deleted=deleted))

    def referenced_by(self, subject: str, version: int | str = LATEST) -> tuple[int, ...]:
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
        found = None if deleted else self._async.cached_registration(subject, schema, normalize=normalize)
        if found is not None:
            return found
        return self._run(self._async.lookup(subject, schema, normalize=normalize, deleted=deleted))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> tuple[int, ...]:
        return self._run(self._async.delete_subject(subject, permanent=permanent))

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        return self._run(self._async.delete_version(subject, version, permanent=permanent))

    def incompatibilities(
        self, subject: str, schema: Schema, *, version: int | str | None = None, normalize: bool = False
    ) -> tuple[str, ...]:
        return self._run(self._async.incompatibilities(subject, schema, version=version, normalize=normalize))

    def bundle(self, schema: Schema, *, subject: str | None = None) -> SchemaBundle:
        found = self._async.cached_bundle(schema, subject=subject)
        return found if found is not None else self._run(self._async.bundle(schema, subject=subject))

    def config(self, subject: str | None = None, *, default_to_global: bool = True) -> SubjectConfig:
        return self._run(self._async.config(subject, default_to_global=default_to_global))

    def set_config(self, config: SubjectConfig, subject: str | None = None) -> SubjectConfig:
        return self._run(self._async.set_config(config, subject))

    def delete_config(self, subject: str | None = None) -> SubjectConfig:
        return self._run(self._async.delete_config(subject))

    def compatibility(self, subject: str | None = None) -> CompatibilityLevel:
        return self._run(self._async.compatibility(subject))

    def set_compatibility(self, level: CompatibilityLevel | str, subject: str | None = None) -> None:
        self._run(self._async.set_compatibility(level, subject))

    def mode(self, subject: str | None = None, *, default_to_global: bool = True) -> Mode:
        return self._run(self._async.mode(subject, default_to_global=default_to_global))

    def set_mode(self, mode: Mode | str, subject: str | None = None, *, force: bool = False) -> Mode:
        return self._run(self._async.set_mode(mode, subject, force=force))

    def delete_mode(self, subject: str | None = None) -> Mode:
        return self._run(self._async.delete_mode(subject))

    def contexts(self) -> tuple[str, ...]:
        return self._run(self._async.contexts())

    def exporters(self) -> tuple[str, ...]:
        return self._run(self._async.exporters())

    def exporter(self, name: str, part: str = "") -> Mapping[str, Any]:
        return self._run(self._async.exporter(name, part))

    def create_exporter(self, described: Mapping[str, Any]) -> str:
        return self._run(self._async.create_exporter(described))

    def change_exporter(self, name: str, changed: Mapping[str, Any] | None = None, part: str = "") -> str:
        return self._run(self._async.change_exporter(name, changed, part))

    def delete_exporter(self, name: str) -> None:
        self._run(self._async.delete_exporter(name))

    def associations(
        self,
        resource: str,
        *,
        namespace: str = "-",
        resource_type: str | None = None,
        association_types: Sequence[str] = (),
    ) -> tuple[Mapping[str, Any], ...]:
        return self._run(
            self._async.associations(
                resource, namespace=namespace, resource_type=resource_type, association_types=association_types
            )
        )

    def associations_of_subject(
        self, subject: str, *, resource_type: str | None = None, association_types: Sequence[str] = ()
    ) -> tuple[Mapping[str, Any], ...]:
        return self._run(
            self._async.associations_of_subject(
                subject, resource_type=resource_type, association_types=association_types
            )
        )

    def create_association(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._run(self._async.create_association(described))

    def change_association(self, resource_id: str, described: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._run(self._async.change_association(resource_id, described))

    def delete_associations(
        self,
        resource_id: str,
        *,
        resource_type: str | None = None,
        association_types: Sequence[str] = (),
        cascade: bool = False,
    ) -> None:
        self._run(
            self._async.delete_associations(
                resource_id, resource_type=resource_type, association_types=association_types, cascade=cascade
            )
        )

    def keks(self, *, deleted: bool = False) -> tuple[str, ...]:
        return self._run(self._async.keks(deleted=deleted))

    def kek(self, name: str, *, deleted: bool = False) -> Mapping[str, Any]:
        return self._run(self._async.kek(name, deleted=deleted))

    def create_kek(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._run(self._async.create_kek(described))

    def change_kek(self, name: str, changed: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._run(self._async.change_kek(name, changed))

    def delete_kek(self, name: str, *, permanent: bool = False) -> None:
        self._run(self._async.delete_kek(name, permanent=permanent))

    def undelete_kek(self, name: str) -> None:
        self._run(self._async.undelete_kek(name))

    def deks(self, kek: str, *, deleted: bool = False) -> tuple[str, ...]:
        return self._run(self._async.deks(kek, deleted=deleted))

    def dek_versions(
        self, kek: str, subject: str, *, algorithm: str | None = None, deleted: bool = False
    ) -> tuple[int, ...]:
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
        return self._run(self._async.dek(kek, subject, version=version, algorithm=algorithm, deleted=deleted))

    def create_dek(self, kek: str, subject: str, described: Mapping[str, Any]) -> Mapping[str, Any]:
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
        self._run(self._async.delete_dek(kek, subject, version=version, algorithm=algorithm, permanent=permanent))

    def undelete_dek(
        self, kek: str, subject: str, *, version: int | str | None = None, algorithm: str | None = None
    ) -> None:
        self._run(self._async.undelete_dek(kek, subject, version=version, algorithm=algorithm))

    def registry_id(self) -> str:
        return self._run(self._async.registry_id())

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        return self._run(self._async.request(method, path, query=query, body=body))

    def _run(self, work: Coroutine[object, None, T]) -> T:
        return _LOOP_THREAD.run(work)

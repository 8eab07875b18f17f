"""`Admin`: the blocking admin client. Every method runs the method of `AsyncAdmin` on the loop thread.

Methods are documented where they are implemented; `documented_by` copies the docstrings. The package has the rules.
"""

# ruff: noqa: D102 - the docstrings come from the async face, see `documented_by`

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Never, Self

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.config import AdminConfig
from kafkaraw.client.documentation import documented_by
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.runtime import Runtime

if TYPE_CHECKING:
    from types import TracebackType

    from kafkaraw.client.admin import (
        AclBinding,
        AclBindingFilter,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        GroupDescription,
        GroupListing,
        GroupState,
        GroupType,
        LogDirDescription,
        NewPartitions,
        NewTopic,
        QuotaEntity,
        ScramPassword,
        ScramRemoval,
        TopicCreated,
        TopicDescription,
        TopicListing,
        TopicPartitionReplica,
        TransactionListing,
    )
    from kafkaraw.client.committed import OffsetAndMetadata, PreparedTransaction
    from kafkaraw.client.java_names import Properties
    from kafkaraw.protocol import Uuid
    from kafkaraw.records import TopicPartition


@documented_by(AsyncAdmin)
class Admin:
    """Manages a cluster: the blocking form of `AsyncAdmin`. The client connects on first use.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `AdminConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._async = AsyncAdmin(runtime=runtime, **settings)
        self._bridge = Bridge("admin client", self._async)

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
        from kafkaraw.client.java_names import made_from_properties  # only here: Java's names are a large table

        return made_from_properties(cls, AdminConfig, properties, runtime, settings)

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, timeout: float | None = None, validate_only: bool = False
    ) -> dict[str, TopicCreated]:
        return self._bridge.run(self._async.create_topics(topics, timeout=timeout, validate_only=validate_only))

    def delete_topics(self, topics: Iterable[str | Uuid], *, timeout: float | None = None) -> None:
        self._bridge.run(self._async.delete_topics(topics, timeout=timeout))

    def list_topics(self, *, timeout: float | None = None) -> list[TopicListing]:
        return self._bridge.run(self._async.list_topics(timeout=timeout))

    def describe_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        return self._bridge.run(self._async.describe_topics(names, timeout=timeout))

    def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        self._bridge.run(self._async.create_partitions(topics, timeout=timeout, validate_only=validate_only))

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._bridge.run(self._async.delete_records(offsets, timeout=timeout))

    def describe_cluster(
        self, *, authorized_operations: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        return self._bridge.run(
            self._async.describe_cluster(authorized_operations=authorized_operations, timeout=timeout)
        )

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        return self._bridge.run(self._async.describe_log_dirs(brokers, timeout=timeout))

    def alter_replica_log_dirs(
        self, destinations: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.alter_replica_log_dirs(destinations, timeout=timeout))

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return self._bridge.run(
            self._async.describe_configs(
                resources, names=names, synonyms=synonyms, documentation=documentation, timeout=timeout
            )
        )

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None] | Iterable[ConfigChange]],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        self._bridge.run(self._async.alter_configs(changes, timeout=timeout, validate_only=validate_only))

    def alter_user_scram_credentials(
        self, changes: Iterable[ScramPassword | ScramRemoval], *, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.alter_user_scram_credentials(changes, timeout=timeout))

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Mapping[str, int]]:
        return self._bridge.run(self._async.describe_user_scram_credentials(users, timeout=timeout))

    def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        self._bridge.run(self._async.alter_client_quotas(quotas, timeout=timeout, validate_only=validate_only))

    def describe_client_quotas(
        self, matching: QuotaEntity | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        return self._bridge.run(self._async.describe_client_quotas(matching, strict=strict, timeout=timeout))

    def create_acls(self, acls: Iterable[AclBinding], *, timeout: float | None = None) -> None:
        self._bridge.run(self._async.create_acls(acls, timeout=timeout))

    def describe_acls(
        self, matching: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        return self._bridge.run(self._async.describe_acls(matching, timeout=timeout))

    def delete_acls(
        self, matching: Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> dict[AclBindingFilter, list[AclBinding]]:
        return self._bridge.run(self._async.delete_acls(matching, timeout=timeout))

    def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        protocol_types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        return self._bridge.run(
            self._async.list_groups(states=states, types=types, protocol_types=protocol_types, timeout=timeout)
        )

    def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        return self._bridge.run(
            self._async.describe_groups(groups, authorized_operations=authorized_operations, timeout=timeout)
        )

    def delete_groups(self, groups: Iterable[str], *, timeout: float | None = None) -> None:
        self._bridge.run(self._async.delete_groups(groups, timeout=timeout))

    def remove_members(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
    ) -> None:
        self._bridge.run(self._async.remove_members(group_id, instance_ids, reason=reason, timeout=timeout))

    def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        return self._bridge.run(self._async.list_group_offsets(groups, require_stable=require_stable, timeout=timeout))

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> None:
        self._bridge.run(self._async.alter_group_offsets(group_id, offsets, timeout=timeout))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.delete_group_offsets(group_id, partitions, timeout=timeout))

    def list_transactions(
        self, *, states: Iterable[str] = (), timeout: float | None = None
    ) -> list[TransactionListing]:
        return self._bridge.run(self._async.list_transactions(states=states, timeout=timeout))

    def fence_producers(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        self._bridge.run(self._async.fence_producers(transactional_ids, timeout=timeout))

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None = None) -> None:
        self._bridge.run(self._async.end_transaction(prepared, commit=commit, timeout=timeout))

    def metrics(self) -> Metrics:
        return self._async.metrics()

    def close(self) -> None:
        if self._bridge.is_lost:
            self._bridge.let_go()
        else:
            self._bridge.run(self._async.close())

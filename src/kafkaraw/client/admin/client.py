"""`AsyncAdmin`: the operations of the admin client. It passes every operation on to the class of its area.

Methods are documented where they are implemented, in the areas; `documented_by` copies the docstrings.
"""

# ruff: noqa: D102 - the docstrings come from the areas, see `documented_by`

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Never, Self

from kafkaraw.client.admin.acls import AclAdmin, AclBinding, AclBindingFilter
from kafkaraw.client.admin.calls import Calls
from kafkaraw.client.admin.cluster import ClusterAdmin, ClusterDescription
from kafkaraw.client.admin.configs import ConfigAdmin, ConfigChange, ConfigEntry, ConfigResource
from kafkaraw.client.admin.group_descriptions import GroupDescription, GroupListing, GroupState, GroupType
from kafkaraw.client.admin.group_offsets import GroupOffsetAdmin
from kafkaraw.client.admin.groups import GroupAdmin
from kafkaraw.client.admin.log_dirs import LogDirAdmin, LogDirDescription, TopicPartitionReplica
from kafkaraw.client.admin.partitions import NewPartitions, PartitionAdmin
from kafkaraw.client.admin.quotas import QuotaAdmin, QuotaEntity
from kafkaraw.client.admin.topics import NewTopic, TopicAdmin, TopicCreated, TopicDescription, TopicListing
from kafkaraw.client.admin.transactions import TransactionAdmin, TransactionListing
from kafkaraw.client.admin.users import ScramPassword, ScramRemoval, UserAdmin
from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.committed import OffsetAndMetadata, PreparedTransaction
from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.documentation import documented_by
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.runtime import Runtime
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    from kafkaraw.client.java_names import Properties


@documented_by(
    TopicAdmin,
    PartitionAdmin,
    ClusterAdmin,
    LogDirAdmin,
    ConfigAdmin,
    UserAdmin,
    QuotaAdmin,
    AclAdmin,
    GroupAdmin,
    GroupOffsetAdmin,
    TransactionAdmin,
)
class AsyncAdmin:
    """Manages a cluster: topics, configurations, users, ACLs, groups and transactions. Connects on first use.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `AdminConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._engine = Engine.on(parse(AdminConfig, settings), runtime)
        calls = Calls(self._engine)
        self._topics = TopicAdmin(calls)
        self._partitions = PartitionAdmin(calls)
        self._cluster = ClusterAdmin(calls)
        self._log_dirs = LogDirAdmin(calls)
        self._configs = ConfigAdmin(calls)
        self._users = UserAdmin(calls)
        self._quotas = QuotaAdmin(calls)
        self._acls = AclAdmin(calls)
        self._groups = GroupAdmin(calls)
        self._group_offsets = GroupOffsetAdmin(calls)
        self._transactions = TransactionAdmin(calls)

    @classmethod
    def from_properties(cls, properties: Properties, *, runtime: Runtime | None = None, **settings: object) -> Self:
        """Create an admin client from a Java client's configuration: a `.properties` file, or names and values.

        `settings` override the configuration.

        Raises:
            ConfigError: the file cannot be read, or a name or a value is not accepted; the message says what to use
                instead.
        """
        from kafkaraw.client.java_names import made_from_properties  # only here: Java's names are a large table

        return made_from_properties(cls, AdminConfig, properties, runtime, settings)

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- topics

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, timeout: float | None = None, validate_only: bool = False
    ) -> dict[str, TopicCreated]:
        return await self._topics.create_topics(topics, timeout=timeout, validate_only=validate_only)

    async def delete_topics(self, topics: Iterable[str | Uuid], *, timeout: float | None = None) -> None:
        await self._topics.delete_topics(topics, timeout=timeout)

    async def list_topics(self, *, timeout: float | None = None) -> list[TopicListing]:
        return await self._topics.list_topics(timeout=timeout)

    async def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        return await self._topics.describe_topics(names, timeout=timeout)

    async def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        await self._partitions.create_partitions(topics, timeout=timeout, validate_only=validate_only)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._partitions.delete_records(offsets, timeout=timeout)

    # -- the cluster and its configuration

    async def describe_cluster(
        self, *, authorized_operations: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        return await self._cluster.describe_cluster(authorized_operations=authorized_operations, timeout=timeout)

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        return await self._log_dirs.describe_log_dirs(brokers, timeout=timeout)

    async def alter_replica_log_dirs(
        self, destinations: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> None:
        await self._log_dirs.alter_replica_log_dirs(destinations, timeout=timeout)

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return await self._configs.describe_configs(
            resources, names=names, synonyms=synonyms, documentation=documentation, timeout=timeout
        )

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None] | Iterable[ConfigChange]],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        await self._configs.alter_configs(changes, timeout=timeout, validate_only=validate_only)

    # -- users and quotas

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramPassword | ScramRemoval], *, timeout: float | None = None
    ) -> None:
        await self._users.alter_user_scram_credentials(changes, timeout=timeout)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Mapping[str, int]]:
        return await self._users.describe_user_scram_credentials(users, timeout=timeout)

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        await self._quotas.alter_client_quotas(quotas, timeout=timeout, validate_only=validate_only)

    async def describe_client_quotas(
        self, matching: QuotaEntity | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        return await self._quotas.describe_client_quotas(matching, strict=strict, timeout=timeout)

    # -- access control lists

    async def create_acls(self, acls: Iterable[AclBinding], *, timeout: float | None = None) -> None:
        await self._acls.create_acls(acls, timeout=timeout)

    async def describe_acls(
        self, matching: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        return await self._acls.describe_acls(matching, timeout=timeout)

    async def delete_acls(
        self, matching: Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> dict[AclBindingFilter, list[AclBinding]]:
        return await self._acls.delete_acls(matching, timeout=timeout)

    # -- groups

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        protocol_types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        return await self._groups.list_groups(
            states=states, types=types, protocol_types=protocol_types, timeout=timeout
        )

    async def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        return await self._groups.describe_groups(groups, authorized_operations=authorized_operations, timeout=timeout)

    async def delete_groups(self, groups: Iterable[str], *, timeout: float | None = None) -> None:
        await self._groups.delete_groups(groups, timeout=timeout)

    async def remove_members(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
    ) -> None:
        await self._groups.remove_members(group_id, instance_ids, reason=reason, timeout=timeout)

    async def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        return await self._group_offsets.list_group_offsets(groups, require_stable=require_stable, timeout=timeout)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> None:
        await self._group_offsets.alter_group_offsets(group_id, offsets, timeout=timeout)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        await self._group_offsets.delete_group_offsets(group_id, partitions, timeout=timeout)

    # -- transactions

    async def list_transactions(
        self, *, states: Iterable[str] = (), timeout: float | None = None
    ) -> list[TransactionListing]:
        return await self._transactions.list_transactions(states=states, timeout=timeout)

    async def fence_producers(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        await self._transactions.fence_producers(transactional_ids, timeout=timeout)

    async def end_transaction(
        self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None = None
    ) -> None:
        await self._transactions.end_transaction(prepared, commit=commit, timeout=timeout)

    # -- itself

    def metrics(self) -> Metrics:
        """Return the metrics of this client about each broker. May be called after `close`, too.

        Returns:
            metrics by node id as text (and "bootstrap"), then by name: requests, requests_failed, in_flight,
            latency_count, latency_sum_s, latency_max_s, latency_histogram (responses within each bound in seconds),
            bytes_in, bytes_out, throttle_time_s, connections (open now), connections_opened, _failed and _closed.
        """
        return self._engine.metrics.as_dict()

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._engine.close()

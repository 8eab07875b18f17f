"""`Admin`: the blocking admin client. Every method runs the method of `AsyncAdmin` on the loop thread.

Methods are documented where they are implemented; `documented_by` copies the docstrings. The package has the rules.
"""

# ruff: noqa: D102 - the docstrings come from the async face, see `documented_by`

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
        DelegationToken,
        ElectionType,
        FeatureMetadata,
        FeatureUpdate,
        GroupDescription,
        GroupListing,
        GroupState,
        GroupType,
        LogDirDescription,
        MetadataQuorum,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        PartitionReassignment,
        ProducerState,
        QuotaEntity,
        RaftVoterEndpoint,
        ReplicaLogDir,
        ScramPassword,
        ScramRemoval,
        TopicCreated,
        TopicDescription,
        TopicListing,
        TopicPartitionReplica,
        TransactionDescription,
        TransactionListing,
        VersionRange,
    )
    from kafkaraw.client.admin.topics import TopicKey
    from kafkaraw.client.committed import OffsetAndMetadata, PreparedTransaction
    from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
    from kafkaraw.client.java_names import Properties
    from kafkaraw.protocol import Uuid
    from kafkaraw.protocol.config_codes import ConfigResourceType
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

    def describe_topics(
        self, topics: Iterable[TopicKey], *, authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[TopicKey, TopicDescription]:
        return self._bridge.run(
            self._async.describe_topics(topics, authorized_operations=authorized_operations, timeout=timeout)
        )

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

    def list_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._bridge.run(self._async.list_offsets(offsets, isolation_level=isolation_level, timeout=timeout))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        return self._bridge.run(self._async.describe_producers(partitions, broker=broker, timeout=timeout))

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

    def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDir]:
        return self._bridge.run(self._async.describe_replica_log_dirs(replicas, timeout=timeout))

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

    def list_config_resources(
        self, kinds: Iterable[ConfigResourceType] | None = None, *, timeout: float | None = None
    ) -> list[ConfigResource]:
        return self._bridge.run(self._async.list_config_resources(kinds, timeout=timeout))

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        return self._bridge.run(self._async.elect_leaders(election_type, partitions, timeout=timeout))

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        self._bridge.run(
            self._async.alter_partition_reassignments(
                reassignments, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
            )
        )

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        return self._bridge.run(self._async.list_partition_reassignments(partitions, timeout=timeout))

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> MetadataQuorum:
        return self._bridge.run(self._async.describe_metadata_quorum(timeout=timeout))

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self._bridge.run(
            self._async.add_raft_voter(voter_id, directory_id, endpoints, cluster_id=cluster_id, timeout=timeout)
        )

    def remove_raft_voter(
        self, voter_id: int, directory_id: Uuid, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id, timeout=timeout))

    def describe_features(self, *, timeout: float | None = None) -> FeatureMetadata:
        return self._bridge.run(self._async.describe_features(timeout=timeout))

    def describe_api_versions(self, *, timeout: float | None = None) -> dict[int, dict[int, VersionRange]]:
        return self._bridge.run(self._async.describe_api_versions(timeout=timeout))

    def update_features(
        self,
        updates: Mapping[str, int | FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._bridge.run(self._async.update_features(updates, validate_only=validate_only, timeout=timeout))

    def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        self._bridge.run(self._async.unregister_broker(broker, timeout=timeout))

    def alter_user_scram_credentials(
        self, changes: Iterable[ScramPassword | ScramRemoval], *, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.alter_user_scram_credentials(changes, timeout=timeout))

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Mapping[str, int]]:
        return self._bridge.run(self._async.describe_user_scram_credentials(users, timeout=timeout))

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        return self._bridge.run(
            self._async.create_delegation_token(
                owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms, timeout=timeout
            )
        )

    def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout: float | None = None
    ) -> int:
        return self._bridge.run(
            self._async.renew_delegation_token(hmac, renew_period_ms=renew_period_ms, timeout=timeout)
        )

    def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout: float | None = None
    ) -> int:
        return self._bridge.run(
            self._async.expire_delegation_token(hmac, expiry_period_ms=expiry_period_ms, timeout=timeout)
        )

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        return self._bridge.run(self._async.describe_delegation_tokens(owners, timeout=timeout))

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
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        return self._bridge.run(
            self._async.list_transactions(
                states=states,
                producer_ids=producer_ids,
                longer_than_ms=longer_than_ms,
                pattern=pattern,
                timeout=timeout,
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        return self._bridge.run(self._async.describe_transactions(transactional_ids, timeout=timeout))

    def abort_transaction(
        self, partition: TopicPartition, producer: ProducerState, *, timeout: float | None = None
    ) -> None:
        self._bridge.run(self._async.abort_transaction(partition, producer, timeout=timeout))

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

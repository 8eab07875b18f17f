"""`AsyncAdmin`: the operations of the admin client. It passes every operation on to the class of its area.

An area is imported when one of its operations is first called: most programs use one or two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Never, Self, Unpack

from kafkaraw.client.admin.calls import Calls
from kafkaraw.client.arguments import refuse_positional
from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.metrics.client_metrics import Metrics
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.runtime import Runtime

if TYPE_CHECKING:
    from types import TracebackType

    from kafkaraw.client.admin.acls import AclAdmin, AclBinding, AclBindingFilter
    from kafkaraw.client.admin.cluster import ClusterAdmin, ClusterDescription
    from kafkaraw.client.admin.configs import ConfigAdmin, ConfigChange, ConfigEntry, ConfigResource
    from kafkaraw.client.admin.features import FeatureAdmin, FeatureMetadata, FeatureUpdate, VersionRange
    from kafkaraw.client.admin.group_descriptions import GroupDescription, GroupListing, GroupState, GroupType
    from kafkaraw.client.admin.group_offsets import GroupOffsetAdmin
    from kafkaraw.client.admin.groups import GroupAdmin
    from kafkaraw.client.admin.log_dirs import LogDirAdmin, LogDirDescription, ReplicaLogDir, TopicPartitionReplica
    from kafkaraw.client.admin.offsets import OffsetAdmin, OffsetSpec
    from kafkaraw.client.admin.partitions import NewPartitions, PartitionAdmin
    from kafkaraw.client.admin.producers import OpenTransaction, ProducerAdmin, ProducerState
    from kafkaraw.client.admin.quorum import MetadataQuorum, QuorumAdmin, RaftVoterEndpoint
    from kafkaraw.client.admin.quotas import QuotaAdmin, QuotaEntity
    from kafkaraw.client.admin.replicas import ElectionType, PartitionReassignment, ReplicaAdmin
    from kafkaraw.client.admin.share_group_offsets import ShareGroupOffsetAdmin, SharePartitionOffsetInfo
    from kafkaraw.client.admin.tokens import DelegationToken, TokenAdmin
    from kafkaraw.client.admin.topics import (
        NewTopic,
        TopicAdmin,
        TopicCreated,
        TopicDescription,
        TopicKey,
        TopicListing,
    )
    from kafkaraw.client.admin.transactions import TransactionAdmin, TransactionDescription, TransactionListing
    from kafkaraw.client.admin.users import ScramPassword, ScramRemoval, UserAdmin
    from kafkaraw.client.committed import OffsetAndMetadata, PreparedTransaction
    from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
    from kafkaraw.client.java_names import Properties
    from kafkaraw.client.settings_types import AdminSettings
    from kafkaraw.protocol import Uuid
    from kafkaraw.protocol.config_codes import ConfigResourceType
    from kafkaraw.records import TopicPartition


class AsyncAdmin:
    """Manages a cluster: topics, configurations, users, ACLs, groups and transactions. Connects on first use.

    Args:
        runtime: network, clock and randomness; the real ones when None.
        settings: see `AdminConfig`; `bootstrap_servers` is required.

    Raises:
        ConfigError: an unknown setting (the nearest one is named) or a value that does not fit.
        UsageError: a positional argument.
    """

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: Unpack[AdminSettings]) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._engine = Engine.on(parse(AdminConfig, settings), runtime)
        self._calls = Calls(self._engine)

    @classmethod
    def from_properties(
        cls, properties: Properties, *, runtime: Runtime | None = None, **settings: Unpack[AdminSettings]
    ) -> Self:
        """Create an admin client from a `.properties` file, or a dict of names and values.

        Names are those of Java's clients, of librdkafka (so of confluent-kafka), or ours with dots. `settings` override
        them. The log has a warning with the names that have no effect here.

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
        """Create topics, and wait until the cluster knows them.

        Args:
            topics: the topics to create; a name is short for `NewTopic(name)`.
            timeout: seconds; None is `default_api_timeout_ms`.
            validate_only: only validate the request.

        Raises:
            UsageError: `topics` is one name, and not a list.
            BrokerError: a topic could not be created: it exists, or its name or a setting is invalid. The message names
                each topic that failed; the code is that of the first. The others are created.
            KafkaError: no broker answered in time.
        """
        return await self._topics.create_topics(topics, timeout=timeout, validate_only=validate_only)

    async def delete_topics(self, topics: Iterable[str | Uuid], *, timeout: float | None = None) -> None:
        """Delete topics with all their records.

        Args:
            topics: names or ids. An id never deletes a newer topic with the same name.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a topic could not be deleted, for example because it does not exist; as in `create_topics`.
            UnsupportedVersionError: an id is given, and the broker is older than 2.8.
            KafkaError: no broker answered in time.
        """
        await self._topics.delete_topics(topics, timeout=timeout)

    async def list_topics(self, *, timeout: float | None = None) -> list[TopicListing]:
        """List the topics that this client may describe, in order of their names, internal topics included.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no broker answered in time.
        """
        return await self._topics.list_topics(timeout=timeout)

    async def describe_topics(
        self, topics: Iterable[TopicKey], *, authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[TopicKey, TopicDescription]:
        """Describe topics: partitions, leaders and replicas.

        Args:
            topics: names or ids. An id never finds a newer topic with the same name.
            authorized_operations: also return the operations on each topic that this client may do (from brokers 2.3).
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a topic cannot be described, for example because it does not exist; as in `create_topics`.
            UnsupportedVersionError: an id is given, and the broker is older than 3.1.
            KafkaError: no broker answered in time.
        """
        return await self._topics.describe_topics(topics, authorized_operations=authorized_operations, timeout=timeout)

    async def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        """Add partitions to topics, and wait until the cluster knows them.

        Afterwards a key may be mapped to another partition, because the number of partitions decides the mapping.

        Args:
            topics: the new number of partitions by topic; a number is short for `NewPartitions(number)`.
            timeout: seconds; None is `default_api_timeout_ms`.
            validate_only: only validate the request.

        Raises:
            BrokerError: a topic does not exist, or has as many partitions already. The message names each topic that
                failed; the code is that of the first. The others have the new partitions.
            KafkaError: no broker answered in time.
        """
        await self._partitions.create_partitions(topics, timeout=timeout, validate_only=validate_only)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records of partitions before an offset. This cannot be undone.

        Args:
            offsets: the first offset to keep, by partition; -1 deletes all records below the high watermark.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            the new log start offset, by partition.

        Raises:
            BrokerError: an offset is not in the log (OFFSET_OUT_OF_RANGE), the topic is compacted (POLICY_VIOLATION) or
                does not exist. The message names each partition that failed. In the others, records are deleted.
            KafkaError: a leader did not answer in time.
        """
        return await self._partitions.delete_records(offsets, timeout=timeout)

    async def list_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find offsets in partitions: both ends, by timestamp, and the ends of tiered storage.

        Args:
            offsets: by partition a place (`OffsetSpec`), or a timestamp in milliseconds since 1970: that of the first
                record which is as late or later.
            isolation_level: with "read_committed", LATEST is the last stable offset.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            the offset by partition, with the timestamp and the leader epoch of the record there if the broker returns
            them; None if there is no such offset.

        Raises:
            BrokerError: a partition does not exist, or has no leader. The message names each partition that failed;
                `failures` has the errors by partition.
            UnsupportedVersionError: a broker is too old for a place.
            KafkaError: a leader did not answer in time.
        """
        return await self._offsets.list_offsets(offsets, isolation_level=isolation_level, timeout=timeout)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers that have written to partitions with idempotence or in transactions.

        Args:
            partitions: the partitions.
            broker: ask this replica; None asks the leader of each partition.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a partition does not exist, or this client may not READ it. The message names each partition
                that failed; `failures` has the errors by partition.
            UsageError: there is no such broker.
            UnsupportedVersionError: a broker is older than 2.8.
            KafkaError: a leader did not answer in time.
        """
        return await self._producers.describe_producers(partitions, broker=broker, timeout=timeout)

    # -- the cluster and its configuration

    async def describe_cluster(
        self, *, authorized_operations: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """Return the cluster's id, its brokers and its controller.

        Args:
            authorized_operations: also return the operations on the cluster that this client may do (from brokers 2.3).
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the broker refuses.
            KafkaError: no broker answered in time.
        """
        return await self._cluster.describe_cluster(authorized_operations=authorized_operations, timeout=timeout)

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        """Return the log directories of brokers, and the replicas in them. The client asks each of these brokers.

        Args:
            brokers: ids of brokers; None is all that run.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a broker refuses.
            UsageError: there is no broker with one of the ids.
            KafkaError: a broker did not answer in time.
        """
        return await self._log_dirs.describe_log_dirs(brokers, timeout=timeout)

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDir]:
        """Return the log directories of replicas, and those to which they are being moved.

        Args:
            replicas: the replicas; a broker is asked for its own.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a broker refuses.
            UsageError: there is no broker with one of the ids.
            KafkaError: a broker did not answer in time.
        """
        return await self._log_dirs.describe_replica_log_dirs(replicas, timeout=timeout)

    async def alter_replica_log_dirs(
        self, destinations: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> None:
        """Move replicas to other log directories of their brokers; returns when the moves have begun.

        `describe_log_dirs` shows a future replica until a move is complete. For a replica that does not exist yet, the
        broker keeps the directory for its creation, and answers with UNKNOWN_TOPIC_OR_PARTITION, or with
        REPLICA_NOT_AVAILABLE if the partition has replicas on other brokers.

        Args:
            destinations: the path of the directory of each replica, as `describe_log_dirs` returns it.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a broker refuses; the message names each replica that it refused to move.
            KafkaError: a broker did not answer in time.
        """
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
        """Describe the settings of topics, brokers, groups or client metrics subscriptions, with their sources.

        Args:
            resources: the resources to describe; the settings of a broker are requested from that broker.
            names: only these settings; None is all settings.
            synonyms: also return the values from the other sources.
            documentation: also return the description of each setting (from brokers 2.6).
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            settings by resource, then by name.

        Raises:
            BrokerError: a resource cannot be described, for example because it does not exist; the message names each
                resource that failed.
            KafkaError: no broker answered in time.
            UsageError: there is no broker with one of the ids.
        """
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
        """Alter settings of topics, brokers, groups or client metrics subscriptions. Other settings stay as they are.

        Args:
            changes: by resource, new values by name (None deletes the value, so that the next source counts), or
                `ConfigChange`s for entries of lists.
            timeout: seconds; None is `default_api_timeout_ms`.
            validate_only: only validate the changes.

        Raises:
            BrokerError: a resource could not be altered; none of its settings is. The message names each resource that
                failed.
            KafkaError: no broker answered in time.
            UnsupportedVersionError: the broker is older than 2.3.
            UsageError: there is no broker with one of the ids.
        """
        await self._configs.alter_configs(changes, timeout=timeout, validate_only=validate_only)

    async def list_config_resources(
        self, kinds: Iterable[ConfigResourceType] | None = None, *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """List the resources that have configurations: topics, brokers, groups and client metrics subscriptions.

        Args:
            kinds: only these kinds; None is all.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the broker refuses.
            UnsupportedVersionError: the broker is older than 3.7, or than 4.1 for other kinds than client metrics.
            KafkaError: no broker answered in time.
        """
        return await self._configs.list_config_resources(kinds, timeout=timeout)

    # -- leaders, replicas, and the metadata quorum

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders of partitions: their preferred replicas, or replicas that are not in sync.

        Args:
            election_type: PREFERRED, or UNCLEAN for partitions without a leader, which may lose records.
            partitions: the partitions; None is all that need such an election.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            by partition, whether a leader was elected; False if the election was not needed.

        Raises:
            BrokerError: no replica can be elected, for example because the preferred one is not in sync. The message
                names each partition that failed; `failures` has the errors by partition. The others have leaders.
            KafkaError: no broker answered in time.
        """
        return await self._replicas.elect_leaders(election_type, partitions, timeout=timeout)

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Move replicas of partitions to other brokers, or cancel moves; returns when the moves have begun.

        `list_partition_reassignments` shows a move until the new replicas are in sync and the old ones are removed.

        Args:
            reassignments: by partition the ids of the brokers, the preferred leader first; None cancels a move.
            allow_replication_factor_change: whether the number of replicas may change (False: from brokers 4.1 on).
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a partition or a broker does not exist, or there is no move to cancel
                (NO_REASSIGNMENT_IN_PROGRESS). The message names each partition that failed; `failures` has the errors
                by partition. The other moves have begun.
            UnsupportedVersionError: the broker is older than 2.4.
            KafkaError: no broker answered in time.
        """
        await self._replicas.alter_partition_reassignments(
            reassignments, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """List the moves of replicas between brokers that are in progress.

        Args:
            partitions: only these partitions; None is all.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the broker refuses.
            UnsupportedVersionError: the broker is older than 2.4.
            KafkaError: no broker answered in time.
        """
        return await self._replicas.list_partition_reassignments(partitions, timeout=timeout)

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> MetadataQuorum:
        """Describe the quorum of controllers: its leader, voters and observers, and how far each of them is.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the broker refuses.
            UnsupportedVersionError: the cluster uses ZooKeeper.
            KafkaError: no broker answered in time.
        """
        return await self._quorum.describe_metadata_quorum(timeout=timeout)

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Add a controller to the voters of the metadata quorum; it must run as an observer.

        Args:
            voter_id: the id of the controller.
            directory_id: the id of its metadata directory.
            endpoints: its addresses, one for each listener of controllers.
            cluster_id: the cluster must have this id; None does not check.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the quorum refuses, for example because its voters are static.
            UnsupportedVersionError: the broker is older than 3.9.
            KafkaError: no broker answered in time.
        """
        await self._quorum.add_raft_voter(voter_id, directory_id, endpoints, cluster_id=cluster_id, timeout=timeout)

    async def remove_raft_voter(
        self, voter_id: int, directory_id: Uuid, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        """Remove a controller from the voters of the metadata quorum.

        Args:
            voter_id: the id of the controller.
            directory_id: the id of its metadata directory.
            cluster_id: the cluster must have this id; None does not check.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the quorum refuses, for example because it has no such voter.
            UnsupportedVersionError: the broker is older than 3.9.
            KafkaError: no broker answered in time.
        """
        await self._quorum.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id, timeout=timeout)

    async def describe_features(self, *, timeout: float | None = None) -> FeatureMetadata:
        """Return the features of the cluster: the levels in force, and those that the broker supports.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            KafkaError: no broker answered in time.
        """
        return await self._features.describe_features(timeout=timeout)

    async def describe_api_versions(self, *, timeout: float | None = None) -> dict[int, dict[int, VersionRange]]:
        """Return the versions of APIs that brokers support. The client asks every broker.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            ranges of versions by broker, then by the API's key.

        Raises:
            KafkaError: a broker did not answer in time.
        """
        return await self._features.describe_api_versions(timeout=timeout)

    async def update_features(
        self,
        updates: Mapping[str, int | FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change the levels of features.

        Args:
            updates: changes by feature; a number is short for `FeatureUpdate(number)`, an upgrade to this level.
            validate_only: only validate the request.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the controller refuses; no feature is changed.
            UnsupportedVersionError: the broker is older than 2.7.
            KafkaError: no broker answered in time.
        """
        await self._features.update_features(updates, validate_only=validate_only, timeout=timeout)

    async def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Remove a broker from the cluster's metadata, after it was stopped for good.

        Args:
            broker: its id.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: there is no such broker (BROKER_ID_NOT_REGISTERED).
            UnsupportedVersionError: the cluster uses ZooKeeper.
            KafkaError: no broker answered in time.
        """
        await self._cluster.unregister_broker(broker, timeout=timeout)

    # -- users and quotas

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramPassword | ScramRemoval], *, timeout: float | None = None
    ) -> None:
        """Set and remove SCRAM credentials. They take effect at the next authentication.

        Args:
            changes: at most one for each user; the broker refuses a user with several.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: the mechanism is not SCRAM, or the password has a character that is not allowed.
            BrokerError: the broker refuses a change: the credential does not exist, or there are too few or too many
                iterations. The message names each user that failed; the code is that of the first. The others are
                altered.
            KafkaError: no broker answered in time.
        """
        await self._users.alter_user_scram_credentials(changes, timeout=timeout)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Mapping[str, int]]:
        """Return the SCRAM credentials of users, without passwords.

        Args:
            users: the users; None is all users with credentials.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            iterations by user, then by mechanism.

        Raises:
            BrokerError: a user has no credentials; as in `alter_user_scram_credentials`.
            KafkaError: no broker answered in time.
        """
        return await self._users.describe_user_scram_credentials(users, timeout=timeout)

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Create a delegation token, with which clients authenticate by SCRAM and `sasl_token_auth=True`.

        Args:
            owner: the principal that a client with the token is, such as "User:ada"; None is this client's own.
            renewers: principals that may renew and expire it, besides the owner and this client.
            max_lifetime_ms: it expires for good after this time, in milliseconds; None is the broker's limit.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the broker has no `delegation.token.secret.key`, this connection is not authenticated or is
                authenticated with a token, or this client may not CREATE_TOKENS for the owner.
            KafkaError: no broker answered in time.
        """
        return await self._tokens.create_delegation_token(
            owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms, timeout=timeout
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout: float | None = None
    ) -> int:
        """Let a delegation token expire later, up to its maximum lifetime.

        Args:
            hmac: its secret.
            renew_period_ms: it expires after this time, in milliseconds; None is the broker's default.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            when it expires, in milliseconds since 1970.

        Raises:
            BrokerError: there is no such token, it has expired, or this client is neither its owner nor a renewer.
            KafkaError: no broker answered in time.
        """
        return await self._tokens.renew_delegation_token(hmac, renew_period_ms=renew_period_ms, timeout=timeout)

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout: float | None = None
    ) -> int:
        """Let a delegation token expire earlier.

        Args:
            hmac: its secret.
            expiry_period_ms: it expires after this time, in milliseconds; None is immediately.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            when it expires, in milliseconds since 1970.

        Raises:
            BrokerError: there is no such token, or this client is neither its owner nor a renewer.
            KafkaError: no broker answered in time.
        """
        return await self._tokens.expire_delegation_token(hmac, expiry_period_ms=expiry_period_ms, timeout=timeout)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """Return the delegation tokens that this client owns, may renew, or may DESCRIBE; with their secrets.

        Args:
            owners: only those that these principals own or may renew; None is all.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the broker has no `delegation.token.secret.key`, or this connection is authenticated with a
                token.
            KafkaError: no broker answered in time.
        """
        return await self._tokens.describe_delegation_tokens(owners, timeout=timeout)

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set and remove quotas. They take effect at once.

        Args:
            quotas: by entity and by Kafka's name: `producer_byte_rate`, `consumer_byte_rate` (bytes per second),
                `request_percentage`, `controller_mutation_rate`, or for an address `connection_creation_rate`. None
                removes a quota; quotas that are not named stay.
            timeout: seconds; None is `default_api_timeout_ms`.
            validate_only: only validate the request.

        Raises:
            UsageError: an entity has `QuotaName.ANY`.
            BrokerError: the broker refuses an entity's quotas. The message names each entity that failed; the code is
                that of the first. The others are altered.
            KafkaError: no broker answered in time.
        """
        await self._quotas.alter_client_quotas(quotas, timeout=timeout, validate_only=validate_only)

    async def describe_client_quotas(
        self, matching: QuotaEntity | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        """Return the quotas that are set.

        Args:
            matching: only quotas of entities that have all these parts; None is all.
            strict: only entities that have no other parts.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            quotas by entity, then by Kafka's name.

        Raises:
            BrokerError: the broker refuses this filter.
            KafkaError: no broker answered in time.
        """
        return await self._quotas.describe_client_quotas(matching, strict=strict, timeout=timeout)

    # -- access control lists

    async def create_acls(self, acls: Iterable[AclBinding], *, timeout: float | None = None) -> None:
        """Create ACLs. An ACL that exists already is no error.

        Args:
            acls: the ACLs to create.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: an ACL has ANY or MATCH, which are for filters only.
            AuthorizationError: the client needs permission for ALTER on the cluster.
            BrokerError: an ACL is invalid, or the broker has no authorizer; the message names each ACL that failed.
                The others are created.
            KafkaError: no broker answered in time.
        """
        await self._acls.create_acls(acls, timeout=timeout)

    async def describe_acls(
        self, matching: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """List ACLs, by resource.

        Args:
            matching: the filter; None is all ACLs.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            AuthorizationError: the client needs permission for DESCRIBE on the cluster.
            BrokerError: the broker has no authorizer.
            KafkaError: no broker answered in time.
        """
        return await self._acls.describe_acls(matching, timeout=timeout)

    async def delete_acls(
        self, matching: Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> dict[AclBindingFilter, list[AclBinding]]:
        """Delete the ACLs that match filters.

        Args:
            matching: the filters; an empty filter, `AclBindingFilter()`, matches all ACLs.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            the deleted ACLs, for each filter.

        Raises:
            AuthorizationError: the client needs permission for ALTER on the cluster.
            BrokerError: a filter is invalid, or the broker has no authorizer; as in `create_acls`.
            KafkaError: no broker answered in time. The ACLs may be deleted nevertheless.
        """
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
        """List the groups of the cluster, by name. The client asks every broker: each lists the groups it coordinates.

        Args:
            states: only groups in one of these states; none is all. Needs brokers from 2.6.
            types: only groups of one of these types (protocols); none is all. Needs brokers from 3.8.
            protocol_types: only groups of these protocol types, such as "consumer" or "connect"; none is all.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: a state or type does not exist.
            BrokerError: a broker refuses.
            UnsupportedVersionError: a broker cannot filter by state or type.
            KafkaError: a broker did not answer in time.
        """
        return await self._groups.list_groups(
            states=states, types=types, protocol_types=protocol_types, timeout=timeout
        )

    async def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Describe groups of any type: their state and their members.

        Args:
            groups: the group ids.
            authorized_operations: also return the operations on each group that this client may do.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a group does not exist (GROUP_ID_NOT_FOUND), or this client may not describe it. The message
                names each group that failed; `failures` has the errors by group.
            KafkaError: a coordinator did not answer in time.
        """
        return await self._groups.describe_groups(groups, authorized_operations=authorized_operations, timeout=timeout)

    async def delete_groups(self, groups: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete groups without members, and their committed offsets.

        Args:
            groups: the group ids.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a group does not exist, or has members (NON_EMPTY_GROUP). The message names each group that
                failed; `failures` has the errors by group. The others are deleted.
            KafkaError: a coordinator did not answer in time.
        """
        await self._groups.delete_groups(groups, timeout=timeout)

    async def remove_members(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
    ) -> None:
        """Remove members from a group, for example a static member that will not restart within its session timeout.

        A member that is still running rejoins.

        Args:
            group_id: the group.
            instance_ids: the static members, by `group_instance_id`; None is every member, static or not.
            reason: for the coordinator's log.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the member (UNKNOWN_MEMBER_ID) or the group does not exist. The message names each member that
                failed; `failures` has the errors. The others are removed.
            UnsupportedVersionError: the broker is older than 2.3.
            KafkaError: the coordinator did not answer in time.
        """
        await self._groups.remove_members(group_id, instance_ids, reason=reason, timeout=timeout)

    async def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the committed offsets of groups.

        Args:
            groups: the group ids; or the partitions to return by group id, None for all.
            require_stable: wait while an open transaction may still change an offset.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            committed offsets by group, then by partition. Partitions without a committed offset are left out; a group
            that does not exist has none.

        Raises:
            BrokerError: this client may not describe a group or a topic. The message names each group that failed;
                `failures` has the errors by group.
            KafkaError: a coordinator did not answer in time.
        """
        return await self._group_offsets.list_group_offsets(groups, require_stable=require_stable, timeout=timeout)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> None:
        """Set committed offsets of a group without members. A group that does not exist is created.

        Args:
            group_id: the group.
            offsets: the next offset to read by partition, optionally with metadata and leader epoch.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the group has members (UNKNOWN_MEMBER_ID), or a partition does not exist. The message names
                each partition that failed; `failures` has the errors by partition. The others are set.
            KafkaError: the coordinator did not answer in time.
        """
        await self._group_offsets.alter_group_offsets(group_id, offsets, timeout=timeout)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        """Delete committed offsets of a group, for topics that no member has subscribed to.

        Args:
            group_id: the group.
            partitions: the partitions whose committed offsets to delete.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the group does not exist, or has subscribed to the topic (GROUP_SUBSCRIBED_TO_TOPIC). The
                message names each partition that failed; `failures` has the errors by partition. The others are
                deleted.
            KafkaError: the coordinator did not answer in time.
        """
        await self._group_offsets.delete_group_offsets(group_id, partitions, timeout=timeout)

    async def list_share_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, SharePartitionOffsetInfo]]:
        """Return the start offsets and the lag of share groups.

        Args:
            groups: the group ids; or the partitions to return by group id, None for all.
            timeout: seconds; None is `default_api_timeout_ms`.

        Returns:
            offsets by group, then by partition. Partitions without a start offset are left out; a group that does not
            exist, or is not a share group, has none.

        Raises:
            BrokerError: this client may not describe a group or a topic. The message names each group that failed;
                `failures` has the errors by group.
            UnsupportedVersionError: the brokers have no share groups.
            KafkaError: a coordinator did not answer in time.
        """
        return await self._share_group_offsets.list_share_group_offsets(groups, timeout=timeout)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> None:
        """Set start offsets of a share group without members. A group that does not exist is created.

        All records from the offset on are available again, also those that were accepted or rejected.

        Args:
            group_id: the group.
            offsets: the next offset to deliver by partition.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the group has members (NON_EMPTY_GROUP), is not a share group (GROUP_ID_NOT_FOUND), or a
                partition does not exist. The message names each partition that failed; `failures` has the errors by
                partition. The others are set.
            UnsupportedVersionError: the brokers have no share groups.
            KafkaError: the coordinator did not answer in time.
        """
        await self._share_group_offsets.alter_share_group_offsets(group_id, offsets, timeout=timeout)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Delete all offsets of topics of a share group without members.

        If the group reads such a topic again, it begins where `share.auto.offset.reset` says.

        Args:
            group_id: the group.
            topics: the topics.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the group has members (NON_EMPTY_GROUP), does not exist (GROUP_ID_NOT_FOUND), or has no
                offsets of a topic. The message names each topic that failed; `failures` has the errors by topic. The
                others are deleted.
            UnsupportedVersionError: the brokers have no share groups.
            KafkaError: the coordinator did not answer in time.
        """
        await self._share_group_offsets.delete_share_group_offsets(group_id, topics, timeout=timeout)

    # -- transactions

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """List the transactional ids of the cluster that this client may describe. The client asks every broker.

        Args:
            states: only those in one of these states, such as "Ongoing"; none is all. A state that a broker does not
                know matches nothing.
            producer_ids: only those of these producers; none is all.
            longer_than_ms: only those with a transaction that has been open for longer, in milliseconds (from brokers
                3.8).
            pattern: only transactional ids that this RE2 regex matches as a whole (from brokers 4.1).
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: a broker does not know one of the states.
            BrokerError: a broker refuses, for example the regex.
            UnsupportedVersionError: a broker is older than Kafka 3.0, or does not know a filter.
            KafkaError: a broker did not answer in time.
        """
        return await self._transactions.list_transactions(
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
            timeout=timeout,
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Describe transactional ids: the state, the producer, and the partitions of an open transaction.

        Args:
            transactional_ids: the ids; the client asks the coordinator of each.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: an id does not exist (TRANSACTIONAL_ID_NOT_FOUND), or this client may not DESCRIBE it. The
                message names each id that failed; `failures` has the errors by id.
            UnsupportedVersionError: a broker is older than Kafka 3.0.
            KafkaError: a coordinator did not answer in time.
        """
        return await self._transactions.describe_transactions(transactional_ids, timeout=timeout)

    async def list_open_transactions(
        self, partitions: Iterable[TopicPartition], *, before_ms: int | None = None, timeout: float | None = None
    ) -> list[OpenTransaction]:
        """List the transactions that partitions have open, and tell which of them hang.

        A transaction hangs if no coordinator has it open in the partition: none will end it, and consumers of committed
        records do not read beyond its first record. `abort_transaction` ends it. A transaction that ends while brokers
        and coordinators are asked can look as if it hangs: ask for those whose producers are idle.

        Args:
            partitions: the partitions; the client asks their leaders.
            before_ms: only transactions whose producers have written last at this time or earlier, in milliseconds
                since 1970; None is all.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a partition does not exist, or this client may not READ it; `failures` has the errors by
                partition.
            UnsupportedVersionError: a broker is older than Kafka 3.0.
            KafkaError: a broker did not answer in time.
        """
        return await self._transactions.list_open_transactions(partitions, before_ms=before_ms, timeout=timeout)

    async def abort_transaction(
        self, partition: TopicPartition, producer: ProducerState, *, timeout: float | None = None
    ) -> None:
        """Abort an open transaction in one partition, for a transaction that no coordinator ends.

        `describe_transactions` shows whether a coordinator still has the transaction; then use `fence_producers`.

        Args:
            partition: the partition that the transaction blocks.
            producer: its producer, as `describe_producers` returns it.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: the leader refuses, for example because the epoch is not the producer's, or because this client
                may not ALTER the cluster.
            KafkaError: the leader did not answer in time.
        """
        await self._producers.abort_transaction(partition, producer, timeout=timeout)

    async def fence_producers(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Abort the open transactions of transactional ids, and fence the producers that use these ids.

        Args:
            transactional_ids: the ids to fence.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a coordinator refuses, for example because this client may not WRITE to the id.
            KafkaError: a coordinator did not answer in time.
        """
        await self._transactions.fence_producers(transactional_ids, timeout=timeout)

    async def end_transaction(
        self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None = None
    ) -> None:
        """Commit or abort a transaction that a producer has prepared. Repeating the call is safe.

        Args:
            prepared: the result of `prepare_transaction`.
            commit: True commits, False aborts.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            ProducerFencedError: a newer producer has the same transactional id, or the transaction timed out. The
                outcome is unknown: a transaction that was committed before its producer was fenced gets the same error.
            BrokerError: the coordinator refuses, for example because the transaction has ended the other way.
            KafkaError: no coordinator answered in time.
        """
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

    async def client_instance_id(self, *, timeout: float | None = None) -> Uuid:
        """Return the id that the cluster has given this client, by which its metrics are found there (KIP-714).

        Brokers give one to each client that asks whether to push its metrics, even if no metrics are requested. It
        stays the same until the client is closed. As Java's `clientInstanceId`.

        Args:
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: `enable_metrics_push` is false.
            UnsupportedVersionError: the brokers take no metrics of clients.
            KafkaTimeoutError: no broker has answered in time.
            KafkaError: no broker can be reached.
        """
        return await self._engine.client_instance_id(timeout)

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._engine.close()

    # -- the areas, each imported on first use

    @cached_property
    def _topics(self) -> TopicAdmin:
        from kafkaraw.client.admin.topics import TopicAdmin

        return TopicAdmin(self._calls)

    @cached_property
    def _partitions(self) -> PartitionAdmin:
        from kafkaraw.client.admin.partitions import PartitionAdmin

        return PartitionAdmin(self._calls)

    @cached_property
    def _offsets(self) -> OffsetAdmin:
        from kafkaraw.client.admin.offsets import OffsetAdmin

        return OffsetAdmin(self._calls)

    @cached_property
    def _producers(self) -> ProducerAdmin:
        from kafkaraw.client.admin.producers import ProducerAdmin

        return ProducerAdmin(self._calls)

    @cached_property
    def _replicas(self) -> ReplicaAdmin:
        from kafkaraw.client.admin.replicas import ReplicaAdmin

        return ReplicaAdmin(self._calls)

    @cached_property
    def _quorum(self) -> QuorumAdmin:
        from kafkaraw.client.admin.quorum import QuorumAdmin

        return QuorumAdmin(self._calls)

    @cached_property
    def _features(self) -> FeatureAdmin:
        from kafkaraw.client.admin.features import FeatureAdmin

        return FeatureAdmin(self._calls)

    @cached_property
    def _cluster(self) -> ClusterAdmin:
        from kafkaraw.client.admin.cluster import ClusterAdmin

        return ClusterAdmin(self._calls)

    @cached_property
    def _log_dirs(self) -> LogDirAdmin:
        from kafkaraw.client.admin.log_dirs import LogDirAdmin

        return LogDirAdmin(self._calls)

    @cached_property
    def _configs(self) -> ConfigAdmin:
        from kafkaraw.client.admin.configs import ConfigAdmin

        return ConfigAdmin(self._calls)

    @cached_property
    def _users(self) -> UserAdmin:
        from kafkaraw.client.admin.users import UserAdmin

        return UserAdmin(self._calls)

    @cached_property
    def _tokens(self) -> TokenAdmin:
        from kafkaraw.client.admin.tokens import TokenAdmin

        return TokenAdmin(self._calls)

    @cached_property
    def _quotas(self) -> QuotaAdmin:
        from kafkaraw.client.admin.quotas import QuotaAdmin

        return QuotaAdmin(self._calls)

    @cached_property
    def _acls(self) -> AclAdmin:
        from kafkaraw.client.admin.acls import AclAdmin

        return AclAdmin(self._calls)

    @cached_property
    def _groups(self) -> GroupAdmin:
        from kafkaraw.client.admin.groups import GroupAdmin

        return GroupAdmin(self._calls)

    @cached_property
    def _group_offsets(self) -> GroupOffsetAdmin:
        from kafkaraw.client.admin.group_offsets import GroupOffsetAdmin

        return GroupOffsetAdmin(self._calls)

    @cached_property
    def _share_group_offsets(self) -> ShareGroupOffsetAdmin:
        from kafkaraw.client.admin.share_group_offsets import ShareGroupOffsetAdmin

        return ShareGroupOffsetAdmin(self._calls)

    @cached_property
    def _transactions(self) -> TransactionAdmin:
        from kafkaraw.client.admin.transactions import TransactionAdmin

        return TransactionAdmin(self._calls, self._producers)

"""`AsyncAdmin`: the operations of the admin client. It passes every operation on to the class of its area.

An area is imported when one of its operations is first called: most programs use one or two of the eleven.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Never, Self

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
    from kafkaraw.client.admin.group_descriptions import GroupDescription, GroupListing, GroupState, GroupType
    from kafkaraw.client.admin.group_offsets import GroupOffsetAdmin
    from kafkaraw.client.admin.groups import GroupAdmin
    from kafkaraw.client.admin.log_dirs import LogDirAdmin, LogDirDescription, TopicPartitionReplica
    from kafkaraw.client.admin.partitions import NewPartitions, PartitionAdmin
    from kafkaraw.client.admin.quotas import QuotaAdmin, QuotaEntity
    from kafkaraw.client.admin.topics import NewTopic, TopicAdmin, TopicCreated, TopicDescription, TopicListing
    from kafkaraw.client.admin.transactions import TransactionAdmin, TransactionListing
    from kafkaraw.client.admin.users import ScramPassword, ScramRemoval, UserAdmin
    from kafkaraw.client.committed import OffsetAndMetadata, PreparedTransaction
    from kafkaraw.client.java_names import Properties
    from kafkaraw.protocol import Uuid
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

    def __init__(self, *misplaced: Never, runtime: Runtime | None = None, **settings: object) -> None:
        refuse_positional(type(self).__name__, misplaced)
        self._engine = Engine.on(parse(AdminConfig, settings), runtime)
        self._calls = Calls(self._engine)

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
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Describe topics: partitions, leaders and replicas.

        Args:
            names: the topics to describe.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            BrokerError: a topic cannot be described, for example because it does not exist; as in `create_topics`.
            KafkaError: no broker answered in time.
        """
        return await self._topics.describe_topics(names, timeout=timeout)

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
        """
        await self._configs.alter_configs(changes, timeout=timeout, validate_only=validate_only)

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
        """Describe groups of either protocol: their state and their members.

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

    # -- transactions

    async def list_transactions(
        self, *, states: Iterable[str] = (), timeout: float | None = None
    ) -> list[TransactionListing]:
        """List the transactional ids of the cluster that this client may describe. The client asks every broker.

        Args:
            states: only those in one of these states, such as "Ongoing"; none is all. A state that a broker does not
                know matches nothing.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            UsageError: a broker does not know one of the states.
            BrokerError: a broker refuses.
            UnsupportedVersionError: a broker is older than Kafka 3.0.
            KafkaError: a broker did not answer in time.
        """
        return await self._transactions.list_transactions(states=states, timeout=timeout)

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
    def _transactions(self) -> TransactionAdmin:
        from kafkaraw.client.admin.transactions import TransactionAdmin

        return TransactionAdmin(self._calls)

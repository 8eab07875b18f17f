"""Which guard stands in front of which API, and which rights it asks for: the one place that lists them all.

An API that is not in this table is closed to everybody where there is an authorizer. `rights` is what the
documentation shows; the guards are what counts, and the tests compare the two.
Source: the tables of KIP-11 and of Kafka's documentation ("Operations and resources on protocols"), checked against
kafka.server.{KafkaApis, ControllerApis} of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.guards import admin, groups, membership, records, topics, transactions
from kafkaraw.broker.handlers.guards.call import Call, client_of
from kafkaraw.broker.refusal import CloseConnection
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType

_Op, _On = AclOperation, ResourceType
Handler = Callable[[BrokerState, RequestContext, object], object]


@dataclass(frozen=True, slots=True)
class Right:
    """One right that an API asks for.

    Attributes:
        when: when it is asked for; empty for always.
    """

    operation: AclOperation
    resource_type: ResourceType
    when: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may ask an API.

    Attributes:
        guard: called with a `Call` and the request; None leaves the API open to everybody.
        rights: what it asks for.
        note: what else there is to know.
    """

    guard: Callable[..., object] | None
    rights: tuple[Right, ...] = ()
    note: str = ""


RULES: Final[dict[str, Rule]] = {
    "Produce": Rule(
        records.produce,
        (Right(_Op.WRITE, _On.TOPIC), Right(_Op.WRITE, _On.TRANSACTIONAL_ID, "transactional records")),
        "with acks=0 a refusal closes the connection",
    ),
    "Fetch": Rule(
        records.fetch,
        (Right(_Op.READ, _On.TOPIC), Right(_Op.CLUSTER_ACTION, _On.CLUSTER, "instead, for who claims to be a replica")),
    ),
    "ListOffsets": Rule(records.list_offsets, (Right(_Op.DESCRIBE, _On.TOPIC),)),
    "Metadata": Rule(
        topics.metadata,
        (
            Right(_Op.DESCRIBE, _On.TOPIC),
            Right(_Op.CREATE, _On.CLUSTER, "auto-creation"),
            Right(_Op.CREATE, _On.TOPIC, "or, auto-creation"),
        ),
        "of all topics, those without the right are left out",
    ),
    "OffsetCommit": Rule(groups.offset_commit, (Right(_Op.READ, _On.GROUP), Right(_Op.READ, _On.TOPIC))),
    "OffsetFetch": Rule(
        groups.offset_fetch,
        (Right(_Op.DESCRIBE, _On.GROUP), Right(_Op.DESCRIBE, _On.TOPIC)),
        "of all topics, those without the right are left out",
    ),
    "ConsumerGroupHeartbeat": Rule(
        membership.consumer_group_heartbeat, (Right(_Op.READ, _On.GROUP), Right(_Op.DESCRIBE, _On.TOPIC))
    ),
    "ConsumerGroupDescribe": Rule(
        membership.consumer_group_describe, (Right(_Op.DESCRIBE, _On.GROUP), Right(_Op.DESCRIBE, _On.TOPIC))
    ),
    "JoinGroup": Rule(membership.join_group, (Right(_Op.READ, _On.GROUP),)),
    "SyncGroup": Rule(membership.sync_group, (Right(_Op.READ, _On.GROUP),)),
    "Heartbeat": Rule(membership.heartbeat, (Right(_Op.READ, _On.GROUP),)),
    "LeaveGroup": Rule(membership.leave_group, (Right(_Op.READ, _On.GROUP),)),
    "DescribeGroups": Rule(membership.describe_groups, (Right(_Op.DESCRIBE, _On.GROUP),)),
    "ListGroups": Rule(
        membership.list_groups,
        (Right(_Op.DESCRIBE, _On.CLUSTER), Right(_Op.DESCRIBE, _On.GROUP, "or")),
        "those without the right are left out",
    ),
    "DeleteGroups": Rule(membership.delete_groups, (Right(_Op.DELETE, _On.GROUP),)),
    "OffsetDelete": Rule(membership.offset_delete, (Right(_Op.DELETE, _On.GROUP), Right(_Op.READ, _On.TOPIC))),
    "FindCoordinator": Rule(
        groups.find_coordinator,
        (
            Right(_Op.DESCRIBE, _On.GROUP, "of a group"),
            Right(_Op.DESCRIBE, _On.TRANSACTIONAL_ID, "of a transactional id"),
            Right(_Op.CLUSTER_ACTION, _On.CLUSTER, "of a share group"),
        ),
    ),
    "SaslHandshake": Rule(None, note="open: part of the login"),
    "ApiVersions": Rule(None, note="open: asked before the login"),
    "CreateTopics": Rule(
        topics.create_topics,
        (
            Right(_Op.CREATE, _On.CLUSTER),
            Right(_Op.CREATE, _On.TOPIC, "or"),
            Right(_Op.DESCRIBE_CONFIGS, _On.TOPIC, "to be told the settings"),
        ),
    ),
    "DeleteTopics": Rule(
        topics.delete_topics,
        (Right(_Op.DELETE, _On.CLUSTER), Right(_Op.DELETE, _On.TOPIC, "or"), Right(_Op.DESCRIBE, _On.TOPIC, "with it")),
    ),
    "DeleteRecords": Rule(records.delete_records, (Right(_Op.DELETE, _On.TOPIC),)),
    "InitProducerId": Rule(
        records.init_producer_id,
        (
            Right(_Op.WRITE, _On.TRANSACTIONAL_ID, "with a transactional id"),
            Right(_Op.IDEMPOTENT_WRITE, _On.CLUSTER, "without one"),
            Right(_Op.WRITE, _On.TOPIC, "or, on any topic, without one"),
        ),
    ),
    "OffsetForLeaderEpoch": Rule(
        records.offset_for_leader_epoch,
        (Right(_Op.CLUSTER_ACTION, _On.CLUSTER), Right(_Op.DESCRIBE, _On.TOPIC, "or")),
    ),
    "AddPartitionsToTxn": Rule(
        transactions.add_partitions,
        (
            Right(_Op.WRITE, _On.TRANSACTIONAL_ID),
            Right(_Op.WRITE, _On.TOPIC),
            Right(_Op.CLUSTER_ACTION, _On.CLUSTER, "instead, from version 4 on, which is for brokers"),
        ),
        "all partitions are added, or none",
    ),
    "AddOffsetsToTxn": Rule(
        transactions.add_offsets, (Right(_Op.WRITE, _On.TRANSACTIONAL_ID), Right(_Op.READ, _On.GROUP))
    ),
    "EndTxn": Rule(transactions.end, (Right(_Op.WRITE, _On.TRANSACTIONAL_ID),)),
    "WriteTxnMarkers": Rule(
        transactions.write_markers,
        (Right(_Op.ALTER, _On.CLUSTER), Right(_Op.CLUSTER_ACTION, _On.CLUSTER, "or, what brokers have")),
    ),
    "TxnOffsetCommit": Rule(
        transactions.commit_offsets,
        (Right(_Op.WRITE, _On.TRANSACTIONAL_ID), Right(_Op.READ, _On.GROUP), Right(_Op.READ, _On.TOPIC)),
    ),
    "DescribeProducers": Rule(transactions.describe_producers, (Right(_Op.READ, _On.TOPIC),)),
    "DescribeTransactions": Rule(
        transactions.describe,
        (Right(_Op.DESCRIBE, _On.TRANSACTIONAL_ID),),
        "topics without DESCRIBE are left out",
    ),
    "ListTransactions": Rule(
        transactions.list_all,
        (Right(_Op.DESCRIBE, _On.TRANSACTIONAL_ID),),
        "those without the right are left out",
    ),
    "DescribeAcls": Rule(
        admin.on_cluster(_Op.DESCRIBE, admin.refuse_describe_acls), (Right(_Op.DESCRIBE, _On.CLUSTER),)
    ),
    "CreateAcls": Rule(admin.on_cluster(_Op.ALTER, admin.refuse_create_acls), (Right(_Op.ALTER, _On.CLUSTER),)),
    "DeleteAcls": Rule(admin.on_cluster(_Op.ALTER, admin.refuse_delete_acls), (Right(_Op.ALTER, _On.CLUSTER),)),
    "DescribeConfigs": Rule(
        admin.describe_configs,
        (
            Right(_Op.DESCRIBE_CONFIGS, _On.TOPIC, "of a topic"),
            Right(_Op.DESCRIBE_CONFIGS, _On.GROUP, "of a group"),
            Right(_Op.DESCRIBE_CONFIGS, _On.CLUSTER, "of a broker"),
        ),
    ),
    "AlterConfigs": Rule(
        admin.alter_configs,
        (
            Right(_Op.ALTER_CONFIGS, _On.TOPIC, "of a topic"),
            Right(_Op.ALTER_CONFIGS, _On.GROUP, "of a group"),
            Right(_Op.ALTER_CONFIGS, _On.CLUSTER, "of a broker"),
        ),
    ),
    "SaslAuthenticate": Rule(None, note="open: part of the login"),
    "CreatePartitions": Rule(topics.create_partitions, (Right(_Op.ALTER, _On.TOPIC),)),
    "IncrementalAlterConfigs": Rule(
        admin.incremental_alter_configs,
        (
            Right(_Op.ALTER_CONFIGS, _On.TOPIC, "of a topic"),
            Right(_Op.ALTER_CONFIGS, _On.GROUP, "of a group"),
            Right(_Op.ALTER_CONFIGS, _On.CLUSTER, "of a broker"),
        ),
    ),
    "DescribeClientQuotas": Rule(
        admin.on_cluster(_Op.DESCRIBE_CONFIGS, admin.refuse_describe_quotas),
        (Right(_Op.DESCRIBE_CONFIGS, _On.CLUSTER),),
    ),
    "AlterClientQuotas": Rule(
        admin.on_cluster(_Op.ALTER_CONFIGS, admin.refuse_alter_quotas), (Right(_Op.ALTER_CONFIGS, _On.CLUSTER),)
    ),
    "DescribeUserScramCredentials": Rule(
        admin.on_cluster(_Op.DESCRIBE, admin.refuse_describe_scram), (Right(_Op.DESCRIBE, _On.CLUSTER),)
    ),
    "AlterUserScramCredentials": Rule(
        admin.on_cluster(_Op.ALTER, admin.refuse_alter_scram), (Right(_Op.ALTER, _On.CLUSTER),)
    ),
    "DescribeCluster": Rule(
        admin.describe_cluster,
        (Right(_Op.DESCRIBE, _On.CLUSTER, "to be told what may be done to the cluster"),),
        "otherwise open",
    ),
    "DescribeTopicPartitions": Rule(
        topics.describe_topic_partitions,
        (Right(_Op.DESCRIBE, _On.TOPIC),),
        "of all topics, those without the right are left out",
    ),
}


def guarded(api: str, handler: Handler) -> Handler:
    """A handler behind its guard."""
    rule = RULES.get(api)

    def handle(state: BrokerState, context: RequestContext, request: object) -> object:
        authorizer = state.catalog.authorizer
        if authorizer is None:
            return handler(state, context, request)
        if rule is None:
            raise CloseConnection(f"{api} has no rule that says who may ask it, so nobody may")
        if rule.guard is None:
            return handler(state, context, request)
        client = client_of(context)
        call = Call(api, state, context, authorizer, client, lambda asked: handler(state, context, asked))
        return rule.guard(call, request)

    return handle

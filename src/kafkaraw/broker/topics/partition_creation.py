"""The rules of CreatePartitions: whether a topic can get more partitions, and their replicas. Pure.

Source: org.apache.kafka.controller.ReplicationControlManager.createPartitions, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.topics.catalog import Catalog, Topic
from kafkaraw.broker.topics.replica_placement import place_replicas
from kafkaraw.broker.topics.topic_creation import PARTITIONS_MAX
from kafkaraw.protocol.error_codes import ErrorCode

Assignments = tuple[tuple[int, ...], ...]


def plan_partitions(topic: Topic, count: int, chosen: Sequence[Sequence[int]] | None, catalog: Catalog) -> Assignments:
    """Return the replicas of the partitions to add.

    Args:
        topic: the topic before the change.
        count: the new number of partitions.
        chosen: the replicas of each new partition, chosen by the client; None lets the broker choose.
        catalog: the cluster.

    Raises:
        ApiError: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT or INVALID_REPLICATION_FACTOR.
    """
    present, factor = topic.partitions_count, topic.replication_factor
    more = _additional(topic, count)
    if chosen is not None and len(chosen) != more:
        raise _bad_assignment(
            f"Attempted to add {more} additional partition(s), but only {len(chosen)} assignment(s) were specified."
        )
    if more > PARTITIONS_MAX:  # Kafka's controller limits the records of one request, and returns this error
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "")
    if chosen is not None:
        return tuple(_checked(replicas, at, factor, catalog) for at, replicas in enumerate(chosen, start=present))
    if not catalog.brokers:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in controlled "
            "shutdown.",
        )
    start = catalog.partitions_count
    return place_replicas(catalog.racks, catalog.brokers, partitions=more, factor=factor, start=start)


def _additional(topic: Topic, count: int) -> int:
    present = topic.partitions_count
    if count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {count} would not be an increase.",
        )
    return count - present


def _checked(replicas: Sequence[int], number: int, factor: int, catalog: Catalog) -> tuple[int, ...]:
    check_nodes(replicas, catalog)
    if len(replicas) != factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )
    if not any(node_id in catalog.brokers for node_id in replicas):
        raise _bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown."
        )
    return tuple(replicas)


def check_nodes(replicas: Sequence[int], catalog: Catalog) -> None:
    """Refuse a list of replicas that is empty, or has an unknown node or one twice.

    Raises:
        ApiError: the list is not valid.
    """
    if not replicas:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    before = None
    for node_id in sorted(replicas):
        if node_id not in catalog.racks:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if node_id == before:
            raise _bad_assignment(f"The manual partition assignment includes the broker {node_id} more than once.")
        before = node_id


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

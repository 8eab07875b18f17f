"""The rules of CreateTopics and auto-creation: whether a topic can be created, and with which partitions.

Pure: returns a `Plan` or raises a `ApiError`; `state.BrokerState.create_topic` creates the topic.
Source: org.apache.kafka.controller.ReplicationControlManager, org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs import topic_config
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.topics.catalog import Catalog
from kafkaraw.broker.topics.replica_placement import place_replicas
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode

NAME_LENGTH_MAX: Final = 249
PARTITIONS_MAX: Final = 10_000
PARTITIONS_PER_TURN: Final = 50
"""Maximum number of new partitions of several topics that are written together."""
DEFAULT: Final = -1
METADATA_TOPIC: Final = "__cluster_metadata"
"""The topic in which KRaft controllers keep their log; the name is theirs."""
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as requested by a client.

    Attributes:
        partitions: number of partitions; -1 for the broker's default.
        replication_factor: number of replicas; -1 for the broker's default.
        assignments: (partition, broker ids) chosen by the client; empty lets the broker choose.
        configs: settings of the topic; a null value is not allowed.
    """

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A topic that can be created with these values."""

    name: str
    assignments: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


def plan_topic(spec: TopicSpec, catalog: Catalog, config: BrokerConfig) -> Plan:
    """Apply all rules.

    Raises:
        ApiError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
            INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, POLICY_VIOLATION or INVALID_CONFIG.
    """
    if spec.name == METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    check_name(spec.name)
    if catalog.is_taken(spec.name):
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{spec.name}' already exists.")
    _check_collision(spec.name, catalog)
    assignments = _assigned_by_client(spec, catalog) if spec.assignments else _assigned_by_broker(spec, catalog, config)
    return Plan(spec.name, assignments, _checked_configs(spec.configs))


def check_name(name: str) -> None:
    """Check that a topic may have this name.

    Raises:
        ApiError: INVALID_TOPIC_EXCEPTION.
    """
    shown = name[:NAME_LENGTH_MAX]
    problem = ""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = "'.' or '..' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{shown}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = f"'{shown}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def _check_collision(name: str, catalog: Catalog) -> None:
    """Refuse a name that differs from an existing one only in '.' and '_': their metrics would have equal names."""
    found = catalog.colliding(name)
    if found is not None:
        message = f"Topic '{name}' collides with existing topic: {found}"
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _assigned_by_broker(spec: TopicSpec, catalog: Catalog, config: BrokerConfig) -> tuple[tuple[int, ...], ...]:
    partitions = config.num_partitions if spec.partitions == DEFAULT else spec.partitions
    replicas = config.default_replication_factor if spec.replication_factor == DEFAULT else spec.replication_factor
    if partitions <= 0:
        message = f"Number of partitions was set to an invalid non-positive value: {partitions}"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    _check_partitions_max(partitions)
    if replicas <= 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    racks = catalog.racks
    if replicas > len(racks):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of {replicas} "
            f"cannot be reached because only {len(racks)} broker(s) are registered.",
        )
    if not catalog.brokers:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): All brokers are currently fenced or in controlled "
            "shutdown.",
        )
    # A new topic continues after the last one, so that leaders of small topics are distributed, too.
    start = catalog.partitions_count
    return place_replicas(racks, catalog.brokers, partitions=partitions, factor=replicas, start=start)


def _check_partitions_max(partitions: int) -> None:
    if partitions > PARTITIONS_MAX:
        message = f"Excessively large number of partitions per request: {partitions}, at most {PARTITIONS_MAX}"
        raise ApiError(ErrorCode.POLICY_VIOLATION, message)


def _assigned_by_client(spec: TopicSpec, catalog: Catalog) -> tuple[tuple[int, ...], ...]:
    if spec.replication_factor != DEFAULT:
        message = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    if spec.partitions != DEFAULT:
        message = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    _check_partitions_max(len(spec.assignments))
    chosen = dict(spec.assignments)
    if len(chosen) != len(spec.assignments):
        raise _bad_assignment("Found multiple manual partition assignments for one partition")
    if sorted(chosen) != list(range(len(chosen))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    for index, brokers in chosen.items():
        if not brokers:
            raise _bad_assignment(
                f"The manual partition assignment of partition {index} includes an empty replica list."
            )
        if len(set(brokers)) != len(brokers):
            raise _bad_assignment(f"The manual partition assignment of partition {index} names a broker twice.")
        absent = [broker for broker in brokers if broker not in catalog.racks]
        if absent:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {absent[0]}, but no such broker is registered."
            )
        if len(brokers) != len(chosen[0]):
            raise _bad_assignment("The manual partition assignment has partitions with different numbers of replicas.")
        if not any(broker in catalog.brokers for broker in brokers):
            raise _bad_assignment(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
    return tuple(tuple(chosen[index]) for index in range(len(chosen)))


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _checked_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in configs.items():
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        given[name] = value
    try:
        topic_config.check(given)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return given

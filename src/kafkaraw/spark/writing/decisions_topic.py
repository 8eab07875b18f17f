"""The topic of decisions: create it, or check the existing one.

It must be compacted and nothing else: a retention time would remove the decision of a paused query. All records are
in partition 0, because outcomes depend on one order of records; other partitions stay empty. Start at `ensure_topic`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkaraw.client.admin import ConfigEntry, ConfigResource, NewTopic, TopicDescription
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.errors import AuthorizationError, BrokerError, KafkaError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode

_log = logging.getLogger(__name__)

_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_REPLICAS: Final = 3
_REPLICAS_MIN: Final = 2
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def ensure_topic(admin: Admin, topic: str) -> None:
    """Create the topic if it does not exist; else check it, and warn about settings that make it less safe.

    Raises:
        UsageError: the topic exists, and is not compacted.
        KafkaError: it could neither be found nor created.
    """
    found = _described(admin, topic)
    if found is None:
        _create(admin, topic)
    else:
        _check(admin, found)


def _described(admin: Admin, topic: str) -> TopicDescription | None:
    try:
        return admin.describe_topics([topic])[topic]
    except BrokerError as error:
        if error.code in _UNKNOWN:
            return None
        raise


def _create(admin: Admin, topic: str) -> None:
    brokers = len(admin.describe_cluster().brokers)
    replicas = min(_REPLICAS, brokers)
    configs = _CONFIGS | ({"min.insync.replicas": str(_REPLICAS_MIN)} if replicas > _REPLICAS_MIN else {})
    try:
        admin.create_topics([NewTopic(topic, 1, replicas, configs)])
    except BrokerError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def _check(admin: Admin, found: TopicDescription) -> None:
    configs = _configs(admin, found.name)
    policy = configs["cleanup.policy"].value if "cleanup.policy" in configs else None
    if policy is not None and policy.replace(" ", "") != "compact":
        raise UsageError(
            f"decisionsTopic={found.name}: this topic has cleanup.policy={policy}, and must have "
            f"cleanup.policy=compact, so that no decision is deleted while its query may need it. Set it to compact, "
            f"or name another topic: one that does not exist is created"
        )
    if len(found.partitions) > 1:
        _log.warning("decisionsTopic=%s has %d partitions; only partition 0 is used", found.name, len(found.partitions))
    brokers = len(admin.describe_cluster().brokers)
    replicas = min(len(partition.replica_nodes) for partition in found.partitions)
    if brokers >= _REPLICAS_MIN > replicas:
        _log.warning(
            "decisionsTopic=%s has replication factor %d on a cluster of %d brokers: if that broker is lost, the "
            "exactly-once queries cannot continue; use %d",
            found.name,
            replicas,
            brokers,
            min(_REPLICAS, brokers),
        )
    insync = configs["min.insync.replicas"].value if "min.insync.replicas" in configs else None
    if brokers > _REPLICAS_MIN and replicas > _REPLICAS_MIN and insync is not None and int(insync) < _REPLICAS_MIN:
        _log.warning(
            "decisionsTopic=%s has min.insync.replicas=%s: a decision may be lost with a single broker; set it to 2",
            found.name,
            insync,
        )


def _configs(admin: Admin, topic: str) -> Mapping[str, ConfigEntry]:
    resource = ConfigResource.topic(topic)
    try:
        return admin.describe_configs([resource], names=["cleanup.policy", "min.insync.replicas"])[resource]
    except AuthorizationError as error:
        _log.warning("decisionsTopic=%s: its settings cannot be checked: %s", topic, error)
    except KafkaError as error:
        if not isinstance(error, BrokerError):
            raise
        _log.warning("decisionsTopic=%s: its settings cannot be checked: %s", topic, error)
    return {}

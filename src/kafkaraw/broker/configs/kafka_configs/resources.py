"""What can be set for groups and for subscriptions to client metrics. Declarations only.

A setting that a group does not have follows the broker's configuration with `group.` before its name.
Source: org.apache.kafka.coordinator.group.GroupConfig, org.apache.kafka.server.metrics.ClientMetricsConfigs, Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.configs.kafka_configs.declared import Declared
from kafkaraw.protocol.config_codes import ConfigType

BOOLEAN: Final = ConfigType.BOOLEAN
INT: Final = ConfigType.INT
LIST: Final = ConfigType.LIST
STRING: Final = ConfigType.STRING

_GROUP: Final = (
    Declared("consumer.assignment.interval.ms", INT, "1000", "milliseconds between two assignments"),
    Declared("consumer.heartbeat.interval.ms", INT, "5000", "milliseconds between heartbeats of members"),
    Declared("consumer.session.timeout.ms", INT, "45000", "a member silent for so long, in milliseconds, is gone"),
    Declared("share.assignment.interval.ms", INT, "1000", "milliseconds between two assignments"),
    Declared("share.auto.offset.reset", STRING, "latest",
             "where a share group starts: earliest, latest, or by_duration: and an ISO 8601 duration"),
    Declared("share.delivery.count.limit", INT, "5", "how often a record is delivered before it is given up"),
    Declared("share.heartbeat.interval.ms", INT, "5000", "milliseconds between heartbeats of members"),
    Declared("share.isolation.level", STRING, "read_uncommitted",
             "whether records of open transactions are read: read_uncommitted or read_committed"),
    Declared("share.partition.max.record.locks", INT, "2000", "records in flight per partition"),
    Declared("share.record.lock.duration.ms", INT, "30000", "how long a record is locked, in milliseconds"),
    Declared("share.renew.acknowledge.enable", BOOLEAN, "true", "let members renew the lock of a record"),
    Declared("share.session.timeout.ms", INT, "45000", "a member silent for so long, in milliseconds, is gone"),
    Declared("streams.assignment.interval.ms", INT, "1000", "milliseconds between two assignments"),
    Declared("streams.heartbeat.interval.ms", INT, "5000", "milliseconds between heartbeats of members"),
    Declared("streams.initial.rebalance.delay.ms", INT, "3000", "milliseconds that a new group waits for members"),
    Declared("streams.num.standby.replicas", INT, "0", "standby replicas of a task"),
    Declared("streams.session.timeout.ms", INT, "45000", "a member silent for so long, in milliseconds, is gone"),
)  # fmt: skip
GROUP_CONFIGS: Final[dict[str, Declared]] = {declared.name: declared for declared in _GROUP}

_CLIENT_METRICS: Final = (
    Declared("interval.ms", INT, "300000", "milliseconds between two pushes of a client"),
    Declared("match", LIST, "", "which clients push, as name=pattern; empty is every one"),
    Declared("metrics", LIST, "", "which metrics are pushed, by the beginnings of their names; * is every one"),
)
CLIENT_METRICS_CONFIGS: Final[dict[str, Declared]] = {declared.name: declared for declared in _CLIENT_METRICS}

"""All configurations of a Kafka 4.3 broker, declared in tables: name, type, default, meaning.

This is what DescribeConfigs shows. Most of them mean nothing to this broker: what it acts on is declared, with its
limits, in `configs.config` and `configs.topic_config`. A test compares the tables with Apache Kafka's own answers.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.configs.kafka_configs.declared import Declared
from kafkaraw.broker.configs.kafka_configs.groups import GROUPS
from kafkaraw.broker.configs.kafka_configs.logs import LOGS, REMOTE
from kafkaraw.broker.configs.kafka_configs.network import NETWORK
from kafkaraw.broker.configs.kafka_configs.nodes import NODES
from kafkaraw.broker.configs.kafka_configs.security import SECURITY

BROKER_CONFIGS: Final[dict[str, Declared]] = {
    declared.name: declared for declared in (*NODES, *NETWORK, *LOGS, *REMOTE, *GROUPS, *SECURITY)
}

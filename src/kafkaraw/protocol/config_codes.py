"""The numbers of configurations on the wire: resources, types, sources of values, operations.

Only names and numbers, shared by client and broker.
Source: org.apache.kafka.common.config.ConfigResource, org.apache.kafka.clients.admin.{ConfigEntry, AlterConfigOp},
Kafka 4.3; KIP-226 (sources), KIP-339 (operations), KIP-412 (loggers), KIP-714 (client metrics), KIP-848 (groups).
"""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The type of a configured resource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a value. Unknown numbers are read as UNKNOWN."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigType(IntEnum):
    """The type of a value, which is always text on the wire. Unknown numbers are read as UNKNOWN."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ConfigType:
        return cls.UNKNOWN


class AlterOperation(IntEnum):
    """How a value is changed: APPEND and SUBTRACT work on the members of a list."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3

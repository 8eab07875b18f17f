"""The numbers that configurations have on the wire: resources, types, where a value comes from, how it is changed.

Only names and numbers, shared by client and broker.
Source: org.apache.kafka.common.config.ConfigResource, org.apache.kafka.clients.admin.{ConfigEntry, AlterConfigOp},
Kafka 4.3; KIP-226 (sources), KIP-339 (operations), KIP-412 (loggers), KIP-714 (client metrics), KIP-848 (groups).
"""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """What is configured."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from. A number that is not among these reads as UNKNOWN."""

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
    """The type of a value; it is text on the wire all the same. A number that is not among these reads as UNKNOWN."""

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

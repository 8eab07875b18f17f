"""The values that a configuration overrides, as Apache Kafka 4.3.1 shows them (DescribeConfigs with synonyms)."""

from __future__ import annotations

import pytest

from kafkaraw.broker.configs.config_layers import BrokerLayers

HOURS = ("log.retention.hours", "168")


@pytest.mark.parametrize(
    ("given", "name", "shown"),
    [
        ({}, "log.retention.ms", []),
        ({}, "log.retention.hours", [HOURS]),
        ({"log.retention.minutes": "500"}, "log.retention.ms", []),
        ({"log.retention.minutes": "500"}, "log.retention.minutes", [("log.retention.minutes", "500"), HOURS]),
        (
            {"log.retention.ms": "-1", "log.retention.minutes": "500", "log.retention.hours": "4"},
            "log.retention.ms",
            [("log.retention.ms", "-1"), ("log.retention.minutes", "500"), ("log.retention.hours", "4"), HOURS],
        ),
        ({"log.roll.ms": "9"}, "log.roll.ms", [("log.roll.ms", "9"), ("log.roll.hours", "168")]),
        (
            {"log.roll.jitter.ms": "4"},
            "log.roll.jitter.ms",
            [("log.roll.jitter.ms", "4"), ("log.roll.jitter.hours", "0")],
        ),
    ],
)
def test_coarser_configurations_are_shown_behind_a_value(
    given: dict[str, str], name: str, shown: list[tuple[str, str]]
):
    assert [(layer.name, layer.value) for layer in BrokerLayers({}, {}, given).layers(name)] == shown

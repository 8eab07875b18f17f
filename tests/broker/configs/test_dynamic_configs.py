"""What was set while brokers run: kept as text, and refused when that is damaged."""

from __future__ import annotations

import pytest

from kafkaraw.broker.configs.dynamic_configs import ALL_BROKERS, DynamicConfigs
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.config_codes import ConfigResourceType

BROKER, GROUP = ConfigResourceType.BROKER, ConfigResourceType.GROUP


def test_what_was_saved_is_read_again():
    saved: list[str] = []
    configs = DynamicConfigs(saved.append)
    configs.put(BROKER, ALL_BROKERS, {"a": "1"})
    configs.put(GROUP, "g", {"b": "2"})
    other = DynamicConfigs(saved.append)
    other.load(saved[-1])
    assert (other.of(BROKER, ALL_BROKERS), other.of(GROUP, "g"), other.of(GROUP, "h")) == ({"a": "1"}, {"b": "2"}, {})


def test_nothing_set_leaves_no_trace():
    saved: list[str] = []
    configs = DynamicConfigs(saved.append)
    configs.put(GROUP, "g", {"b": "2"})
    configs.put(GROUP, "g", {})
    assert '"g"' not in saved[-1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "brokers": 3}'])
def test_a_damaged_file_is_refused(text: str):
    with pytest.raises(ConfigError, match=r"kafkaraw-configs\.json"):
        DynamicConfigs(print).load(text)

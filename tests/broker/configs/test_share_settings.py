"""The broker's settings about share groups that limit each other; the messages begin as Kafka's do."""

from __future__ import annotations

import pytest

from kafkaraw.broker import BrokerConfig
from kafkaraw.errors import ConfigError


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (
            {"group.share.max.share.sessions": 1, "group.share.max.size": 2},
            "group.share.max.share.sessions must be greater than or equal to group.share.max.size, got 1 and 2",
        ),
        (
            {"group.share.delivery.count.limit": 11},
            "group.share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(properties: dict[str, object], problem: str):
    with pytest.raises(ConfigError, match=problem):
        BrokerConfig.parse({"node.id": 0, "listeners": "PLAINTEXT://localhost:0", **properties}, None)

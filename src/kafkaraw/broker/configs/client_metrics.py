"""Subscriptions to the metrics of clients (KIP-714), from the configurations of a client metrics resource.

`config_changes` checks the configurations when they are set; `telemetry.instances` uses the subscriptions.
Source: org.apache.kafka.server.metrics.ClientMetricsConfigs of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.settings import split_list
from kafkaraw.core.linear_regex import CompiledRegex, InvalidRegexError, compile_linear
from kafkaraw.light_classes import NamedTuple

INTERVAL_MS_DEFAULT: Final = 300_000
ALL_METRICS: Final = "*"
MATCH_ATTRIBUTES: Final = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""The attributes of a client that the patterns of a subscription may name."""


class Subscription(NamedTuple):
    """A subscription to client metrics.

    Attributes:
        metrics: prefixes of names; "*" is every metric.
        interval_ms: the push interval.
        match: patterns that the attributes of a client have to match, by attribute; empty matches every client.
    """

    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, CompiledRegex]

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Return whether a client has to push these metrics."""
        values = ((attributes.get(name), pattern) for name, pattern in self.match.items())
        return all(value is not None and pattern.fullmatch(value) is not None for value, pattern in values)


def parse_subscription(configs: Mapping[str, str]) -> Subscription:
    """Return the subscription with these configurations, which were checked when they were set."""
    return Subscription(
        frozenset(split_list(configs.get("metrics", ""))),
        int(configs.get("interval.ms", INTERVAL_MS_DEFAULT)),
        parse_match(configs.get("match", "")),
    )


def parse_match(text: str) -> dict[str, CompiledRegex]:
    """Return the patterns of a configuration `match`, by attribute.

    Raises:
        ValueError: an entry is not ATTRIBUTE=PATTERN; the message is the entry.
    """
    found: dict[str, CompiledRegex] = {}
    for entry in split_list(text):
        # Java's String.split leaves out empty parts at the end.
        parts = entry.rstrip("=").split("=")
        if len(parts) != 2 or parts[0].strip() not in MATCH_ATTRIBUTES:
            raise ValueError(entry)
        try:
            found[parts[0].strip()] = compile_linear(parts[1].strip())
        except InvalidRegexError:
            raise ValueError(entry) from None
    return found

"""How many connections a node takes, in all and from one address.

Counts, and says why one is too many; closing it is the node's business. Source: ConnectionQuotas of Kafka 4.3, which
makes room for another by waiting or by closing an idle one where this turns the new one away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.settings import INT_MAX, Setting, Value, number, split_list, text
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field

AUTHENTICATION_TIMEOUT: Final = "connections.max.login.ms"
UNSENT_LIMIT: Final = "connections.max.unsent.ms"
UNSENT_LIMIT_MS: Final = 300_000
"""The default `max.poll.interval.ms`: a consumer may leave its responses unread for that time between two polls."""

LIMIT_SETTINGS: Final = (
    Setting("max.connections", INT_MAX, "open connections", low=0, high=INT_MAX),
    Setting("max.connections.per.ip", INT_MAX, "open connections from one address", low=0, high=INT_MAX),
    Setting("max.connections.per.ip.overrides", "", "limits for single addresses: ADDRESS:COUNT,...", is_list=True),
    Setting(
        UNSENT_LIMIT,
        UNSENT_LIMIT_MS,
        "abort a connection that reads no response for longer, in milliseconds; not a property of Kafka",
        low=1,
        high=INT_MAX,
    ),
    Setting(
        AUTHENTICATION_TIMEOUT,
        30_000,
        "milliseconds until a connection has to be authenticated; not a property of Kafka",
        low=1,
        high=INT_MAX,
    ),
)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits, as configured.

    Attributes:
        total: connections of the node.
        per_address: connections from one address, where `by_address` says nothing else.
        by_address: the same for single addresses.
        authentication_timeout_ms: how long a login may take, in milliseconds.
        unsent_limit_ms: how long a client may take no byte of its answers, in milliseconds.
    """

    total: int
    per_address: int
    by_address: Mapping[str, int]
    authentication_timeout_ms: int
    unsent_limit_ms: int


@dataclass(slots=True)
class ConnectionCount:
    """The connections that a node has now."""

    limits: ConnectionLimits
    total: int = 0
    _by_address: Counter[str] = field(default_factory=Counter)

    def add(self, address: str) -> str:
        """Count a connection; returns which limit it is above, with its value, and nothing when it may stay."""
        self.total += 1
        self._by_address[address] += 1
        limit = self.limits.by_address.get(address, self.limits.per_address)
        if self._by_address[address] > limit:
            return f"max.connections.per.ip of {limit} is reached for {address}"
        if self.total > self.limits.total:
            return f"max.connections of {self.limits.total} is reached"
        return ""

    def remove(self, address: str) -> None:
        """Count a connection as closed."""
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def parse_limits(values: Mapping[str, Value]) -> ConnectionLimits:
    """Read the limits from the broker's parsed properties.

    Raises:
        ConfigError: an override is not ADDRESS:COUNT.
    """
    return ConnectionLimits(
        total=number(values, "max.connections"),
        per_address=number(values, "max.connections.per.ip"),
        by_address=dict(map(_override, split_list(text(values, "max.connections.per.ip.overrides")))),
        authentication_timeout_ms=number(values, AUTHENTICATION_TIMEOUT),
        unsent_limit_ms=number(values, UNSENT_LIMIT),
    )


def _override(entry: str) -> tuple[str, int]:
    import ipaddress  # only if there are overrides

    address, _, count = entry.rpartition(":")
    try:
        if int(count) < 0:
            raise ValueError
        return str(ipaddress.ip_address(address.strip("[]"))), int(count)
    except ValueError:
        raise ConfigError(
            f"max.connections.per.ip.overrides: {entry!r} is not ADDRESS:COUNT, such as 127.0.0.1:200; "
            "names are not looked up"
        ) from None

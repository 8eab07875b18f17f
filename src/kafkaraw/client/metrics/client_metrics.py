"""What a client counts about its brokers: requests, latencies, bytes, throttling, connections.

Plain numbers, counted where they happen, once per request and never per record. `client.metrics()` gives them as a
dictionary; `kafkaraw.metrics` exports them to Prometheus. A client's nodes are named by node id; connections to servers
that are not known as a broker yet count for "bootstrap".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from kafkaraw.light_classes import dataclass, field

LATENCY_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of latencies, in seconds; one more bucket holds what took longer."""
BOOTSTRAP: Final = "bootstrap"

Metrics: TypeAlias = dict[str, dict[str, float | dict[str, int]]]
"""By node, then by name of the metric."""


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """What a client pushes to brokers (KIP-714).

    Attributes:
        kind: "producer", "consumer" or "admin.client", as in Java's names of the metrics.
        metrics: returns what `client.metrics()` returns.
        labels: returns the attributes of all metrics, those with values: client_rack, group_id, group_instance_id,
            group_member_id, transactional_id.
    """

    kind: str
    metrics: Callable[[], Metrics]
    labels: Callable[[], dict[str, str | None]]


@dataclass(slots=True)
class NodeMetrics:
    """The counters of one broker; what is not in flight or a maximum only grows.

    Attributes:
        name: the node's id as text, or "bootstrap".
        requests: those that were submitted.
        requests_failed: those among them that ended without an answer.
        in_flight: those that have not ended.
        latency_sum_s: time from submission to answer, of all answered ones, in seconds.
        latency_max_s: the longest of them.
        latency_counts: how many took no longer than each of `LATENCY_BOUNDS_S`, and longer than the one before.
        throttle_time_s: what the broker said it throttled us, in seconds.
        connections_failed: attempts that did not lead to a usable connection.
    """

    name: str
    requests: int = 0
    requests_failed: int = 0
    in_flight: int = 0
    latency_sum_s: float = 0.0
    latency_max_s: float = 0.0
    latency_counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    bytes_in: int = 0
    bytes_out: int = 0
    throttle_time_s: float = 0.0
    connections_opened: int = 0
    connections_failed: int = 0
    connections_closed: int = 0

    def answered(self, response: object, seconds: float) -> None:
        """A request was answered."""
        self.latency_sum_s += seconds
        if seconds > self.latency_max_s:
            self.latency_max_s = seconds
        self.latency_counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += 1
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttle_time_s += throttle_ms / 1000

    @property
    def cumulative(self) -> dict[str, int]:
        """How many answers took no longer than each bound, in seconds; "+Inf" is all of them."""
        total, found = 0, {}
        for bound, count in zip((*LATENCY_BOUNDS_S, float("inf")), list(self.latency_counts), strict=True):
            total += count
            found["+Inf" if bound == float("inf") else f"{bound:g}"] = total
        return found

    def as_dict(self) -> dict[str, float | dict[str, int]]:
        """All of it, by name."""
        histogram = self.cumulative
        return {
            "requests": self.requests,
            "requests_failed": self.requests_failed,
            "in_flight": self.in_flight,
            "latency_count": histogram["+Inf"],
            "latency_sum_s": self.latency_sum_s,
            "latency_max_s": self.latency_max_s,
            "latency_histogram": histogram,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "throttle_time_s": self.throttle_time_s,
            "connections": self.connections_opened - self.connections_closed,
            "connections_opened": self.connections_opened,
            "connections_failed": self.connections_failed,
            "connections_closed": self.connections_closed,
        }


class ClientMetrics:
    """The counters of one client. May be read on any thread."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeMetrics] = {}

    @property
    def nodes(self) -> Mapping[str, NodeMetrics]:
        """By name of the node."""
        return dict(self._nodes)

    def of(self, name: str) -> NodeMetrics:
        """The counters of one node."""
        return self._nodes.setdefault(name, NodeMetrics(name))

    def as_dict(self) -> Metrics:
        """All of it, by node and name."""
        return {name: node.as_dict() for name, node in self.nodes.items()}

"""`ReceivedMetrics`: the newest values that clients have pushed to any node of a cluster.

A client's values are forgotten when it has not pushed for three push intervals. The number of series of one client is
limited. A lock protects the values: `prometheus` reads them in another thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from kafkaraw.core.telemetry import otlp
from kafkaraw.core.telemetry.otlp import Point
from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net import SystemClock

SERIES_MAX: Final = 10_000
"""Series of one client; further ones are dropped. Java's clients have about 100 metrics, each with some series."""

_logger = logging.getLogger("kafkaraw.broker")


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """The newest value of one series of one client.

    Attributes:
        name: such as "org.apache.kafka.producer.record.send.total".
        value: the value; that of a counter is the sum of all pushes if the client sends changes.
        is_counter: whether it only grows.
        attributes: of the series, by name.
        client: attributes of the client, by name: `client_instance_id`, `client_id`, `client_software_name`,
            `client_software_version`, `client_source_address`, `client_source_port`.
        description: what the metric means; empty if the client does not say it.
        pushed_ms: when the client pushed it, in milliseconds since 1970.
    """

    name: str
    value: float
    is_counter: bool
    attributes: Mapping[str, str]
    client: Mapping[str, str]
    description: str
    pushed_ms: int


@dataclass(slots=True)
class _OfClient:
    series: dict[tuple[str, tuple[tuple[str, str], ...]], ClientMetric] = field(default_factory=dict)
    forget_ms: int = 0


class ReceivedMetrics:
    """The metrics that clients have pushed."""

    def __init__(self) -> None:
        self._clients: dict[str, _OfClient] = {}
        self._lock = threading.Lock()

    def take(self, client: Mapping[str, str], points: Iterable[Point], now_ms: int, keep_ms: int) -> None:
        """Take the values of a push.

        Args:
            client: attributes of the client.
            points: the values.
            now_ms: now, in milliseconds since 1970.
            keep_ms: how long they are kept without another push.
        """
        with self._lock:
            self._forget(now_ms)
            known = self._clients.setdefault(client["client_instance_id"], _OfClient())
            known.forget_ms = now_ms + keep_ms
            dropped = sum(not _take(known, client, point, now_ms) for point in points)
        if dropped:
            _logger.warning(
                "client %r pushes more than %d series of metrics: %d are dropped",
                client.get("client_id"),
                SERIES_MAX,
                dropped,
            )

    def all(self, now_ms: int) -> list[ClientMetric]:
        """Return the newest value of each series of each client."""
        with self._lock:
            self._forget(now_ms)
            return [metric for client in self._clients.values() for metric in client.series.values()]

    def _forget(self, now_ms: int) -> None:
        for name in [name for name, client in self._clients.items() if client.forget_ms < now_ms]:
            del self._clients[name]


def read_client_metrics(received: ReceivedMetrics) -> list[ClientMetric]:
    """Return the newest values, by the clock of this machine.

    Raises:
        UsageError: the package protobuf is missing, without which nothing is received.
    """
    if not otlp.is_installed():
        raise UsageError(otlp.MISSING)
    return received.all(SystemClock().time_ms())


def _take(known: _OfClient, client: Mapping[str, str], point: Point, now_ms: int) -> bool:
    """Take a value; return False if the client has too many series."""
    key = (point.name, tuple(sorted(point.attributes.items())))
    before = known.series.get(key)
    if before is None and len(known.series) >= SERIES_MAX:
        return False
    value = point.value + (before.value if point.is_delta and before is not None else 0)
    known.series[key] = ClientMetric(
        point.name, value, point.is_counter, point.attributes, client, point.description, now_ms
    )
    return True

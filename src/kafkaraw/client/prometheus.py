"""A client's metrics for Prometheus, through `prometheus-client` (extra `metrics`), which is imported when used.

    from kafkaraw.client.prometheus import register
    register(producer, client="orders")

Numbers are read from `client.metrics()` when Prometheus asks; nothing is kept twice. Start at `register`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from kafkaraw.client.fetch_metrics import FetchMetrics
from kafkaraw.client.metrics import Metrics
from kafkaraw.client.producer_metrics import GROUP, MEANINGS
from kafkaraw.errors import UsageError

_COUNTERS: Final = {
    "requests": "Requests submitted.",
    "requests_failed": "Requests that ended without an answer.",
    "bytes_in": "Bytes received.",
    "bytes_out": "Bytes sent.",
    "throttle_time_s": "Seconds for which the broker said it throttled this client.",
    "connections_opened": "Connections that became usable.",
    "connections_failed": "Attempts to connect that failed.",
    "connections_closed": "Usable connections that ended.",
}
_GAUGES: Final = {
    "in_flight": "Requests that wait for their answers.",
    "connections": "Usable connections that stand.",
    "latency_max_s": "The longest wait for an answer so far, in seconds.",
}
_LABEL: Final = "node"
_OF_FETCHING: Final = {
    "fetches": "Answers to Fetch requests.",
    "fetches_failed": "Fetch requests without an answer.",
    "bytes": "Bytes of record batches in these answers.",
    "records": "Records in these answers.",
    "latency_sum_s": "Time from Fetch requests to their answers, in seconds.",
}


class HasMetrics(Protocol):
    """Any of the clients, of either face."""

    def metrics(self) -> Metrics:
        """What it counted."""
        ...


@runtime_checkable
class HasFetchMetrics(Protocol):
    """A consumer, of either face."""

    def fetch_metrics(self) -> FetchMetrics:
        """What it counted about fetching."""
        ...


class Registry(Protocol):
    """What is asked of a Prometheus registry."""

    def register(self, collector: Any) -> None:  # noqa: ANN401 - prometheus-client's own type is not at hand here
        """Take a collector."""
        ...


class ClientCollector:
    """A Prometheus collector over one client.

    Args:
        client: whose metrics.
        labels: added to every sample, to tell several clients of one process apart.

    Raises:
        UsageError: `prometheus-client` is not installed.
    """

    def __init__(self, client: HasMetrics, /, **labels: str) -> None:
        try:
            from prometheus_client import core
        except ImportError:
            raise UsageError("this needs prometheus-client: pip install 'kafkaraw[metrics]'") from None
        self._families = core
        self._client = client
        self._labels = labels

    def collect(self) -> Iterator[object]:
        """Give every metric family, with a sample for each node, and a producer's own; called by the registry."""
        groups = self._client.metrics()
        if GROUP in groups:
            yield from self._of_producer(groups[GROUP])
        metrics = {node: values for node, values in groups.items() if node != GROUP}
        names = [*self._labels, _LABEL]
        for kind, table in (("Counter", _COUNTERS), ("Gauge", _GAUGES)):
            for name, text in table.items():
                full_name = f"kafkaraw_client_{name.removesuffix('_s')}" + ("_seconds" if name.endswith("_s") else "")
                family = getattr(self._families, f"{kind}MetricFamily")(full_name, text, labels=names)
                for node, values in metrics.items():
                    family.add_metric([*self._labels.values(), node], values[name])
                yield family
        latency = self._families.HistogramMetricFamily(
            "kafkaraw_client_latency_seconds", "Time from submitting a request to its answer.", labels=names
        )
        for node, values in metrics.items():
            histogram = values["latency_histogram"]
            assert isinstance(histogram, dict)
            label_values = [*self._labels.values(), node]
            latency.add_metric(label_values, list(histogram.items()), values["latency_sum_s"])
        yield latency
        if isinstance(self._client, HasFetchMetrics):
            yield from self._of_fetching(self._client.fetch_metrics())

    def _of_fetching(self, metrics: FetchMetrics) -> Iterator[object]:
        names, label_values = list(self._labels), list(self._labels.values())
        for name, text in _OF_FETCHING.items():
            full_name = f"kafkaraw_consumer_{name.removesuffix('_s')}" + ("_seconds" if name.endswith("_s") else "")
            family = self._families.CounterMetricFamily(full_name, text, labels=names)
            family.add_metric(label_values, getattr(metrics, name))
            yield family
        lag = self._families.GaugeMetricFamily(
            "kafkaraw_consumer_lag", "Offsets between position and end.", labels=[*names, "topic", "partition"]
        )
        for (topic, partition), behind in metrics.lag.items():
            lag.add_metric([*label_values, topic, str(partition)], behind)
        yield lag

    def _of_producer(self, values: Mapping[str, object]) -> Iterator[object]:
        for name, text in MEANINGS.items():
            stem = name.removesuffix("_s")
            kind = "Counter" if stem.endswith("_total") else "Gauge"
            full_name = f"kafkaraw_producer_{stem.removesuffix('_total')}" + ("_seconds" if stem != name else "")
            family = getattr(self._families, f"{kind}MetricFamily")(full_name, text, labels=[*self._labels])
            family.add_metric([*self._labels.values()], values[name])
            yield family


def register(client: HasMetrics, /, registry: Registry | None = None, **labels: str) -> ClientCollector:
    """Have a client's metrics given to Prometheus.

    Args:
        client: a producer, consumer or admin client of either face.
        registry: the default one of `prometheus-client` when None.
        labels: added to every sample.

    Raises:
        UsageError: `prometheus-client` is not installed.
    """
    collector = ClientCollector(client, **labels)
    if registry is None:
        from prometheus_client import REGISTRY

        REGISTRY.register(collector)
    else:
        registry.register(collector)
    return collector

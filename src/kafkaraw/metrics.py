"""The metrics of clients for Prometheus, through `prometheus-client` (extra `metrics`), which is imported when used.

    from kafkaraw.metrics import register
    register(producer, client="orders")

Numbers are read from `client.metrics()` when Prometheus asks; nothing is kept twice. Start at `register`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from kafkaraw.client.metrics import consumer_metrics, group_metrics, producer_metrics, share_consumer_metrics
from kafkaraw.client.metrics.client_metrics import Metrics as Metrics
from kafkaraw.errors import UsageError

_COUNTERS: Final = {
    "requests": "Requests submitted.",
    "requests_failed": "Requests that ended without a response.",
    "bytes_in": "Bytes received.",
    "bytes_out": "Bytes sent.",
    "throttle_time_s": "Seconds for which the broker said it throttled this client.",
    "connections_opened": "Connections that became usable.",
    "connections_failed": "Attempts to connect that failed.",
    "connections_closed": "Usable connections that ended.",
}
_GAUGES: Final = {
    "in_flight": "Requests that wait for their responses.",
    "connections": "Open connections.",
    "latency_max_s": "The longest wait for a response so far, in seconds.",
}
_LABEL: Final = "node"
_OWN: Final = {
    **{module.GROUP: module.MEANINGS for module in (producer_metrics, consumer_metrics, group_metrics)},
    share_consumer_metrics.GROUP: share_consumer_metrics.MEANINGS,
    share_consumer_metrics.MEMBER_GROUP: share_consumer_metrics.MEMBER_MEANINGS,
}
"""What stands beside the nodes in `metrics()`."""


class HasMetrics(Protocol):
    """Any of the clients, of either face."""

    def metrics(self) -> Metrics:
        """What it counted."""
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
        labels: added to every sample, to distinguish several clients of one process.

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
        """Give every metric family, with a sample for each node, and the client's own; called by the registry."""
        groups = self._client.metrics()
        for own, meanings in _OWN.items():
            if own in groups:
                yield from self._of_client(own, meanings, groups[own])
        metrics = {node: values for node, values in groups.items() if node not in _OWN}
        names = [*self._labels, _LABEL]
        for kind, table in (("Counter", _COUNTERS), ("Gauge", _GAUGES)):
            for name, text in table.items():
                full_name = f"kafkaraw_client_{name.removesuffix('_s')}" + ("_seconds" if name.endswith("_s") else "")
                family = getattr(self._families, f"{kind}MetricFamily")(full_name, text, labels=names)
                for node, values in metrics.items():
                    family.add_metric([*self._labels.values(), node], values[name])
                yield family
        latency = self._families.HistogramMetricFamily(
            "kafkaraw_client_latency_seconds", "Time from submitting a request to its response.", labels=names
        )
        for node, values in metrics.items():
            histogram = values["latency_histogram"]
            assert isinstance(histogram, dict)
            label_values = [*self._labels.values(), node]
            latency.add_metric(label_values, list(histogram.items()), values["latency_sum_s"])
        yield latency

    def _of_client(self, own: str, meanings: Mapping[str, str], values: Mapping[str, object]) -> Iterator[object]:
        for name, text in meanings.items():
            stem = name.removesuffix("_s")
            kind = "Counter" if stem.endswith("_total") else "Gauge"
            full_name = f"kafkaraw_{own}_{stem.removesuffix('_total')}" + ("_seconds" if stem != name else "")
            of = values[name]
            samples = [(key.rsplit("-", 1), value) for key, value in of.items()] if isinstance(of, dict) else [([], of)]
            labels = [*self._labels, *(("topic", "partition") if isinstance(of, dict) else ())]
            family = getattr(self._families, f"{kind}MetricFamily")(full_name, text, labels=labels)
            for more, value in samples:
                family.add_metric([*self._labels.values(), *more], value)
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

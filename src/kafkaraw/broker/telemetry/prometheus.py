"""Serves the metrics that clients have pushed to Prometheus, with the package `prometheus-client` (extra `metrics`).

The name of a metric has `_` in place of each character that Prometheus does not allow. Labels are the attributes of the
series and of the client. Start at `MetricsServer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.broker.telemetry.received import ClientMetric
from kafkaraw.core.telemetry import otlp
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

_CLIENT_LABELS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
)
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
STOP_TIMEOUT_S: Final = 5.0


class ClientMetricsCollector:
    """A Prometheus collector over what clients have pushed.

    Args:
        read: returns the newest values.
    """

    def __init__(self, read: Callable[[], list[ClientMetric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[object]:
        """Yield a family for each metric; called by the registry."""
        from prometheus_client import core

        by_name: dict[tuple[str, bool], list[ClientMetric]] = {}
        for metric in self._read():
            by_name.setdefault((_NOT_IN_NAMES.sub("_", metric.name), metric.is_counter), []).append(metric)
        for (name, is_counter), metrics in sorted(by_name.items()):
            names = sorted({_label(name) for metric in metrics for name in metric.attributes})
            kind = core.CounterMetricFamily if is_counter else core.GaugeMetricFamily
            text = next((metric.description for metric in metrics if metric.description), "Pushed by clients.")
            family = kind(name, text, labels=[*_CLIENT_LABELS, *names])
            for metric in metrics:
                values = {_label(name): value for name, value in metric.attributes.items()}
                own = [metric.client.get(name, "") for name in _CLIENT_LABELS]
                family.add_metric([*own, *(values.get(name, "") for name in names)], metric.value)
            yield family


def _label(name: str) -> str:
    """Return the label of an attribute; those of clients have names of their own."""
    label = _NOT_IN_NAMES.sub("_", name)
    return f"metric_{label}" if label in _CLIENT_LABELS or label[:1].isdigit() or not label else label


class MetricsServer:
    """An HTTP server in a thread of its own, which serves /metrics.

    Args:
        host: address to listen on.
        port: port to listen on; 0 is any free one.
        read: returns the newest values of clients.
        collectors: further collectors of Prometheus.

    Raises:
        ConfigError: a package is missing, or the address cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        read: Callable[[], list[ClientMetric]],
        collectors: Iterable[Any] = (),
    ) -> None:
        from importlib.util import find_spec

        if find_spec("prometheus_client") is None or not otlp.is_installed():
            raise ConfigError(f"--metrics: {otlp.MISSING}")
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(ClientMetricsCollector(read))
        for collector in collectors:
            registry.register(collector)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigError(
                f"--metrics {port}: {host}:{port} cannot be listened on: {error}; choose another port"
            ) from error
        self._host = host

    @property
    def url(self) -> str:
        """The address for Prometheus."""
        server: WSGIServer = self._server
        return f"http://{self._host}:{server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(STOP_TIMEOUT_S)

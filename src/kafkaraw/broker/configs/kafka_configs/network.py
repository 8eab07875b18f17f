"""Listeners, connections, requests and metrics; and the configurations of a subscription to client metrics.

Configurations of Kafka 4.3's broker, with their defaults. Declarations only.
Source: also org.apache.kafka.server.metrics.ClientMetricsConfigs.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.configs.kafka_configs.declared import CLUSTER_WIDE, PER_BROKER, Declared
from kafkaraw.protocol.config_codes import ConfigType

CLASS: Final = ConfigType.CLASS
INT: Final = ConfigType.INT
LIST: Final = ConfigType.LIST
LONG: Final = ConfigType.LONG
STRING: Final = ConfigType.STRING

NETWORK: Final = (
    Declared("listeners", LIST, "PLAINTEXT://:9092", "where to listen, as NAME://host:port", PER_BROKER),
    Declared("advertised.listeners", LIST, None, "addresses that clients connect to"),
    Declared("listener.security.protocol.map", STRING,
             "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
             "the security protocol of each listener name", PER_BROKER),
    Declared("inter.broker.listener.name", STRING, None, "the listener that brokers use among themselves"),
    Declared("socket.connection.setup.timeout.max.ms", LONG, "30000",
             "longest wait, in milliseconds, for a connection of the broker's own"),
    Declared("socket.connection.setup.timeout.ms", LONG, "10000",
             "first wait, in milliseconds, for a connection of the broker's own"),
    Declared("socket.listen.backlog.size", INT, "50", "connections that may wait to be accepted"),
    Declared("socket.receive.buffer.bytes", INT, "102400",
             "receive buffer of connections, in bytes; -1 is the system's"),
    Declared("socket.send.buffer.bytes", INT, "102400", "send buffer of connections, in bytes; -1 is the system's"),
    Declared("socket.request.max.bytes", INT, "104857600", "largest request, in bytes"),
    Declared("request.timeout.ms", INT, "30000", "milliseconds that a request of the broker's own may take"),
    Declared("connections.max.idle.ms", LONG, "600000", "close a connection that is idle for longer, in milliseconds"),
    Declared("connection.failed.authentication.delay.ms", INT, "100",
             "milliseconds before a connection is closed whose authentication failed"),
    Declared("max.connections", INT, "2147483647", "open connections", CLUSTER_WIDE),
    Declared("max.connections.per.ip", INT, "2147483647", "open connections from one address", CLUSTER_WIDE),
    Declared("max.connections.per.ip.overrides", STRING, "",
             "limits for single addresses, as host:number", CLUSTER_WIDE),
    Declared("max.connection.creation.rate", INT, "2147483647", "new connections a second", CLUSTER_WIDE),
    Declared("num.io.threads", INT, "8", "threads that work on requests", CLUSTER_WIDE),
    Declared("num.network.threads", INT, "3", "threads that read and write connections", CLUSTER_WIDE),
    Declared("background.threads", INT, "10", "threads for work in the background", CLUSTER_WIDE),
    Declared("queued.max.requests", INT, "500", "requests that may wait for a thread"),
    Declared("queued.max.request.bytes", LONG, "-1", "bytes of requests that may wait; -1 is no limit"),
    Declared("max.request.partition.size.limit", INT, "2000", "most partitions in one answer about partitions"),
    Declared("fetch.max.bytes", INT, "57671680", "largest fetch response, in bytes"),
    Declared("max.incremental.fetch.session.cache.slots", INT, "1000", "fetch sessions that are kept"),
    Declared("fetch.purgatory.purge.interval.requests", INT, "1000",
             "fetches between two clearings of those that are done waiting"),
    Declared("producer.purgatory.purge.interval.requests", INT, "1000",
             "produce requests between two clearings of those that are done waiting"),
    Declared("delete.records.purgatory.purge.interval.requests", INT, "1",
             "deletions of records between two clearings of those that are done waiting"),
    Declared("quota.window.num", INT, "11", "samples that client quotas are computed from"),
    Declared("quota.window.size.seconds", INT, "1", "seconds of each of these samples"),
    Declared("client.quota.callback.class", CLASS, None, "class that decides about client quotas"),
    Declared("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter",
             "classes that report metrics", CLUSTER_WIDE),
    Declared("metrics.num.samples", INT, "2", "samples that metrics are computed from"),
    Declared("metrics.recording.level", STRING, "INFO", "how fine metrics are: INFO, DEBUG or TRACE"),
    Declared("metrics.sample.window.ms", LONG, "30000", "milliseconds of each sample of metrics"),
    Declared("kafka.metrics.polling.interval.secs", INT, "10", "seconds between two reports of Yammer metrics"),
    Declared("kafka.metrics.reporters", LIST, "", "classes that report Yammer metrics"),
    Declared("telemetry.max.bytes", INT, "1048576", "largest push of a client's metrics, in bytes"),
)  # fmt: skip

_CLIENT_METRICS: Final = (
    Declared("interval.ms", INT, "300000", "milliseconds between two pushes of a client"),
    Declared("match", LIST, "", "which clients push, as name=pattern; empty is every one"),
    Declared("metrics", LIST, "", "which metrics are pushed, by the beginnings of their names; * is every one"),
)
CLIENT_METRICS_CONFIGS: Final[dict[str, Declared]] = {declared.name: declared for declared in _CLIENT_METRICS}

"""Settings by the names that kcat and other users of librdkafka know, if they differ from Java's: one table.

Names that librdkafka shares with Java are not here. Settings of librdkafka's own implementation that change nothing
visible for a user of a command are ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NAMES: Final = {
    "broker.address.family": "",
    "compression.codec": "compression.type",
    "enable.partition.eof": "",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.queue.backoff.ms": "",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "log.connection.close": "",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.backpressure.threshold": "",
    "queue.buffering.max.kbytes": "",
    "queue.buffering.max.messages": "",
    "queue.buffering.max.ms": "linger.ms",
    "queued.max.messages.kbytes": "",
    "queued.min.messages": "",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.keepalive.enable": "",
    "socket.nagle.disable": "",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl_cafile",
    "ssl.ca.pem": "ssl_cadata",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.certificate.pem": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.pem": "ssl_keyfile",
    "statistics.interval.ms": "",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
_VALUES: Final = {
    ("auto.offset.reset", "smallest"): "earliest",
    ("auto.offset.reset", "beginning"): "earliest",
    ("auto.offset.reset", "largest"): "latest",
    ("auto.offset.reset", "end"): "latest",
    ("auto.offset.reset", "error"): "none",
}


def differing_names() -> Mapping[str, str]:
    """Java's name or ours for each name of librdkafka that differs; empty for one that is ignored."""
    return _NAMES


def in_our_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the same settings by Java's names or ours; others stay as they are."""
    found = {}
    for given, value in properties.items():
        name = given if given in _NAMES else given.removeprefix("topic.")
        name = _NAMES.get(name, name)
        if name == "security.protocol":
            value = value.upper()
        if name:
            found[name] = _VALUES.get((name, value), value)
    return found

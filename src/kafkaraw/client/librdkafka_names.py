"""Every name of librdkafka's configuration that differs from Java's, and what becomes of it: one table.

`from_properties()` and the command line take these names beside Java's, so that the configuration of a confluent-kafka
client works as it is. A name is a setting under another name, ignored with one warning, or refused with what to use
instead. Names that librdkafka shares with Java are not here, unless a value has another meaning. Must not check values:
that is done where the settings are declared. Start at `in_our_names`.
Source: librdkafka's CONFIGURATION.md (2.16), confluent-kafka's documentation of its configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.errors import ConfigError

# Java's name or ours; empty for names that change nothing that a program could rely on.
_NAMES: Final = {
    "api.version.fallback.ms": "",
    "api.version.request": "",
    "api.version.request.timeout.ms": "",
    "auto.commit.enable": "enable.auto.commit",
    "batch.num.messages": "",
    "broker.address.family": "",
    "broker.address.ttl": "",
    "broker.version.fallback": "",
    "builtin.features": "",
    "compression.codec": "compression.type",
    "compression.level": "compression_level",
    "consume.callback.max.messages": "",
    "coordinator.query.interval.ms": "",
    "debug": "",
    "delivery.report.only.error": "",
    "enable.random.seed": "",
    "enabled_events": "",
    "fetch.error.backoff.ms": "",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.queue.backoff.ms": "",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "group.protocol.type": "",
    "https.ca.location": "sasl_oauthbearer_cafile",
    "https.ca.pem": "sasl_oauthbearer_cafile",
    "internal.termination.signal": "",
    "log.connection.close": "",
    "log.queue": "",
    "log.thread.name": "",
    "log_level": "",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.copy.max.bytes": "",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "offset.store.path": "",
    "offset.store.sync.interval.ms": "",
    "produce.offset.report": "",
    "queue.buffering.backpressure.threshold": "",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "",
    "queue.buffering.max.ms": "linger.ms",
    "queued.max.messages.kbytes": "",
    "queued.min.messages": "",
    "receive.message.max.bytes": "",
    "reconnect.backoff.jitter.ms": "",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.blocking.max.ms": "",
    "socket.keepalive.enable": "",
    "socket.max.fails": "",
    "socket.nagle.disable": "",
    "socket.receive.buffer.bytes": "",
    "socket.send.buffer.bytes": "",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl_cafile",
    "ssl.ca.pem": "ssl_cadata",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.certificate.pem": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.pem": "ssl_keyfile",
    "statistics.interval.ms": "",
    "sticky.partitioning.linger.ms": "",
    "topic.metadata.propagation.max.ms": "",
    "topic.metadata.refresh.fast.cnt": "",
    "topic.metadata.refresh.fast.interval.ms": "",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "topic.metadata.refresh.sparse": "",
}

_CONTEXT: Final = "give ssl_context, an ssl.SSLContext of your own, for that"
_KERBEROS: Final = "get a ticket with kinit, as in `kinit -k -t KEYTAB PRINCIPAL`"
_TOKEN: Final = "give sasl_oauth_token_provider, a function that returns a token"
_C_ONLY: Final = "it exists in librdkafka's C API only; leave it out"
_DELIVERY: Final = "send() returns a ticket: call ticket.add_done_callback(function), or give interceptors"
_REBALANCE: Final = "give subscribe() the callbacks on_assigned, on_revoked and on_lost"

_REFUSED: Final = {
    "background_event_cb": _C_ONLY,
    "closesocket_cb": _C_ONLY,
    "connect_cb": _C_ONLY,
    "consume_cb": "iterate over the consumer, or call poll()",
    "default_topic_conf": "give the properties of the topic beside the others",
    "dr_cb": _DELIVERY,
    "dr_msg_cb": _DELIVERY,
    "error_cb": "calls raise errors, and the others are in the log (logger 'kafkaraw')",
    "log_cb": "use the logger 'kafkaraw' of the module logging",
    "logger": "use the logger 'kafkaraw' of the module logging",
    "msg_order_cmp": _C_ONLY,
    "oauth_cb": _TOKEN,
    "oauthbearer_token_refresh_cb": _TOKEN,
    "offset_commit_cb": "commit_nowait() takes a callback, and interceptors have on_commit()",
    "on_commit": "commit_nowait() takes a callback, and interceptors have on_commit()",
    "on_delivery": _DELIVERY,
    "opaque": _C_ONLY,
    "open_cb": _C_ONLY,
    "partitioner_cb": "give the setting partitioner a function",
    "plugin.library.paths": "give interceptors, objects of your own",
    "rebalance_cb": _REBALANCE,
    "resolve_cb": _C_ONLY,
    "sasl.kerberos.keytab": _KERBEROS,
    "sasl.kerberos.principal": _KERBEROS,
    "sasl.oauthbearer.assertion.jwt.template.file": _TOKEN,
    "sasl.oauthbearer.assertion.private.key.pem": _TOKEN,
    "sasl.oauthbearer.config": _TOKEN,
    "socket_cb": _C_ONLY,
    "ssl.ca.certificate.stores": "give ssl.ca.location, a PEM file",
    "ssl.certificate.verify_cb": _CONTEXT,
    "ssl.crl.location": _CONTEXT,
    "ssl.curves.list": _CONTEXT,
    "ssl.engine.id": _CONTEXT,
    "ssl.engine.location": _CONTEXT,
    "ssl.providers": _CONTEXT,
    "ssl.sigalgs.list": _CONTEXT,
    "ssl_ca": "give ssl.ca.pem, the text of the certificates",
    "ssl_certificate": "give ssl.certificate.pem, the text of the certificate",
    "ssl_engine_callback_data": _C_ONLY,
    "ssl_key": "give ssl.key.pem, the text of the key",
    "stats_cb": "call metrics() of the client, or export them with kafkaraw.metrics",
    "throttle_cb": "metrics() of the client has throttle_time_s of each broker",
    "topic.blacklist": "give subscribe() a pattern that leaves these topics out",
}

# Names with values that change nothing here, and what to use instead of all others.
_ONLY: Final = {
    "enable.gapless.guarantee": (("false",), "use a transaction, which fails as a whole"),
    "enable.partition.eof": (("false",), "compare position() with end_offsets(), or call lag()"),
    "enable.sasl.oauthbearer.unsecure.jwt": (("false",), _TOKEN),
    "enable.ssl.certificate.verification": (("true",), _CONTEXT),
    "offset.store.method": (("broker",), "offsets are committed to the broker; seek() to those that you store"),
    "queuing.strategy": (("fifo",), "records are sent in the order of send()"),
    "sasl.oauthbearer.grant.type": (("client_credentials",), _TOKEN),
    "sasl.oauthbearer.metadata.authentication.type": (("none",), _TOKEN),
    "sasl.oauthbearer.method": (("default", "oidc"), _TOKEN),
}

_VALUES: Final = {
    ("auto.offset.reset", "smallest"): "earliest",
    ("auto.offset.reset", "beginning"): "earliest",
    ("auto.offset.reset", "largest"): "latest",
    ("auto.offset.reset", "end"): "latest",
    ("auto.offset.reset", "error"): "none",
    ("connections.max.idle.ms", "0"): "-1",  # librdkafka: never; Java has -1 for that
    ("delivery.timeout.ms", "0"): "604800000",  # librdkafka: no limit; 7 days is the longest here
    ("metadata.max.age.ms", "-1"): "604800000",  # librdkafka: no refresh
    ("ssl.endpoint.identification.algorithm", "none"): "",
}
_NOT_GIVEN: Final = {  # values that choose the default
    ("compression_level", "-1"),
    ("ssl_cafile", "probe"),
}
_IN_FLIGHT_MAX: Final = 1_000

# What librdkafka has as two settings, and this client as one: the first one counts if both are given.
_BOTH: Final = {
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}


def _kbytes(text: str) -> str:
    return str(int(text) * 1024) if text.strip().isdigit() else text


def _whole_ms(text: str) -> str:
    try:
        return str(math.ceil(float(text)))
    except (ValueError, OverflowError):
        return text


def _in_flight(text: str) -> str:
    return str(min(int(text), _IN_FLIGHT_MAX)) if text.strip().isdigit() else text


_UNITS: Final[Mapping[str, Callable[[str], str]]] = {
    "linger.ms": _whole_ms,
    "max.in.flight": _in_flight,
    "max.in.flight.requests.per.connection": _in_flight,
    "queue.buffering.max.kbytes": _kbytes,
    "queue.buffering.max.ms": _whole_ms,
}
"""How values of a name are converted, where librdkafka has another unit or other limits."""


def differing_names() -> Mapping[str, str]:
    """Java's name or ours for each name of librdkafka that differs; empty for one that is ignored."""
    return _NAMES


def refused_names() -> dict[str, str]:
    """What to use instead of each name of librdkafka that is refused, or is refused with some values."""
    return {**_REFUSED, **{name: instead for name, (_, instead) in _ONLY.items()}}


def ignored_names(properties: Mapping[str, str]) -> list[str]:
    """Return the names among these that have no effect on this client."""
    return sorted(name for name in properties if _NAMES.get(name) == "")


def in_our_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the same settings by Java's names or ours; others stay as they are.

    Raises:
        ConfigError: a name or a value has no counterpart, or two names of one setting have different values; all of
            them are named.
    """
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    for given, value in properties.items():
        if problem := _problem(given, value):
            problems.append(problem)
            continue
        name = given if given in _NAMES else given.removeprefix("topic.")
        if given in _ONLY or any(name == other and first in properties for first, other in _BOTH.items()):
            continue
        value = _UNITS.get(name, str)(value)
        name = _NAMES.get(name, name)
        if name == "security.protocol":
            value = value.upper()
        value = _VALUES.get((name, value.strip()), value)
        if not name or ((name, value.strip()) in _NOT_GIVEN and given != name):
            continue
        if found.get(name, value) != value:
            problems.append(f"{sources[name]} and {given} are two names of one setting: give one of them")
        found[name], sources[name] = value, given
    if problems:
        raise ConfigError("; ".join(problems))
    return found


def _problem(name: str, value: str) -> str:
    if name in _REFUSED and value.strip():
        return f"{name} is not accepted: {_REFUSED[name]}"
    if name in _ONLY and value.strip().lower() not in _ONLY[name][0]:
        return f"{name}={value!r} is not accepted: {_ONLY[name][1]}"
    return ""


def names_of_settings() -> dict[str, tuple[str, ...]]:
    """Return librdkafka's names of each of our settings that it calls otherwise."""
    found: dict[str, tuple[str, ...]] = {}
    for theirs, ours in _NAMES.items():
        if ours:
            setting = ours.replace(".", "_")
            found[setting] = (*found.get(setting, ()), theirs)
    return found

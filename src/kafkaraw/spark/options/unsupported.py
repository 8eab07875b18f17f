"""Options that this format does not have: ignored, without effect, or refused with an alternative.

Most of them are options of Spark's own connector, or of Java's clients. Start at `unknown`.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping

from kafkaraw.errors import ConfigError
from kafkaraw.spark.errors import CLIENT_PREFIX

_log = logging.getLogger(__name__)

# Options with a meaning for Spark's own connector or for Java's clients, but none for this format.
WITHOUT_EFFECT = {
    "path": "a topic is not a path; subscribe (reading) and topic (writing) name topics",
    "groupIdPrefix": "the source joins no consumer group, so it needs no name for one",
    "kafka.max.poll.records": "rows go to Spark in batches of bytes; maxRecordsPerPartition says how many a task takes",
    "kafka.allow.auto.create.topics": "reading never creates a topic",
    "kafka.share.acknowledgement.mode": "a query is no member of a share group",
    "kafka.share.acquire.mode": "a query is no member of a share group",
}

LOG_DIRS = "logDirs"
# Options that are about brokers or streams, and cannot be combined with it.
OF_BROKERS = (
    "commitOffsets",
    "deadLetterHeaders",
    "deadLetterTopic",
    "exactlyOnce",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "includeTimestamp",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "topic",
)

# Spark adds these to the options of a streaming write; this format ignores them.
_SPARKS_OWN = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "_asyncprogresstrackingoverridesinksupportcheck",
    }
)

# Spark adds the properties of a table to the options of every read and write of the table.
OF_TABLES = frozenset({"owner", "provider", "location", "comment", "external", "is_managed_location", "collation"})

IGNORED = _SPARKS_OWN | OF_TABLES

_OPENSSL = "TLS is Python's own: the configuration of its OpenSSL decides"
_SERIALIZER = "keys and values are bytes; convert them in Spark, with cast() or a function"

# Options of Spark's own connector, and what to do instead.
_REFUSED = {
    "kafka.ssl.cipher.suites": _OPENSSL,
    "kafka.ssl.engine.factory.class": _OPENSSL,
    "kafka.ssl.provider": _OPENSSL,
    "kafka.security.providers": _OPENSSL,
    "kafka.sasl.login.class": "use kafka.sasl.mechanism and kafka.sasl.jaas.config",
}
_INTERCEPTORS = "there are no interceptors, nor Java classes"
_INTERCEPTOR_CLASSES = "kafka.interceptor.classes"
# Refused by one kind of use only, as in Spark's own connector; the other one ignores them.
REFUSED_READING = {
    "kafka.auto.offset.reset": "use startingOffsets, and failOnDataLoss for offsets that are gone",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets; nothing is committed to Kafka",
    _INTERCEPTOR_CLASSES: _INTERCEPTORS,
    "kafka.key.deserializer": _SERIALIZER,
    "kafka.value.deserializer": _SERIALIZER,
}
REFUSED_WRITING = {
    "kafka.transactional.id": "use exactlyOnce=true: every task has a transactional id of its own then",
    _INTERCEPTOR_CLASSES: _INTERCEPTORS,
    "kafka.key.serializer": _SERIALIZER,
    "kafka.value.serializer": _SERIALIZER,
}
OF_ONE_KIND = frozenset({*REFUSED_READING, *REFUSED_WRITING})  # in lower case
# The client's advice for these is to pass a Python object, which an option cannot do.
_TOKENS = "kafka.sasl.oauthbearer.token.endpoint.url and a client's id and secret get tokens"
INSTEAD = {
    "partitioner.class": "have a column `partition`, or leave it out: records go by their keys",
    "sasl.client.callback.handler.class": "kafka.sasl.jaas.config has the user and the password",
    "sasl.login.callback.handler.class": _TOKENS,
    "sasl.oauthbearer.jwt.retriever.class": _TOKENS,
    "ssl.enabled.protocols": _OPENSSL,
    "ssl.protocol": _OPENSSL,
}
REFUSED_LOWER = {name.lower(): (name, why) for name, why in _REFUSED.items()}


def check_kind(given: Mapping[str, str], refused: Mapping[str, str], doing: str) -> None:
    """Check the options that only reading or only writing refuses.

    Args:
        given: the options in `OF_ONE_KIND` that the user has set.
        refused: the options that this kind of use refuses, with an alternative.
        doing: "reading" or "writing", for the log.

    Raises:
        ConfigError: one is refused.
    """
    for name, text in given.items():
        if name == _INTERCEPTOR_CLASSES and refused is REFUSED_WRITING and not text.strip():
            continue
        if name in refused:
            raise ConfigError(f"the option {name} is not accepted for {doing}: {refused[name]}")
        _log.warning("the option %s has no effect on %s", name, doing)


def unknown(given: str, known: Iterable[str]) -> str:
    """Return the message for an option that is refused or does not exist, with an alternative.

    Args:
        given: the name that the user has set.
        known: the names of all existing options.
    """
    lower = given.lower()
    if lower in REFUSED_LOWER:
        name, why = REFUSED_LOWER[lower]
        return f"the option {name} is not accepted: {why}"
    near = _nearest(lower, known)
    hint = f"; did you mean {near}?" if near else ""
    if lower.startswith(CLIENT_PREFIX):
        return f"the option {given} is not accepted: the client has no setting of this name{hint}"
    return f"unknown option {given!r} of format kafkaraw{hint}"


def _nearest(lower: str, names: Iterable[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    # A client setting without its prefix is the most frequent mistake.
    if CLIENT_PREFIX + lower in by_lower:
        return by_lower[CLIENT_PREFIX + lower]
    if CLIENT_PREFIX + lower.replace("_", ".") in by_lower:
        return by_lower[CLIENT_PREFIX + lower.replace("_", ".")]
    close = difflib.get_close_matches(lower, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None

"""Every property of a flow, with MirrorMaker 2's names: how its text is read, its default, and what it means.

A new property is one entry of `PROPERTIES`; `settings.py` gives it to a part of the mirror, and the reference page is
made from here. `WITHOUT_EFFECT` has names that only Kafka Connect needs, `REFUSED` those that cannot be followed. Start
at `PROPERTIES`.
Source: Kafka 4.3's MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig; KIP-382, KIP-618, KIP-690.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.light_classes import dataclass
from kafkaraw.mirror.interfaces import Delivery, OnLoss
from kafkaraw.mirror.policies import CONFIGS_EXCLUDED, GROUPS_EXCLUDED, SEPARATOR, TOPICS_EXCLUDED


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _whole(minimum: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not re.fullmatch(r"-?\d+", text) or int(text) < minimum:
            raise ValueError(f"must be a whole number from {minimum} on")
        return int(text)

    return whole


def _factor(text: str) -> int:
    number = _whole(-1)(text)
    if number == 0:
        raise ValueError("must be a number of replicas, or -1 for the default of the target")
    return number


def _seconds(text: str) -> float:
    return float(_whole(1)(text))


def names_in(text: str) -> tuple[str, ...]:
    """Return the names or patterns of a list with commas."""
    return tuple(name for name in re.split(r"\s*,\s*", text.strip()) if name)


def _text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _one_of(*words: str) -> Callable[[str], str]:
    def one_of(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return text

    return one_of


_JAVA: Final = "org.apache.kafka.connect.mirror."
_DEFAULT_POLICY: Final = f"{_JAVA}DefaultReplicationPolicy"
IDENTITY_POLICY: Final = f"{_JAVA}IdentityReplicationPolicy"


@dataclass(frozen=True, slots=True)
class MirrorProperty:
    """A property of a flow.

    Attributes:
        read: returns the value of a text; raises ValueError for one that does not fit.
        default: the value without a text.
        text: what it is.
    """

    read: Callable[[str], object]
    default: object
    text: str


PROPERTIES: Final[Mapping[str, MirrorProperty]] = {
    "enabled": MirrorProperty(_boolean, False, "Whether the flow runs; for one flow only, as `east->west.enabled`."),
    "topics": MirrorProperty(names_in, (".*",), "Topics to copy: names and patterns, which must match whole names."),
    "topics.exclude": MirrorProperty(
        names_in, TOPICS_EXCLUDED, "Topics that are not copied, even if `topics` names them."
    ),
    "groups": MirrorProperty(names_in, (".*",), "Groups whose offsets are translated: names and patterns."),
    "groups.exclude": MirrorProperty(names_in, GROUPS_EXCLUDED, "Groups whose offsets are not translated."),
    "config.properties.exclude": MirrorProperty(
        names_in, CONFIGS_EXCLUDED, "Configurations of topics that are not copied: names and patterns."
    ),
    "use.defaults.from": MirrorProperty(
        _one_of("source", "target"),
        "target",
        "`source`: configurations that are defaults in the source are set in the target; `target`: they are not.",
    ),
    "replication.policy.class": MirrorProperty(
        _one_of(_DEFAULT_POLICY, IDENTITY_POLICY),
        _DEFAULT_POLICY,
        "How copies are named: DefaultReplicationPolicy, after their source, or IdentityReplicationPolicy, not at all.",
    ),
    "replication.policy.separator": MirrorProperty(
        _text, SEPARATOR, "What stands between the alias of the source and the name of the topic."
    ),
    "replication.policy.internal.topic.separator.enabled": MirrorProperty(
        _boolean, True, "Whether names of MirrorMaker's own topics have this separator, too."
    ),
    "replication.factor": MirrorProperty(
        _factor,
        None,
        "Replicas of new topics, -1 for the default of the target; by default 2, or 1 if it has one broker.",
    ),
    "heartbeats.replication.enabled": MirrorProperty(
        _boolean, True, "Whether heartbeats are copied even if `topics` does not select them."
    ),
    "refresh.topics.enabled": MirrorProperty(_boolean, True, "Whether the flow looks for new topics and partitions."),
    "refresh.topics.interval.seconds": MirrorProperty(
        _seconds, 600.0, "Seconds between looks for new topics and partitions."
    ),
    "refresh.groups.enabled": MirrorProperty(_boolean, True, "Whether the flow looks for new groups."),
    "refresh.groups.interval.seconds": MirrorProperty(_seconds, 600.0, "Seconds between looks for new groups."),
    "sync.topic.configs.enabled": MirrorProperty(_boolean, True, "Whether configurations of topics follow."),
    "sync.topic.configs.interval.seconds": MirrorProperty(
        _seconds, 600.0, "Seconds between comparisons of configurations."
    ),
    "sync.topic.acls.enabled": MirrorProperty(_boolean, True, "Whether ACLs of topics follow."),
    "sync.topic.acls.interval.seconds": MirrorProperty(_seconds, 600.0, "Seconds between comparisons of ACLs."),
    "sync.topic.deletions.enabled": MirrorProperty(
        _boolean, False, "Whether a copy is deleted when its source is. Not a property of MirrorMaker."
    ),
    "emit.checkpoints.enabled": MirrorProperty(
        _boolean, True, "Whether translated offsets of groups are written as checkpoints."
    ),
    "emit.checkpoints.interval.seconds": MirrorProperty(_seconds, 60.0, "Seconds between checkpoints."),
    "sync.group.offsets.enabled": MirrorProperty(
        _boolean, False, "Whether translated offsets are committed for groups that have no members in the target."
    ),
    "sync.group.offsets.interval.seconds": MirrorProperty(_seconds, 60.0, "Seconds between these commits."),
    "emit.heartbeats.enabled": MirrorProperty(_boolean, True, "Whether heartbeats are written."),
    "emit.heartbeats.interval.seconds": MirrorProperty(_seconds, 1.0, "Seconds between heartbeats."),
    "emit.offset-syncs.enabled": MirrorProperty(
        _boolean, True, "Whether offset syncs are written, from which MirrorMaker's checkpoint connector translates."
    ),
    "offset-syncs.topic.location": MirrorProperty(
        _one_of("source", "target"), "source", "Which cluster has the topic of offset syncs."
    ),
    "offset-syncs.topic.replication.factor": MirrorProperty(
        _factor, None, "Replicas of this topic; by default 3, or the number of brokers if there are fewer."
    ),
    "checkpoints.topic.replication.factor": MirrorProperty(
        _factor, None, "The same for the topics of checkpoints and offset mappings."
    ),
    "heartbeats.topic.replication.factor": MirrorProperty(_factor, None, "The same for `heartbeats`."),
    "offset.lag.max": MirrorProperty(_whole(0), 100, "Records between two offset syncs of a partition, at most."),
    "admin.timeout.ms": MirrorProperty(_whole(1), 60_000, "Milliseconds that a change of topics may take."),
    "exactly.once.source.support": MirrorProperty(
        _one_of("enabled", "disabled", "preparing"),
        None,
        "`disabled` and `preparing` are `delivery = at-least-once`. Also for a target, behind its alias.",
    ),
    "exactly.once.support": MirrorProperty(
        _one_of("required", "requested"), None, "`required`: at-least-once delivery is an error."
    ),
    "delivery": MirrorProperty(
        _one_of(*(each.value for each in Delivery)),
        None,
        "`exactly-once` by default, or `at-least-once`, which is faster. Not a property of MirrorMaker.",
    ),
    "on.loss": MirrorProperty(
        _one_of(*(each.value for each in OnLoss)),
        OnLoss.FAIL.value,
        "What happens if the source deletes records before they are copied: `fail`, or `continue`. Not of MirrorMaker.",
    ),
    "commit.interval.ms": MirrorProperty(
        _whole(1),
        500,
        "Milliseconds until a transaction ends, or positions are committed, under load; up to four times as long while "
        "old records are copied. Not a property of MirrorMaker.",
    ),
    "in.flight.max.bytes": MirrorProperty(
        _whole(1), 16 << 20, "Bytes that are read and not acknowledged yet, at most. Not a property of MirrorMaker."
    ),
}
WITHOUT_EFFECT: Final = re.compile(
    r"name|connector\.class|tasks\.max(\.enforce)?|(key|value|header)\.converter.*|consumer\.poll\.timeout\.ms|"
    r"(offset|config|status)\.(storage|flush)\..*|task\..*|worker\..*|plugin\..*|listeners.*|rest\..*|admin\.listeners.*|"
    r"access\.control\..*|response\.http\..*|dedicated\.mode\..*|metric\.(reporters|names\.formats)|errors\..*|"
    r"config\.action\.reload|connector\.plugin\.version|group\.id|scheduled\.rebalance\..*|inter\.worker\..*|"
    r"offset\.flush\..*|(source|target)\.cluster\.alias|use\.incremental\.alter\.configs|add\.source\.alias\.to\.metrics"
)
"""Names of Kafka Connect, and those that this mirror needs no value for."""

REFUSED: Final[Mapping[str, str]] = {
    "topics.blacklist": "Kafka 4 has removed this name: use topics.exclude",
    "topics.whitelist": "Kafka has never had this name in MirrorMaker 2: use topics",
    "groups.blacklist": "Kafka 4 has removed this name: use groups.exclude",
    "config.properties.blacklist": "Kafka 4 has removed this name: use config.properties.exclude",
    "transforms": "records are copied as they are: transform them in a pipeline or a worker that reads the copy",
    "predicates": "records are copied as they are",
    "topic.filter.class": "properties name no code here: use topics and topics.exclude",
    "group.filter.class": "properties name no code here: use groups and groups.exclude",
    "config.property.filter.class": "properties name no code here: use config.properties.exclude",
    "forwarding.admin.class": "properties name no code here",
}
FILTERS_OF_KAFKA: Final = frozenset(
    {
        f"{_JAVA}DefaultTopicFilter",
        f"{_JAVA}DefaultGroupFilter",
        f"{_JAVA}DefaultConfigPropertyFilter",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
    }
)

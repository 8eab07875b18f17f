"""Names of copies, and which topics, groups and configurations a flow selects: MirrorMaker 2's policies and filters.

`ReplicationPolicy` says how the copy of a topic is called, and where a topic of a cluster comes from. `NameFilter` is
MirrorMaker's pair of an include list and an exclude list. `Topology` finds topics that flows would copy in a circle:
the default policy marks each copy with the name of its source, so a topic is never copied back; the identity policy
cannot see that in a name, so all flows are followed. Pure. Start at `ReplicationPolicy`.
Source: Kafka's DefaultReplicationPolicy, IdentityReplicationPolicy, DefaultTopicFilter, MirrorSourceConnector; KIP-382.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field

HEARTBEATS: Final = "heartbeats"
SEPARATOR: Final = "."
TOPICS_EXCLUDED: Final = (r"mm2.*\.internal", r".*[\-\.]internal", r".*\.replica", "__.*")
"""Kafka 4.3's defaults, and those of earlier versions: topics of Connect and of MirrorMaker are not copied."""
GROUPS_EXCLUDED: Final = ("console-consumer-.*", "connect-.*", "__.*")
CONFIGS_EXCLUDED: Final = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)
_INTERNAL: Final = "internal"
_MM2: Final = "mm2"


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """MirrorMaker's DefaultReplicationPolicy: the copy of `orders` of the cluster `east` is `east.orders`.

    Attributes:
        separator: stands between the alias and the name.
        has_separator_in_internal_topics: whether the names of MirrorMaker's own topics have this separator, too.
    """

    separator: str = SEPARATOR
    has_separator_in_internal_topics: bool = True

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the name of the copy of a topic of a cluster."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from, None for an original."""
        parts = topic.split(self.separator)
        while parts and not parts[-1]:  # as Java's `split`
            parts.pop()
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name that a copy has in the cluster that it was copied from, None for an original."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name in the first cluster, over any number of flows."""
        upstream = self.upstream_topic(topic)
        return topic if upstream in (None, topic) else self.original_topic(str(upstream))

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether a topic has heartbeats, of this cluster or copied."""
        return self.original_topic(topic) == HEARTBEATS

    def offset_syncs_topic(self, other_alias: str) -> str:
        """Return the name of MirrorMaker's topic of offset syncs.

        Args:
            other_alias: of the target if the topic is in the source, and the other way round.
        """
        separator = self._internal_separator
        return f"mm2-offset-syncs{separator}{other_alias}{separator}{_INTERNAL}"

    def checkpoints_topic(self, source_alias: str) -> str:
        """Return the name of the target's topic with the checkpoints of a source."""
        return source_alias + self._checkpoints_suffix

    def offset_mapping_topic(self, source_alias: str) -> str:
        """Return the name of the target's topic with the exact offsets of the copies of a source (`mapping.py`)."""
        separator = self._internal_separator
        return f"mm2-offset-mapping{separator}{source_alias}{separator}{_INTERNAL}"

    def is_internal_topic(self, topic: str) -> bool:
        """Whether a topic is never copied: one of Kafka or of MirrorMaker."""
        is_mm2 = topic.startswith(_MM2) and topic.endswith(self._internal_separator + _INTERNAL)
        return is_mm2 or topic.endswith(self._checkpoints_suffix) or topic.startswith(("__", "."))

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.has_separator_in_internal_topics else SEPARATOR

    @property
    def _checkpoints_suffix(self) -> str:
        separator = self._internal_separator
        return f"{separator}checkpoints{separator}{_INTERNAL}"


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(ReplicationPolicy):
    """MirrorMaker's IdentityReplicationPolicy: a copy has the name of its source, apart from heartbeats."""

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the name of the copy of a topic of a cluster."""
        return ReplicationPolicy.remote_topic(self, source_alias, topic) if topic.endswith(HEARTBEATS) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from; a name does not tell it."""
        return ReplicationPolicy.topic_source(self, topic) if topic.endswith(HEARTBEATS) else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name in the cluster that a copy was copied from."""
        return ReplicationPolicy.upstream_topic(self, topic) if topic.endswith(HEARTBEATS) else topic


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Names and patterns to include, and to exclude; the latter go first. A pattern must match the whole name.

    Attributes:
        include: patterns of Python's `re`, which has the syntax of Java's for nearly all that is in use.
        exclude: the same.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    _included: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _excluded: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", compiled(self.include))
        object.__setattr__(self, "_excluded", compiled(self.exclude))

    def selects(self, name: str) -> bool:
        """Whether a name is included and not excluded."""
        if self._included is None or not self._included.fullmatch(name):
            return False
        return self._excluded is None or not self._excluded.fullmatch(name)


def compiled(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return one pattern for a list; None, which matches nothing, for an empty one.

    Raises:
        ConfigError: one of them is no pattern.
    """
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"{pattern!r} is no regex that Python has: {error}; a comma separates patterns, so a pattern "
                "cannot have one"
            ) from error
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)) if patterns else None


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """What one flow does with topics.

    Attributes:
        source_alias, target_alias: the clusters.
        policy: names the copies.
        topics: selects topics.
        copies_heartbeats: whether heartbeats are copied even if the filter does not select them.
    """

    source_alias: str
    target_alias: str
    policy: ReplicationPolicy
    topics: NameFilter
    copies_heartbeats: bool = True

    def remote_topic(self, topic: str) -> str:
        """Return the name of a topic's copy."""
        return self.policy.remote_topic(self.source_alias, topic)

    def selects(self, topic: str) -> bool:
        """Whether the flow copies a topic of its source; copies that the target is the source of are left out."""
        is_wanted = self.topics.selects(topic) or (self.copies_heartbeats and self.policy.is_heartbeats_topic(topic))
        return is_wanted and not self.policy.is_internal_topic(topic) and not self._is_from_target(topic)

    def _is_from_target(self, topic: str) -> bool:
        return self.target_alias in sources_of(self.policy, topic)


def sources_of(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """Return the clusters that a topic has come through, the last one first."""
    while True:
        source, upstream = policy.topic_source(topic), policy.upstream_topic(topic)
        if source is None:
            return
        yield source
        if upstream is None or upstream == topic:
            return
        topic = upstream


class Topology:
    """All flows of a configuration, to find circles.

    Args:
        routes: of all flows.
    """

    def __init__(self, routes: Iterable[TopicRoute]) -> None:
        self._routes = tuple(routes)

    def circle(self, first: TopicRoute, topic: str) -> list[str]:
        """Return the clusters through which a topic would come back to where it is; empty if it would not.

        It may come back under another name, if one of the flows has names of its own: then it would be copied again and
        again, with a name that grows.

        Args:
            first: the flow that would copy it.
            topic: its name in the source of this flow.
        """
        seen: set[tuple[str, str]] = set()
        open_ends = [([first.source_alias, first.target_alias], first.remote_topic(topic))]
        while open_ends:
            path, name = open_ends.pop()
            if path[-1] == first.source_alias and first.selects(name):
                return path
            if (path[-1], name) in seen:
                continue
            seen.add((path[-1], name))
            if len(path) > len(self._routes) + 1:
                continue
            open_ends += [
                ([*path, route.target_alias], route.remote_topic(name))
                for route in self._routes
                if route.source_alias == path[-1] and route.selects(name)
            ]
        return []

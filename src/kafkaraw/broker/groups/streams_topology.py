"""The topology of a streams group: its source topics, and the internal topics that the broker has to create. Pure.

`configure` decides the number of partitions of repartition and changelog topics, and says what is missing.
Source: org.apache.kafka.coordinator.group.streams.topics.{InternalTopicManager, RepartitionTopics,
CopartitionedTopicsEnforcer, ChangelogTopics} of Kafka 4.3; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.runtime import Topics
from kafkaraw.broker.groups.streams_assignor import SubtopologyTasks
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol.embedded import streams_group_records as stored
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages import streams_group_heartbeat as messages

_SHOWN_MAX = 3
"""Most topics that a message names."""


class StatusCode(IntEnum):
    """What a member should know, in the response to its heartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicProblem(Exception):
    """The topics of the cluster do not fit the topology.

    Args:
        status: the status that members get.
        message: with the topics.
    """

    def __init__(self, status: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status


class InternalTopic(NamedTuple):
    """A repartition or changelog topic.

    Attributes:
        replication_factor: -1 for the broker's default.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class Subtopology(NamedTuple):
    """A configured subtopology.

    Attributes:
        tasks: number of tasks: the largest number of partitions of its sources.
        sources: names of its source and repartition source topics.
        repartition: its repartition source topics.
        changelogs: its changelog topics.
    """

    tasks: int
    sources: frozenset[str]
    repartition: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with the topics of the cluster.

    Attributes:
        subtopologies: by id, in order; None if the source topics are missing or do not fit.
        missing: the internal topics that do not exist.
        problem: why the topology is not ready; None if it is.
    """

    subtopologies: Mapping[str, Subtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    problem: TopicProblem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None

    def tasks(self) -> dict[str, SubtopologyTasks]:
        """Return the tasks for the assignor."""
        return {
            name: SubtopologyTasks(one.tasks, bool(one.changelogs)) for name, one in (self.subtopologies or {}).items()
        }


def stored_topology(topology: messages.Topology) -> stored.StreamsGroupTopologyValue:
    """Return the record value of a topology in a request."""
    return stored.StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            stored.Subtopology(
                subtopology_id=one.subtopology_id,
                source_topics=list(one.source_topics),
                source_topic_regex=list(one.source_topic_regex),
                state_changelog_topics=[_stored_topic(topic) for topic in one.state_changelog_topics],
                repartition_sink_topics=list(one.repartition_sink_topics),
                repartition_source_topics=[_stored_topic(topic) for topic in one.repartition_source_topics],
                copartition_groups=[
                    stored.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in one.copartition_groups
                ],
            )
            for one in topology.subtopologies
        ],
    )


def _stored_topic(topic: messages.TopicInfo) -> stored.TopicInfo:
    return stored.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[stored.TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs],
    )


def check_topology(topology: stored.StreamsGroupTopologyValue) -> None:
    """Check what does not depend on the topics of the cluster.

    Raises:
        ApiError: STREAMS_INVALID_TOPOLOGY.
    """
    names = [one.subtopology_id for one in topology.subtopologies]
    if len(set(names)) < len(names):
        raise _invalid(f"Two subtopologies have the same id: {', '.join(sorted(names))}.")
    for one in topology.subtopologies:
        for group in one.copartition_groups:
            indexes = (
                (group.source_topics, one.source_topics),
                (group.repartition_source_topics, one.repartition_source_topics),
            )
            for wanted, topics in indexes:
                if any(not 0 <= index < len(topics) for index in wanted):
                    raise _invalid(
                        f"A copartition group of subtopology {one.subtopology_id} names a topic it does not have."
                    )


def source_names(subtopology: stored.Subtopology) -> list[str]:
    """Return the source topics of a subtopology, repartition topics among them."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def required_topics(topology: stored.StreamsGroupTopologyValue) -> frozenset[str]:
    """Return the names of all topics that tasks read or restore from."""
    return frozenset(
        name
        for one in topology.subtopologies
        for name in (*source_names(one), *(topic.name for topic in one.state_changelog_topics))
    )


def configure(topology: stored.StreamsGroupTopologyValue, topics: Topics) -> ConfiguredTopology:
    """Decide the partitions of internal topics, and which of them are missing.

    Raises:
        ApiError: STREAMS_INVALID_TOPOLOGY.
    """
    try:
        counts = _partition_counts(topology, topics)
        subtopologies = {
            one.subtopology_id: _subtopology(one, counts)
            for one in sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
        }
        missing = _missing(subtopologies, topics)
    except TopicProblem as misfit:
        return ConfiguredTopology(None, problem=misfit)
    if not missing:
        return ConfiguredTopology(subtopologies)
    shown = _shown([topic.name for topic in missing])
    problem = TopicProblem(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {shown}")
    return ConfiguredTopology(subtopologies, missing, problem)


def _partition_counts(topology: stored.StreamsGroupTopologyValue, topics: Topics) -> dict[str, int]:
    """Return the number of partitions of every topic of the topology.

    Raises:
        TopicProblem: a source topic is missing, or topics do not fit each other.
        ApiError: STREAMS_INVALID_TOPOLOGY.
    """
    parts = topology.subtopologies
    counts = {name: found[1] for name in required_topics(topology) if (found := topics.find(name))}
    missing = sorted({name for one in parts for name in one.source_topics} - counts.keys())
    if missing:
        raise TopicProblem(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_shown(missing)} are missing.")
    counts = {**_repartition_counts(parts, counts), **counts}
    _copartition(parts, counts, topics)
    for one in parts:
        sources = source_names(one)
        if not sources:
            raise _invalid(f"No source topics found for subtopology {one.subtopology_id}")
        most = max(counts[name] for name in sources)
        counts.update((topic.name, most) for topic in one.state_changelog_topics)
    return counts


def _repartition_counts(parts: Sequence[stored.Subtopology], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of partitions of repartition topics: their own, or the most of the sources that feed them."""
    made = {
        topic.name: topic.partitions for one in parts for topic in one.repartition_source_topics if topic.partitions
    }
    left = {name for one in parts for name in one.repartition_sink_topics} - made.keys()
    while left:
        before = len(left)
        for one in parts:
            fed_by = [made[topic.name] for topic in one.repartition_source_topics if topic.name in made]
            fed_by += [counts[name] for name in one.source_topics if name in counts]
            if not fed_by:
                continue
            for name in left.intersection(one.repartition_sink_topics):
                made[name] = max(fed_by)
                left.discard(name)
        if len(left) == before:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
    if any(topic.name not in made for one in parts for topic in one.repartition_source_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return made


def _copartition(parts: Sequence[stored.Subtopology], counts: dict[str, int], topics: Topics) -> None:
    """Give the topics of each copartition group the same number of partitions.

    Raises:
        TopicProblem: they cannot have it.
    """
    repartition = {topic.name: topic.partitions for one in parts for topic in one.repartition_source_topics}
    for one in parts:
        for group in one.copartition_groups:
            names = {one.source_topics[index] for index in group.source_topics}
            names |= {one.repartition_source_topics[index].name for index in group.repartition_source_topics}
            ours = {name: counts[name] for name in names if name in repartition}
            others = {name: counts[name] for name in names if name not in repartition}
            fixed = {name: count for name, count in repartition.items() if count}
            if not names:
                continue
            if others:
                wanted = _same(others)
            elif fixed:
                wanted = _same(fixed, shown=ours)
            else:
                wanted = max(ours.values())
            for name, count in ours.items():
                if name in fixed and count != wanted:
                    raise _misfit(
                        f"Number of partitions [{count}] of repartition topic [{name}] doesn't match number of "
                        f"partitions [{wanted}] of the source topic."
                    )
                if topics.find(name) is None:
                    counts[name] = wanted


def _same(counts: Mapping[str, int], shown: Mapping[str, int] | None = None) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted((shown or counts).items()))
        raise _misfit(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return next(iter(counts.values()))


def _subtopology(one: stored.Subtopology, counts: Mapping[str, int]) -> Subtopology:
    sources = source_names(one)
    return Subtopology(
        max(counts[name] for name in sources),
        frozenset(sources),
        tuple(_internal(topic, counts) for topic in one.repartition_source_topics),
        tuple(_internal(topic, counts) for topic in one.state_changelog_topics),
    )


def _internal(topic: stored.TopicInfo, counts: Mapping[str, int]) -> InternalTopic:
    configs = {config.key: config.value for config in topic.topic_configs}
    return InternalTopic(topic.name, topic.partitions or counts[topic.name], topic.replication_factor or -1, configs)


def _missing(subtopologies: Mapping[str, Subtopology], topics: Topics) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist.

    Raises:
        TopicProblem: one exists with another number of partitions.
    """
    wanted = {topic.name: topic for one in subtopologies.values() for topic in (*one.repartition, *one.changelogs)}
    for name, topic in list(wanted.items()):
        found = topics.find(name)
        if found is None:
            continue
        if found[1] != topic.partitions:
            raise _misfit(
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found "
                f"{found[1]}"
            )
        del wanted[name]
    return tuple(wanted[name] for name in sorted(wanted))


def _shown(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN_MAX
    return ", ".join(listed[:_SHOWN_MAX]) + (f" and {more} additional topics" if more > 0 else "")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _misfit(message: str) -> TopicProblem:
    return TopicProblem(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, message)

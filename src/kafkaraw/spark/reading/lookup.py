"""The driver's lookups in the cluster: which partitions exist, and their first and last offsets.

Owns the driver's clients. An idle query must not load the brokers: the list of partitions is kept for a second, and
the intervals of `wait_for_change` grow. Must not decide anything: `stream_plan.py` does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from kafkaraw.client.admin.topics import TopicDescription, TopicListing
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.fetching.offsets import OffsetLookupTimeoutError
from kafkaraw.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    StaleMetadataError,
    UnknownTopicError,
    UsageError,
)
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import as_options
from kafkaraw.spark.options.client import GROUP_ID, Settings, settings_for, typed_settings
from kafkaraw.spark.options.java_regex import translate
from kafkaraw.spark.options.offsets import PartitionOffsets
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.reading.cluster_client import ClusterClient

if TYPE_CHECKING:
    from kafkaraw.client.blocking.consumer import Consumer

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Spark assigns the partitions: the consumers of its tasks belong to no group.
_OF_GROUPS = frozenset(
    {
        GROUP_ID,
        "group_instance_id",
        "group_protocol",
        "group_remote_assignor",
        "enable_auto_commit",
        "enable_auto_offset_store",
    }
)
_COMMIT_TIMEOUT_S = 5.0
_PARTITIONS_AGE_MAX_S = 1.0
# A lookup of 10,000 partitions takes a part of a second: it is repeated so seldom that it takes 5 % of the time.
_PARTITIONS_AGE_OF_COST = 20
_PARTITIONS_AGE_LONGEST_S = 30.0
_PAUSE_FIRST_S = 0.01
_PAUSE_MAX_S = 0.1
_WAIT_MAX_S = 0.25
# A lookup of thousands of ends that takes this long is costly. The first one after new records is never delayed. If it
# finds none, the query pauses before the next one for as long as the lookup took, and up to four times as long later.
_COSTLY_LOOKUP_S = 0.05
_COSTLY_PAUSES_FIRST = 1
_COSTLY_PAUSES_MAX = 4
_COSTLY_PAUSE_MAX_S = 0.5
# The metadata of a broker may be outdated, so that a topic is unknown for a moment.
_MISSING_RETRIES = 3
_MISSING_PAUSE_S = 0.2
_NO_OFFSETS: PartitionOffsets = {}
# How long a leader may refuse to return the end of a partition before the last known end is used. A busy broker takes
# longer for more partitions: their ends must not be looked up twice because it is only slow.
_END_PATIENCE_S = 0.5
_END_PATIENCE_PER_PARTITION_S = 0.0002


def consumer_settings(client: Settings) -> Settings:
    """Settings of the consumers of this source: they never reset an offset by themselves, nor create a topic."""
    ours = {
        "client_id": "kafkaraw-spark",
        "auto_offset_reset": "none",
        "allow_auto_create_topics": "false",
        # The records of a task exist already. A Fetch that waits at the end of the log only delays the next task.
        "fetch_max_wait_ms": "1",
        # A task reads one partition at a time, so this is the size of a response. With Kafka's 1 MiB, round trips
        # cost the client as much as the records do, and the broker more.
        "max_partition_fetch_bytes": str(4 << 20),
    }
    given = {name: text for name, text in client.items() if name not in _OF_GROUPS}
    return ours | settings_for(ConsumerConfig, given)


def _committer(options: SparkOptions) -> Consumer | None:
    if not options.commit_offsets:
        return None
    from kafkaraw.client.blocking.consumer import Consumer

    settings = consumer_settings(options.client) | {
        GROUP_ID: options.client[GROUP_ID],
        "enable_auto_commit": "false",
    }
    return Consumer(runtime=None, **typed_settings(ConsumerConfig, settings))


class ClusterLookup:
    """Implements `positions.Lookup` and `stream_plan.OffsetLookup` with blocking clients.

    Args:
        options: the cluster, and what to read there.
    """

    def __init__(self, options: SparkOptions) -> None:
        self._options = options
        self._servers = options.client["bootstrap_servers"]
        self._client = ClusterClient(consumer_settings(options.client))
        self._committer = _committer(options)
        self._pattern = None if options.pattern is None else translate(options.pattern)
        self._known: _Known | None = None
        self._expected: frozenset[str] = frozenset()  # topics that match the pattern and that the query has read
        self._deleted: frozenset[str] = frozenset()  # those of them that brokers repeatedly reported as unknown
        self._ends: PartitionOffsets = {}
        self._unknown_ends: frozenset[TopicPartition] = frozenset()
        self._pause_s = _PAUSE_FIRST_S
        self._age_max_s = _PARTITIONS_AGE_MAX_S
        self._ends_at_s = 0.0
        self._ends_took_s = 0.0
        self._costly_pauses = 0  # how many times as long as a costly lookup took the query pauses before the next one

    def close(self) -> None:
        """Close the clients."""
        self._client.close()
        if self._committer is not None:
            self._committer.close()

    def commit(self, offsets: PartitionOffsets) -> None:
        """Commit the processed offsets to the query's group, if it has one: for tools that show lags.

        The query does not need it: it continues from its checkpoint. So a failure is logged as a warning.
        """
        if self._committer is None or not offsets:
            return
        try:
            self._committer.commit(offsets, _COMMIT_TIMEOUT_S)
        except KafkaError as error:
            _log.warning("the offsets were not committed to %s: %s", self._options.client[GROUP_ID], as_options(error))

    def expect(self, topics: Collection[str]) -> None:
        """Look these topics up by name if a list of topics does not have them.

        The metadata of a broker may be outdated, and a list of all topics does not mention a topic that it leaves out.
        So a topic that matches `subscribePattern` and that the query has read counts as deleted only if brokers report
        it as unknown by name, as often as they are asked about a topic to `subscribe` to. Others are not affected.
        """
        if self._pattern is None:
            return
        expected = frozenset(topic for topic in topics if self._matches(topic))
        if expected == self._expected:
            return
        self._expected = expected
        self._deleted &= expected
        if self._known is not None and not expected <= self._known.topics | self._deleted:
            self._known = None

    def partitions(self) -> list[TopicPartition]:
        """Return the existing ones of the partitions to read.

        They are not older than a second, or than 20 times as long as it took to look them up, up to 30 s.
        """
        return self._look().existing

    def topic_ids(self, *, newest: bool = False) -> dict[str, Uuid]:
        """Return the known ids of the topics to read, not older than `partitions`, or current if `newest`."""
        if newest:
            self._known = None
        return self._look().topic_ids

    def require_all(self) -> None:
        """Check that all topics and partitions to read exist.

        Raises:
            UsageError: a topic or partition does not exist; the message names it.
        """
        missing = self._look().missing
        if missing and self._pattern is None:
            raise UsageError(
                f"{', '.join(missing)} does not exist on {self._servers}: create it before reading, or check the "
                f"option {'subscribe' if self._options.subscribe else 'assign'}"
            )

    def earliest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """Return the first offset of each partition."""
        return dict(self._again(lambda: self._client.beginning_offsets(partitions))) if partitions else {}

    def latest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """Return the offset after the last readable record of each partition."""
        return dict(self._again(lambda: self._client.end_offsets(partitions))) if partitions else {}

    def ends(self, known: PartitionOffsets = _NO_OFFSETS) -> PartitionOffsets:
        """Return the ends of the existing ones of the partitions to read, even if a topic was deleted just now.

        While a transaction is open that began before a change of leader, leaders refuse to return the last stable
        offset (OFFSET_NOT_AVAILABLE). That may last as long as the transaction, so the last known end is used.

        Args:
            known: offsets up to which partitions could be read, for those whose end was never looked up.
        """
        if self._is_costly and self._costly_pause_s() > 0:
            return dict(self._ends)
        return self._newest_ends(known)

    @property
    def _is_costly(self) -> bool:
        return self._ends_took_s > _COSTLY_LOOKUP_S

    def _costly_pause_s(self) -> float:
        """Return how long to wait before the next lookup, if lookups are costly."""
        pause_s = min(self._costly_pauses * self._ends_took_s, _COSTLY_PAUSE_MAX_S)
        return max(self._ends_at_s + pause_s - time.monotonic(), 0.0)

    def _newest_ends(self, known: PartitionOffsets) -> PartitionOffsets:
        before, began_s = self._ends, time.monotonic()
        try:
            self._ends = self._ends_of(self.partitions(), known | self._ends)
        except (StaleMetadataError, UnknownTopicError):
            self._known = None
            self._ends = self._ends_of(self.partitions(), known | self._ends)
        self._ends_at_s = time.monotonic()
        self._ends_took_s = self._ends_at_s - began_s
        if self._ends != before:
            self._costly_pauses = 0
        else:
            self._costly_pauses = min(max(2 * self._costly_pauses, _COSTLY_PAUSES_FIRST), _COSTLY_PAUSES_MAX)
        return dict(self._ends)

    def _ends_of(self, partitions: list[TopicPartition], known: PartitionOffsets) -> PartitionOffsets:
        if not partitions:
            return {}
        try:
            patience_s = _END_PATIENCE_S + _END_PATIENCE_PER_PARTITION_S * len(partitions)
            found = dict(self._again(lambda: self._client.end_offsets(partitions, patience_s)))
            self._unknown_ends = frozenset()
        except OffsetLookupTimeoutError as error:
            refused = frozenset(
                tp for tp, failure in error.failures.items() if tp in known and _is_not_available(failure)
            )
            self._warn_of_unknown_ends(refused, known)
            found = {tp: offset.offset for tp, offset in error.found.items()} | {tp: known[tp] for tp in refused}
        except KafkaTimeoutError:
            found = {}
        return found | self.latest([tp for tp in partitions if tp not in found])

    def _warn_of_unknown_ends(self, refused: frozenset[TopicPartition], known: PartitionOffsets) -> None:
        """Warn once of each partition, until its end is known again."""
        for topic, partition in sorted(refused - self._unknown_ends):
            _log.warning(
                "%s-%d: the leader does not return the end offset (OFFSET_NOT_AVAILABLE), as happens while a "
                "transaction is open that began before a change of leader; until it does, the query reads up to %d",
                topic,
                partition,
                known[TopicPartition(topic, partition)],
            )
        self._unknown_ends = refused

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after a time, in ms since 1970; None if there is none."""
        return self._again(lambda: self._client.offsets_for_times(timestamps))

    def _again(self, ask: Callable[[], T]) -> T:
        """Look up, and retry after an error, beyond the client's own retries (`fetchOffset.numRetries`)."""
        retries = self._options.lookup_retries
        while True:
            try:
                return ask()
            except BrokerError as error:
                if retries == 0 or not error.retriable:
                    raise
                _log.warning("looking up offsets failed, trying again: %s", error)
            retries -= 1
            time.sleep(self._options.lookup_pause_ms / 1000)

    def wait_for_change(self, seen: PartitionOffsets) -> PartitionOffsets:
        """Look up the ends until they differ from `seen`, for at most a quarter of a second; return the last ones."""
        deadline = time.monotonic() + _WAIT_MAX_S
        while True:
            time.sleep(self._costly_pause_s() if self._is_costly else self._pause_s)
            found = self._newest_ends(seen)
            if found != seen:
                self._pause_s = _PAUSE_FIRST_S
                return found
            self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)
            if time.monotonic() + self._pause_s > deadline:
                return found

    def _look(self) -> _Known:
        known = self._known
        if known is not None and time.monotonic() - known.at_s < self._age_max_s:
            return known
        began_s = time.monotonic()
        found = self._ask()
        self._age_max_s = _age_max_s(time.monotonic() - began_s)
        for _ in range(max(_MISSING_RETRIES, self._options.lookup_retries)):
            if not found.missing:
                break
            time.sleep(max(_MISSING_PAUSE_S, self._options.lookup_pause_ms / 1000))
            found = self._ask()
        self._deleted = self._expected - found.topics
        self._known = found
        return found

    def _ask(self) -> _Known:
        if self._pattern is not None:
            return self._ask_for_all()
        known = _Known(time.monotonic())
        counts: dict[str, int] = {}
        for name, topic in self._descriptions(self._options.topics).items():
            counts[name] = len(topic.partitions)
            known.name(topic)
        if self._options.subscribe:
            known.existing += [TopicPartition(topic, n) for topic in sorted(counts) for n in range(counts[topic])]
            known.missing += [f"topic {topic!r}" for topic in self._options.subscribe if topic not in counts]
            return known
        for tp in self._options.assign:
            if tp.partition < counts.get(tp.topic, 0):
                known.existing.append(tp)
            else:
                known.missing.append(f"partition {tp.topic}-{tp.partition}")
        return known

    def _ask_for_all(self) -> _Known:
        """Return the topics that match, apart from Kafka's internal ones; an empty result is not an error.

        Expected topics that the list leaves out are looked up by name.
        """
        known = _Known(time.monotonic())
        counts: dict[str, int] = {}
        for topic in self._client.list_topics():
            if not topic.is_internal and self._matches(topic.name):
                counts[topic.name] = topic.partitions
                known.name(topic)
        left_out = sorted(self._expected - counts.keys())
        for name, described in (self._descriptions(left_out) if left_out else {}).items():
            counts[name] = len(described.partitions)
            known.name(described)
        known.existing = [TopicPartition(topic, n) for topic in sorted(counts) for n in range(counts[topic])]
        known.missing = [f"topic {topic!r}" for topic in left_out if topic not in counts and topic not in self._deleted]
        return known

    def _matches(self, topic: str) -> bool:
        """Return whether the pattern is found anywhere in the name, as Spark's JVM connector searches for it."""
        return self._pattern is not None and self._pattern.search(topic) is not None

    def _descriptions(self, topics: list[str]) -> dict[str, TopicDescription]:
        """Return the existing ones of the topics; one request, or a dozen for one of a thousand that does not exist."""
        try:
            return self._client.describe_topics(topics)
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        if len(topics) == 1:
            return {}
        middle = len(topics) // 2
        return self._descriptions(topics[:middle]) | self._descriptions(topics[middle:])


def _age_max_s(took_s: float) -> float:
    """Return how long the result of a lookup is used that took so long."""
    return min(max(took_s * _PARTITIONS_AGE_OF_COST, _PARTITIONS_AGE_MAX_S), _PARTITIONS_AGE_LONGEST_S)


def _is_not_available(failure: KafkaError) -> bool:
    return isinstance(failure, BrokerError) and failure.code == ErrorCode.OFFSET_NOT_AVAILABLE


@dataclass
class _Known:
    at_s: float
    existing: list[TopicPartition] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        """Return the topics of the partitions that exist."""
        return frozenset(tp.topic for tp in self.existing)

    def name(self, topic: TopicDescription | TopicListing) -> None:
        """Store the topic's id, if it has one."""
        if topic.topic_id != ZERO_UUID:
            self.topic_ids[topic.name] = topic.topic_id

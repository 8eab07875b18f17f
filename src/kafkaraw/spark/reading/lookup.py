"""What the driver asks the cluster: which partitions there are, and from where to where they reach.

Owns the driver's clients. An idle query must not hammer the brokers: the list of partitions is kept for a second, and
`wait_for_change` asks less and less often. Must not decide anything: `stream_plan.py` does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kafkaraw.client.admin import TopicDescription, TopicListing
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.config import AdminConfig, ConsumerConfig
from kafkaraw.core.linear_regex import FullMatch
from kafkaraw.errors import BrokerError, KafkaError, StaleMetadataError, UsageError
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import as_options
from kafkaraw.spark.options.client import GROUP_ID, Settings, settings_for, typed_settings
from kafkaraw.spark.options.java_regex import translate
from kafkaraw.spark.options.offsets import PartitionOffsets
from kafkaraw.spark.options.parsing import SparkOptions

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Spark hands out the work: what its tasks read with belongs to no group.
_OF_GROUPS = frozenset({GROUP_ID, "group_instance_id", "group_protocol", "group_remote_assignor", "enable_auto_commit"})
_COMMIT_TIMEOUT_S = 5.0
_PARTITIONS_AGE_MAX_S = 1.0
_PAUSE_FIRST_S = 0.01
_PAUSE_MAX_S = 0.1
_WAIT_MAX_S = 0.25
# A broker that has just started, or a topic just made, may be unknown for a moment.
_MISSING_RETRIES = 3
_MISSING_PAUSE_S = 0.2


def consumer_settings(client: Settings) -> Settings:
    """Settings of the consumers of this source: they never start anywhere by themselves, nor create a topic."""
    ours = {
        "client_id": "kafkaraw-spark",
        "auto_offset_reset": "none",
        "allow_auto_create_topics": "false",
        # What a task reads is there already. A fetch that waits at the end of the log only delays the next task.
        "fetch_max_wait_ms": "1",
        # A task reads one partition at a time, so this is what a round trip brings. With Kafka's 1 MiB, round trips
        # cost the client as much as the records, and the broker more.
        "max_partition_fetch_bytes": str(4 << 20),
    }
    given = {name: text for name, text in client.items() if name not in _OF_GROUPS}
    return ours | settings_for(ConsumerConfig, given)


def _committer(options: SparkOptions) -> Consumer:
    settings = consumer_settings(options.client) | {
        GROUP_ID: options.client[GROUP_ID],
        "enable_auto_commit": "false",
    }
    return Consumer(runtime=None, **typed_settings(ConsumerConfig, settings))


class ClusterLookup:
    """Implements `positions.Lookup` and `stream_plan.OffsetLookup` with the blocking clients.

    Args:
        options: which cluster and what to read there.
    """

    def __init__(self, options: SparkOptions) -> None:
        self._options = options
        self._servers = options.client["bootstrap_servers"]
        self._admin = Admin(runtime=None, **typed_settings(AdminConfig, settings_for(AdminConfig, options.client)))
        self._consumer = Consumer(runtime=None, **typed_settings(ConsumerConfig, consumer_settings(options.client)))
        self._committer = _committer(options) if options.commit_offsets else None
        self._pattern = None if options.pattern is None else translate(options.pattern)
        self._known: _Known | None = None
        self._pause_s = _PAUSE_FIRST_S

    def close(self) -> None:
        """Close the clients."""
        self._consumer.close()
        self._admin.close()
        if self._committer is not None:
            self._committer.close()

    def commit(self, offsets: PartitionOffsets) -> None:
        """Commit what the query has done with to its group, if it has one: for tools that look at lags.

        The query does not need it: its checkpoint counts. So a failure is a warning.
        """
        if self._committer is None or not offsets:
            return
        try:
            self._committer.commit(offsets, _COMMIT_TIMEOUT_S)
        except KafkaError as error:
            _log.warning("the offsets were not committed to %s: %s", self._options.client[GROUP_ID], as_options(error))

    def partitions(self) -> list[TopicPartition]:
        """Those of the partitions to read that exist, not older than a second."""
        return self._look().existing

    def topic_ids(self, *, newest: bool = False) -> dict[str, Uuid]:
        """The ids of the topics to read, as far as brokers tell them; not older than a second, or as of now."""
        if newest:
            self._known = None
        return self._look().topic_ids

    def require_all(self) -> None:
        """Check that everything that is to be read exists.

        Raises:
            UsageError: a topic or partition does not; the message names it.
        """
        missing = self._look().missing
        if missing:
            raise UsageError(
                f"{', '.join(missing)} does not exist on {self._servers}: create it before reading, or check the "
                f"option {'subscribe' if self._options.subscribe else 'assign'}"
            )

    def earliest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """The first offset of each partition."""
        return dict(self._again(lambda: self._consumer.beginning_offsets(partitions))) if partitions else {}

    def latest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """The offset after the last readable record of each partition."""
        return dict(self._again(lambda: self._consumer.end_offsets(partitions))) if partitions else {}

    def ends(self) -> PartitionOffsets:
        """The ends of those of the partitions to read that exist, even if a topic was deleted just now."""
        try:
            return self.latest(self.partitions())
        except StaleMetadataError:
            self._known = None
            return self.latest(self.partitions())

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of the first record at or after a time, in ms since 1970; None where there is none."""
        found = self._again(lambda: self._consumer.offsets_for_times(timestamps))
        return {tp: None if place is None else place.offset for tp, place in found.items()}

    def _again(self, ask: Callable[[], T]) -> T:
        """Ask, and again a few times when it fails, beyond the client's own retries (`fetchOffset.numRetries`)."""
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
        """Ask until the ends differ from `seen`, for a quarter of a second at most; gives what was last heard."""
        deadline = time.monotonic() + _WAIT_MAX_S
        while True:
            time.sleep(self._pause_s)
            found = self.ends()
            if found != seen:
                self._pause_s = _PAUSE_FIRST_S
                return found
            self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)
            if time.monotonic() + self._pause_s > deadline:
                return found

    def _look(self) -> _Known:
        known = self._known
        if known is not None and time.monotonic() - known.at_s < _PARTITIONS_AGE_MAX_S:
            return known
        found = self._ask()
        for _ in range(_MISSING_RETRIES):
            if not found.missing:
                break
            time.sleep(_MISSING_PAUSE_S)
            found = self._ask()
        self._known = found
        return found

    def _ask(self) -> _Known:
        if self._pattern is not None:
            return self._ask_for_all(self._pattern)
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

    def _ask_for_all(self, pattern: FullMatch) -> _Known:
        """The topics that match, apart from Kafka's internal ones; that there are none is nothing unusual."""
        known = _Known(time.monotonic())
        for topic in self._admin.list_topics():
            if not topic.is_internal and pattern.fullmatch(topic.name):
                known.existing += [TopicPartition(topic.name, n) for n in range(topic.partitions)]
                known.name(topic)
        return known

    def _descriptions(self, topics: list[str]) -> dict[str, TopicDescription]:
        """Those of the topics that exist; one request unless some do not."""
        try:
            return self._admin.describe_topics(topics)
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        if len(topics) == 1:
            return {}
        found: dict[str, TopicDescription] = {}
        for topic in topics:
            found |= self._descriptions([topic])
        return found


@dataclass
class _Known:
    at_s: float
    existing: list[TopicPartition] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)

    def name(self, topic: TopicDescription | TopicListing) -> None:
        """Take down the topic's id, if it has one."""
        if topic.topic_id != ZERO_UUID:
            self.topic_ids[topic.name] = topic.topic_id

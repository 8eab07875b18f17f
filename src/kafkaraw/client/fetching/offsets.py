"""ListOffsets requests: offsets by timestamp, the first, the last. One request per leader, retried if a leader moved.

`look_up_once` makes one attempt, and returns each partition's outcome; `look_up` retries until all offsets are known or
the deadline has passed. This module does not change positions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from kafkaraw.client.deadline import Deadline, shown
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.fetch.failures import Reaction, reaction_to
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    RetriableError,
    UnknownTopicError,
)
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaraw.records import TopicPartition


class OffsetAndTimestamp(NamedTuple):
    """An offset, and the timestamp of the record there.

    Attributes:
        offset: the offset of the first record at or after the requested timestamp.
        timestamp_ms: the timestamp of that record; -1 when a special timestamp such as "the end" was requested.
        leader_epoch: the leader epoch of that record; -1 when unknown.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


Outcome = OffsetAndTimestamp | KafkaError

_Asked: TypeAlias = dict[str, dict[int, tuple[TopicPartition, ListOffsetsPartition]]]
"""What one leader is asked, by topic and partition."""


class OffsetLookupTimeoutError(KafkaTimeoutError):
    """The offsets of some partitions were not known in time.

    Attributes:
        found: the offsets that are known.
        failures: the last error of each partition whose offset is not known.
    """

    def __init__(
        self,
        message: str,
        found: Mapping[TopicPartition, OffsetAndTimestamp],
        failures: Mapping[TopicPartition, KafkaError],
    ) -> None:
        super().__init__(message)
        self.found: dict[TopicPartition, OffsetAndTimestamp] = dict(found)
        self.failures: dict[object, KafkaError] = {of: failure for of, failure in failures.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.found, self.failures)


async def look_up(
    engine: Engine, timestamps: Mapping[TopicPartition, int], *, deadline: Deadline, committed_only: bool = False
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Look up offsets, with retries until all are known.

    Args:
        engine: connections and metadata.
        timestamps: milliseconds since 1970, or one of ListOffsets' negative special values, by partition.
        deadline: of all attempts together.
        committed_only: the end is the last stable offset: the first offset of an open transaction.

    Raises:
        UnknownTopicError: a topic or partition does not exist.
        BrokerError: a broker refuses.
        OffsetLookupTimeoutError: some offsets were not known in time; has the partitions and their errors.
        KafkaTimeoutError: no broker can be reached in time.
    """
    await engine.start(deadline.remaining)
    backoff = Backoff(engine.config.retry_backoff_ms, engine.config.retry_backoff_max_ms)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    missing, attempt = dict(timestamps), 0
    failures: dict[TopicPartition, KafkaError] = {}
    while missing:
        try:
            outcomes = await _round(engine, missing, deadline, refresh=attempt > 0, committed_only=committed_only)
        except (NetworkError, KafkaTimeoutError) as error:
            outcomes = {topic_partition: failures.get(topic_partition, error) for topic_partition in missing}
        found.update((tp, outcome) for tp, outcome in outcomes.items() if isinstance(outcome, OffsetAndTimestamp))
        failures = {tp: outcome for tp, outcome in outcomes.items() if isinstance(outcome, KafkaError)}
        _raise_for(found, failures, deadline)
        missing = {tp: missing[tp] for tp in failures}
        if missing:
            await deadline.sleep(backoff.delay_ms(attempt, engine.runtime.rng) / 1000)
            attempt += 1
    return {topic_partition: found[topic_partition] for topic_partition in timestamps}


async def _round(
    engine: Engine,
    timestamps: Mapping[TopicPartition, int],
    deadline: Deadline,
    *,
    refresh: bool,
    committed_only: bool,
) -> dict[TopicPartition, Outcome]:
    """Make sure that the leaders are known, and ask them."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in timestamps:
        numbers.setdefault(topic, []).append(partition)
    if refresh or not _is_known(engine, numbers):
        await engine.refresh(sorted(numbers), timeout=deadline.remaining)
    await engine.wait_for_topics(sorted(numbers), deadline.remaining)
    _check_partitions(engine, numbers)
    return await look_up_once(engine, timestamps, deadline=deadline, committed_only=committed_only)


async def look_up_once(
    engine: Engine, timestamps: Mapping[TopicPartition, int], *, deadline: Deadline, committed_only: bool = False
) -> dict[TopicPartition, Outcome]:
    """One round: ask every leader that is known once. Each partition gets an offset or an error."""
    by_leader: dict[int, _Asked] = {}
    outcomes: dict[TopicPartition, Outcome] = {}
    brokers, find = engine.cluster.brokers, engine.cluster.partition
    for topic_partition, timestamp in timestamps.items():
        view = find(topic_partition)
        if view is None or view.leader_id not in brokers:
            outcomes[topic_partition] = error_for(ErrorCode.LEADER_NOT_AVAILABLE, _name(topic_partition))
            continue
        asked = by_leader.get(view.leader_id)
        if asked is None:
            asked = by_leader[view.leader_id] = {}
        topic, number = topic_partition
        entry = ListOffsetsPartition(
            partition_index=number, current_leader_epoch=view.leader_epoch, timestamp=timestamp
        )
        asked.setdefault(topic, {})[number] = topic_partition, entry
    answers = await asyncio.gather(
        *(_ask(engine, node_id, part, deadline, committed_only) for node_id, part in by_leader.items())
    )
    for answer in answers:
        outcomes.update(answer)
    return outcomes


async def _ask(
    engine: Engine,
    node_id: int,
    asked: _Asked,
    deadline: Deadline,
    committed_only: bool,
) -> dict[TopicPartition, Outcome]:
    timeout = deadline.at_most(engine.config.request_timeout_ms / 1000)
    outcomes: dict[TopicPartition, Outcome] = {}
    try:
        answer = await engine.request(node_id, _request(asked, timeout, committed_only), timeout=timeout)
    except KafkaError as error:
        return {of: error for entries in asked.values() for of, _ in entries.values()}
    for topic in answer.topics:
        entries = asked.get(topic.name, {})
        for partition in topic.partitions:
            topic_partition, _ = entries.get(partition.partition_index, (None, None))
            if topic_partition is None:
                continue
            outcomes[topic_partition] = (
                with_principal(_partition_error(topic_partition, partition.error_code), engine.config)
                if partition.error_code
                else OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
            )
    missing = RetriableError(f"broker {node_id} left the partition out of its answer to ListOffsets")
    for entries in asked.values():
        for of, _ in entries.values():
            outcomes.setdefault(of, missing)
    return outcomes


def _partition_error(topic_partition: TopicPartition, code: int) -> KafkaError:
    return error_for(code, f"offsets of {_name(topic_partition)}", resource=topic_partition.topic, operation="DESCRIBE")


def _request(asked: _Asked, timeout: float, committed_only: bool) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed_only),
        topics=[
            ListOffsetsTopic(name=name, partitions=[entry for _, entry in entries.values()])
            for name, entries in asked.items()
        ],
        timeout_ms=round(timeout * 1000),
    )


def _is_known(engine: Engine, numbers: Mapping[str, Iterable[int]]) -> bool:
    topics = engine.cluster.topics
    return all(topic in topics and topics[topic].partitions.keys() >= set(numbers[topic]) for topic in numbers)


def _check_partitions(engine: Engine, numbers: Mapping[str, Iterable[int]]) -> None:
    for topic, asked in numbers.items():
        view = engine.cluster.topics.get(topic)
        partition = None if view is None else next((each for each in asked if each not in view.partitions), None)
        if view is not None and partition is not None:
            raise UnknownTopicError(
                f"topic {topic!r} has {len(view.partitions)} partitions, there is no partition {partition}"
            )


def _raise_for(
    found: Mapping[TopicPartition, OffsetAndTimestamp],
    failures: Mapping[TopicPartition, KafkaError],
    deadline: Deadline,
) -> None:
    """Raise what will not get better, or when there is no time left for it to."""
    for error in failures.values():
        passing = isinstance(error, RetriableError) or (
            isinstance(error, BrokerError) and reaction_to(error.code) is not Reaction.RAISE
        )
        if not passing:
            raise error
    if failures and deadline.expired:
        names = ", ".join(map(_name, failures))
        last = next(iter(failures.values()))
        message = f"offsets of {names}: not known within {shown(deadline.timeout)} s; last error: {last}"
        raise OffsetLookupTimeoutError(message, found, failures) from last


def _name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"

"""The requests by which a consumer reads, as values: Fetch, how much it asks for, and OffsetForLeaderEpoch. Pure.

`FetchPlan` is one Fetch. `AdaptiveFetchSize` says how much of each partition to ask a broker for.

From version 12 on a Fetch carries the epoch of the record before the position, and the leader answers where its log
diverges from that (KIP-320). Leaders of older brokers are asked with OffsetForLeaderEpoch before the first Fetch in
each of their epochs (`must_validate`). `Fetcher` decides about both.

Source: KIP-320, KIP-392, KIP-516; Kafka's FetchRequest and OffsetsForLeaderEpochUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import UnsupportedVersionError
from kafkaraw.light_classes import NamedTuple, dataclass, replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.protocol.messages.offset_for_leader_epoch import (
        EpochEndOffset,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    )

_BY_NAME_UP_TO_VERSION: Final = 12
LAST_EPOCH_FROM_VERSION: Final = 12
"""Of Fetch: it carries the epoch of the record before the position."""
VALIDATION_FROM_VERSION: Final = 3
"""Of OffsetForLeaderEpoch: before, only brokers had the right to ask."""
_OFFSET_FOR_LEADER_EPOCH: Final = 23
_CONSUMER: Final = -1
_WITHOUT_SESSION: Final = -1
_OPENING: Final = 0

PARTITION_BYTES: Final = 1_048_576
"""What is asked for at first: the default of Kafka's clients."""
PARTITION_BYTES_MOST: Final = 2 * PARTITION_BYTES
QUICK_S: Final = 0.25
SLOW_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What bounds a Fetch: sizes in bytes, the wait in milliseconds; and who asks for which records.

    Attributes:
        committed_only: only records that are committed.
        rack: where the consumer is; a broker may then name a replica near by (KIP-392). Empty is nowhere.
    """

    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1_048_576
    committed_only: bool = False
    rack: str = ""


class FetchTarget(NamedTuple):
    """One partition in a Fetch, with the fields that show later whether the response is still wanted.

    Attributes:
        leader_epoch: the leader epoch in the metadata; -1 when unknown.
        last_epoch: the leader epoch of the record before `offset`; -1 when unknown.
        is_fresh: the partition's log start and end are not known yet, so the response must have them.
        size_max_bytes: ask for no more than this, if `size_wanted_bytes` is not larger; 0 is what the limits say.
    """

    topic_partition: TopicPartition
    topic_id: Uuid
    offset: int
    generation: int
    leader_epoch: int
    size_wanted_bytes: int
    last_epoch: int = -1
    is_fresh: bool = False
    size_max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SessionStep:
    """What a Fetch says in a session.

    Attributes:
        session_id: 0 for none.
        epoch: -1 for no session, 0 for a new one, else a count.
        targets: partitions that are new or have changed; None is all of the plan.
        forgotten: partitions that are in the session, and are not to be any longer.
    """

    session_id: int
    epoch: int
    targets: tuple[FetchTarget, ...] | None
    forgotten: tuple[FetchTarget, ...]


NO_SESSION: Final = SessionStep(0, _WITHOUT_SESSION, None, ())


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """One Fetch: what to ask a broker for, and what of that is said.

    Attributes:
        node_id: the broker.
        asked: the partitions, in the order in which it should serve them; not to be changed while the request is under
            way. In a session it is what the session holds: as large as what is read.
        session: what is said.
        names: the topics' names by their ids.
        by_ids: every topic has an id.
        size_wanted_bytes: what the largest of them needs to bring one whole batch.
    """

    node_id: int
    asked: Mapping[TopicPartition, FetchTarget]
    session: SessionStep
    names: Mapping[Uuid, str]
    by_ids: bool
    size_wanted_bytes: int

    @property
    def targets(self) -> tuple[FetchTarget, ...]:
        """All that is asked for, in order; as many as are read."""
        return tuple(self.asked.values())

    @property
    def in_session(self) -> bool:
        """Whether it goes through the session with its broker."""
        return self.session.epoch != _WITHOUT_SESSION

    @property
    def is_full(self) -> bool:
        """Whether the answer has to be about every partition; in a session it is about those that have news."""
        return self.session.epoch <= _OPENING

    @property
    def version_max(self) -> int | None:
        """The last version that goes by names, when the id of a topic is not known; else None."""
        return None if self.by_ids else _BY_NAME_UP_TO_VERSION

    def request(self, limits: FetchLimits, version: int) -> FetchRequest:
        """Write the request for a version.

        Names and ids are both given: a version sends the one that it has (ids from 13 on, KIP-516). Neighbours of
        one topic share an entry; the order of partitions is kept.
        """
        said = self.asked.values() if self.session.targets is None else self.session.targets
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=max(limits.max_bytes, self.size_wanted_bytes),
            isolation_level=int(limits.committed_only),
            session_id=self.session.session_id,
            session_epoch=self.session.epoch,
            topics=_topics(said, limits, tells_epochs=version >= LAST_EPOCH_FROM_VERSION),
            forgotten_topics_data=[
                ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[partition])
                for (topic, partition), topic_id in (
                    (old.topic_partition, old.topic_id) for old in self.session.forgotten
                )
            ],
            rack_id=limits.rack,
        )


def _topics(targets: Iterable[FetchTarget], limits: FetchLimits, *, tells_epochs: bool) -> list[FetchTopic]:
    topics: list[FetchTopic] = []
    for target in targets:
        name = target.topic_partition.topic
        if not topics or (topics[-1].topic, topics[-1].topic_id) != (name, target.topic_id):
            topics.append(FetchTopic(topic=name, topic_id=target.topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchPartition(
                partition=target.topic_partition.partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                last_fetched_epoch=target.last_epoch if tells_epochs else -1,
                partition_max_bytes=_partition_bytes(target, limits),
            )
        )
    return topics


# -- how much to ask for


def _partition_bytes(target: FetchTarget, limits: FetchLimits) -> int:
    size = limits.partition_max_bytes
    if target.size_max_bytes:
        size = min(size, target.size_max_bytes)
    return max(size, target.size_wanted_bytes)


class AdaptiveFetchSize:
    """How much of each partition to ask one broker for: more where responses come full and at once.

    A response costs consumer and broker about the same whether it holds one megabyte of a partition or two. But the
    caller waits until all of it is there, so a slow line is asked for less. What one batch needs that exceeds every
    limit is in `FetchTarget.size_wanted_bytes`.

    Args:
        limits: to begin with, and never less of a partition than that.
        partition_bytes_most: never more of a partition than that, unless a batch needs it.

    Attributes:
        limits: what to ask with now.
    """

    def __init__(self, limits: FetchLimits, partition_bytes_most: int) -> None:
        self.limits: FetchLimits = limits
        self._least = limits.partition_max_bytes
        self._most = partition_bytes_most

    def answered(self, response: FetchResponse, took_s: float) -> None:
        """Take note of a response, and of the seconds from the request to its last byte."""
        asked = self.limits.partition_max_bytes
        if QUICK_S < took_s <= SLOW_S or _largest(response) * 2 < asked:
            return
        wanted = min(asked * 2, self._most) if took_s <= QUICK_S else max(asked // 2, self._least)
        if wanted != asked:
            self.limits = replace(self.limits, partition_max_bytes=wanted)


def _largest(response: FetchResponse) -> int:
    """Return the bytes of the partition with the most; whole batches seldom fill exactly what was asked for."""
    return max((len(part.records or b"") for topic in response.responses for part in topic.partitions), default=0)


# -- where epochs end


def must_validate(fetch_version: int, version_for: Callable[[int], int]) -> bool:
    """Whether a Fetch does not detect log divergence, and the broker can be asked with OffsetForLeaderEpoch.

    Args:
        fetch_version: of the Fetch.
        version_for: the version that is spoken with the broker, by API key.
    """
    if fetch_version >= LAST_EPOCH_FROM_VERSION:
        return False
    try:
        return version_for(_OFFSET_FOR_LEADER_EPOCH) >= VALIDATION_FROM_VERSION
    except UnsupportedVersionError:
        return False


def epoch_ends_request(targets: Iterable[FetchTarget]) -> OffsetForLeaderEpochRequest:
    """Ask where the epochs of the last records end."""
    from kafkaraw.protocol.messages.offset_for_leader_epoch import (  # only brokers before 2.7 are asked
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for target in targets:
        topics.setdefault(target.topic_partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=target.topic_partition.partition,
                current_leader_epoch=target.leader_epoch,
                leader_epoch=target.last_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )


def epoch_ends_of(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEndOffset]:
    """Return the ends of epochs by partition."""
    return {TopicPartition(topic.topic, end.partition): end for topic in response.topics for end in topic.partitions}

"""One Fetch request as a value: what to ask one broker for, and how that is written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkaraw.records import TopicPartition

_BY_NAME_UP_TO_VERSION = 12
TOLD_FROM_VERSION: Final = 12
"""Of Fetch: it tells the epoch of the record before the position (KIP-320)."""
_WITHOUT_SESSION: Final = -1
_OPENING: Final = 0


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
    """One partition in a Fetch, with what it takes to tell later whether the answer is still wanted.

    Attributes:
        leader_epoch: the one that the metadata told; -1 when unknown.
        last_epoch: the leader epoch of the record before `offset`; -1 when unknown.
        is_fresh: nothing is known of the partition's ends yet, so the answer has to tell them.
    """

    topic_partition: TopicPartition
    topic_id: Uuid
    offset: int
    generation: int
    leader_epoch: int
    size_wanted_bytes: int
    last_epoch: int = -1
    is_fresh: bool = False


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
            topics=_topics(said, limits, tells_epochs=version >= TOLD_FROM_VERSION),
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
                partition_max_bytes=max(limits.partition_max_bytes, target.size_wanted_bytes),
            )
        )
    return topics

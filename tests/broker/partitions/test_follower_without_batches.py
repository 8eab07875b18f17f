"""A follower whose batches retention has deleted, and a leader whose log ends before: it was elected unclean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.partitions.elections import PartitionState
from kafkaraw.broker.partitions.followers import OffsetOutOfRange
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import VirtualLoop
from tests.broker.support import FixedClock, append_sent, batch


class Keeper:
    """Notes who is said to be in sync."""

    def __init__(self) -> None:
        self.expanded: list[int] = []

    def is_live(self, topic_partition: TopicPartition, node_id: int) -> bool:
        return True

    def shrink_isr(self, topic_partition: TopicPartition, lagging: Iterable[int]) -> None:
        pass

    def expand_isr(self, topic_partition: TopicPartition, node_id: int) -> None:
        self.expanded.append(node_id)


def replica(node_id: int, keeper: Keeper) -> Partition:
    config = TopicConfig.of({}, BrokerConfig.parse().topic_defaults)
    made = Partition(
        TopicPartition("t", 0),
        node_id,
        MemoryStorage(),
        config,
        FixedClock(),
        keeper,
        producer_expiration_ms=86_400_000,
    )
    made.open()
    return made


def test_a_follower_that_ends_behind_its_leader_restarts_where_the_leader_starts():
    async def life() -> None:
        keeper = Keeper()
        leader, follower = replica(0, keeper), replica(1, keeper)
        follower.lead_or_follow(PartitionState((1,), 1, (1,)))
        for number in range(10):
            append_sent(follower, batch(b"lost %d" % number))
        follower.log.roll()
        follower.delete_oldest_segments(1)
        follower.log.epochs.clear()  # as after a restart: no epoch has a batch
        leader.lead_or_follow(PartitionState((1, 0), 0, (0,), leader_epoch=1))
        follower.lead_or_follow(PartitionState((1, 0), 0, (0,), leader_epoch=1))
        for number in range(3):
            append_sent(leader, batch(b"%d" % number))
        asked = follower.next_fetch()
        assert (asked.offset, asked.last_epoch) == (10, -1)
        answer = leader.answer_follower(asked, lambda: None)
        assert answer == OffsetOutOfRange(0)
        assert keeper.expanded == []
        follower.take(answer)
        for _ in range(2):
            answer = leader.answer_follower(follower.next_fetch(), lambda: None)
            if answer is not None:
                follower.take(answer)
        assert follower.log.log_end_offset == leader.log.log_end_offset == 3
        assert follower.log.copy(0, 1000) == leader.log.copy(0, 1000)
        assert 1 in keeper.expanded

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(life())

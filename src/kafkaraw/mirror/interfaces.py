"""What the parts of a mirror tell each other: settings of a flow, the topics it copies, and what was copied.

A flow copies topics of one cluster (the source) to another one (the target). `flow.py` runs it. It asks a `TopicPlan`
which topics there are, and tells listeners about each copied batch, so that offsets can be translated exactly. Values
only: nothing here decides. Start at `FlowSettings` and `CopiedBatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Protocol, TypeAlias

from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition


class Delivery(Enum):
    """How often a record of the source is in the copy."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class OnLoss(Enum):
    """What a flow does when the source has deleted records before they were copied."""

    FAIL = "fail"
    CONTINUE = "continue"


class StartAt(Enum):
    """Where the copy of a partition begins that this flow has no position of."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """The settings of one flow.

    Attributes:
        source_alias: name of the source cluster in the configuration.
        target_alias: name of the target cluster.
        source: connection settings of the source, as for `AdminConfig`: `bootstrap_servers`, `security_protocol`, ...
        target: connection settings of the target.
        consumer: more settings of the consumer that reads the source, as for `ConsumerConfig`.
        producer: more settings of the producer that writes to the target, as for `ProducerConfig`.
        delivery: how often each record is copied.
        read_committed: whether records of aborted transactions are left out; reading ends at the last stable offset.
        on_loss: what happens after a loss of records at the source.
        start_at: where partitions begin that this flow has no position of; None is their first offset, and an error if
            the copy has records.
        refresh_topics_interval_s: seconds between looks for new topics and partitions.
        commit_interval_s: seconds until a transaction ends, or positions are committed, under load.
        in_flight_max_bytes: bytes that are read and not acknowledged, at most.
        worker: number of this process among those that share the flow; part of the transactional id. 0 is a process
            that copies all of it, or the driver of those that copy shares.
        claim: the offset of the flow's group under this partition of the target is the number of the last worker; None
            if no other process shares the flow. See `claims.py`.
    """

    source_alias: str
    target_alias: str
    source: Mapping[str, object]
    target: Mapping[str, object]
    consumer: Mapping[str, object] = field(default_factory=dict)
    producer: Mapping[str, object] = field(default_factory=dict)
    delivery: Delivery = Delivery.EXACTLY_ONCE
    read_committed: bool = True
    on_loss: OnLoss = OnLoss.FAIL
    start_at: StartAt | None = None
    refresh_topics_interval_s: float = 600.0
    commit_interval_s: float = 0.5
    in_flight_max_bytes: int = 16 << 20
    worker: int = 0
    claim: TopicPartition | None = None

    @property
    def name(self) -> str:
        """The flow as in MirrorMaker's properties: `source->target`."""
        return f"{self.source_alias}->{self.target_alias}"

    @property
    def group_id(self) -> str:
        """The group of the target cluster that has the positions, by target partition."""
        return f"kafkaraw-mirror.{self.name}"

    @property
    def transactional_id(self) -> str:
        """Of the producer that commits positions: a later process of the same worker fences an earlier one."""
        return f"kafkaraw-mirror.{self.name}-{self.worker}"

    def transactional_ids(self, count: int) -> list[str]:
        """Return those of the workers 1 to `count`, which copy shares of the flow."""
        return [f"kafkaraw-mirror.{self.name}-{worker}" for worker in range(1, count + 1)]


class CopiedTopic(NamedTuple):
    """A topic of the source, and its copy.

    Attributes:
        source: its name in the source cluster.
        target: its name in the target cluster, where it exists with at least as many partitions.
        target_config: configuration of the copy that bears on batches: `message.timestamp.type`, `compression.type`,
            `max.message.bytes`, `cleanup.policy`; what is missing has Kafka's default.
        partitions: those to copy; None for all.
    """

    source: str
    target: str
    target_config: Mapping[str, str]
    partitions: frozenset[int] | None = None


class TopicPlan(Protocol):
    """Which topics a flow copies."""

    async def refresh(self) -> Sequence[CopiedTopic]:
        """Look at both clusters, create topics and partitions that the target lacks, and return what is to be copied.

        A topic that cannot be created is left out and reported; the others are copied.
        """


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """Records that the target has acknowledged and, with transactions, committed.

    Record `i` of the batch, counted over all `runs`, has offset `target_base_offset + i` in the target.

    Attributes:
        source: the partition of the source.
        target: the partition of the copy.
        source_offsets: the offsets of the source that are settled by this batch: those of its records, and those
            before, between and behind them without a record for users (markers, aborted or compacted records).
        runs: the offsets of the records in the source, as consecutive runs; empty if there are none.
        target_base_offset: the offset of the first record in the target; without records, the offset that the next
            record will have, or -1 if that is not known.
        target_id: id of the copy's topic; zero if the target's brokers have none.
    """

    source: TopicPartition
    target: TopicPartition
    source_offsets: range
    runs: tuple[range, ...]
    target_base_offset: int
    target_id: Uuid = ZERO_UUID

    @property
    def records_count(self) -> int:
        """Number of copied records."""
        return sum(len(run) for run in self.runs)


OnCopied: TypeAlias = Callable[[Sequence[CopiedBatch]], None]
"""Called in order of the offsets of each partition; must not block. An error that it raises ends the flow."""

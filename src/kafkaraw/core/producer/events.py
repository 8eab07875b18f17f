"""The values that the producer machine and its driver exchange: events go in, actions come out.

Plain values only, so that a test can write a conversation down and a log can print it. Those of which every batch makes
one are not frozen, which would treble the time that making them takes. `machine.py` decides. `Unacknowledged` names
records without an acknowledgement. They have no offset yet, so they are named by the order in which this producer sent
them to the partition: record 0 is the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.records import SealedBatch, TopicPartition


class ProducerIdentity(NamedTuple):
    """Who writes: the producer id that a broker gave, and its epoch.  Source: KIP-98, KIP-360."""

    producer_id: int
    epoch: int


NO_IDENTITY = ProducerIdentity(-1, -1)
"""Of batches that are sent without idempotence."""


class Leaders(Protocol):
    """Where a partition's leader is; `core.cluster.ClusterView` is one."""

    def leader_of(self, topic_partition: TopicPartition, /) -> int | None:
        """The node id of the leader, or None while it is not known."""


# ---- events: what happened


@dataclass(slots=True)
class BatchesSealed:
    """Batches are ready to go; `ages_ms` says how long each had been open (their delivery time counts from there)."""

    batches: Sequence[SealedBatch]
    ages_ms: Sequence[int]


@dataclass(frozen=True, slots=True)
class ProducerIdReceived:
    """InitProducerId succeeded."""

    identity: ProducerIdentity


@dataclass(frozen=True, slots=True)
class ProducerIdFailed:
    """InitProducerId failed; unless it may be tried again, everything that waits for it fails."""

    error: KafkaError
    retriable: bool


@dataclass(frozen=True, slots=True)
class MetadataRefreshed:
    """The refresh that was asked for has ended; `error` says why it was of no use.

    Attributes:
        refused: the final errors of topics whose metadata brokers do not return; their batches fail.
    """

    error: KafkaError | None = None
    refused: Mapping[str, KafkaError] = field(default_factory=dict)


class PartitionOutcome(NamedTuple):
    """What a produce response says about one partition.

    Attributes:
        new_leader_known: the answer named another leader than the broker that was asked (KIP-951): no refresh and no
            pause is needed to go there.
        log_start_offset: first offset that is still readable there; -1 when the broker did not say.
    """

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str | None = None
    new_leader_known: bool = False
    log_start_offset: int = -1


@dataclass(slots=True)
class Answered:
    """The response to one `SendProduce`; the broker throttles this producer for `throttle_time_ms` milliseconds."""

    request_id: int
    outcomes: Mapping[TopicPartition, PartitionOutcome]
    throttle_time_ms: int = 0


@dataclass(frozen=True, slots=True)
class RequestLost:
    """One `SendProduce` will not be answered.

    `maybe_written` unless it certainly never left this process; unless `retriable`, another try would fail as well.
    """

    request_id: int
    error: KafkaError
    maybe_written: bool
    retriable: bool = True


@dataclass(frozen=True, slots=True)
class TopicsIdle:
    """Nothing was sent to these topics for `metadata_max_idle_ms`: what is kept about their partitions may go."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Fail all batches. `make_error` is called with the records of each batch, and returns the error."""

    make_error: Callable[[Unacknowledged], KafkaError]


@dataclass(frozen=True, slots=True)
class TransactionBegun:
    """Batches from here on belong to a transaction; `implicit` when brokers add its partitions by themselves."""

    implicit: bool


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """The coordinator has taken the partitions of an `AddPartitions` into the transaction, or refused them."""

    partitions: frozenset[TopicPartition]
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class TransactionAborts:
    """Batches that have not been sent yet are not to be sent, nor those that come until the transaction has ended."""

    make_error: Callable[[Unacknowledged], KafkaError]


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """The transaction is over, and nothing of it is in flight; a new `identity` starts its sequences at 0."""

    identity: ProducerIdentity | None = None


Event = (
    BatchesSealed
    | ProducerIdReceived
    | ProducerIdFailed
    | MetadataRefreshed
    | Answered
    | RequestLost
    | TopicsIdle
    | Abandoned
    | TransactionBegun
    | PartitionsAdded
    | TransactionAborts
    | TransactionEnded
)


# ---- actions: what to do


@dataclass(slots=True)
class NumberedBatch:
    """One batch with the numbers to write into its header; a repeated send gets the very same ones.

    `attempt` counts from 1; of what a batch was split into from 2.
    """

    batch: SealedBatch
    identity: ProducerIdentity
    base_sequence: int
    attempt: int = 1


@dataclass(slots=True)
class SendProduce:
    """Send one produce request. Requests to one node must reach the wire in the order of these actions."""

    request_id: int
    node_id: int
    batches: Sequence[NumberedBatch]


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Call InitProducerId, then report `ProducerIdReceived` or `ProducerIdFailed`."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Make partitions part of the transaction, then report `PartitionsAdded`."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Refresh these topics, then report `MetadataRefreshed`."""

    topics: frozenset[str]


@dataclass(slots=True)
class Acknowledge:
    """The records are written; offset -1 when the broker did not say where (acks=0, duplicates it had forgotten)."""

    batch: SealedBatch
    base_offset: int
    log_append_time_ms: int


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """A batch was too large for the broker and goes again in parts: something to be counted, not to be done."""

    batch: SealedBatch


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail the records; `report` names them."""

    batch: SealedBatch
    error: KafkaError
    report: Unacknowledged


@dataclass(slots=True)
class Release:
    """Nothing reads the batch's memory any more; comes once per batch, possibly long after its `Fail`.

    A batch that was split has handed its memory to its parts: `Release` comes for each of them, not for it.
    """

    batch: SealedBatch


Action = SendProduce | InitProducerId | AddPartitions | RefreshMetadata | Acknowledge | BatchSplit | Fail | Release


PARTITIONS_LISTED_MAX = 5


class Unacknowledged(NamedTuple):
    """Records of one partition that no broker has acknowledged.

    `first_index` and `last_index` count, from 0, the records that this producer sent to the partition;
    `maybe_written` says that a broker may have got some of them all the same.
    """

    topic: str
    partition: int
    records_count: int
    first_index: int
    last_index: int
    maybe_written: bool

    def __str__(self) -> str:
        """As in `12 records for flights-0 (numbers 40 to 51 sent there, possibly written)`."""
        what, which = f"{self.records_count} records", f"numbers {self.first_index} to {self.last_index}"
        if self.records_count == 1:
            what, which = "1 record", f"number {self.first_index}"
        perhaps = "possibly written" if self.maybe_written else "not written"
        return f"{what} for {self.topic}-{self.partition} ({which} sent there, {perhaps})"


def describe(entries: Sequence[Unacknowledged]) -> str:
    """One sentence part for a message; a long list is cut with a count of the rest."""
    listed = "; ".join(str(entry) for entry in entries[:PARTITIONS_LISTED_MAX])
    left_out = entries[PARTITIONS_LISTED_MAX:]
    if not left_out:
        return listed
    return f"{listed}; and {sum(e.records_count for e in left_out)} records for {len(left_out)} more partitions"


def summarise(entries: Sequence[Unacknowledged]) -> list[Unacknowledged]:
    """Join the entries of each partition into one, in order of first appearance."""
    joined: dict[tuple[str, int], Unacknowledged] = {}
    for entry in entries:
        key = (entry.topic, entry.partition)
        before = joined.get(key)
        if before is None:
            joined[key] = entry
            continue
        joined[key] = Unacknowledged(
            entry.topic,
            entry.partition,
            before.records_count + entry.records_count,
            min(before.first_index, entry.first_index),
            max(before.last_index, entry.last_index),
            before.maybe_written or entry.maybe_written,
        )
    return list(joined.values())

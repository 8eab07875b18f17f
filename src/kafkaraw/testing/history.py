"""What the clients of one run saw, written down for `audit`.

    {sent, acknowledged, failed}     by producers, record by record; what they denied
    shipments                        what became of each of their batches
    {reads, resumed, read_to_end}    by consumers, stretch by stretch
    transactions                     what was in each, and how it ended
    {calls, left_over}               of all of them: what was waited for, and what was never let go of
    {final, final_committed}         what is there in the end

Every record has a value of its own, by which it is known. Nothing here judges; nothing here comes from inside a broker.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkaraw.records import RecordMetadata, TopicPartition


class Outcome(StrEnum):
    """How a transaction ended, as its producer knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Committing or aborting failed: either may have happened."""


class Position(NamedTuple):
    """Where a group stands in a partition."""

    group: str
    topic_partition: TopicPartition
    offset: int


@dataclass
class Transaction:
    """One transaction.

    Attributes:
        values: what was sent in it.
        outcome: how it ended.
        positions: what was to be committed with it.
    """

    values: list[bytes] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN
    positions: list[Position] = field(default_factory=list)


class Step(StrEnum):
    """What happened to a batch."""

    LEFT = "left"
    """It was sent, for the first time or again."""
    RETURNED = "returned"
    """It came back: refused, or lost on the way."""


@dataclass
class Call:
    """A call that had to end in time, in seconds on one clock.

    Attributes:
        name: what was called.
        began_s: when.
        timeout_s: what it was given.
        ended_s: when it returned or raised; None when it never did.
        is_close: it closes a client, which may take `CLOSE_BOUND_S` longer.
    """

    name: str
    began_s: float
    timeout_s: float
    ended_s: float | None = None
    is_close: bool = False


@dataclass
class Reports:
    """What senders were told by calls that answer for many records, and what consumers committed.

    Attributes:
        taken: values of which `send` gave a ticket.
        told: values of which a call, or their own ticket, has said that they failed.
        vouched: values that a call answered for which returned without an error, with the name of the call.
        committed: the same for calls that committed a transaction.
        stored: committed offsets in the end, by group and partition.
        given: the offset behind the last record that was given, by group and partition.
    """

    taken: set[bytes] = field(default_factory=set)
    told: set[bytes] = field(default_factory=set)
    vouched: dict[bytes, str] = field(default_factory=dict)
    committed: dict[bytes, str] = field(default_factory=dict)
    stored: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    given: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)


@dataclass
class History:
    """What the clients of one run saw.

    Attributes:
        sent: values by producer, in the order of sending.
        acknowledged: where each acknowledged value is.
        failed: values whose tickets raised an error.
        denied: values of which a producer said that they were not written.
        shipments: for each producer, (seconds, partition, number of the batch, what happened to it) in order.
        weak: producers whose acknowledgement does not promise that the record stays (acks 0 or 1).
        repeating: producers that may write a record twice: they try again, without idempotence.
        unordered: producers whose records may stand in another order than that of sending.
        in_turn: producers that send nothing before all before it is acknowledged: of their repeats, the first ones
            stand in the order of sending.
        reads: for each stretch of reading, (partition, offset, value) in the order of reading; a consumer begins a new
            stretch when it seeks, or starts anew.
        resumed: the stretch that a stretch goes on from: it began where that one had said it stood.
        read_to_end: the partitions that a stretch, with those before it, has read from the first record to the last.
        committed_only: stretches that read committed records only.
        transactions: by name; those that commit positions of one group in the order in which they were begun.
        zombies: producers that committed something after another one had taken over.
        final_positions: where groups stand in the end, by group and partition; None where nobody has asked.
        calls: what was waited for.
        leader_epochs: for each client, (partition, topic id, leader epoch) as it came to believe in them.
        stuck: what did not get through though nothing was wrong any more.
        left_over: what was still held, waiting or unresolved when all clients were closed.
        reports: what calls that answer for many records have told.
        deleted_before: by partition, the offset below which records were deleted on purpose.
        final: everything that is in the topic in the end, by partition, as (offset, value).
        final_committed: the same as a consumer of committed records sees it; None where there were no transactions.
    """

    sent: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: dict[bytes, RecordMetadata] = field(default_factory=dict)
    failed: dict[bytes, BaseException] = field(default_factory=dict)
    denied: set[bytes] = field(default_factory=set)
    shipments: dict[str, list[tuple[float, TopicPartition, int, Step]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    weak: set[str] = field(default_factory=set)
    repeating: set[str] = field(default_factory=set)
    unordered: set[str] = field(default_factory=set)
    in_turn: set[str] = field(default_factory=set)
    reads: dict[str, list[tuple[TopicPartition, int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    resumed: dict[str, str] = field(default_factory=dict)
    read_to_end: dict[str, list[TopicPartition]] = field(default_factory=dict)
    committed_only: set[str] = field(default_factory=set)
    transactions: dict[str, Transaction] = field(default_factory=lambda: defaultdict(Transaction))
    zombies: list[str] = field(default_factory=list)
    final_positions: dict[tuple[str, TopicPartition], int] | None = None
    calls: list[Call] = field(default_factory=list)
    leader_epochs: dict[str, list[tuple[TopicPartition, bytes, int]]] = field(default_factory=lambda: defaultdict(list))
    stuck: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    reports: Reports = field(default_factory=Reports)
    deleted_before: dict[TopicPartition, int] = field(default_factory=dict)
    final: dict[TopicPartition, list[tuple[int, bytes]]] = field(default_factory=dict)
    final_committed: dict[TopicPartition, list[tuple[int, bytes]]] | None = None

    def chain(self, stretch: str) -> list[str]:
        """A stretch with those that it goes on from, the first one first."""
        chain = [stretch]
        while (before := self.resumed.get(chain[0])) is not None:
            chain.insert(0, before)
        return chain

    def view(self, stretch: str) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        """What there was to be read for a stretch."""
        committed = self.final_committed is not None and stretch in self.committed_only
        return self.final_committed if committed and self.final_committed is not None else self.final

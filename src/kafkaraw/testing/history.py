"""A record of what the clients of one run observed, for `audit`.

    {sent, acknowledged, failed}     by producers, record by record; failures that they reported
    shipments                        when each of their batches was sent, and when it failed
    {reads, resumed, read_to_end}    by consumers, stretch by stretch
    transactions                     the records of each, and how it ended
    {calls, left_over}               of all clients: calls with a deadline, and resources that were never released
    {final, final_committed}         the content of the topics in the end

Every record has a unique value, which identifies it. The module does not judge, and takes nothing from inside a broker.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkaraw.records import RecordMetadata, TopicPartition


class Outcome(StrEnum):
    """The outcome of a transaction, as its producer knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Commit or abort failed: the transaction may have ended in either way."""


class Position(NamedTuple):
    """The offset of a group in a partition."""

    group: str
    topic_partition: TopicPartition
    offset: int


@dataclass
class Transaction:
    """One transaction.

    Attributes:
        values: the values sent in it.
        outcome: how it ended.
        positions: the offsets to be committed with it.
    """

    values: list[bytes] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN
    positions: list[Position] = field(default_factory=list)


class Step(StrEnum):
    """A step in the life of a batch."""

    LEFT = "left"
    """It was sent, for the first time or again."""
    RETURNED = "returned"
    """It failed: refused, or lost on the way."""


@dataclass
class Call:
    """A call with a deadline, in seconds on one clock.

    Attributes:
        name: name of the call.
        began_s: when it began.
        timeout_s: its timeout.
        ended_s: when it returned or raised; None if it never did.
        is_close: it closes a client, which may take `CLOSE_BOUND_S` longer.
    """

    name: str
    began_s: float
    timeout_s: float
    ended_s: float | None = None
    is_close: bool = False


@dataclass
class Reports:
    """The results of calls that report on many records, and the offsets that consumers committed.

    Attributes:
        accepted: values for which `send` returned a ticket.
        reported: values that a call, or their own ticket, has reported as failed.
        confirmed: values covered by a call that returned without an error, with the name of the call.
        committed: the same for calls that committed a transaction.
        committed_offsets: committed offsets in the end, by group and partition.
        delivered: the offset after the last delivered record, by group and partition.
    """

    accepted: set[bytes] = field(default_factory=set)
    reported: set[bytes] = field(default_factory=set)
    confirmed: dict[bytes, str] = field(default_factory=dict)
    committed: dict[bytes, str] = field(default_factory=dict)
    committed_offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    delivered: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)


@dataclass
class History:
    """What the clients of one run observed.

    Attributes:
        sent: values by producer, in the order of sending.
        acknowledged: partition and offset of each acknowledged value.
        failed: values whose tickets raised an error.
        denied: values that a producer reported as not written.
        shipments: for each producer, (seconds, partition, number of the batch, step) in order.
        weak: producers whose acknowledgement does not promise that the record stays (acks 0 or 1).
        repeating: producers that may write a record twice: they retry without idempotence.
        unordered: producers whose records may be written in another order than that of sending.
        in_turn: producers that send nothing before all earlier records are acknowledged: if a record is written more
            than once, its first copies are in the order of sending.
        reads: for each stretch of reading, (partition, offset, value) in the order of reading; a consumer begins a new
            stretch when it seeks or restarts.
        resumed: for a stretch, the one that it continues: it began at the position which that one had reported.
        read_to_end: the partitions that a stretch, with those before it, has read from the first record to the last.
        committed_only: stretches of `read_committed` consumers.
        transactions: by name; those that commit offsets of one group in the order in which they were begun.
        zombies: producers that committed after they had been fenced.
        final_positions: committed offsets in the end, by group and partition; None where they were not looked up.
        calls: the calls with a deadline.
        leader_epochs: for each client, (partition, topic id, leader epoch) in the order in which it stored them.
        stuck: operations that did not succeed although there were no more faults.
        left_over: what was still held, waiting or unresolved when all clients were closed.
        reports: the results of calls that report on many records.
        deleted_before: by partition, the offset below which records were deleted on purpose.
        final: all records in the topic in the end, by partition, as (offset, value).
        final_committed: the same as a `read_committed` consumer sees it; None if there were no transactions.
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
        """Return a stretch with those that it continues, the first one first."""
        chain = [stretch]
        while (before := self.resumed.get(chain[0])) is not None:
            chain.insert(0, before)
        return chain

    def view(self, stretch: str) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        """Return the records that a stretch could read."""
        committed = self.final_committed is not None and stretch in self.committed_only
        return self.final_committed if committed and self.final_committed is not None else self.final

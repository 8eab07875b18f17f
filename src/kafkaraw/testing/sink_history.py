"""A record of what the exactly-once sink did, for `audit_exactly_once`: the logs of its topics, and skipped tasks.

    transactions        from the logs: the records of each one, and how it ended
    decisions           from the log of the decisions topic: which transactions a driver decided to commit
    skipped             from the harness: tasks that wrote nothing, because their rows were committed before
    open_transactions   from the coordinators: transactional ids whose transaction is open after a batch

`SinkHistory.from_logs` makes it from the batches of the target topics and the decisions topic, which
`kafkaraw.testing.partition_logs` reads from a running cluster, embedded or not. Pure: no I/O; it does not judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaraw.records import Batch, ControlType, Record, TopicPartition, Wire, control_type_of
from kafkaraw.spark.writing.decision import Decision
from kafkaraw.spark.writing.outcomes import LogRecord, TransactionOwner
from kafkaraw.testing.history import Outcome


class ProducerIdentity(NamedTuple):
    """The producer of a transaction. A task initialises its producer for each one, so this identifies it, too."""

    producer_id: int
    producer_epoch: int


class SinkSlot(NamedTuple):
    """One task of one micro-batch."""

    query_id: str
    batch_id: int
    number: int


@dataclass
class LoggedTransaction:
    """A transaction as the logs show it.

    Attributes:
        producer: the producer that wrote it.
        records: its records in the target topics.
        slot: the task that it belongs to, from its marker in the decisions topic; None if it wrote no marker.
        outcomes: how it ended, by partition; UNKNOWN where it is open.
    """

    producer: ProducerIdentity
    records: list[Record] = field(default_factory=list)
    slot: SinkSlot | None = None
    outcomes: dict[TopicPartition, Outcome] = field(default_factory=dict)

    @property
    def values(self) -> list[bytes]:
        """The values of its records."""
        return [record.value or b"" for record in self.records]

    @property
    def is_committed(self) -> bool:
        """Return whether it is committed in one of its partitions."""
        return Outcome.COMMITTED in self.outcomes.values()


@dataclass(frozen=True)
class LoggedDecision:
    """A driver's decision that `read_committed` consumers see.

    Attributes:
        query_id: the query.
        batch_id: its micro-batch.
        driver: the producer that wrote it; None for one without a transaction.
        offset: its offset in the decisions topic.
        producers: of the transactions to commit, for each slot; None for a slot without rows.
    """

    query_id: str
    batch_id: int
    driver: ProducerIdentity | None
    offset: int
    producers: tuple[ProducerIdentity | None, ...]


@dataclass(frozen=True)
class Skipped:
    """A repetition of a task that wrote nothing, because its rows were committed, or were to be.

    Attributes:
        slot: the task.
        values: the rows that it was given.
    """

    slot: SinkSlot
    values: tuple[bytes, ...]


@dataclass
class SinkHistory:
    """What a sink did; see the module.

    Attributes:
        transactions: by producer.
        decisions: in the order of their offsets.
        skipped: tasks that wrote nothing.
        open_transactions: ids of transactions that are open although their query's last batch is committed.
        wanted: by query, the values that must be committed exactly once; the auditor does not judge the rows of
            other queries.
        undecided_until: by query, the newest batch without decisions: deleted with their topic, or compacted.
    """

    transactions: dict[ProducerIdentity, LoggedTransaction] = field(default_factory=dict)
    decisions: list[LoggedDecision] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    open_transactions: list[str] = field(default_factory=list)
    wanted: dict[str, list[bytes]] = field(default_factory=dict)
    undecided_until: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_logs(cls, logs: Mapping[TopicPartition, Sequence[Wire]], decisions_topic: str) -> SinkHistory:
        """Read from the logs which producer wrote which records, and how its transactions ended.

        Args:
            logs: all batches of the target topics and of the decisions topic, control batches too, by partition.
            decisions_topic: name of the decisions topic.
        """
        history = cls()
        for topic_partition, wires in logs.items():
            if topic_partition.topic == decisions_topic:
                history._read_decisions(topic_partition, wires)
            else:
                history._read_target(topic_partition, wires)
        return history

    def committed(self) -> dict[SinkSlot, list[LoggedTransaction]]:
        """Return the committed transactions of each slot."""
        found: dict[SinkSlot, list[LoggedTransaction]] = defaultdict(list)
        for transaction in self.transactions.values():
            if transaction.slot is not None and transaction.is_committed:
                found[transaction.slot].append(transaction)
        return found

    def _read_target(self, topic_partition: TopicPartition, wires: Iterable[Wire]) -> None:
        for producer, outcome, records in _parts(topic_partition, wires):
            if producer is not None:
                self._note(producer, topic_partition, outcome).records.extend(records)

    def _read_decisions(self, topic_partition: TopicPartition, wires: Iterable[Wire]) -> None:
        for producer, outcome, records in _parts(topic_partition, wires):
            decided: list[Record] = []
            for record in records:
                slot = _slot_of(record)
                if slot is None:
                    decided.append(record)
                elif producer is not None:
                    self._note(producer, topic_partition, outcome).slot = slot
            if decided and outcome is Outcome.COMMITTED:
                self.decisions.append(_decision_of(decided, producer))
        self.decisions.sort(key=lambda decision: decision.offset)

    def _note(self, producer: ProducerIdentity, where: TopicPartition, outcome: Outcome) -> LoggedTransaction:
        transaction = self.transactions.setdefault(producer, LoggedTransaction(producer))
        transaction.outcomes[where] = outcome
        return transaction


_Part = tuple[ProducerIdentity | None, Outcome, list[Record]]


def _parts(topic_partition: TopicPartition, wires: Iterable[Wire]) -> list[_Part]:
    """Return each transaction's records in a partition and its outcome; records without one are committed."""
    parts: list[_Part] = []
    still_open: dict[int, tuple[ProducerIdentity, list[Record]]] = {}
    for header, wire in wires:
        if header.is_control:
            ended = still_open.pop(header.producer_id, None)
            if ended is not None:
                committed = control_type_of(wire) is ControlType.COMMIT
                parts.append((ended[0], Outcome.COMMITTED if committed else Outcome.ABORTED, ended[1]))
            continue
        batch = Batch(topic_partition.topic, topic_partition.partition, wire, start_offset=header.base_offset)
        records = list(batch)
        if header.is_transactional:
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
            still_open.setdefault(header.producer_id, (producer, []))[1].extend(records)
        else:
            parts.append((None, Outcome.COMMITTED, records))
    parts += [(producer, Outcome.UNKNOWN, records) for producer, records in still_open.values()]
    return parts


def _slot_of(record: Record) -> SinkSlot | None:
    """Return the task that a marker in the decisions topic belongs to; None for a record of a decision."""
    query_id, slash, number = (record.key or b"").decode().rpartition("/")
    return SinkSlot(query_id, int(record.value or b""), int(number)) if slash else None


def _decision_of(records: list[Record], driver: ProducerIdentity | None) -> LoggedDecision:
    """Return the decision that the records of one transaction form."""
    owner = TransactionOwner(*(driver or (-1, -1)))
    said = Decision.from_records(
        [LogRecord(each.offset, each.key or b"", each.value or b"", owner) for each in records]
    )
    producers = tuple(
        None if each is None else ProducerIdentity(each.producer_id, each.producer_epoch) for each in said.transactions
    )
    return LoggedDecision(said.query_id, said.batch_id, driver, records[-1].offset, producers)

"""Which micro-batch of each query was decided last: a compacted topic, written by drivers, read by drivers and tasks.

A decision says that a batch is to be committed, and by which transactions. It is written before the first of them is
ended; from then on whoever finds it brings them to their end, however often. It also says how many there are, so that
a query whose plan has changed in the middle of a batch is noticed.

The topic is compacted, so a decision stays for as long as its query is not decided anew: longer than Kafka keeps the
offsets of a group without members. In each transaction there is a marker as well, for the case that the coordinator
has forgotten how it ended.

Must not decide: `exactly_once` does. Start at `Decisions`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.client.config import AdminConfig, ConsumerConfig, ProducerConfig
from kafkaraw.errors import BrokerError, KafkaTimeoutError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Record, TopicPartition
from kafkaraw.spark.options.client import Settings, settings_for, typed_settings
from kafkaraw.spark.worker import ClientPool

_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.01  # markers of transactions give a reader nothing, but bring it nearer to the end


@dataclass(frozen=True)
class Decision:
    """A micro-batch that is committed, or about to be.

    Attributes:
        query_id: of which query.
        batch_id: which of its batches.
        transactions: one for each slot, in their order; None for one without rows.
    """

    query_id: str
    batch_id: int
    transactions: tuple[PreparedTransaction | None, ...]

    def to_bytes(self) -> bytes:
        """As it stands in the topic."""
        return json.dumps({"batch": self.batch_id, "transactions": self.transactions}).encode()

    @classmethod
    def from_record(cls, record: Record) -> Decision:
        """Read it from the topic."""
        said = json.loads(record.value or b"")
        transactions = tuple(None if each is None else PreparedTransaction(*each) for each in said["transactions"])
        return cls((record.key or b"").decode(), said["batch"], transactions)


def marker_key(query_id: str, slot: int) -> bytes:
    """The key of the markers of a slot."""
    return f"{query_id}/{slot}".encode()


def marker_value(batch_id: int) -> bytes:
    """A marker: the transaction that it is part of belongs to this batch."""
    return b"%d" % batch_id


class Decisions:
    """One topic of decisions, as this process has read it so far.

    Args:
        settings: of the client, as text.
        topic: its name; created when it does not exist.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self.topic = topic
        self._settings = settings
        self._partition = TopicPartition(topic, 0)
        self._admin = Admin(runtime=None, **typed_settings(AdminConfig, settings_for(AdminConfig, settings)))
        self._reader = self._new_reader("read_uncommitted")
        self._writer: Producer | None = None
        self._next_offset: int | None = None
        self._found: dict[str, Decision] = {}

    def close(self) -> None:
        """Close the clients."""
        for client in (self._reader, self._writer, self._admin):
            if client is not None:
                client.close()

    def last(self, query_id: str) -> Decision | None:
        """The newest decision about a query; asks the cluster each time."""
        if self._next_offset is None:
            self._create_topic()
            self._next_offset = 0
        for record in self._records(self._reader, self._next_offset):
            self._next_offset = record.offset + 1
            if b"/" not in (record.key or b"/"):
                decision = Decision.from_record(record)
                self._found[decision.query_id] = decision
        return self._found.get(query_id)

    def write(self, decision: Decision) -> None:
        """Make a decision durable.

        Raises:
            KafkaError: it is not known to be; it may be nevertheless.
        """
        if self._writer is None:
            settings = settings_for(ProducerConfig, self._settings) | {"acks": "all", "linger_ms": "0"}
            self._writer = Producer(runtime=None, **typed_settings(ProducerConfig, settings))
        ticket = self._writer.send(self.topic, decision.to_bytes(), decision.query_id.encode(), partition=0)
        ticket.result(_TIMEOUT_S)

    def marked(self, query_id: str, slot: int) -> int:
        """The newest batch of which a slot has a committed marker; -1 when it has none. Reads the whole topic."""
        batch_id = -1
        reader = self._new_reader("read_committed")
        try:
            for record in self._records(reader, 0):
                if record.key == marker_key(query_id, slot):
                    batch_id = int(record.value or b"")
        finally:
            reader.close()
        return batch_id

    def end(self, transaction: PreparedTransaction, *, commit: bool) -> None:
        """Have a transaction ended; see `Admin.end_transaction`."""
        self._admin.end_transaction(transaction, commit=commit, timeout=_TIMEOUT_S)

    def _new_reader(self, isolation_level: str) -> Consumer:
        ours = {"auto_offset_reset": "earliest", "isolation_level": isolation_level, "fetch_max_wait_ms": "10"}
        settings = settings_for(ConsumerConfig, self._settings) | ours
        return Consumer(runtime=None, **typed_settings(ConsumerConfig, settings))

    def _create_topic(self) -> None:
        try:
            self._admin.create_topics([NewTopic(self.topic, 1, configs=_CONFIGS)])
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def _records(self, reader: Consumer, start_offset: int) -> Iterator[Record]:
        """What there is now, from an offset on."""
        reader.assign([self._partition])
        end_offset = reader.end_offsets([self._partition])[self._partition]
        reader.seek(self._partition, start_offset)  # what is gone is passed over: `auto_offset_reset` is "earliest"
        deadline_s = time.monotonic() + _TIMEOUT_S
        while reader.position(self._partition) < end_offset:
            for batch in reader.poll(_POLL_S).values():
                yield from batch
            if time.monotonic() > deadline_s:
                raise KafkaTimeoutError(f"{self.topic} could not be read to its end within {_TIMEOUT_S:g} s")


def _open(settings: Settings) -> Decisions:
    clients = Settings(settings)
    return Decisions(clients, clients.pop("decisions_topic"))


_pool: ClientPool[Decisions] = ClientPool(_open, idle_max=4)


def pooled(settings: Settings, topic: str) -> AbstractContextManager[Decisions]:
    """The decisions of a topic, kept in this process between tasks and batches."""
    return _pool.borrow(settings | {"decisions_topic": topic})

"""Bugs that show next to one broker: in the client, and in how a broker keeps what it was given."""

from __future__ import annotations

import itertools

import pytest

from kafkaraw.broker.connection import BrokerConnection
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.partitions.partition import Appended, Partition
from kafkaraw.broker.partitions.producers import ProducerTable
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.sending.sender import Outbox
from kafkaraw.core.connection import Fail
from kafkaraw.core.producer.batches import PartitionQueue, Renumbering
from kafkaraw.errors import KafkaError, NetworkError
from kafkaraw.records import Batch, BatchPromise, SealedBatch

# -- the broker


def broker_acknowledges_without_appending(monkeypatch: pytest.MonkeyPatch):
    appends, write = itertools.count(), Partition._write

    def forget_some(self, batch, now_ms):
        if next(appends) % 10 == 9:
            return Appended(self.log.log_end_offset, self.log.log_end_offset + 1)
        return write(self, batch, now_ms)

    monkeypatch.setattr(Partition, "_write", forget_some)


def broker_does_not_recognise_repeats(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ProducerTable, "check", lambda self, header: None)


def broker_forgets_one_sequence_of_five(monkeypatch: pytest.MonkeyPatch):
    check = ProducerTable.check

    def forgetful(self, header):
        entry = self._entries.get(header.producer_id)
        third = entry.batches[-3] if entry is not None and len(entry.batches) >= 3 else None
        if third is not None and third.first_sequence == header.base_sequence:
            return None
        return check(self, header)

    monkeypatch.setattr(ProducerTable, "check", forgetful)


def broker_names_the_wrong_offset(monkeypatch: pytest.MonkeyPatch):
    write = Partition._write

    def off_by_one(self, batch, now_ms):
        appended = write(self, batch, now_ms)
        return appended._replace(base_offset=appended.base_offset + 1)

    monkeypatch.setattr(Partition, "_write", off_by_one)


def broker_loses_unsynced_bytes_that_it_acknowledged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PartitionLog, "sync", lambda self: None)


def broker_answers_twice(monkeypatch: pytest.MonkeyPatch):
    send, answers = BrokerConnection._send, itertools.count()

    def again(self, link, header, response, *, version):
        for _ in range(2 if next(answers) % 50 == 49 else 1):
            send(self, link, header, response, version=version)

    monkeypatch.setattr(BrokerConnection, "_send", again)


# -- the producer


def producer_numbers_anew_what_it_sends_again(monkeypatch: pytest.MonkeyPatch):
    reenqueue = PartitionQueue.reenqueue

    def renumber(self, shipment, *_, at_once=False):
        reenqueue(self, shipment, Renumbering.NEXT_EPOCH, at_once=at_once)

    monkeypatch.setattr(PartitionQueue, "reenqueue", renumber)


def producer_lines_up_what_came_back_the_wrong_way(monkeypatch: pytest.MonkeyPatch):
    line_up = PartitionQueue.try_end_drain

    def reverse(self, now_ms, backoff_ms):
        self._renumbering = Renumbering.NEXT_EPOCH
        settled = line_up(self, now_ms, backoff_ms)
        if settled:
            self.waiting.reverse()
        return settled

    monkeypatch.setattr(PartitionQueue, "try_end_drain", reverse)


def producer_forgets_to_tell(monkeypatch: pytest.MonkeyPatch):
    resolve, number = BatchPromise.resolve, itertools.count()

    def forget_some(self, *args, **kwargs):
        if next(number) % 20 != 19:
            resolve(self, *args, **kwargs)

    monkeypatch.setattr(BatchPromise, "resolve", forget_some)


def producer_reuses_a_buffer_in_flight(monkeypatch: pytest.MonkeyPatch):
    encode, pool = SealedBatch.encode, {}

    def into_the_pool(self, *args, **kwargs):
        data = encode(self, *args, **kwargs)
        buffer = pool.setdefault(len(data), bytearray(len(data)))
        buffer[:] = data
        return memoryview(buffer)

    monkeypatch.setattr(SealedBatch, "encode", into_the_pool)


def producer_sends_again_on_a_new_connection_what_may_have_arrived(monkeypatch: pytest.MonkeyPatch):
    answered = Outbox._answered
    again = set()

    def persistent(self, action, request, outcome):
        if isinstance(outcome, NetworkError) and action.request_id not in again:
            again.add(action.request_id)
            self._spawn(send_once_more(self, action), "planted")
        else:
            answered(self, action, request, outcome)

    async def send_once_more(self, action):
        try:
            self._exchange(await self._engine.connection(action.node_id, timeout=self._timeout), action)
        except KafkaError as error:
            self._lost(action, error)

    monkeypatch.setattr(Outbox, "_answered", persistent)


# -- connections


def connection_drops_promises_when_it_dies(monkeypatch: pytest.MonkeyPatch):
    do, failures = Connection._do, itertools.count()

    def drop_some(self, action):
        if isinstance(action, Fail) and isinstance(action.error, NetworkError) and next(failures) % 4 == 3:
            return
        do(self, action)

    monkeypatch.setattr(Connection, "_do", drop_some)


# -- the consumer


def consumer_steps_over_a_record(monkeypatch: pytest.MonkeyPatch):
    records = Batch.__iter__

    def without_the_last(self):
        everything = list(records(self))
        return iter(everything[:-1] if len(everything) > 3 else everything)

    monkeypatch.setattr(Batch, "__iter__", without_the_last)


def consumer_hands_out_a_batch_twice(monkeypatch: pytest.MonkeyPatch):
    poll, last = AsyncConsumer.poll, {}

    async def again(self, *args, **kwargs):
        batches = await poll(self, *args, **kwargs)
        if not batches and last.get(self):
            return last.pop(self)
        last[self] = batches
        return batches

    monkeypatch.setattr(AsyncConsumer, "poll", again)


def consumer_stands_behind_what_it_has_not_handed_out(monkeypatch: pytest.MonkeyPatch):
    position = AsyncConsumer.position

    async def ahead(self, partition, timeout=None):
        offset = await position(self, partition, timeout)
        fetched = self._reading.subscriptions.buffer._ready.get(partition)
        return offset if fetched is None else fetched.batch.next_offset

    monkeypatch.setattr(AsyncConsumer, "position", ahead)

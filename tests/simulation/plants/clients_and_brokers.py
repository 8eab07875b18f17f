"""Bugs of clients and brokers: in requests, the log, replication, elections and metadata."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kafkaraw.broker.connection import BrokerConnection
from kafkaraw.broker.log import cleaning, log_cleaner
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.partitions.followers import Followers
from kafkaraw.broker.partitions.partition import Appended, Partition
from kafkaraw.broker.partitions.producers import ProducerTable
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.sending.sender import Outbox
from kafkaraw.core import cluster
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


def broker_does_not_detect_duplicates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ProducerTable, "check", lambda self, header: None)


def broker_forgets_one_of_five_batches(monkeypatch: pytest.MonkeyPatch):
    check = ProducerTable.check

    def forgetful(self, header):
        entry = self._entries.get(header.producer_id)
        third = entry.batches[-3] if entry is not None and len(entry.batches) >= 3 else None
        if third is not None and third.first_sequence == header.base_sequence:
            return None
        return check(self, header)

    monkeypatch.setattr(ProducerTable, "check", forgetful)


def broker_returns_the_wrong_offset(monkeypatch: pytest.MonkeyPatch):
    write = Partition._write

    def off_by_one(self, batch, now_ms):
        appended = write(self, batch, now_ms)
        return appended._replace(base_offset=appended.base_offset + 1)

    monkeypatch.setattr(Partition, "_write", off_by_one)


def broker_loses_unsynced_bytes_that_it_acknowledged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PartitionLog, "flush", lambda self, offset=None: None)


def cleaner_drops_the_last_batch_of_a_segment(monkeypatch: pytest.MonkeyPatch):
    filling = cleaning._Run._filling

    def short(self, cleaned, group, watched):
        batches = self._batches

        def all_but_the_last(info, position, watched):
            found = list(batches(info, position, watched))
            yield from found[:-1]

        self._batches = all_but_the_last
        try:
            yield from filling(self, cleaned, group, watched)
        finally:
            del self._batches

    monkeypatch.setattr(cleaning._Run, "_filling", short)


def cleaner_ignores_the_last_stable_offset(monkeypatch: pytest.MonkeyPatch):
    plan = log_cleaner.plan_cleaning

    def to_the_end(segments, settings, **known):
        return plan(segments, settings, **known | {"last_stable_offset": known["log_end_offset"]})

    monkeypatch.setattr(log_cleaner, "plan_cleaning", to_the_end)


def broker_responds_twice(monkeypatch: pytest.MonkeyPatch):
    send, answers = BrokerConnection._send, itertools.count()

    def again(self, link, header, response, *, version):
        for _ in range(2 if next(answers) % 50 == 49 else 1):
            send(self, link, header, response, version=version)

    monkeypatch.setattr(BrokerConnection, "_send", again)


# -- the producer


def producer_renumbers_retried_batches(monkeypatch: pytest.MonkeyPatch):
    send_back = PartitionQueue.reenqueue

    def renumber(self, shipment, *_, at_once=False):
        send_back(self, shipment, Renumbering.NEXT_EPOCH, at_once=at_once)

    monkeypatch.setattr(PartitionQueue, "reenqueue", renumber)


def producer_retries_batches_in_reverse_order(monkeypatch: pytest.MonkeyPatch):
    settle_drain = PartitionQueue.try_end_drain

    def reverse(self, now_ms, backoff_ms):
        self._renumbering = Renumbering.NEXT_EPOCH
        settled = settle_drain(self, now_ms, backoff_ms)
        if settled:
            self.waiting.reverse()
        return settled

    monkeypatch.setattr(PartitionQueue, "try_end_drain", reverse)


def producer_does_not_complete_some_tickets(monkeypatch: pytest.MonkeyPatch):
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


def producer_resends_maybe_written_batches_as_new_requests(monkeypatch: pytest.MonkeyPatch):
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


def connection_drops_pending_requests_when_it_breaks(monkeypatch: pytest.MonkeyPatch):
    do, failures = Connection._do, itertools.count()

    def drop_some(self, action):
        if isinstance(action, Fail) and isinstance(action.error, NetworkError) and next(failures) % 4 == 3:
            return
        do(self, action)

    monkeypatch.setattr(Connection, "_do", drop_some)


# -- the consumer


def consumer_skips_a_record(monkeypatch: pytest.MonkeyPatch):
    records = Batch.__iter__

    def without_the_last(self):
        everything = list(records(self))
        return iter(everything[:-1] if len(everything) > 3 else everything)

    monkeypatch.setattr(Batch, "__iter__", without_the_last)


def consumer_delivers_a_batch_twice(monkeypatch: pytest.MonkeyPatch):
    poll, last = AsyncConsumer.poll, {}

    async def again(self, *args, **kwargs):
        batches = await poll(self, *args, **kwargs)
        if not batches and last.get(self):
            return last.pop(self)
        last[self] = batches
        return batches

    monkeypatch.setattr(AsyncConsumer, "poll", again)


def consumer_position_is_ahead_of_delivered_records(monkeypatch: pytest.MonkeyPatch):
    position = AsyncConsumer.position

    async def ahead(self, partition, timeout=None):
        offset = await position(self, partition, timeout)
        fetched = self._reading.subscriptions.buffer._ready.get(partition)
        return offset if fetched is None else fetched.batch.next_offset

    monkeypatch.setattr(AsyncConsumer, "position", ahead)


# -- replication, elections and metadata


def leader_acknowledges_before_replication(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Followers, "high_watermark", lambda self, isr, log_end_offset, now_s, is_live: log_end_offset)


def new_leader_truncates_its_newest_batch(monkeypatch: pytest.MonkeyPatch):
    begin = Partition._begin_to_lead

    def drop_first(self):
        headers = [header for header, _ in self.log.headers(self.log.log_start_offset)]
        if headers:
            self._truncate(headers[-1].base_offset)
        begin(self)

    monkeypatch.setattr(Partition, "_begin_to_lead", drop_first)


def deposed_leader_serves_requests(monkeypatch: pytest.MonkeyPatch):
    begin = Partition._begin_to_lead

    def never_forget(self):
        self.has_led = True
        begin(self)

    monkeypatch.setattr(Partition, "_begin_to_lead", never_forget)
    monkeypatch.setattr(Partition, "is_leader", property(lambda self: getattr(self, "has_led", False)))


def follower_fetches_without_its_last_epoch(monkeypatch: pytest.MonkeyPatch):
    answer = Partition.answer_follower

    def without_epoch(self, fetch, wake):
        return answer(self, replace(fetch, last_epoch=-1), wake)

    monkeypatch.setattr(Partition, "answer_follower", without_epoch)


def client_accepts_stale_metadata(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "_newest", lambda _, news, replica_sets: cluster._partition_view(news, replica_sets))

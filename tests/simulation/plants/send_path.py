"""Bugs of the send path: sequence numbers, retries, expired batches, and duplicate detection of brokers."""

from __future__ import annotations

import itertools
import struct

import pytest
from crc32c import crc32c

from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.partitions.producers import ProducerTable
from kafkaraw.client.sending import sender
from kafkaraw.client.sending.accumulator import BufferPool
from kafkaraw.core.producer import machine
from kafkaraw.core.producer.batches import IN_FLIGHT_MAX, PartitionQueue, unanswered
from kafkaraw.core.producer.events import Answered
from kafkaraw.records import BatchPromise, SealedBatch

_CRC_AT, _ATTRIBUTES_AT, _BASE_TIMESTAMP_AT = 17, 21, 27

# -- the producer


def producer_changes_retried_batches(monkeypatch: pytest.MonkeyPatch):
    encode, known = SealedBatch.encode, set()

    def a_moment_later(self, *args, **kwargs):
        data = encode(self, *args, **kwargs)
        if self not in known:
            known.add(self)
            return data
        changed = bytearray(data)
        (timestamp,) = struct.unpack_from(">q", changed, _BASE_TIMESTAMP_AT)
        struct.pack_into(">q", changed, _BASE_TIMESTAMP_AT, timestamp + 1)
        struct.pack_into(">I", changed, _CRC_AT, crc32c(memoryview(changed)[_ATTRIBUTES_AT:]))
        return memoryview(changed)

    monkeypatch.setattr(SealedBatch, "encode", a_moment_later)


def producer_sends_new_batches_before_retried_ones(monkeypatch: pytest.MonkeyPatch):
    settle_drain = PartitionQueue.try_end_drain

    def at_the_end(self, *args):
        back = sum(not shipment.settled for shipment in self.reenqueued)
        settled = settle_drain(self, *args)
        if settled:
            self.waiting.rotate(-back)
        return settled

    monkeypatch.setattr(PartitionQueue, "try_end_drain", at_the_end)


def producer_reverses_the_batches_of_a_split(monkeypatch: pytest.MonkeyPatch):
    send_back = PartitionQueue.split_and_reenqueue

    def the_last_first(self, shipment, batches):
        parts = send_back(self, shipment, batches)
        for part, first_index in zip(parts, [part.first_index for part in reversed(parts)], strict=True):
            part.first_index = first_index  # the order of retried batches
            part.identity, part.sequence = None, -1
        return parts

    monkeypatch.setattr(PartitionQueue, "split_and_reenqueue", the_last_first)


def producer_treats_a_lost_response_as_success(monkeypatch: pytest.MonkeyPatch):
    lost = sender._lost

    def as_success(action, error, *, maybe_written):
        if maybe_written:
            return Answered(action.request_id, unanswered(action))
        return lost(action, error, maybe_written=maybe_written)

    monkeypatch.setattr(sender, "_lost", as_success)


def producer_reuses_sequence_numbers_of_expired_batches(monkeypatch: pytest.MonkeyPatch):
    head = PartitionQueue.head

    def close_the_gap(self):
        gap = None
        while self.waiting and self.waiting[0].settled:
            given_up = self.waiting.popleft()
            if given_up.sequence >= 0 and gap is None and given_up.identity == self.identity:
                gap = given_up.sequence
        if gap is not None and not self.in_flight:
            self.next_sequence = gap
            for shipment in self.waiting:
                shipment.identity, shipment.sequence = None, -1
        return head(self)

    monkeypatch.setattr(PartitionQueue, "head", close_the_gap)


def producer_keeps_its_epoch_after_a_sequence_gap(monkeypatch: pytest.MonkeyPatch):
    renumber = PartitionQueue._renumber

    def under_the_same_epoch(self):
        before = self.identity
        renumber(self)
        self.identity = before

    monkeypatch.setattr(PartitionQueue, "_renumber", under_the_same_epoch)


def producer_has_more_batches_in_flight_than_brokers_remember(monkeypatch: pytest.MonkeyPatch):
    def as_many_as_may_be(self, node_id):
        return len(self.in_flight) < IN_FLIGHT_MAX * 2

    monkeypatch.setattr(PartitionQueue, "may_send_to", as_many_as_may_be)


def producer_does_not_release_memory_of_failed_batches(monkeypatch: pytest.MonkeyPatch):
    release = BufferPool.release

    def of_what_was_written(self, batch):
        if batch.promise.error is None:
            release(self, batch)

    monkeypatch.setattr(BufferPool, "release", of_what_was_written)


def ticket_has_the_offset_of_another_record(monkeypatch: pytest.MonkeyPatch):
    resolve, number = BatchPromise.resolve, itertools.count()

    def one_further(self, base_offset, *args):
        resolve(self, base_offset + (next(number) % 20 == 19), *args)

    monkeypatch.setattr(BatchPromise, "resolve", one_further)


def producer_forgets_a_batch_when_the_leader_changes(monkeypatch: pytest.MonkeyPatch):
    take = PartitionQueue.take

    def without_the_next(self, identity, node_id):
        if self._node_id not in (-1, node_id) and len(self.waiting) > 1:
            self.waiting[1].settled = True
            del self.waiting[1]
        return take(self, identity, node_id)

    monkeypatch.setattr(PartitionQueue, "take", without_the_next)


def producer_reports_maybe_written_records_as_not_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "MAYBE_WRITTEN", frozenset())


# -- the broker


def broker_returns_the_wrong_offset_for_duplicates(monkeypatch: pytest.MonkeyPatch):
    check = ProducerTable.check

    def one_further(self, header):
        old = check(self, header)
        return old and old._replace(base_offset=old.base_offset + 1)

    monkeypatch.setattr(ProducerTable, "check", one_further)


def new_leader_forgets_producer_states(monkeypatch: pytest.MonkeyPatch):
    begin = Partition._begin_to_lead

    def without_states(self):
        self.producers.clear()
        begin(self)

    monkeypatch.setattr(Partition, "_begin_to_lead", without_states)


def broker_accepts_batches_of_older_epochs(monkeypatch: pytest.MonkeyPatch):
    check = ProducerTable.check

    def of_older_epochs(self, header):
        entry = self._entries.get(header.producer_id)
        return None if entry is not None and header.producer_epoch < entry.epoch else check(self, header)

    monkeypatch.setattr(ProducerTable, "check", of_older_epochs)

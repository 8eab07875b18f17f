"""Bugs of share groups: first those of brokers, then those of share consumers."""

from __future__ import annotations

import pytest

from kafkaraw.broker.handlers import share_fetch
from kafkaraw.broker.shares import hosted, partitions
from kafkaraw.broker.shares.coordinator import ShareCoordinator
from kafkaraw.broker.shares.partitions import SharePartitions
from kafkaraw.broker.shares.state import ShareState
from kafkaraw.client.sharing import batch
from kafkaraw.client.sharing.delivery import Delivery
from kafkaraw.client.sharing.outcomes import Outcomes
from kafkaraw.client.sharing.reading import ShareReading
from kafkaraw.core.share import acknowledgements, share_partition
from kafkaraw.core.share.acknowledgements import AcknowledgeType, RecordsInHand
from kafkaraw.core.share.in_flight import InFlight
from kafkaraw.core.share.record_states import STATE_AFTER, RecordState
from kafkaraw.core.share.share_partition import SharePartition
from kafkaraw.light_classes import replace

EARLY = 0.8
"""The share of its duration that a lock is short of."""


def leader_confirms_acknowledgements_without_storing_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SharePartitions, "_store", lambda self, led, machine, batches, done: done(None))


def leader_takes_confirmed_acknowledgements_back(monkeypatch: pytest.MonkeyPatch):
    completed = SharePartition.completed

    def take_back(self, pending, *, succeeded, now_ms):
        completed(self, pending, succeeded=False, now_ms=now_ms)

    monkeypatch.setattr(SharePartition, "completed", take_back)


def leader_forgets_stored_records_when_it_loads_the_state(monkeypatch: pytest.MonkeyPatch):
    made = partitions.SharePartition
    monkeypatch.setattr(
        partitions, "SharePartition", lambda settings, start_offset, batches: made(settings, start_offset)
    )


def leader_does_not_count_deliveries_whose_lock_expired(monkeypatch: pytest.MonkeyPatch):
    released = InFlight.released

    def released_uncounted(self, state, delivery_count_limit):
        after = released(self, state, delivery_count_limit)
        # only an expiry has no write pending that could fail: `_begin` keeps the state before it
        return after if after.state is not RecordState.AVAILABLE else replace(after, delivery_count=0)

    monkeypatch.setattr(InFlight, "released", released_uncounted)


def leader_delivers_records_more_often_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    released = InFlight.released
    monkeypatch.setattr(InFlight, "released", lambda self, state, limit: released(self, state, limit + 1))


def leader_counts_each_delivery_twice(monkeypatch: pytest.MonkeyPatch):
    acquired = InFlight.acquired

    def acquired_and_counted(self, member_id, locked_until_ms):
        after = acquired(self, member_id, locked_until_ms)
        return replace(after, delivery_count=after.delivery_count + 1)

    monkeypatch.setattr(InFlight, "acquired", acquired_and_counted)


def locks_expire_early(monkeypatch: pytest.MonkeyPatch):
    lock = SharePartition._lock

    def lock_briefly(self, first, last, now_ms):
        return lock(self, first, last, now_ms - EARLY * self.settings.lock_duration_ms)

    monkeypatch.setattr(SharePartition, "_lock", lock_briefly)


def leader_archives_released_records(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(STATE_AFTER, share_partition.AcknowledgeType.RELEASE, RecordState.ARCHIVED)


def leader_moves_the_start_offset_past_an_open_record(monkeypatch: pytest.MonkeyPatch):
    advance = SharePartition.advance

    def advance_too_far(self):
        before = self.start_offset
        advance(self)
        if self.start_offset > before and self.in_flight:
            self.start_offset += 1

    monkeypatch.setattr(SharePartition, "advance", advance_too_far)


def leader_delivers_records_of_aborted_transactions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(share_fetch, "_aborted", lambda batches, transactions: [])


def share_coordinator_omits_batches_of_snapshots(monkeypatch: pytest.MonkeyPatch):
    encode = hosted.encode_record

    def encode_without_batches(record):
        if isinstance(record.value, ShareState):
            record = record._replace(value=replace(record.value, batches=()))
        return encode(record)

    monkeypatch.setattr(hosted, "encode_record", encode_without_batches)


def share_coordinator_prunes_records_that_it_needs(monkeypatch: pytest.MonkeyPatch):
    def needed_from(self):
        return max((entry.snapshot_offset for entry in self._entries.values()), default=None)

    monkeypatch.setattr(ShareCoordinator, "needed_from", needed_from)


# -- share consumers


def share_consumer_accepts_records_that_the_application_has_not_got(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Delivery, "returned_below", lambda self, *, in_doubt=False: {})


def share_consumer_sends_the_first_type_for_a_whole_range(monkeypatch: pytest.MonkeyPatch):
    ranges_of = acknowledgements.ranges_of

    def one_type_each(chosen):
        return [each._replace(types=each.types[:1]) for each in ranges_of(chosen)]

    monkeypatch.setattr(acknowledgements, "ranges_of", one_type_each)


def share_consumer_reports_lost_responses_as_success(monkeypatch: pytest.MonkeyPatch):
    failure, ended = ShareReading._on_failure, Outcomes.ended

    def on_failure(self, link, error, due):
        for pending in due:
            ended(self.outcomes, pending, None)
        failure(self, link, error, [])

    monkeypatch.setattr(ShareReading, "_on_failure", on_failure)


def share_consumer_returns_records_that_it_has_not_acquired(monkeypatch: pytest.MonkeyPatch):
    read_acquired = batch.Batch.read_acquired

    def read_all(self, acquired, records, kind):
        last = acquired[-1]
        read_acquired(self, [(acquired[0].first_offset, last.last_offset, last.delivery_count)], records, kind)

    monkeypatch.setattr(batch.Batch, "read_acquired", read_all)


def share_consumer_returns_the_delivery_count_of_another_range(monkeypatch: pytest.MonkeyPatch):
    read_acquired = batch.Batch.read_acquired

    def miscounted(self, acquired, records, kind):
        count = acquired[0].delivery_count
        read_acquired(self, [each._replace(delivery_count=count) for each in acquired], records, kind)

    monkeypatch.setattr(batch.Batch, "read_acquired", miscounted)


def share_consumer_skips_the_last_record_of_a_batch(monkeypatch: pytest.MonkeyPatch):
    next_batch = Delivery.next_batch

    def shorter(self):
        found = next_batch(self)
        if found is not None and len(found.records) > 2:
            found.records.pop()
        return found

    monkeypatch.setattr(Delivery, "next_batch", shorter)


def share_consumer_accepts_renewed_records(monkeypatch: pytest.MonkeyPatch):
    renewal_ended = RecordsInHand.renewal_ended

    def renew_and_accept(self, offsets, *, is_renewed):
        renewal_ended(self, offsets, is_renewed=is_renewed)
        for offset in list(self.renewed):
            self.acknowledge(offset, AcknowledgeType.ACCEPT)

    monkeypatch.setattr(RecordsInHand, "renewal_ended", renew_and_accept)

"""Bugs of transactions: in coordinators, partitions, groups, producers and consumers."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from kafkaraw.broker.groups.offsets import GroupOffsets
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.partitions.open_transactions import OpenTransactions
from kafkaraw.broker.partitions.producers import ProducerTable
from kafkaraw.broker.transactions.coordinator import Outcome, TransactionCoordinator
from kafkaraw.broker.transactions.markers import MarkerSender
from kafkaraw.broker.transactions.state_log import PartitionStateLog
from kafkaraw.broker.transactions.states import ENDING, NO_EPOCH, Transaction
from kafkaraw.client.sending.sender import Sender
from kafkaraw.client.sending.transactions import TransactionManager
from kafkaraw.core.fetch import fetcher
from kafkaraw.core.producer.machine import ProducerMachine
from kafkaraw.core.producer.transaction import TransactionMachine
from kafkaraw.protocol.error_codes import ErrorCode

# -- the coordinator


def coordinator_omits_some_markers(monkeypatch: pytest.MonkeyPatch):
    send, number = MarkerSender._send, itertools.count()

    def all_but_a_few(self, topic_partition, ending, written):
        if next(number) % 10 == 9:
            written(topic_partition)
        else:
            send(self, topic_partition, ending, written)

    monkeypatch.setattr(MarkerSender, "_send", all_but_a_few)


def coordinator_does_not_wait_for_its_markers(monkeypatch: pytest.MonkeyPatch):
    send = MarkerSender._send

    def a_second_late(self, topic_partition, ending, written):
        asyncio.get_running_loop().call_later(1, send, self, topic_partition, ending, lambda _: None)
        written(topic_partition)

    monkeypatch.setattr(MarkerSender, "_send", a_second_late)


def coordinator_responds_before_replication(monkeypatch: pytest.MonkeyPatch):
    append = PartitionStateLog._append

    def at_once(self, transactional_id, value, done):
        refused = []
        append(self, transactional_id, value, refused.append)
        done(refused[0] if refused else ErrorCode.NONE)

    monkeypatch.setattr(PartitionStateLog, "_append", at_once)


def new_coordinator_forgets_ending_transactions(monkeypatch: pytest.MonkeyPatch):
    load = TransactionCoordinator.load

    def undecided(self, transactions):
        load(self, [each for each in transactions if each.state not in ENDING])

    monkeypatch.setattr(TransactionCoordinator, "load", undecided)


def coordinator_does_not_fence_zombies(monkeypatch: pytest.MonkeyPatch):
    fence = Transaction.with_next_epoch

    def under_the_same_epoch(self, last_epoch, timeout_ms, now_ms):
        if self.producer_epoch == NO_EPOCH:
            return fence(self, last_epoch, timeout_ms, now_ms)
        return self.again(timeout_ms, now_ms)

    monkeypatch.setattr(Transaction, "with_next_epoch", under_the_same_epoch)


def coordinator_does_not_abort_expired_transactions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TransactionCoordinator, "abort_overdue", lambda self: None)


def coordinator_fences_an_abort_while_the_previous_transaction_ends(monkeypatch: pytest.MonkeyPatch):
    ended = TransactionCoordinator._ended

    def by_the_epoch_first(self, entry, identity, wanted, version):
        if entry.current.state in ENDING and identity.epoch == entry.current.producer_epoch:
            return Outcome(ErrorCode.PRODUCER_FENCED)
        return ended(self, entry, identity, wanted, version)

    monkeypatch.setattr(TransactionCoordinator, "_ended", by_the_epoch_first)


# -- partitions and groups


def partition_ignores_the_last_stable_offset(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OpenTransactions, "last_stable_offset", lambda self, high_watermark: high_watermark)


def partition_omits_an_aborted_transaction(monkeypatch: pytest.MonkeyPatch):
    find = PartitionLog.aborted_transactions
    monkeypatch.setattr(PartitionLog, "aborted_transactions", lambda self, *read: find(self, *read)[1:])


def group_commits_offsets_of_aborted_transactions(monkeypatch: pytest.MonkeyPatch):
    end = GroupOffsets.end_transaction
    monkeypatch.setattr(GroupOffsets, "end_transaction", lambda self, who, *, commit: end(self, who, commit=True))


def partition_accepts_a_batch_after_a_refused_one(monkeypatch: pytest.MonkeyPatch):
    check = ProducerTable._check_sequence

    def of_producers_with_batches(self, entry, header):
        if entry is not None and entry.batches:
            check(self, entry, header)

    monkeypatch.setattr(ProducerTable, "_check_sequence", of_producers_with_batches)


# -- clients


def producer_aborts_while_partitions_are_added(monkeypatch: pytest.MonkeyPatch):
    idle = property(lambda self: self._incomplete.expires_ms is None and not self._requests)
    monkeypatch.setattr(ProducerMachine, "idle", idle)


def producer_commits_before_all_records_are_acknowledged(monkeypatch: pytest.MonkeyPatch):
    settle_all = Sender.settle_all

    async def of_what_is_aborted(self, deadline, what):
        if what != "commit_transaction":
            await settle_all(self, deadline, what)

    monkeypatch.setattr(Sender, "settle_all", of_what_is_aborted)


def producer_commits_despite_failed_records(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TransactionManager, "note_failure", lambda self, error: None)


def producer_commits_while_offsets_are_in_doubt(monkeypatch: pytest.MonkeyPatch):
    sent = TransactionMachine.offsets_sent

    def taken_for_stored(self, group_id, partitions):
        attempt = sent(self, group_id, partitions)
        self.offsets_stored(attempt)
        return attempt

    monkeypatch.setattr(TransactionMachine, "offsets_sent", taken_for_stored)


def consumer_delivers_aborted_records(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetcher, "without_aborted", lambda records, aborted: records)

"""Bugs of groups: in coordinators of both protocols, members and assignors, and in commits and buffered records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaraw.broker.coordinator_runtime.timers import Timers
from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.groups.hosted import PartitionJournal
from kafkaraw.broker.groups.reconciliation import reconcile
from kafkaraw.client.groups.commit_queue import Ownership
from kafkaraw.client.groups.group import Group
from kafkaraw.client.groups.membership import Membership
from kafkaraw.client.groups.reconciliation import Reconciliation
from kafkaraw.core.fetch.cursor import RecordCursor
from kafkaraw.core.fetch.subscription_state import SubscriptionState
from kafkaraw.core.group import assignor_calls
from kafkaraw.core.group.assignors import sticky
from kafkaraw.core.group.classic import ClassicMember
from kafkaraw.core.group.consumer import ConsumerMember
from kafkaraw.core.group.events import NONE
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode

# -- coordinators


def coordinator_does_not_check_generations(monkeypatch: pytest.MonkeyPatch):
    check = ClassicGroup.check_commit

    def of_any_member(self, member_id, instance_id, generation, **kwargs):
        code = check(self, member_id, instance_id, generation, **kwargs)
        return ErrorCode.NONE if code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID) else code

    monkeypatch.setattr(ClassicGroup, "check_commit", of_any_member)
    monkeypatch.setattr(ConsumerGroup, "check_commit", lambda self, *args, **kwargs: ErrorCode.NONE)
    monkeypatch.setattr(ConsumerGroup, "may_commit", lambda self, *args, **kwargs: ErrorCode.NONE)


def new_coordinator_forgets_committed_offsets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(GroupCoordinator, "_replay_offset", lambda self, *args: None)


def coordinator_acknowledges_offsets_before_replication(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PartitionJournal, "when_replicated", lambda self, position, done: done(ErrorCode.NONE))


def coordinator_assigns_partitions_before_they_are_revoked(monkeypatch: pytest.MonkeyPatch):
    def without_waiting(member, aim, taken, claimed):
        return reconcile(member, aim, (), claimed)

    monkeypatch.setattr("kafkaraw.broker.groups.consumer.reconcile", without_waiting)


def coordinator_ignores_session_timeouts(monkeypatch: pytest.MonkeyPatch):
    set_timer = Timers.set

    def but_session_timeouts(self, key, delay_ms, act):
        if "session" not in str(key):
            set_timer(self, key, delay_ms, act)

    monkeypatch.setattr(Timers, "set", but_session_timeouts)


# -- members


def member_revokes_after_it_has_rejoined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ClassicMember, "_partitions_to_revoke", lambda self: NONE)


def fenced_member_keeps_its_partitions(monkeypatch: pytest.MonkeyPatch):
    def keep(self, now_ms):
        self._join(now_ms)

    monkeypatch.setattr(ConsumerMember, "_fence", keep)


def member_acknowledges_a_revocation_too_early(monkeypatch: pytest.MonkeyPatch):
    owned_ids = ConsumerMember._owned_partition_ids

    def of_the_target(self):
        target = self._target.partitions
        if target is None:
            return owned_ids.fget(self)
        return frozenset((topic_id, number) for topic_id, numbers in target.items() for number in numbers)

    monkeypatch.setattr(ConsumerMember, "_owned_partition_ids", property(of_the_target))


def member_does_not_report_partitions_being_assigned(monkeypatch: pytest.MonkeyPatch):
    owned_ids = ConsumerMember._owned_partition_ids

    def without_partitions_being_assigned(self):
        topic_ids = self._target.topic_ids
        has = {(topic_ids.get(topic, ZERO_UUID), number) for topic, number in self.reconciler.owned}
        return owned_ids.fget(self) & has

    monkeypatch.setattr(ConsumerMember, "_owned_partition_ids", property(without_partitions_being_assigned))


def member_ignores_heartbeat_errors(monkeypatch: pytest.MonkeyPatch):
    classic, consumer = ClassicMember._on_heartbeat_response, ConsumerMember._on_response

    def without_error(self, response, now_ms):
        classic(self, replace(response, error_code=0), now_ms)

    monkeypatch.setattr(ClassicMember, "_on_heartbeat_response", without_error)

    def as_if_accepted(self, attempt, response, now_ms):
        epoch = self.identity.generation_id
        if getattr(response, "error_code", 0) and epoch > 0:
            response = replace(response, error_code=0, member_epoch=epoch, assignment=None)
        consumer(self, attempt, response, now_ms)

    monkeypatch.setattr(ConsumerMember, "_on_response", as_if_accepted)


def member_sends_heartbeats_after_leaving(monkeypatch: pytest.MonkeyPatch):
    def send_the_request_only(self, reason):
        self._send_leave(reason)
        self.reconciler.owned = NONE

    monkeypatch.setattr(ClassicMember, "_on_unsubscribed", send_the_request_only)


# -- assignors


def cooperative_assignor_skips_the_revocation_round(monkeypatch: pytest.MonkeyPatch):
    def at_once(self, topics, members):
        assignment, _ = sticky._assign(topics, members, sticky._claim_in_subscription)
        return assignment

    monkeypatch.setattr(sticky.CooperativeStickyAssignor, "assign", at_once)


def assignor_assigns_a_partition_twice(monkeypatch: pytest.MonkeyPatch):
    encode, ask = assignor_calls.encode_assignment, assignor_calls.assignments_of
    first = {}

    def and_partitions_of_the_first_member(partitions):
        shared = first.setdefault("partitions", list(partitions)[:1])
        return encode([*partitions, *(partition for partition in shared if partition not in partitions)])

    def begin(assignor, topics, members):
        first.clear()
        return ask(assignor, topics, members)

    monkeypatch.setattr(assignor_calls, "assignments_of", begin)
    monkeypatch.setattr(assignor_calls, "encode_assignment", and_partitions_of_the_first_member)


# -- commits, and records in the consumer's buffer


def consumer_commits_records_that_another_task_processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Group, "_may_be_busy", False)


def consumer_commits_fetched_records_before_delivery(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(RecordCursor, "position_in", lambda self, topic_partition: None)
    monkeypatch.setattr(RecordCursor, "positions", lambda self: {})


def consumer_commits_revoked_partitions_in_the_next_generation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Ownership, "revoked_since", lambda self, commit: [])


def consumer_drops_buffered_records_of_kept_partitions(monkeypatch: pytest.MonkeyPatch):
    drop = RecordCursor.drop
    monkeypatch.setattr(RecordCursor, "drop", lambda self, topic_partition=None: drop(self))


def consumer_delivers_buffered_records_of_lost_partitions(monkeypatch: pytest.MonkeyPatch):
    drop = RecordCursor.drop

    def all_partitions_only(self, topic_partition=None):
        if topic_partition is None:
            drop(self)

    monkeypatch.setattr(RecordCursor, "drop", all_partitions_only)


def consumer_delivers_buffered_records_during_a_revocation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Group, "_turn_of_member", lambda self, deadline: self.membership.turn(deadline))


def consumer_ignores_committed_offsets(monkeypatch: pytest.MonkeyPatch):
    async def nowhere(self, partitions):
        self._starts = {}

    monkeypatch.setattr(Reconciliation, "_find_starts", nowhere)


def auto_commit_includes_unprocessed_records(monkeypatch: pytest.MonkeyPatch):
    check = Membership._check_consumption

    def and_commit(self, now_ms):
        if self.progress.is_due:
            self.progress.note_processed()
            self.progress.commit_if_due()
        check(self, now_ms)

    monkeypatch.setattr(Membership, "_check_consumption", and_commit)


def consumer_keeps_buffered_records_when_it_seeks(monkeypatch: pytest.MonkeyPatch):
    def keep_the_cursor(self, topic_partition, offset, leader_epoch=-1):
        self.buffer.drop(topic_partition)
        self.partition(topic_partition).seek(offset, leader_epoch)

    monkeypatch.setattr(SubscriptionState, "seek", keep_the_cursor)


def consumer_delivers_buffered_records_of_paused_partitions(monkeypatch: pytest.MonkeyPatch):
    begin = RecordCursor.__init__
    monkeypatch.setattr(RecordCursor, "__init__", lambda self, paused: begin(self))

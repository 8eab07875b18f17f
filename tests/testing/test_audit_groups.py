"""The auditor of groups: silent about a sound history, and each violation is told by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaraw.protocol.frames import RequestHeader, encode_request
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.records import TopicPartition
from kafkaraw.testing.audit import History, Invariant
from kafkaraw.testing.audit_groups import audit_absences, audit_group
from kafkaraw.testing.group_history import (
    Absence,
    Commit,
    End,
    GroupHistory,
    KnownGeneration,
    ObservedOffsets,
    Ownership,
    Processed,
    Seek,
)
from kafkaraw.testing.memory_network import Sent

P0 = TopicPartition("t", 0)


def sound() -> tuple[History, GroupHistory]:
    """`a` reads two records, commits and gives up; `b` reads the third one, and has the partition in the end."""
    history, group = History(), GroupHistory(partitions=[P0], calm_since_s=10.0, calm_until_s=15.0, exact=True)
    history.final = {P0: [(offset, b"%d" % offset) for offset in range(3)]}
    first = Ownership("a", P0, 1.0, [KnownGeneration(1.0, 1)], ended_s=4.0, end=End.REVOKED)
    first.processed = [Processed(2.0, 0, b"0"), Processed(2.1, 1, b"1")]
    second = Ownership("b", P0, 5.0, [KnownGeneration(5.0, 2)], [Processed(6.0, 2, b"2")])
    group.ownerships = [first, second]
    group.commits = [Commit("a", {P0: 2}, 3.0, 3.5, acknowledged=True), Commit("b", {P0: 3}, 7.0, 7.5, True)]
    group.observed_offsets = [ObservedOffsets(4.0, 4.1, {P0: 2}), ObservedOffsets(8.0, 8.1, {P0: 3})]
    return history, group


def too_early(group: GroupHistory) -> None:
    group.ownerships[1].began_s = 3.0
    group.ownerships[1].generations = [KnownGeneration(3.0, 1)]


def nobody_in_the_end(group: GroupHistory) -> None:
    group.ownerships[1].ended_s = 14.0


def two_in_the_end(group: GroupHistory) -> None:
    group.ownerships.append(Ownership("c", P0, 12.0))


def not_processed(group: GroupHistory) -> None:
    group.ownerships[1].processed.clear()


def from_the_beginning_again(group: GroupHistory) -> None:
    group.exact = False
    group.ownerships[1].processed.insert(0, Processed(5.5, 0, b"0"))


def twice(group: GroupHistory) -> None:
    group.commits[0].acknowledged = False
    group.ownerships[1].processed.insert(0, Processed(5.5, 1, b"1"))


def committed_before_it_was_done(group: GroupHistory) -> None:
    group.commits[0].began_s = 2.05


def seen_to_go_back(group: GroupHistory) -> None:
    group.observed_offsets.append(ObservedOffsets(9.0, 9.1, {P0: 2}))


def forgotten(group: GroupHistory) -> None:
    group.observed_offsets.append(ObservedOffsets(9.0, 9.1, {P0: -1}))


def strayed(group: GroupHistory) -> None:
    group.strays.append("a was given records of somebody else's")


def led_elsewhere(group: GroupHistory) -> None:
    group.seeks.append(Seek("a", P0, 1.5, 0, delivered=1))


def sought_too_far(group: GroupHistory) -> None:
    sought_back(group)
    group.seeks[0].offset = 2


def sought_too_early(group: GroupHistory) -> None:
    sought_back(group)
    group.seeks[0].at_s = 2.05
    del group.observed_offsets[1:]


def sought_back(group: GroupHistory) -> None:
    """`a` goes back to the second record before it gives up; `b` reads it again."""
    group.seeks.append(Seek("a", P0, 3.6, 1))
    group.commits.insert(1, Commit("a", {P0: 1}, 3.7, 3.8, acknowledged=True))
    group.observed_offsets[0] = ObservedOffsets(4.0, 4.1, {P0: 1})
    group.observed_offsets.insert(0, ObservedOffsets(3.55, 3.57, {P0: 2}))
    group.ownerships[1].processed.insert(0, Processed(5.5, 1, b"1"))


def test_a_correct_group_history_has_no_violation() -> None:
    assert audit_group(*sound()) == []


def test_seeks_allow_repeated_processing_and_lower_offsets() -> None:
    history, group = sound()
    sought_back(group)
    assert audit_group(history, group) == []


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        (too_early, Invariant.TWO_OWNERS),
        (nobody_in_the_end, Invariant.UNOWNED),
        (two_in_the_end, Invariant.UNOWNED),
        (not_processed, Invariant.UNPROCESSED),
        (from_the_beginning_again, Invariant.PROCESSED_AGAIN),
        (twice, Invariant.PROCESSED_AGAIN),
        (committed_before_it_was_done, Invariant.POSITION_TOO_FAR),
        (seen_to_go_back, Invariant.POSITION_WENT_BACK),
        (forgotten, Invariant.POSITION_WENT_BACK),
        (strayed, Invariant.STRAY),
        (led_elsewhere, Invariant.SEEK_MISSED),
        (sought_too_far, Invariant.PROCESSED_AGAIN),
        (sought_too_far, Invariant.POSITION_WENT_BACK),
        (sought_too_early, Invariant.PROCESSED_AGAIN),
    ],
)
def test_each_group_violation_is_reported_by_name(change: Callable[[GroupHistory], None], invariant: Invariant) -> None:
    history, group = sound()
    change(group)
    assert invariant in {violation.invariant for violation in audit_group(history, group)}


def test_a_member_that_was_fenced_and_does_not_know_it_is_no_second_owner() -> None:
    history, group = sound()
    group.exact = False
    group.ownerships[0].ended_s = 6.0
    group.ownerships[1].generations.append(KnownGeneration(5.5, 2))
    assert audit_group(history, group) == []


def test_an_offset_committed_twice_is_attributed_to_the_earlier_commit() -> None:
    history, group = sound()
    sought_back(group)
    group.seeks[0].at_s = 3.51
    group.commits.insert(2, Commit("a", {P0: 2}, 3.52, 9.0, acknowledged=True))  # waits in line behind that of 1
    assert audit_group(history, group) == []


def test_generations_of_a_recreated_group_differ() -> None:
    history, group = sound()
    too_early(group)
    group.ownerships[1].generations = [KnownGeneration(3.0, 1, life=1)]
    assert Invariant.TWO_OWNERS not in {violation.invariant for violation in audit_group(history, group)}


@pytest.mark.parametrize(("at_s", "ghosts"), [(1.0, 0), (3.0, 1), (5.0, 0)])
def test_only_members_that_have_left_must_send_no_heartbeats(at_s: float, ghosts: int) -> None:
    heartbeat = HeartbeatRequest(group_id="crew", generation_id=1, member_id="a-1")
    assert ghosts_among(Sent(at_s, 0, "client", framed(12, 4, heartbeat))) == ghosts


@pytest.mark.parametrize(("epoch", "ghosts"), [(3, 1), (0, 1), (-1, 0), (-2, 0)])
def test_a_leave_heartbeat_may_be_sent_late(epoch: int, ghosts: int) -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="crew", member_id="a-1", member_epoch=epoch)
    assert ghosts_among(Sent(3.0, 0, "client", framed(68, 1, heartbeat))) == ghosts


def framed(key: int, version: int, request: object) -> bytes:
    frame = encode_request(RequestHeader(key, version, 7, "a"), request)
    return len(frame).to_bytes(4, "big") + frame


def ghosts_among(*sent: Sent) -> int:
    found = audit_absences(sent, GroupHistory(absences=[Absence("a", 2.0, 4.0)]))
    assert {violation.invariant for violation in found} <= {Invariant.GHOST}
    return len(found)

"""Share groups in the coordinator: members, assignments, session timeouts, and what a new coordinator loads."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaraw.broker.groups.assignors import MemberSpec
from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.broker.groups.share import Failure
from kafkaraw.broker.groups.share_assignor import assign_simple
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.broker.groups.world import GROUP, World, topic_id

CALLER = Caller("client", "/127.0.0.1", 1)


def world(partitions: int = 2) -> World:
    made = World()
    made.has_topic("t", partitions)
    return made


def heartbeat(world: World, member: str = "m", epoch: int = 0, **fields: Any) -> ShareGroupHeartbeatResponse:
    if epoch == 0:
        fields.setdefault("subscribed_topic_names", ["t"])
    found: list[ShareGroupHeartbeatResponse] = []
    request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=member, member_epoch=epoch, **fields)
    world.coordinator.share_heartbeat(request, CALLER, found.append)
    assert len(found) == 1
    return found[0]


def settled(world: World, member: str = "m", epoch: int = 0) -> tuple[int, set[int]]:
    """Send heartbeats until nothing changes: the epoch of the member, and its partitions."""
    for _ in range(5):
        world.elapsed_ms += 1_000
        epoch = heartbeat(world, member, epoch).member_epoch
    group = world.coordinator.share_group(GROUP)
    return epoch, set(group.members[member].assigned.get(topic_id("t"), ()))


def test_partitions_are_assigned_once_their_state_is_initialized() -> None:
    made = world()
    first = heartbeat(made)
    assert first.assignment is not None and not first.assignment.topic_partitions
    assert settled(made, epoch=first.member_epoch) == (3, {0, 1})
    assert set(made.share_states.offsets.values()) == {-1}


def test_initialization_is_tried_again_after_a_failure() -> None:
    made = world()
    made.share_states.failure = Failure(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    epoch, parts = settled(made)
    assert not parts
    made.share_states.failure = None
    made.elapsed_ms += made.share_limits.initialize_retry_ms
    assert settled(made, epoch=epoch)[1] == {0, 1}


def test_new_partitions_are_assigned() -> None:
    made = world(1)
    epoch, _ = settled(made)
    made.has_topic("t", 3)
    assert settled(made, epoch=epoch)[1] == {0, 1, 2}


def test_a_member_whose_session_expires_is_removed() -> None:
    made = world()
    settled(made)
    made.elapsed_ms += made.share_limits.session_ms
    made.timers.tick()
    group = made.coordinator.share_group(GROUP)
    assert (group.state_label, group.members) == ("Empty", {})


def test_a_new_coordinator_loads_the_same_group() -> None:
    made = world()
    settled(made)
    before = made.coordinator.share_group(GROUP)
    made.move()
    after = made.coordinator.share_group(GROUP)
    assert (after.members, after.target, after.states, after.epoch) == (
        before.members,
        before.target,
        before.states,
        before.epoch,
    )
    made.elapsed_ms += made.share_limits.session_ms
    made.timers.tick()
    assert made.coordinator.share_group(GROUP).is_empty


@pytest.mark.parametrize(
    ("epoch", "code"), [(2, ErrorCode.NONE), (1, ErrorCode.FENCED_MEMBER_EPOCH), (9, ErrorCode.FENCED_MEMBER_EPOCH)]
)
def test_only_the_epoch_or_the_one_before_is_accepted(epoch: int, code: ErrorCode) -> None:
    made = world()
    assert settled(made)[0] == 3
    assert heartbeat(made, epoch=epoch).error_code == code


def test_deleting_a_group_deletes_its_states() -> None:
    made, codes = world(), list[ErrorCode]()
    settled(made)
    made.coordinator.delete_group(GROUP, codes.append)
    heartbeat(made, epoch=-1)
    made.coordinator.delete_group(GROUP, codes.append)
    assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
    assert made.coordinator.group(GROUP) is None and not made.share_states.offsets


@pytest.mark.parametrize(("members", "partitions"), [(1, 3), (3, 3), (5, 2), (4, 6), (7, 3)])
def test_each_partition_has_as_many_members_as_the_others(members: int, partitions: int) -> None:
    topics = frozenset({topic_id("t")})
    specs = {f"m{at}": MemberSpec(None, topics) for at in range(members)}
    made = assign_simple(specs, {topic_id("t"): range(partitions)})
    shares = [sum(part in each.get(topic_id("t"), ()) for each in made.values()) for part in range(partitions)]
    sizes = [len(each.get(topic_id("t"), ())) for each in made.values()]
    assert min(shares) >= 1 and min(sizes) >= 1
    assert max(shares) - min(shares) <= 1 and max(sizes) - min(sizes) <= 1


def test_members_keep_partitions_when_another_one_joins() -> None:
    topics = frozenset({topic_id("t")})
    first = assign_simple({"a": MemberSpec(None, topics)}, {topic_id("t"): range(4)})
    specs = {"a": MemberSpec(None, topics, first["a"]), "b": MemberSpec(None, topics)}
    second = assign_simple(specs, {topic_id("t"): range(4)})
    assert second["a"][topic_id("t")] < first["a"][topic_id("t")]
    assert len(second["b"][topic_id("t")]) == 2

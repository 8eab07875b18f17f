"""Classic groups: who joins, who leads, when a rebalance begins and ends, who has left or died."""

from __future__ import annotations

import pytest

from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.groups.classic import HANDED_OUT_MAX
from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.states import MAY_FOLLOW, ClassicState, IllegalTransitionError
from kafkaraw.protocol.error_codes import ErrorCode
from tests.broker.groups.world import GROUP, REBALANCE_MS, SESSION_MS, World

S = ClassicState
NONE = ErrorCode.NONE


def group(world: World) -> ClassicGroup:
    found = world.coordinator.group(GROUP)
    assert isinstance(found, ClassicGroup)
    return found


def test_states_follow_each_other_as_the_table_says():
    for after, before in MAY_FOLLOW.items():
        for state in S:
            one = ClassicGroup(GROUP, state=state)
            if state in before:
                one.move_to(after, 1)
                assert (one.state, one.previous_state) == (after, state)
            else:
                with pytest.raises(IllegalTransitionError, match=state.value):
                    one.move_to(after, 1)


def test_a_new_member_gets_its_id_first_and_joins_with_it():
    world = World()
    (answer,) = world.join(client_id="app")
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-id1")
    assert world.join(answer.member_id) == []
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    assert group(world).state is S.COMPLETING_REBALANCE


def test_old_clients_are_in_at_once():
    world = World()
    answers = world.join(version=3)
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    (answer,) = answers
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 1, answer.member_id)


def test_the_first_rebalance_waits_for_more_members_as_long_as_they_come():
    world = World()
    delay_ms = world.limits.initial_rebalance_delay_ms
    _, first = world.join_known()
    world.pass_ms(delay_ms - 1)
    assert first == []
    _, second = world.join_known()
    world.pass_ms(2)
    assert first == second == []  # the second one has made it wait again
    world.pass_ms(delay_ms)
    assert [len(first), len(second)] == [1, 1]
    assert {first[0].generation_id, second[0].generation_id} == {1}


def test_the_first_rebalance_ends_with_the_rebalance_timeout_even_if_members_keep_coming():
    world = World()
    delay_ms = world.limits.initial_rebalance_delay_ms
    _, first = world.join_known(rebalance_ms=2 * delay_ms)
    for _ in range(2):
        world.pass_ms(delay_ms - 1)
        world.join_known(rebalance_ms=2 * delay_ms)
    world.pass_ms(2)
    assert len(first) == 1


def test_a_pending_member_whose_session_ends_does_not_complete_the_first_rebalance_early():
    world = World(Limits(initial_rebalance_delay_ms=2 * SESSION_MS))
    _, first = world.join_known(session_ms=3 * SESSION_MS)
    world.join(session_ms=SESSION_MS)  # is told its id, and never joins with it
    world.pass_ms(SESSION_MS + 1)
    assert (first, group(world).state) == ([], S.PREPARING_REBALANCE)
    _, second = world.join_known(session_ms=3 * SESSION_MS)
    world.pass_ms(4 * SESSION_MS)
    assert [first[0].generation_id, second[0].generation_id] == [1, 1]


def test_unused_member_ids_take_a_bounded_amount_of_memory():
    world = World()
    used, _ = world.join_known()
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    names = [world.join(client_id=f"{number}" + "x" * 30_000)[0].member_id for number in range(100)]
    assert len(group(world).pending_joins) == HANDED_OUT_MAX // len(GROUP + names[-1])
    assert len(world.timers._set) < 50
    assert world.join(names[0])[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(names[-1]) == [], "it is a member, and waits for the rebalance"
    assert used in group(world).members, "who has joined stays, however many come after"


def test_only_the_leader_gets_the_members_and_their_subscriptions():
    world = World()
    a, answers_a = world.join_known(protocols=[("range", b"a")])
    b, answers_b = world.join_known(protocols=[("range", b"b")])
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    assert {answers_a[0].leader, answers_b[0].leader} == {a}
    assert {one.member_id: one.metadata for one in answers_a[0].members} == {a: b"a", b: b"b"}
    assert answers_b[0].members == []


def test_the_protocol_is_one_that_all_know_and_most_prefer():
    world = World()
    world.join_known(protocols=[("sticky", b""), ("range", b"")])
    world.join_known(protocols=[("roundrobin", b""), ("sticky", b""), ("range", b"")])
    answers = world.join_known(protocols=[("range", b""), ("sticky", b"")])[1]
    world.pass_ms(3 * world.limits.initial_rebalance_delay_ms)
    assert answers[0].protocol_name == "sticky"


def test_members_must_have_a_protocol_in_common():
    world = World()
    world.stable(1)
    assert world.join(protocols=[("other", b"")])[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect")[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert World().join(protocols=[])[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert World().join(protocol_type="")[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_what_a_member_may_not_ask_is_refused():
    world = World(Limits(size_max=1))
    assert world.join(group_id="")[0].error_code == ErrorCode.INVALID_GROUP_ID
    assert world.join(session_ms=5_999)[0].error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join(session_ms=1_800_001)[0].error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join("stranger")[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.stable(1)
    assert world.join("stranger")[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join()[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_wait_for_the_leaders_assignment_and_get_their_parts():
    world = World()
    answers = [world.join_known()[1] for _ in range(2)]
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    leader, follower = answers[0][0], answers[1][0]
    waiting = world.sync(follower)
    assert waiting == []
    led = world.sync(leader, {follower.member_id: b"part"})
    assert [one.assignment for one in (*waiting, *led)] == [b"part", b""]  # nothing was said for the leader
    assert group(world).state is S.STABLE
    assert world.sync(follower)[0].assignment == b"part"  # a lost answer is given again


def test_the_assignment_counts_when_it_cannot_be_lost():
    world = World()
    answers = world.join_known()[1]
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    world.held = True
    synced = world.sync(answers[0], {answers[0].member_id: b"part"})
    assert synced == []
    assert group(world).state is S.COMPLETING_REBALANCE
    world.land()
    assert synced[0].assignment == b"part"


def test_an_assignment_that_cannot_be_written_makes_members_join_again():
    world = World()
    answers = world.join_known()[1]
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    (synced,) = world.sync(answers[0], {answers[0].member_id: b"part"})
    assert synced.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group(world).state is S.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_name": None, "protocol_type": None}, NONE),  # older versions do not name it
    ],
)
def test_a_sync_is_checked_in_kafkas_order(changes, code):
    world = World()
    (joined,) = world.stable(1)
    assert world.sync(joined, **changes)[0].error_code == code


def test_a_new_member_makes_the_others_join_again():
    world = World()
    first, second = world.stable(2)
    member, waiting = world.join_known()
    assert (world.beat(first), world.beat(second)) == (ErrorCode.REBALANCE_IN_PROGRESS,) * 2
    assert world.sync(first)[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = [world.join(first.member_id), world.join(second.member_id)]
    assert {one.generation_id for one in (*waiting, *again[0], *again[1])} == {first.generation_id + 1}
    assert len(again[0][0].members) == 3
    assert world.beat(first) == ErrorCode.ILLEGAL_GENERATION
    assert member in group(world).members


def test_a_member_that_does_not_rejoin_in_time_is_removed():
    world = World()
    first, second = world.stable(2)
    again = world.join(first.member_id)
    for _ in range(int(REBALANCE_MS / 5_000)):
        assert world.beat(second) == ErrorCode.REBALANCE_IN_PROGRESS
        world.pass_ms(5_000)
    assert again[0].generation_id == first.generation_id + 1
    assert world.beat(second) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_sync_in_time_is_removed():
    world = World()
    answers = [world.join_known()[1] for _ in range(2)]
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    leader, follower = answers[0][0], answers[1][0]
    led = world.sync(leader, {})
    for _ in range(int(REBALANCE_MS / 5_000)):
        world.beat(leader)
        world.beat(follower)
        world.pass_ms(5_000)
    assert led[0].error_code == NONE
    assert list(group(world).members) == [leader.member_id]
    assert world.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_silent_member_is_out_after_its_session():
    world = World()
    first, second = world.stable(2)
    for _ in range(3):
        world.pass_ms(SESSION_MS / 2 - 1)
        assert world.beat(first) in (NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert world.beat(second) == ErrorCode.UNKNOWN_MEMBER_ID
    again = world.join(first.member_id)
    assert [one.member_id for one in again[0].members] == [first.member_id]


def test_a_member_that_waits_for_an_answer_need_not_send_heartbeats():
    world = World()
    first, second = world.stable(2)
    waiting = world.join(first.member_id)
    for _ in range(5):
        world.pass_ms(SESSION_MS / 2)
        world.beat(second)
    assert waiting == []
    world.join(second.member_id)
    assert waiting[0].error_code == NONE


def test_a_new_member_that_waits_for_too_long_has_to_try_again():
    world = World()
    (first,) = world.stable(1)
    _, waiting = world.join_known(rebalance_ms=10 * REBALANCE_MS)
    while not waiting:
        world.beat(first)
        world.pass_ms(SESSION_MS / 2)
    assert waiting[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.elapsed_ms >= world.limits.new_member_join_timeout_ms


def test_an_unused_member_id_expires_and_delays_no_rebalance():
    world = World()
    (first,) = world.stable(1)
    (required,) = world.join()
    waiting = world.join(first.member_id)
    assert waiting == []  # whoever got the id may come yet
    world.pass_ms(SESSION_MS)
    assert waiting[0].error_code == NONE
    assert world.join(required.member_id)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_joins_again_unchanged_gets_the_answer_again_and_a_leader_a_rebalance():
    world = World()
    leader, follower = world.stable(2)
    (answer,) = world.join(follower.member_id)
    assert (answer.generation_id, answer.members) == (follower.generation_id, [])
    assert group(world).state is S.STABLE
    assert world.join(leader.member_id) == []
    assert group(world).state is S.PREPARING_REBALANCE


def test_a_follower_with_another_subscription_makes_a_rebalance():
    world = World()
    _, follower = world.stable(2)
    assert world.join(follower.member_id, protocols=[("range", b"other")]) == []
    assert group(world).state is S.PREPARING_REBALANCE


def test_a_lost_join_answer_is_given_again_while_the_leader_assigns():
    world = World()
    answers = [world.join_known()[1] for _ in range(2)]
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    (again,) = world.join(answers[0][0].member_id)
    assert (again.generation_id, len(again.members)) == (1, 2)


def test_a_leaving_member_makes_a_rebalance_and_the_last_one_empties_the_group():
    world = World()
    first, second = world.stable(2)
    assert world.leave(first.member_id) == [NONE]
    assert world.beat(second) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.leave(second.member_id) == [NONE]
    assert group(world).state is S.EMPTY
    assert group(world).generation == first.generation_id + 1


def test_leaving_is_answered_for_each():
    world = World()
    (member,) = world.stable(1)
    (required,) = world.join()
    assert world.leave(required.member_id, "stranger", member.member_id) == [NONE, ErrorCode.UNKNOWN_MEMBER_ID, NONE]
    assert world.leave("", instance_id="nobody") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert World().leave("m") == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, NONE),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_heartbeat_is_checked_in_kafkas_order(changes, code):
    world = World()
    (joined,) = world.stable(1)
    assert world.beat(joined, **changes) == code


# ---- static members


def static(world: World, instance_id: str = "i", member_id: str = "", **settings: object):
    return world.join(member_id, instance_id=instance_id, **settings)  # type: ignore[arg-type]


def stable_static(world: World):
    joined = static(world)
    world.pass_ms(2 * world.limits.initial_rebalance_delay_ms)
    assert world.sync(joined[0], {joined[0].member_id: b"part"}, instance_id="i")[0].error_code == NONE
    return joined[0]


def test_a_static_member_that_comes_back_takes_its_place_without_a_rebalance():
    world = World()
    old = stable_static(world)
    (new,) = static(world)
    assert new.member_id != old.member_id
    assert (new.generation_id, new.leader, new.skip_assignment) == (old.generation_id, new.member_id, True)
    assert [one.member_id for one in new.members] == [new.member_id]
    assert world.sync(new, instance_id="i")[0].assignment == b"part"
    assert world.beat(old, group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_with_an_older_client_gets_the_old_leader_id():
    world = World()
    old = stable_static(world)
    (new,) = static(world, version=8)
    assert (new.leader, new.skip_assignment, new.members) == (old.member_id, False, [])


def test_a_place_that_cannot_be_written_down_stays_the_old_members():
    world = World()
    old = stable_static(world)
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    (new,) = static(world)
    assert (new.error_code, new.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert world.beat(old, group_instance_id="i") == NONE


def test_a_static_member_that_comes_back_with_another_protocol_makes_a_rebalance():
    world = World()
    old = stable_static(world)
    answers = static(world, protocols=[("other", b"")])
    assert answers[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.beat(old, group_instance_id="i") == NONE
    (new,) = static(world, protocols=[("other", b""), ("range", b"")])
    assert new.generation_id == old.generation_id + 1


def test_a_waiting_static_member_with_the_old_id_is_fenced():
    world = World()
    first = static(world)
    static(world)
    assert first[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_has_its_place_until_its_session_ends_and_is_removed_by_name():
    world = World()
    joined = stable_static(world)
    assert world.leave("", instance_id="i") == [NONE]
    assert world.beat(joined, group_instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    again = stable_static(World())
    assert again.generation_id == 1


# ---- another coordinator


def test_members_go_on_with_the_next_coordinator():
    world = World()
    first, second = world.stable(2)
    world.move()
    assert group(world).state is S.STABLE
    assert (world.beat(first), world.beat(second)) == (NONE, NONE)
    assert world.sync(second)[0].assignment == second.member_id.encode()
    world.pass_ms(SESSION_MS)
    assert group(world).state is S.EMPTY


def test_waiting_members_get_not_coordinator_when_the_coordinator_moves():
    world = World()
    leader, follower = world.stable(2)
    joining = world.join(leader.member_id)
    world.coordinator.resign()
    assert joining[0].error_code == ErrorCode.NOT_COORDINATOR
    assert world.timers.deadline_ms() is None
    assert follower


def test_a_group_whose_record_was_not_written_does_not_exist():
    world = World(refuse=ErrorCode.NOT_ENOUGH_REPLICAS)
    waiting = world.join(version=3)
    assert waiting[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.coordinator.groups() == []


def test_more_members_than_are_allowed_now_join_again():
    world = World()
    world.stable(2)
    world.limits = Limits(size_max=1)
    world.move()
    assert group(world).state is S.PREPARING_REBALANCE

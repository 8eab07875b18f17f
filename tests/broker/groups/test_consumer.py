"""Consumer groups of the new protocol: members get what is free, give up first, and are fenced when they are behind."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest

from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.groups import consumer
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.coordinator import CommitIdentity
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.regexes import REGEXES_PER_GROUP_MAX
from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.core.linear_regex import LinearRegex, compile_linear
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafkaraw.records import TopicPartition
from tests.broker.groups.world import GROUP, START_MS, World, topic_id

NONE = ErrorCode.NONE
PartitionsByTopic = Mapping[str, list[int]]


class Member:
    """A consumer that does as it is told."""

    def __init__(self, world: World, name: str, *, topics: tuple[str, ...] = ("t",), **settings: Any) -> None:
        self.world = world
        self.name = name
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.settings = {"subscribed_topic_names": list(topics), "rebalance_timeout_ms": 60_000, **settings}

    def ask(self, *, version: int = 1, sees: Any = lambda name: True, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            **{
                "group_id": GROUP,
                "member_id": self.name,
                "member_epoch": self.epoch,
                "instance_id": self.settings.get("instance_id"),
                **fields,
            }
        )
        answers: list[ConsumerGroupHeartbeatResponse] = []
        self.world.coordinator.consumer_heartbeat(request, Caller("c", "/127.0.0.1", version, sees), answers.append)
        (answer,) = answers
        return answer

    def heed(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.error_code == NONE, answer.error_message
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {bytes(part.topic_id): part.partitions for part in answer.assignment.topic_partitions}

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        answer = self.ask(topic_partitions=[], member_epoch=0, **{**self.settings, **fields})
        if not answer.error_code:
            self.heed(answer)
        return answer

    def beat(self, *, honest: bool = True, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Say what it owns, and take over what it is told."""
        if honest:
            fields["topic_partitions"] = claims(self.owned)
        answer = self.ask(**fields)
        if not answer.error_code:
            self.heed(answer)
        return answer

    @property
    def parts(self) -> PartitionsByTopic:
        return {topic.decode().strip("."): parts for topic, parts in self.owned.items()}


def claims(owned: Mapping[bytes, list[int]]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic, partitions=parts) for topic, parts in owned.items()]


def world(partitions: int = 4, **limits: Any) -> World:
    made = World(Limits(assignment_interval_ms=0, **limits))
    made.has_topic("t", partitions)
    return made


def group(around: World) -> ConsumerGroup:
    found = around.coordinator.group(GROUP)
    assert isinstance(found, ConsumerGroup)
    return found


def settle(*members: Member) -> None:
    """Heartbeats until nothing changes any more."""
    for _ in range(10):
        before = [(member.epoch, dict(member.owned)) for member in members]
        for member in members:
            member.beat()
        if before == [(member.epoch, member.owned) for member in members]:
            return
    raise AssertionError("it never settles")


def test_the_first_member_gets_everything_at_once():
    around = world()
    answer = Member(around, "a").join()
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert answer.assignment is not None
    assert [part.partitions for part in answer.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert group(around).state_label == "Stable"


def test_a_second_member_gets_its_part_once_the_first_has_given_it_up():
    around = world()
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    assert b.join().member_epoch == 3
    assert b.parts == {}
    told = a.beat()
    assert (told.member_epoch, a.parts) == (2, {"t": [0, 1]})  # to give up comes first, in the old epoch
    assert b.beat().assignment is None
    assert a.beat().member_epoch == 3
    b.beat()
    assert b.parts == {"t": [2, 3]}
    assert group(around).state_label == "Stable"


def test_a_member_without_owned_partitions_in_its_request_has_revoked_none():
    around = world()
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    b.join()
    a.beat()
    assert a.beat(honest=False).member_epoch == 2
    b.beat()
    assert b.parts == {}


def test_what_a_leaving_member_had_goes_to_the_others():
    around = world()
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    b.join()
    settle(a, b)
    gone = a.ask(member_epoch=-1)
    assert (gone.error_code, gone.member_epoch) == (NONE, -1)
    settle(b)
    assert b.parts == {"t": [0, 1, 2, 3]}


def test_a_silent_member_is_out_after_its_session_and_is_fenced_when_it_comes_back():
    around = world()
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    b.join()
    settle(a, b)
    for _ in range(3):
        around.pass_ms(20_000)
        b.beat()
    assert b.parts == {"t": [0, 1, 2, 3]}
    assert a.ask().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_log_tells_a_fenced_member_from_one_that_left(caplog: pytest.LogCaptureFixture):
    around = world()
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    b.join()
    with caplog.at_level(logging.INFO, "kafkaraw.broker.groups"):
        b.ask(member_epoch=-1)
        around.pass_ms(60_000)
    ends = [line for line in caplog.messages if "member " in line]
    assert ends[0] == "group 'g': member 'b' left"
    assert [line.partition(":")[2][:22] for line in ends[1:]] == [" member 'a' is fenced:"]


def test_a_member_that_does_not_revoke_in_time_is_fenced():
    around = world()
    a, b = Member(around, "a", rebalance_timeout_ms=10_000), Member(around, "b")
    a.join()
    b.join()
    a.beat()
    for _ in range(3):
        around.pass_ms(4_000)
        if around.elapsed_ms < 10_000:
            a.ask()
        b.beat()
    assert a.ask().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert b.parts == {"t": [0, 1, 2, 3]}


def test_epochs_ahead_and_behind_are_fenced_apart_from_a_lost_answer():
    around = world()
    a = Member(around, "a")
    a.join()
    assert a.ask(member_epoch=3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    around.has_topic("t", 6)
    a.beat()
    assert a.epoch == 3
    assert a.ask(member_epoch=2).error_code == ErrorCode.FENCED_MEMBER_EPOCH  # says nothing of what it owns
    owned = [TopicPartitions(topic_id=topic_id("t"), partitions=[0, 1])]
    lost = a.ask(member_epoch=2, topic_partitions=owned)
    assert (lost.error_code, lost.member_epoch) == (NONE, 3)
    much = [TopicPartitions(topic_id=topic_id("t"), partitions=[9])]
    assert a.ask(member_epoch=2, topic_partitions=much).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_keeps_partitions_whose_revocation_it_has_not_seen():
    around = world(partitions=3)
    a, b, c = (Member(around, name) for name in "abc")
    a.join()
    b.join()
    a.beat()
    assert a.parts == {"t": [0, 1]}
    c.join()
    owned = dict(a.owned)
    lost = a.ask(topic_partitions=claims(owned))  # has given up what b gets, and is to give up what c gets
    assert (lost.member_epoch, lost.assignment.topic_partitions[0].partitions) == (3, [0])
    again = a.beat(**a.settings)  # all, as after every error
    assert (again.error_code, a.epoch, a.parts) == (NONE, 3, {"t": [0]})
    settle(a, b, c)
    assert sorted(part for member in (a, b, c) for part in member.parts["t"]) == [0, 1, 2]


def test_topics_that_grow_come_and_go_begin_a_new_epoch():
    around = world(2)
    a = Member(around, "a", topics=("t", "later"))
    a.join()
    around.has_topic("t", 3)
    a.beat()
    assert (a.epoch, a.parts) == (3, {"t": [0, 1, 2]})
    around.has_topic("later", 1)
    a.beat()
    assert (a.epoch, a.parts) == (4, {"t": [0, 1, 2], "later": [0]})
    around.has_topic("elsewhere", 1)
    assert a.beat().member_epoch == 4
    del around.topics.counts["later"]
    around.topics.version += 1
    a.beat()
    settle(a)
    assert a.parts == {"t": [0, 1, 2]}


def test_another_subscription_takes_effect_at_once():
    around = world(2)
    around.has_topic("u", 1)
    a = Member(around, "a")
    a.join()
    a.beat(subscribed_topic_names=["u"])
    assert a.parts == {}  # first it gives up the old one
    settle(a)
    assert a.parts == {"u": [0]}


def test_assignments_are_made_at_most_so_often():
    around = World()
    around.has_topic("t", 4)
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    b.join()
    assert (group(around).epoch, group(around).target_epoch, b.epoch) == (3, 2, 2)
    around.pass_ms(around.limits.assignment_interval_ms)
    b.beat()
    assert group(around).target_epoch == 3


# ---- expressions


def test_an_expression_is_matched_with_all_of_a_name_and_with_topics_that_come_later():
    around = world(1)
    around.has_topic("orders-1", 1)
    a = Member(around, "a", topics=(), subscribed_topic_regex="orders-.*")
    a.join()
    assert a.parts == {"orders-1": [0]}
    around.has_topic("orders-2", 1)
    around.has_topic("no-orders-3", 1)
    a.beat()
    assert a.parts == {"orders-1": [0], "orders-2": [0]}


def test_topics_that_the_member_may_not_see_do_not_match():
    around = world(1)
    around.has_topic("secret", 1)
    a = Member(around, "a", topics=(), subscribed_topic_regex=".*")
    a.join(sees=lambda name: name != "secret")
    assert a.parts == {"t": [0]}


@pytest.mark.parametrize(
    "regex", ["(", "(?=t)", "(?<!x)t", r"(t)\1", "t++", "(?>t)", "(?P<n>t)(?P=n)", r"t\Z", "a{1001}", "t" * 40_000]
)
def test_what_re2_does_not_take_is_refused(regex: str):
    around = world()
    answer = Member(around, "a", topics=(), subscribed_topic_regex=regex).join()
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message is not None
    assert "is not a valid regular expression: " in answer.error_message
    assert around.coordinator.group(GROUP) is None


@pytest.mark.parametrize(
    ("regex", "matched"),
    [(r"\Qt\E", True), (r"t\z", True), (r"\pL", True), (r"[[:alpha:]]", True), ("(?i)T", True), (r"\pN", False)],
)
def test_the_syntax_of_regexes_is_that_of_re2(regex: str, matched: bool):
    around = world(1)
    a = Member(around, "a", topics=(), subscribed_topic_regex=regex)
    assert a.join().error_code == NONE
    assert a.parts == ({"t": [0]} if matched else {})


def test_a_regex_that_backtracks_without_end_is_matched_at_once():
    around = world(1)
    for number in range(200):
        around.has_topic(f"{number:03}".ljust(249, "a"), 1)
    began = time.process_time()
    assert Member(around, "a", topics=(), subscribed_topic_regex="(.|.)*,").join().error_code == NONE
    assert time.process_time() - began < 0.5


def test_topics_that_the_member_may_not_see_are_not_even_matched(monkeypatch: pytest.MonkeyPatch):
    matched: list[str] = []

    def compiled(text: str) -> LinearRegex:
        regex = compile_linear(text)

        class Recording:
            def fullmatch(self, name: str) -> object | None:
                matched.append(name)
                return regex.fullmatch(name)

        return LinearRegex(text, regex.size, Recording())

    monkeypatch.setattr(consumer, "compile_regex", compiled)
    around = world(1)
    around.has_topic("secret", 1)
    Member(around, "a", topics=(), subscribed_topic_regex=".*").join(sees=lambda name: name != "secret")
    assert matched == ["t"]


def test_topics_stay_hidden_when_another_member_is_removed():
    """Without a member's permissions, a regex keeps what it matched: the coordinator's own eyes see too much."""
    around = world(1)
    a = Member(around, "a", topics=(), subscribed_topic_regex=".*")
    a.join(sees=lambda name: name != "secret")
    b = Member(around, "b")
    b.join()
    around.has_topic("secret", 1)
    b.ask(member_epoch=-1)
    assert "secret" not in group(around).topics()
    a.beat(sees=lambda name: name != "secret")
    assert "secret" not in group(around).topics()
    around.has_topic("open", 1)
    a.beat(sees=lambda name: name != "secret")
    assert group(around).topics() == {"t", "open"}


def test_the_regexes_of_a_group_are_limited_in_number():
    around = world(1)
    for number in range(REGEXES_PER_GROUP_MAX):
        joined = Member(around, f"m{number}", topics=(), subscribed_topic_regex=f"t{number}?").join()
        assert joined.error_code == NONE
    refused = Member(around, "late", topics=(), subscribed_topic_regex="u?").join()
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert f"the limit is {REGEXES_PER_GROUP_MAX}" in (refused.error_message or "")
    assert Member(around, "same", topics=(), subscribed_topic_regex="t0?").join().error_code == NONE


def test_the_work_of_a_groups_regexes_is_limited_by_the_topics_that_the_member_sees():
    around = world(1)
    for number in range(400):
        around.has_topic(f"{number:03}".ljust(249, "a"), 1)
    costly = {"topics": (), "subscribed_topic_regex": "(?:.?){1000}x"}
    began = time.process_time()
    refused = Member(around, "a", **costly).join()
    assert time.process_time() - began < 0.5
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "simplify the regexes" in (refused.error_message or "")
    assert Member(around, "b", **costly).join(sees=lambda name: name == "t").error_code == NONE


def test_a_regex_that_became_too_costly_keeps_what_it_matched(caplog: pytest.LogCaptureFixture):
    around = world(1)
    a = Member(around, "a", topics=(), subscribed_topic_regex="(?:.?){1000}")
    a.join()
    for number in range(400):
        around.has_topic(f"{number:03}".ljust(249, "a"), 1)
    assert a.beat().error_code == NONE
    assert a.parts == {"t": [0]}
    assert "new topics are not matched" in caplog.text


# ---- static members


def static(around: World, name: str) -> Member:
    return Member(around, name, instance_id="i")


def test_a_static_member_that_left_for_a_while_gets_its_partitions_back():
    around = world()
    old, other = static(around, "old"), Member(around, "other")
    old.join()
    other.join()
    settle(old, other)
    had = old.parts
    assert old.ask(member_epoch=-2).member_epoch == -2
    new = static(around, "new")
    assert new.join().member_epoch == other.epoch
    assert new.parts == had
    assert old.ask().error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_name_that_is_in_use_is_not_given_away():
    around = world()
    static(around, "old").join()
    assert static(around, "new").join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert static(around, "new").ask(member_epoch=1).error_code == ErrorCode.FENCED_INSTANCE_ID
    nobody = Member(around, "x", instance_id="nobody")
    assert nobody.ask(member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_out_after_its_session():
    around = world()
    old = static(around, "old")
    old.join()
    old.ask(member_epoch=-2)
    around.pass_ms(45_000)
    assert group(around).state_label == "Empty"


# ---- what may not be asked


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_requests_are_checked_in_kafkas_order(fields, code):
    around = world()
    one = Member(around, "a")
    assert one.ask(**{**one.settings, "topic_partitions": [], **fields}).error_code == code
    assert around.coordinator.group(GROUP) is None


def test_a_full_group_accepts_no_new_member():
    around = world(consumer_size_max=1)
    a = Member(around, "a")
    a.join()
    assert Member(around, "b").join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.beat().error_code == NONE


def test_members_may_choose_the_assignor():
    around = world()
    a = Member(around, "a", server_assignor="range")
    a.join()
    assert group(around).preferred_assignor("uniform") == "range"


# ---- committed offsets


def commit(around: World, member: Member, partition: int, *, version: int = 9, epoch: int | None = None) -> ErrorCode:
    claim = CommitIdentity(GROUP, member.epoch if epoch is None else epoch, member.name, None, version)
    codes: list[ErrorCode] = []
    position = CommittedOffset(1, -1, "", START_MS)
    around.coordinator.commit(claim, [(TopicPartition("t", partition), position)], codes.append)
    return codes[0]


def test_members_commit_with_their_epoch_and_with_an_earlier_one_what_they_have_had_since():
    around = world()
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    assert commit(around, a, 0) == NONE
    assert commit(around, a, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(around, a, 0, epoch=9) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(around, Member(around, "x"), 0) == ErrorCode.UNKNOWN_MEMBER_ID
    b.join()
    settle(a, b)
    assert (commit(around, a, 0, epoch=2), commit(around, a, 3, epoch=2)) == (NONE, ErrorCode.STALE_MEMBER_EPOCH)
    assert around.coordinator.check_fetch(GROUP, "a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert around.coordinator.check_fetch(GROUP, "a", 3) == NONE
    assert around.coordinator.check_fetch(GROUP, None, -1) == NONE


# ---- the log


def test_members_go_on_with_the_next_coordinator():
    around = world()
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    b.join()
    a.beat()
    before = group(around).copy()
    around.move()
    before.topics_version = group(around).topics_version
    assert group(around) == before
    settle(a, b)
    assert (a.parts, b.parts) == ({"t": [0, 1]}, {"t": [2, 3]})


def test_an_answer_waits_until_it_cannot_be_lost():
    around = world()
    around.held = True
    answers: list[ConsumerGroupHeartbeatResponse] = []
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    around.coordinator.consumer_heartbeat(request, Caller("c", "/h", 1), answers.append)
    assert answers == []
    around.land(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert answers[0].error_code == ErrorCode.NOT_COORDINATOR


def test_what_is_not_written_did_not_happen():
    around = world()
    a = Member(around, "a")
    a.join()
    around.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert Member(around, "b").join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(group(around).members) == ["a"]
    around.pass_ms(45_000)
    assert list(group(around).members) == ["a"]  # nor is it out before that is written
    around.refuse = NONE
    around.pass_ms(45_000)
    assert list(group(around).members) == []


def test_an_empty_group_is_deleted_and_leaves_nothing():
    around = world()
    a = Member(around, "a")
    a.join()
    codes: list[ErrorCode] = []
    around.coordinator.delete_group(GROUP, codes.append)
    a.ask(member_epoch=-1)
    around.coordinator.delete_group(GROUP, codes.append)
    assert codes == [ErrorCode.NON_EMPTY_GROUP, NONE]
    around.move()
    assert around.coordinator.groups() == []


def test_a_group_without_members_may_change_its_protocol():
    around = world()
    (joined,) = around.stable(1)
    assert Member(around, "a").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    around.leave(joined.member_id)
    a = Member(around, "a")
    assert a.join().error_code == NONE
    around.move()
    assert list(group(around).members) == ["a"]


def test_settings_of_one_group_count_from_the_next_heartbeat_on():
    around = world()
    a = Member(around, "a")
    assert a.join().heartbeat_interval_ms == 5_000
    around.own_settings.update({"consumer.heartbeat.interval.ms": "100", "consumer.session.timeout.ms": "60000"})
    around.pass_ms(44_000)
    assert a.beat().heartbeat_interval_ms == 100
    around.pass_ms(59_999)
    assert set(group(around).members) == {"a"}
    around.pass_ms(1)
    assert not group(around).members


def test_a_group_may_have_its_assignments_made_less_often_than_others():
    around = world()
    around.own_settings["consumer.assignment.interval.ms"] = "10000"
    a, b = Member(around, "a"), Member(around, "b")
    a.join()
    b.join()
    a.beat()
    assert len(a.parts["t"]) == 4
    around.pass_ms(10_000)
    a.beat()
    assert len(a.parts["t"]) == 2


def test_offsets_expire_after_their_commit_unless_a_member_subscribes_to_the_topic():
    limits = Limits(offsets_retention_ms=60_000, offsets_check_interval_ms=10_000)
    world = World(limits=limits)
    world.has_topic("t", 1)
    world.has_topic("u", 1)
    member = Member(world, "a")
    member.join()
    codes: list[ErrorCode] = []
    position = CommittedOffset(5, 0, "", START_MS)
    world.coordinator.commit(
        CommitIdentity(GROUP, member.epoch, member.name, version=9),
        [(TopicPartition("t", 0), position), (TopicPartition("u", 0), position)],
        codes.append,
    )
    assert codes == [NONE]
    for seconds, topics in ((50, {"t", "u"}), (30, {"t"}), (200, {"t"})):
        for _ in range(seconds // 10):
            world.pass_ms(10_000)
            member.beat()
        assert {key.topic for key in world.coordinator.committed_offsets(GROUP, None, stable=False)} == topics
    member.ask(member_epoch=-1)
    world.pass_ms(10_001)
    assert world.coordinator.committed_offsets(GROUP, None, stable=False) == {}
    assert world.coordinator.groups() == [], "an empty group without offsets is removed"
    world.move()
    assert world.coordinator.groups() == []

"""Assignors: the same as Java's for the same input, and what each promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw.core.group.assignors import ASSIGNORS, Topics
from kafkaraw.core.group.assignors.sticky import decode_sticky, encode_generation, encode_sticky
from kafkaraw.core.group.consumer_protocol import MemberSubscription
from kafkaraw.records import TopicPartition
from tests.core.group.java_assignors import JavaAssignors
from tests.examples import examples
from tests.interop.apache_kafka import why_missing

RACKS = ("east", "north", "west")
NO_RACK: frozenset[str] = frozenset()
Members = dict[str, MemberSubscription]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAssignors]:
    missing = why_missing()
    if missing:
        pytest.skip(missing)
    with JavaAssignors() as oracle:
        yield oracle


@st.composite
def groups(draw: st.DrawFn, name: str) -> tuple[Topics, Members]:
    """Topics, and members with claims on their partitions: fitting, old or contradicting ones."""
    topics = {
        f"topic-{at}": draw(st.lists(st.frozensets(st.sampled_from(RACKS), max_size=2), min_size=1, max_size=9))
        for at in range(draw(st.integers(1, 4)))
    }
    alike = draw(st.booleans())
    racks = draw(st.booleans())
    if not racks:
        topics = {topic: [NO_RACK] * len(partitions) for topic, partitions in topics.items()}
    wanted = st.lists(st.sampled_from(sorted(topics)), min_size=1, unique=True)
    common = draw(wanted)
    free = [TopicPartition(topic, at) for topic, partitions in topics.items() for at in range(len(partitions))]
    members: Members = {}
    ids = st.text(st.characters(codec="utf-8", max_codepoint=0x24F, min_codepoint=45), min_size=1, max_size=12)
    for member_id in draw(st.lists(ids, min_size=1, max_size=9, unique=True)):
        chosen = common if alike else draw(wanted)
        own = [partition for partition in free if partition.topic in chosen and draw(st.integers(0, 3)) == 0]
        if draw(st.integers(0, 3)):
            free = [partition for partition in free if partition not in own]
        generation = draw(st.sampled_from((None, 3, 4, 5)))
        data = {
            "sticky": lambda own=own, g=generation: None if g is None else encode_sticky(own, g),
            "cooperative-sticky": lambda g=generation: None if g is None else encode_generation(g),
        }.get(name, lambda: None)()
        members[member_id] = MemberSubscription(
            topics=tuple(chosen),
            owned_partitions=tuple(own) if name == "cooperative-sticky" else (),
            user_data=data,
            generation_id=generation,
            group_instance_id=draw(st.sampled_from((None, f"static-{len(members)}"))),
            rack_id=draw(st.sampled_from((None, *RACKS))) if racks else None,
        )
    wanted_topics = {topic for member in members.values() for topic in member.topics}
    return {topic: partitions for topic, partitions in topics.items() if topic in wanted_topics}, members


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_the_result_is_javas(name: str, java: JavaAssignors) -> None:
    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(groups(name))
    def check(group: tuple[Topics, Members]) -> None:
        topics, members = group
        ours = ASSIGNORS[name]().assign(topics, members)
        assert {member_id: set(given) for member_id, given in ours.items()} == java.assign(name, topics, members)

    check()


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("generation", [0, 7, 2**31 - 1])
def test_the_bytes_that_a_member_adds_are_javas(name: str, generation: int, java: JavaAssignors) -> None:
    for given_partitions in ([], [TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)]):
        assignor = ASSIGNORS[name]()
        assignor.assigned(given_partitions, generation)
        ours = assignor.user_data(["a", "b"])
        theirs = java.user_data(name, given_partitions, generation)
        if name == "sticky":  # Java leaves topics in the order of a HashMap and partitions as they came
            assert ours is not None
            assert theirs is not None
            assert len(ours) == len(theirs)
            read = [decode_sticky(MemberSubscription((), user_data=data)) for data in (ours, theirs)]
            assert set(read[0].partitions) == set(read[1].partitions) == set(given_partitions)
            assert read[0].generation_id == read[1].generation_id == generation
        else:
            assert ours == theirs


def test_user_data_without_generation_is_read_and_rubbish_claims_nothing() -> None:
    whole = encode_sticky([TopicPartition("t", 3)], 9)
    read = [decode_sticky(MemberSubscription((), user_data=data)) for data in (whole, whole[:-4], whole[:5], b"")]
    assert [(claim.partitions, claim.generation_id) for claim in read] == [
        ((TopicPartition("t", 3),), 9),
        ((TopicPartition("t", 3),), None),
        ((), -1),
        ((), None),
    ]


@given(data=st.binary(max_size=40))
def test_any_user_data_can_be_read(data: bytes) -> None:
    claim = decode_sticky(MemberSubscription((), user_data=data))
    assert len(claim.partitions) <= len(data)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_every_subscribed_partition_is_assigned_to_one_subscriber(name: str) -> None:
    @settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
    @given(groups(name))
    def check(group: tuple[Topics, Members]) -> None:
        topics, members = group
        given_to = Counter(
            partition for given in ASSIGNORS[name]().assign(topics, members).values() for partition in given
        )
        existing = {TopicPartition(topic, at) for topic, racks in topics.items() for at in range(len(racks))}
        if name == "cooperative-sticky":  # what moves is given in the next round
            existing &= given_to.keys()
        assert given_to == Counter(existing)

    check()


def test_a_cooperative_group_settles_in_two_rounds_and_moves_no_more_than_it_must() -> None:
    topics = {"t": [NO_RACK] * 6}
    owned = {"a": tuple(TopicPartition("t", at) for at in range(6)), "b": ()}
    rounds = []
    for generation in (1, 2, 3):
        members = {
            member_id: MemberSubscription(("t",), partitions, generation_id=generation)
            for member_id, partitions in owned.items()
        }
        owned = {
            member_id: tuple(given)
            for member_id, given in ASSIGNORS["cooperative-sticky"]().assign(topics, members).items()
        }
        rounds.append({member_id: len(given) for member_id, given in owned.items()})
    assert rounds == [{"a": 3, "b": 0}, {"a": 3, "b": 3}, {"a": 3, "b": 3}]


def test_a_sticky_group_keeps_what_the_remaining_members_had() -> None:
    topics = {"t": [NO_RACK] * 9}
    former = {"a": (0, 1, 2), "c": (6, 7, 8)}
    members = {
        member_id: MemberSubscription(
            ("t",), user_data=encode_sticky([TopicPartition("t", number) for number in numbers], 4)
        )
        for member_id, numbers in former.items()
    }
    result = ASSIGNORS["sticky"]().assign(topics, members)
    assert all({TopicPartition("t", n) for n in numbers} < set(result[m]) for m, numbers in former.items())
    assert sorted(map(len, result.values())) == [4, 5]


def test_claims_on_partitions_that_do_not_exist_any_more_are_dropped() -> None:
    member = MemberSubscription(("t",), (TopicPartition("t", 0), TopicPartition("t", 5)), generation_id=1)
    assert ASSIGNORS["cooperative-sticky"]().assign({"t": [NO_RACK] * 2}, {"a": member}) == {
        "a": [TopicPartition("t", 0), TopicPartition("t", 1)]
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_a_group_whose_topics_do_not_exist_gets_nothing(name: str) -> None:
    assert ASSIGNORS[name]().assign({}, {"a": MemberSubscription(("t",)), "b": MemberSubscription(("u",))}) == {
        "a": [],
        "b": [],
    }

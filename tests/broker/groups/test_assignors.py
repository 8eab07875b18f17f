"""The broker's assignors: every partition to one reader, evenly, and for `uniform` with few moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.groups.assignors import ASSIGNORS, MemberSpec, PartitionsByTopic, assign_range, assign_uniform
from kafkaraw.protocol import Uuid
from tests.broker.groups.world import topic_id

T, U = topic_id("t"), topic_id("u")


def spec(*topics: Uuid, instance_id: str | None = None, **had: list[int]) -> MemberSpec:
    return MemberSpec(instance_id, frozenset(topics), {topic_id(name): frozenset(parts) for name, parts in had.items()})


def plain(found: dict[str, PartitionsByTopic]) -> dict[str, dict[str, list[int]]]:
    return {
        member: {bytes(topic).decode().strip("."): sorted(parts) for topic, parts in topics.items()}
        for member, topics in found.items()
    }


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, MemberSpec], dict[Uuid, int]]:
    counts = {topic_id(name): draw(st.integers(1, 6)) for name in draw(st.sets(st.sampled_from("tuvw"), min_size=1))}
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    same = draw(st.booleans())
    topics = frozenset(counts)
    members = {}
    for name in names:
        reads = topics if same else frozenset(draw(st.sets(st.sampled_from(sorted(counts)))))
        members[name] = MemberSpec(draw(st.none() | st.just(f"i-{name}")), reads)
    return members, {topic: counts[topic] for topic in frozenset().union(*(one.topics for one in members.values()))}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_every_subscribed_partition_has_one_owner_that_subscribes_to_it(name, group):
    members, counts = group
    found = ASSIGNORS[name](members, counts)
    owners = [(topic, part) for topics in found.values() for topic, parts in topics.items() for part in parts]
    assert sorted(owners) == sorted((topic, part) for topic, count in counts.items() for part in range(count))
    assert all(topics.keys() <= members[member].topics for member, topics in found.items())


@given(groups())
def test_uniform_is_even_where_all_read_the_same(group):
    members, counts = group
    sizes = [sum(map(len, topics.values())) for topics in assign_uniform(members, counts).values()]
    if len({one.topics for one in members.values()}) == 1:
        assert max(sizes) - min(sizes) <= 1


@given(groups(), st.data())
def test_uniform_moves_nothing_when_nothing_changes_and_little_when_a_member_goes(group, data):
    members, counts = group
    first = assign_uniform(members, counts)
    again = {name: MemberSpec(one.instance_id, one.topics, first[name]) for name, one in members.items()}
    assert assign_uniform(again, counts) == first
    gone = data.draw(st.sampled_from(sorted(members)))
    left = {name: one for name, one in again.items() if name != gone}
    if left and len({one.topics for one in members.values()}) == 1:
        after = assign_uniform(left, counts)
        for name in left:
            assert all(parts <= after[name].get(topic, frozenset()) for topic, parts in first[name].items())


def test_range_gives_neighbours_and_more_to_the_first():
    found = assign_range({"b": spec(T, U), "a": spec(T, U)}, {T: 3, U: 2})
    assert plain(found) == {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2], "u": [1]}}


def test_range_keeps_the_order_of_static_members():
    members = {"zzz": spec(T, instance_id="1"), "aaa": spec(T, instance_id="2"), "mmm": spec(T)}
    assert plain(assign_range(members, {T: 3})) == {"zzz": {"t": [0]}, "aaa": {"t": [1]}, "mmm": {"t": [2]}}


def test_uniform_forgets_topics_and_partitions_that_are_gone():
    found = assign_uniform({"a": spec(T, t=[0, 9], u=[0]), "b": spec(T)}, {T: 2})
    assert plain(found) == {"a": {"t": [0]}, "b": {"t": [1]}}


def test_uniform_evens_out_members_with_different_topics_as_far_as_it_goes():
    found = assign_uniform({"a": spec(T), "b": spec(T, U), "c": spec(U)}, {T: 4, U: 2})
    assert sorted(sum(map(len, topics.values())) for topics in found.values()) == [2, 2, 2]

"""Names of copies, filters, and circles of flows: MirrorMaker's rules."""

from __future__ import annotations

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.mirror.policies import (
    GROUPS_EXCLUDED,
    TOPICS_EXCLUDED,
    IdentityReplicationPolicy,
    NameFilter,
    ReplicationPolicy,
    TopicRoute,
    Topology,
    sources_of,
)

EVERY = NameFilter((".*",), TOPICS_EXCLUDED)
DEFAULT = ReplicationPolicy()
IDENTITY = IdentityReplicationPolicy()


def route(source: str, target: str, policy: ReplicationPolicy = DEFAULT, topics: NameFilter = EVERY) -> TopicRoute:
    return TopicRoute(source, target, policy, topics)


def test_a_copy_is_named_after_its_source_and_tells_where_it_comes_from() -> None:
    assert DEFAULT.remote_topic("east", "orders") == "east.orders"
    assert DEFAULT.topic_source("east.orders") == "east"
    assert DEFAULT.topic_source("orders") is None
    assert DEFAULT.upstream_topic("west.east.orders") == "east.orders"
    assert DEFAULT.original_topic("west.east.orders") == "orders"
    assert list(sources_of(DEFAULT, "west.east.orders")) == ["west", "east"]


@pytest.mark.parametrize(("topic", "source"), [("orders.", None), ("a..", None), (".a", ""), ("..", None), ("", None)])
def test_a_name_is_split_as_java_splits_it(topic: str, source: str | None) -> None:
    assert DEFAULT.topic_source(topic) == source


def test_names_of_internal_topics_have_the_separator_unless_it_is_disabled() -> None:
    policy = ReplicationPolicy("_")
    assert policy.offset_syncs_topic("west") == "mm2-offset-syncs_west_internal"
    assert policy.checkpoints_topic("east") == "east_checkpoints_internal"
    assert policy.is_internal_topic("east_checkpoints_internal")
    policy = ReplicationPolicy("_", has_separator_in_internal_topics=False)
    assert policy.offset_syncs_topic("west") == "mm2-offset-syncs.west.internal"
    assert policy.checkpoints_topic("east") == "east.checkpoints.internal"
    assert DEFAULT.is_internal_topic(DEFAULT.offset_mapping_topic("east"))


def test_the_identity_policy_renames_heartbeats_only() -> None:
    assert IDENTITY.remote_topic("east", "orders") == "orders"
    assert IDENTITY.topic_source("east.orders") is None
    assert IDENTITY.original_topic("orders") == "orders"
    assert IDENTITY.remote_topic("east", "heartbeats") == "east.heartbeats"
    assert IDENTITY.topic_source("east.heartbeats") == "east"
    assert IDENTITY.is_heartbeats_topic("east.heartbeats")


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "mm2-offset-syncs.west.internal", "connect-internal", "a.replica"]
)
def test_internal_topics_are_not_copied(topic: str) -> None:
    assert not route("east", "west").selects(topic)


def test_an_exclusion_goes_before_an_inclusion_and_patterns_match_whole_names() -> None:
    topics = NameFilter(("orders", "pay.*"), ("pay-secret",))
    assert [topics.selects(name) for name in ("orders", "orders2", "pay-a", "pay-secret")] == [True, False, True, False]
    assert not NameFilter(()).selects("orders")
    assert not NameFilter((".*",), GROUPS_EXCLUDED).selects("console-consumer-1")


def test_an_invalid_pattern_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'a\(' is no regex"):
        NameFilter(("a(",))


def test_heartbeats_are_copied_though_the_filter_does_not_select_them() -> None:
    topics = NameFilter(("orders",))
    assert route("east", "west", topics=topics).selects("heartbeats")
    assert route("east", "west", topics=topics).selects("north.heartbeats")
    assert not TopicRoute("east", "west", DEFAULT, topics, copies_heartbeats=False).selects("heartbeats")


def test_active_active_flows_do_not_copy_a_copy_back() -> None:
    east, west = route("east", "west"), route("west", "east")
    assert not west.selects("east.orders")
    assert not west.selects("north.east.orders")
    assert west.selects("north.orders")
    assert Topology([east, west]).circle(east, "orders") == []


def test_a_circle_of_the_identity_policy_is_found() -> None:
    east, west = route("east", "west", IDENTITY), route("west", "east", IDENTITY)
    assert Topology([east, west]).circle(east, "orders") == ["east", "west", "east"]
    other = route("west", "east", IDENTITY, NameFilter(("payments",)))
    assert Topology([east, other]).circle(east, "orders") == []
    three = [route("east", "west", IDENTITY), route("west", "north", IDENTITY), route("north", "east", IDENTITY)]
    assert Topology(three).circle(three[0], "orders") == ["east", "west", "north", "east"]


def test_a_circle_in_which_the_name_grows_is_found() -> None:
    """The copy of the copy is `west.orders`, which the first flow copies, too: `west.west.orders` would follow."""
    mixed = [route("east", "west", IDENTITY), route("west", "east")]
    assert Topology(mixed).circle(mixed[0], "orders") == ["east", "west", "east"]
    ring = [route("east", "west", IDENTITY), route("west", "north"), route("north", "east", IDENTITY)]
    assert Topology(ring).circle(ring[0], "orders") == ["east", "west", "north", "east"]
    named = [route("east", "west", IDENTITY, NameFilter(("orders",))), route("west", "east")]
    assert Topology(named).circle(named[0], "orders") == []
    default = [route("east", "west"), route("west", "north"), route("north", "east")]
    assert Topology(default).circle(default[0], "orders") == []

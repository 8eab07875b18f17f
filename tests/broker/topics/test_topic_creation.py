"""The rules by which topics are created, each with its error code."""

from __future__ import annotations

import pytest

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.topics.catalog import Broker, Catalog, Topic
from kafkaraw.broker.topics.topic_creation import PARTITIONS_MAX, Plan, TopicSpec, plan_topic
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode


def catalog(*brokers: int) -> Catalog:
    made = Catalog("cluster", 0)
    for broker in brokers or (0,):
        made.brokers[broker] = Broker(broker, {})
        made.racks[broker] = None
    made.add(Topic("there_already", Uuid(b"1" * 16), ((0,),)))
    return made


def plan(spec: TopicSpec, *brokers: int, **properties: int) -> Plan:
    return plan_topic(
        spec, catalog(*brokers), BrokerConfig.parse({k.replace("_", "."): v for k, v in properties.items()})
    )


def refused(spec: TopicSpec, *brokers: int) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        plan(spec, *brokers)
    assert caught.value.message
    return caught.value.code


def test_a_topic_takes_what_it_does_not_say_from_the_broker():
    assert plan(TopicSpec("t"), num_partitions=3) == Plan("t", ((0,), (0,), (0,)), {})


def test_partitions_and_configs_are_as_asked_for():
    made = plan(TopicSpec("t", 2, 1, configs={"cleanup.policy": "compact"}))
    assert made == Plan("t", ((0,), (0,)), {"cleanup.policy": "compact"})


def test_replicas_are_spread_over_the_brokers():
    assert plan(TopicSpec("t", 3, 2), 0, 1, 2).assignments == ((1, 2), (2, 0), (0, 1))
    # It goes on where the one that is there already has ended.


@pytest.mark.parametrize("name", ["a", "a.b", "A-b_c.9", "x" * 249])
def test_a_legal_name_is_taken(name: str):
    assert plan(TopicSpec(name)).name == name


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "../a", "ä", "a\n", "x" * 250, "a:b"])
def test_an_illegal_name_is_refused(name: str):
    assert refused(TopicSpec(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_that_is_taken_is_refused():
    assert refused(TopicSpec("there_already")) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_names_that_differ_in_dots_and_underscores_collide():
    assert refused(TopicSpec("there.already")) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("count", [0, -2, -100])
def test_the_number_of_partitions_is_positive(count: int):
    assert refused(TopicSpec("t", partitions=count)) is ErrorCode.INVALID_PARTITIONS


def test_far_too_many_partitions_are_refused():
    assert refused(TopicSpec("t", partitions=PARTITIONS_MAX + 1)) is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_the_replication_factor_is_between_one_and_the_number_of_brokers(factor: int):
    assert refused(TopicSpec("t", replication_factor=factor)) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_client_may_assign_partitions_itself():
    made = plan(TopicSpec("t", assignments=[(1, [2, 0]), (0, [0, 1])]), 0, 1, 2)
    assert made.assignments == ((0, 1), (2, 0))


@pytest.mark.parametrize(
    "assignments",
    [
        [(1, [0])],
        [(0, [0]), (2, [0])],
        [(0, [0]), (0, [0])],
        [(0, [])],
        [(0, [0, 0])],
        [(0, [9])],
        [(0, [0]), (1, [0, 1])],
    ],
)
def test_an_assignment_with_gaps_or_absent_brokers_is_refused(assignments: list[tuple[int, list[int]]]):
    assert refused(TopicSpec("t", assignments=assignments), 0, 1) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    "spec", [TopicSpec("t", 1, assignments=[(0, [0])]), TopicSpec("t", -1, 1, assignments=[(0, [0])])]
)
def test_an_assignment_and_numbers_are_not_given_together(spec: TopicSpec):
    assert refused(spec) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "configs",
    [{"cleanup.polcy": "compact"}, {"cleanup.policy": "shred"}, {"retention.ms": None}, {"segment.bytes": "7"}],
)
def test_a_wrong_setting_is_an_invalid_config(configs: dict[str, str | None]):
    assert refused(TopicSpec("t", configs=configs)) is ErrorCode.INVALID_CONFIG

"""Offsets as Spark writes them, and where a read starts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.offsets import EARLIEST, LATEST, Position, from_json, parse_position, to_json

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def earliest(asked):
    return {tp: 10 for tp in asked}


def latest(asked):
    return {tp: 90 for tp in asked}


def test_offsets_are_written_as_the_jvm_connector_writes_them():
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, A0: 3}
    assert json.dumps(to_json(offsets), separators=(",", ":")) == '{"a":{"0":3},"b":{"9":2,"10":1}}'


@given(st.dictionaries(st.tuples(st.text(min_size=1), st.integers(0, 10**6)), st.integers(0, 2**63 - 1)))
def test_the_same_offsets_always_give_the_same_text_and_read_back(plain):
    offsets = {TopicPartition(*tp): offset for tp, offset in plain.items()}
    backwards = dict(reversed(offsets.items()))
    text = json.dumps(to_json(offsets))
    assert text == json.dumps(to_json(backwards))
    assert from_json(json.loads(text), what="test") == offsets


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "expected an object"),
        ({"t": 5}, "'t' must map partitions to offsets"),
        ({"t": {"x": 5}}, "'x' is not a partition number"),
        ({"t": {"-1": 5}}, "'-1' is not a partition number"),
        ({"t": {"0": "5"}}, "t-0: '5' is not an offset"),
        ({"t": {"0": True}}, "t-0: True is not an offset"),
        ({"t": {"0": -3}}, "t-0: -3 is not an offset"),
    ],
)
def test_json_of_another_form_is_refused_naming_the_option(value, message):
    with pytest.raises(ConfigError, match="startingOffsets") as error:
        from_json(value, what="startingOffsets")
    assert message in str(error.value)


@pytest.mark.parametrize(("text", "special"), [("earliest", EARLIEST), (" Latest ", LATEST)])
def test_words_are_positions_in_any_case(text, special):
    assert parse_position("startingOffsets", text).everywhere == special


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("begin", 'must be "earliest", "latest" or JSON'),
        ("{", "is not JSON: Expecting property name enclosed in double quotes at character 2"),
    ],
)
def test_another_word_or_broken_json_is_refused(text, message):
    with pytest.raises(ConfigError, match=r"^endingOffsets") as error:
        parse_position("endingOffsets", text)
    assert message in str(error.value)


def test_a_position_is_resolved_per_partition():
    position = parse_position("startingOffsets", '{"a":{"0":-2,"1":-1},"b":{"0":55}}')
    assert position.resolve([B0, A0, A1], earliest, latest) == {A0: 10, A1: 90, B0: 55}
    assert position.partitions_at(LATEST, [A0, A1, B0]) == {A1}


def test_only_what_is_needed_is_looked_up():
    asked: list[list[TopicPartition]] = []

    def look_up(partitions):
        asked.append(partitions)
        return {tp: 7 for tp in partitions}

    assert parse_position("startingOffsets", '{"a":{"0":1,"1":-1}}').resolve([A0, A1], look_up, look_up) == {
        A0: 1,
        A1: 7,
    }
    assert asked == [[A1]]


def test_json_must_name_every_partition_that_is_read():
    with pytest.raises(ConfigError, match="startingOffsets leaves out a-1, b-0: name every partition"):
        Position("startingOffsets", by_partition={A0: 1}).resolve([A0, A1, B0], earliest, latest)


def test_json_must_not_name_other_partitions():
    with pytest.raises(ConfigError, match="startingOffsets names b-0, which this query does not read"):
        Position("startingOffsets", by_partition={A0: 1, B0: 2}).resolve([A0], earliest, latest)

"""Offsets as Spark writes them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.offsets import OffsetForms, from_checkpoint, from_json, to_json

A0 = TopicPartition("a", 0)


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
        ({"t": 5}, "'t' must map partitions to numbers"),
        ({"t": {"x": 5}}, "'x' is not a partition number"),
        ({"t": {"-1": 5}}, "'-1' is not a partition number"),
        ({"t": {"0": "5"}}, "t-0: '5' is not an offset"),
        ({"t": {"0": True}}, "t-0: True is not an offset"),
        ({"t": {"0": -3}}, "t-0: -3 is not an offset"),
    ],
)
def test_invalid_json_is_refused_with_the_name_of_the_option(value, message):
    with pytest.raises(ConfigError, match="startingOffsets") as error:
        from_json(value, what="startingOffsets")
    assert message in str(error.value)


@pytest.mark.parametrize("value", [3, {"logOffset": 0}, {"rowsPerSecond": {"x": 1}}, [1], None])
def test_a_checkpoint_of_another_source_is_named_as_such(value):
    with pytest.raises(UsageError, match="belongs to a query with another source than Kafka") as error:
        from_checkpoint(value)
    assert f"its offsets are {value!r}" in str(error.value)
    assert "checkpointLocation of its own" in str(error.value)


SMALL = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 12)), st.integers(0, 3), max_size=8
)


@given(st.lists(SMALL, max_size=12))
def test_offsets_that_are_made_from_the_ones_before_have_the_same_text(history):
    forms = OffsetForms()
    for offsets in history:
        made = forms.as_json(offsets)
        assert json.dumps(made) == json.dumps(to_json(offsets))
        assert forms.parsed(json.loads(json.dumps(made))) == offsets


def test_offsets_that_come_back_are_parsed_once():
    forms = OffsetForms()
    found = forms.parsed({"a": {"0": 3}})
    assert forms.parsed({"a": {"0": 3}}) is found
    assert forms.parsed({"a": {"0": 4}}) == {A0: 4}
    with pytest.raises(UsageError, match="another source"):
        forms.parsed({"a": 3})

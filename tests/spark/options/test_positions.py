"""Where a read starts or ends, on a cluster that is a dictionary."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.offsets import EARLIEST, LATEST
from kafkaraw.spark.options.positions import OffsetPosition, Resolved, parse_position, parse_timestamp, parse_timestamps

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Cluster:
    """Each log reaches from offset 10 to 90; the record at offset N has timestamp 100 * N."""

    def __init__(self) -> None:
        self.asked: list[list[TopicPartition]] = []

    def earliest(self, partitions):
        self.asked.append(list(partitions))
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions):
        self.asked.append(list(partitions))
        return dict.fromkeys(partitions, 90)

    def at_timestamps(self, timestamps):
        self.asked.append(list(timestamps))
        found = {tp: max(-(-time // 100), 10) for tp, time in timestamps.items()}
        return {tp: offset if offset < 90 else None for tp, offset in found.items()}


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
    assert position.resolve([B0, A0, A1], Cluster()) == Resolved({A0: 10, A1: 90, B0: 55}, frozenset({A1}))


def test_a_topic_is_named_as_a_whole_by_a_word():
    position = parse_position("startingOffsets", '{"a":"earliest","b":{"0":55}}')
    assert position.resolve([B0, A0, A1], Cluster()) == Resolved({A0: 10, A1: 10, B0: 55}, frozenset())
    assert position.uses(EARLIEST) and not position.uses(LATEST)
    assert parse_position("endingOffsets", '{"a":"Latest"}').resolve([A0, A1], Cluster()).at_latest == {A0, A1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":"newest"}', """'a': 'newest' must be "earliest", "latest" or offsets"""),
        ('{"a":"earliest","c":"latest"}', "names c, which this query does not read"),
        ('{"a":"earliest"}', "leaves out b-0"),
    ],
)
def test_a_word_for_a_topic_that_means_nothing_is_refused(text, message):
    with pytest.raises(ConfigError, match=r"^startingOffsets") as error:
        parse_position("startingOffsets", text).resolve([A0, B0], Cluster())
    assert message in str(error.value)


def test_only_what_is_needed_is_looked_up():
    cluster = Cluster()
    position = parse_position("startingOffsets", '{"a":{"0":1,"1":-1}}')
    assert position.resolve([A0, A1], cluster).offsets == {A0: 1, A1: 90}
    assert cluster.asked == [[A1]]


def test_json_must_name_every_partition_that_is_read():
    with pytest.raises(ConfigError, match=r"startingOffsets leaves out a-1, b-0: name every partition"):
        OffsetPosition("startingOffsets", by_partition={A0: 1}).resolve([A0, A1, B0], Cluster())


def test_json_must_not_name_other_partitions():
    with pytest.raises(ConfigError, match=r"startingOffsets names b-0, which this query does not read"):
        OffsetPosition("startingOffsets", by_partition={A0: 1, B0: 2}).resolve([A0], Cluster())


def test_one_time_applies_to_all_partitions():
    position = parse_timestamp("startingTimestamp", " 4950 ")
    assert position.resolve([A0, B0], Cluster()) == Resolved({A0: 50, B0: 50}, frozenset())


def test_times_by_partition_must_name_each():
    position = parse_timestamps("startingOffsetsByTimestamp", '{"a":{"0":0,"1":5000}}')
    assert position.resolve([A0, A1], Cluster()).offsets == {A0: 10, A1: 50}
    with pytest.raises(ConfigError, match=r"startingOffsetsByTimestamp leaves out b-0: .* with a time in ms"):
        position.resolve([A0, A1, B0], Cluster())


def test_a_partition_without_a_record_at_the_time_is_an_error_or_its_end():
    position = parse_timestamps("startingOffsetsByTimestamp", '{"a":{"0":5000,"1":9999}}')
    with pytest.raises(UsageError, match=r"a-1 has no record at or after 9999 .* startingOffsetsByTimestampStrategy"):
        position.resolve([A0, A1], Cluster())
    lenient = replace(position, unmatched_is_latest=True)
    assert lenient.resolve([A0, A1], Cluster()) == Resolved({A0: 50, A1: 90}, frozenset({A1}))


@pytest.mark.parametrize("text", ["", "now", "-1", "1.5", "99999999999999999999"])
def test_an_invalid_time_is_refused(text):
    with pytest.raises(ConfigError, match=r"startingTimestamp=.* must be a time in ms since 1970"):
        parse_timestamp("startingTimestamp", text)


@pytest.mark.parametrize("text", ['{"a":{"0":-1}}', '{"a":{"0":"5"}}', '{"a":{"0":true}}', '{"a":{"0":1.5}}'])
def test_an_invalid_time_of_a_partition_is_refused(text):
    with pytest.raises(ConfigError, match=r"endingOffsetsByTimestamp: a-0: .* is not a time in ms since 1970"):
        parse_timestamps("endingOffsetsByTimestamp", text)

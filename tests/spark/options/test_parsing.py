"""Options are checked when the DataFrame is made, with messages that say what to write instead."""

from __future__ import annotations

import logging
import pickle

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.offsets import EARLIEST, LATEST
from kafkaraw.spark.options.parsing import check_batch_read, check_read, check_stream_read, check_write, parse_options
from kafkaraw.spark.options.positions import TimestampPosition
from tests.spark.options.parsed import error_of, parse


def test_names_are_read_in_any_case():
    options = parse_options(
        {
            "KAFKA.bootstrap.SERVERS": "h:1",
            "SUBSCRIBE": "a, b,a",
            "startingoffsets": "earliest",
            "MaxOffsetsPerTrigger": "10",
            "minpartitions": "4",
            "includeHEADERS": "True",
            "failondataloss": "false",
            "kafkaconsumer.polltimeoutms": "1000",
        }
    )
    assert options.subscribe == ("a", "b")
    assert options.topics == ["a", "b"]
    assert options.starting is not None
    assert options.starting.everywhere == EARLIEST
    assert (options.rows_per_trigger_max, options.partitions_min, options.poll_timeout_ms) == (10, 4, 1000)
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert options.client == {"bootstrap_servers": "h:1"}


def test_partitions_can_be_assigned():
    options = parse(assign='{"b":[1,0],"a":[2]}')
    assert options.assign == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))
    assert options.topics == ["a", "b"]


def test_checked_options_travel_to_the_workers():
    options = parse(subscribe="t", startingOffsets='{"t":{"0":5}}', kafka__linger__ms="7")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": " , "}, "subscribe=' , ' names no topic"),
        ({"assign": "t"}, "assign='t' is not JSON"),
        ({"assign": '{"t":0}'}, "must be JSON such as"),
        ({"assign": '{"t":["x"]}'}, "assign: 'x' is not a partition number"),
        ({"assign": "{}"}, "names no partition"),
        ({"includeHeaders": "yes"}, 'includeHeaders=\'yes\': must be "true" or "false"'),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger='0': must be a whole number from 1"),
        ({"minPartitions": "many"}, "minPartitions='many'"),
        ({"topic": ""}, "topic is empty"),
        ({"kafka.linger.ms": "soon"}, "kafka.linger.ms='"),
        ({"kafka.bootstrap.servers": "localhost"}, "kafka.bootstrap.servers='"),
        ({"kafka.request.timeout.ms": "5s"}, "kafka.request.timeout.ms='5s': must be a whole number"),
        ({"kafka.check.crcs": "yes"}, "kafka.check.crcs='yes': must be 'true' or 'false'"),
        ({"kafka.acks": "2"}, "kafka.acks='2': must be"),
        ({"subscribePattern": "  "}, "subscribePattern is empty; give a regular expression"),
        ({"subscribePattern": "["}, "subscribePattern='[': cannot be used as a regular expression: a class is not"),
        ({"startingTimestamp": "x"}, "startingTimestamp='x': must be a time in ms since 1970"),
        ({"startingOffsetsByTimestampStrategy": "x"}, 'Strategy=\'x\': must be "error" or "latest"'),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay='soon': must be a duration such as"),
        ({"maxTriggerDelay": "5 weeks"}, "maxTriggerDelay='5 weeks': must be a duration such as"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger=9 is more than"),
        ({"commitOffsets": "true"}, "commitOffsets=true needs the option kafka.group.id"),
        ({"decisionsTopic": "d"}, "decisionsTopic is only for exactlyOnce=true"),
        ({"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries='-1'"),
        ({"kafka.security.protocol": "TELNET"}, "must be one of 'PLAINTEXT', 'SSL'"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_the_option(options, message):
    said = error_of(options)
    assert message in said
    assert "not str" not in said


def test_a_read_needs_topics_and_the_writers_option_does_not_count():
    with pytest.raises(ConfigError, match='topic is for writing, to read use subscribe="t"'):
        check_read(parse(topic="t"))


@pytest.mark.parametrize("other", [{"assign": '{"t":[0]}'}, {"subscribePattern": "t"}])
def test_ways_to_name_topics_exclude_each_other_in_a_read_and_have_no_effect_on_a_write(other):
    with pytest.raises(ConfigError, match=f"subscribe and {next(iter(other))} exclude each other"):
        check_read(parse(subscribe="t", **other))
    check_write(parse(subscribe="t", topic="t", **other))


def test_a_batch_read_covers_the_whole_topic_by_default():
    starting, ending = check_batch_read(parse(subscribe="t"))
    assert (starting.everywhere, ending.everywhere) == (EARLIEST, LATEST)


def test_a_stream_starts_at_latest_by_default():
    assert check_stream_read(parse(subscribe="t")).everywhere == LATEST


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets of a batch read cannot be latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets of a batch read cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets cannot be earliest"),
    ],
)
def test_a_batch_read_that_would_read_nothing_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        check_batch_read(parse(subscribe="t", **options))


def test_a_stream_has_no_ending_offsets():
    with pytest.raises(ConfigError, match="endingOffsets is for batch reads"):
        check_stream_read(parse(subscribe="t", endingOffsets="latest"))


def test_a_batch_read_ignores_the_limit_per_trigger_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        check_batch_read(parse(subscribe="t", maxOffsetsPerTrigger="5"))
    assert "maxOffsetsPerTrigger is ignored by a batch read" in caplog.text


def test_a_time_overrides_times_by_partition_and_these_override_offsets():
    by_offset = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    by_partition = {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":6}}'}
    everywhere = {"startingTimestamp": "7", "endingTimestamp": "8"}

    def chosen(*given: dict[str, str]) -> list[str]:
        options = parse(subscribe="t", **{name: text for each in given for name, text in each.items()})
        assert options.starting is not None and options.ending is not None
        return [options.starting.option, options.ending.option]

    assert chosen(by_offset, by_partition, everywhere) == ["startingTimestamp", "endingTimestamp"]
    assert chosen(by_offset, by_partition) == ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"]
    assert chosen(by_offset) == ["startingOffsets", "endingOffsets"]


def test_a_partition_without_a_record_at_the_time_starts_by_the_strategy_and_ends_at_its_end():
    strategy = {"startingOffsetsByTimestampStrategy": "Latest"}
    lenient = parse(subscribe="t", startingTimestamp="5", endingTimestamp="6", **strategy)
    starting, ending = check_batch_read(lenient)
    assert starting == TimestampPosition("startingTimestamp", everywhere_ms=5, unmatched_is_latest=True)
    assert ending == TimestampPosition("endingTimestamp", everywhere_ms=6, unmatched_is_latest=True)
    assert check_stream_read(parse(subscribe="t", startingTimestamp="5")) == TimestampPosition(
        "startingTimestamp", everywhere_ms=5
    )


@pytest.mark.parametrize("name", ["endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end_by_time_either(name):
    text = "5" if name == "endingTimestamp" else '{"t":{"0":5}}'
    with pytest.raises(ConfigError, match=f"{name} is for batch reads"):
        check_stream_read(parse(subscribe="t", **{name: text}))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250", 250), ("250ms", 250), ("30s", 30_000), ("15m", 900_000), ("2min", 120_000), ("1H", 3_600_000)],
)
def test_a_delay_is_written_as_spark_writes_durations(text, milliseconds):
    assert parse(subscribe="t", maxTriggerDelay=text).trigger_delay_max_ms == milliseconds

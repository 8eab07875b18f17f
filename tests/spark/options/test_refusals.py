"""What is no option is refused with what to write instead, or passed over."""

from __future__ import annotations

import logging

import pytest

from tests.spark.options.parsed import parse, refusal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribee": "t"}, "unknown option 'subscribee' of format kafkaraw; did you mean subscribe?"),
        ({"startingOffset": "t"}, "did you mean startingOffsets?"),
        ({"topics": "t"}, "did you mean topic?"),
        ({"bootstrap.servers": "t"}, "did you mean kafka.bootstrap.servers?"),
        ({"linger_ms": "5"}, "did you mean kafka.linger.ms?"),
        ({"kafka.linger_ms": "5"}, "did you mean kafka.linger.ms?"),
        ({"kafka.lingers.ms": "5"}, "the client has no setting of this name; did you mean kafka.linger.ms?"),
        ({"zzzzzz": "5"}, "unknown option 'zzzzzz' of format kafkaraw"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(options, message):
    assert message in refusal(options)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka.transactional.id", "use exactlyOnce=true"),
        ("kafka.auto.offset.reset", "use startingOffsets"),
        ("kafka.key.deserializer", "convert them in Spark"),
        ("kafka.enable.auto.commit", "Spark's checkpoint keeps the offsets"),
        ("path", "a topic is not a path"),
    ],
)
def test_what_spark_has_and_we_do_not_is_refused_with_what_to_use_instead(name, message):
    assert message in refusal({name: "x"})


@pytest.mark.parametrize("name", ["groupIdPrefix", "kafka.max.poll.records", "kafka.allow.auto.create.topics"])
def test_what_means_nothing_to_this_source_is_accepted_and_said_to_have_no_effect(name, caplog):
    with caplog.at_level(logging.WARNING):
        parse(subscribe="t", **{name: "true"})
    assert f"{name} has no effect" in caplog.text


def test_options_that_spark_adds_to_streaming_writes_are_let_through():
    options = parse(topic="t", checkpointLocation="x", queryName="q", kafka__security__protocol="PLAINTEXT")
    assert options.topic == "t"


def test_what_spark_knows_of_a_table_is_no_option():
    assert parse(subscribe="t", owner="me").subscribe == ("t",)

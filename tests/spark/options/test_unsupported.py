"""What is no option is refused with what to write instead, or passed over."""

from __future__ import annotations

import logging

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options.parsing import check_read, check_write
from tests.spark.options.parsed import error_of, parse


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
    assert message in error_of(options)


OF_READING = [
    ("kafka.auto.offset.reset", "use startingOffsets"),
    ("kafka.key.deserializer", "convert them in Spark"),
    ("kafka.VALUE.deserializer", "convert them in Spark"),
    ("kafka.enable.auto.commit", "Spark's checkpoint keeps the offsets"),
]
OF_WRITING = [
    ("kafka.transactional.id", "use exactlyOnce=true"),
    ("kafka.key.serializer", "convert them in Spark"),
    ("kafka.value.serializer", "convert them in Spark"),
]


@pytest.mark.parametrize(
    ("check", "refused", "ignored"), [(check_read, OF_READING, OF_WRITING), (check_write, OF_WRITING, OF_READING)]
)
def test_options_refused_by_reading_have_no_effect_on_writing_and_vice_versa(check, refused, ignored, caplog):
    for name, message in refused:
        with pytest.raises(ConfigError, match=message):
            check(parse(subscribe="t", **{name: "x"}))
    for name, _ in ignored:
        check(parse(subscribe="t", **{name: "x"}))
        assert f"the option {name.lower()} has no effect on" in caplog.messages[-1]


@pytest.mark.parametrize(("text", "check"), [("", check_read), ("x.Y", check_read), ("x.Y", check_write)])
def test_interceptors_are_refused(text, check):
    with pytest.raises(ConfigError, match="there are no interceptors"):
        check(parse(subscribe="t", kafka__interceptor__classes=text))


def test_an_empty_interceptor_option_is_accepted_for_writing():
    check_write(parse(topic="t", kafka__interceptor__classes=""))


WITHOUT_EFFECT = [
    "groupIdPrefix", "kafka.max.poll.records", "kafka.allow.auto.create.topics", "kafka.share.acquire.mode", "path",
]  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_options_without_effect_are_accepted_with_a_warning(name, caplog):
    with caplog.at_level(logging.WARNING):
        parse(subscribe="t", **{name: "true"})
    assert f"{name} has no effect" in caplog.text


def test_settings_without_effect_on_the_client_are_named_in_one_line(caplog):
    parse(subscribe="t", kafka__metrics__num__samples="3", kafka__send__buffer__bytes="1")
    assert caplog.messages == ["without effect on this client: metrics.num.samples, send.buffer.bytes"]


@pytest.mark.parametrize("text", ["0", " 99 "])
def test_an_age_of_metadata_below_the_clients_least_is_raised_to_it(text, caplog):
    assert parse(subscribe="t", kafka__metadata__max__age__ms=text).client["metadata_max_age_ms"] == "100"
    assert "is taken for 100 ms" in caplog.text


def test_options_that_spark_adds_to_streaming_writes_are_ignored():
    options = parse(topic="t", checkpointLocation="x", queryName="q", kafka__security__protocol="PLAINTEXT")
    assert options.topic == "t"


def test_table_properties_of_spark_are_no_options():
    assert parse(subscribe="t", owner="me").subscribe == ("t",)

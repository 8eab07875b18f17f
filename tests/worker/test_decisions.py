"""What a failure means, and the copies of records in retry topics and dead-letter topics."""

from __future__ import annotations

import random
import types
from typing import Any

import pytest

from kafkaraw.errors import AuthenticationError, ConfigError, DeserializationError, KafkaTimeoutError, UsageError
from kafkaraw.worker import Retries
from kafkaraw.worker.failures import Failure, Reaction, Reason, decide
from kafkaraw.worker.letters import dead_letter, original_of, retry_copy
from kafkaraw.worker.schedule import WorkItem
from kafkaraw.worker.settings import HandlerSpec, split
from tests.worker.support import ORDERS, handler, record

POISON = DeserializationError("bad", topic="orders", partition=0, offset=0)
IN_PLACE = handler(Retries(attempts=3, backoff_ms=100, backoff_max_ms=150))
BY_TOPIC = handler(Retries(attempts=3, topic="orders.retry", on=(ConnectionError, KafkaTimeoutError)))
NO_LETTERS = handler(dead_letter_topic=None)
SERVERS = {"bootstrap_servers": "localhost:9092", "group_id": "billing"}


@pytest.mark.parametrize(
    ("spec", "reason", "error", "attempts", "reaction"),
    [
        (IN_PLACE, Reason.HANDLER, ValueError(), 1, Reaction.RETRY_IN_PLACE),
        (IN_PLACE, Reason.HANDLER, ValueError(), 3, Reaction.DEAD_LETTER),
        (IN_PLACE, Reason.TIMEOUT, KafkaTimeoutError(), 2, Reaction.RETRY_IN_PLACE),
        (IN_PLACE, Reason.DECODE, POISON, 0, Reaction.DEAD_LETTER),
        (IN_PLACE, Reason.DECODE, KafkaTimeoutError(), 99, Reaction.RETRY_IN_PLACE),
        (IN_PLACE, Reason.DECODE, AuthenticationError(), 0, Reaction.STOP),
        (IN_PLACE, Reason.RESULT, UsageError(), 1, Reaction.DEAD_LETTER),
        (BY_TOPIC, Reason.HANDLER, ConnectionResetError(), 2, Reaction.RETRY_TOPIC),
        (BY_TOPIC, Reason.HANDLER, ValueError(), 1, Reaction.DEAD_LETTER),
        (BY_TOPIC, Reason.TIMEOUT, KafkaTimeoutError(), 3, Reaction.DEAD_LETTER),
        (NO_LETTERS, Reason.HANDLER, ValueError(), 3, Reaction.STOP),
        (NO_LETTERS, Reason.DECODE, POISON, 0, Reaction.STOP),
        (handler(Retries(attempts=None)), Reason.HANDLER, ValueError(), 1_000, Reaction.RETRY_IN_PLACE),
    ],
)
def test_the_reaction_follows_from_the_reason_the_error_and_the_calls_so_far(
    spec: HandlerSpec, reason: Reason, error: Exception, attempts: int, reaction: Reaction
) -> None:
    assert decide(Failure(reason, error), spec, attempts, attempts, random.Random(1)).reaction is reaction


def test_the_wait_doubles_up_to_its_maximum_with_jitter() -> None:
    failure, rng = Failure(Reason.HANDLER, ValueError()), random.Random(1)
    waits = [decide(failure, IN_PLACE, attempts, attempts, rng).delay_ms for attempts in (1, 2)]
    assert 80 <= waits[0] <= 120
    assert 120 <= waits[1] <= 150


def test_a_copy_for_the_retry_topic_restores_the_record_and_its_attempts() -> None:
    read = record(7, b"ada", (("trace", b"1"), ("kafkaraw.topic", b"an earlier one")))
    item = WorkItem(read, read, BY_TOPIC, ORDERS, b"ada", attempts=2)
    copy = retry_copy(item, Failure(Reason.HANDLER, ValueError("no\nmoney")), "billing", 50_000, 60_000)
    assert (copy.topic, copy.value, copy.key, copy.partition, copy.timestamp_ms) == (
        "orders.retry",
        b"v7",
        b"ada",
        None,
        None,
    )
    headers = dict(copy.headers or ())
    assert headers["kafkaraw.error"] == b"ValueError: no\nmoney"
    assert headers["kafkaraw.reason"] == b"handler"
    assert (headers["kafkaraw.group"], headers["kafkaraw.handler"]) == (b"billing", b"bill")
    in_topic = record(0, b"ada", tuple(copy.headers or ()), "orders.retry")._replace(value=b"v7", timestamp_ms=50_000)
    assert original_of(in_topic) == (read, 2, 60_000)


def test_a_second_copy_names_the_first_place_and_has_the_headers_once() -> None:
    read = record(7, b"ada", (("trace", b"1"),))
    first = retry_copy(
        WorkItem(read, read, BY_TOPIC, ORDERS, None, attempts=1), Failure(Reason.HANDLER, ValueError()), "g", 1, 2
    )
    in_topic = record(3, b"ada", tuple(first.headers or ()), "orders.retry")
    original, attempts, _ = original_of(in_topic)
    again = WorkItem(in_topic, original, BY_TOPIC, ORDERS, None, attempts=attempts + 1)
    letter = dead_letter(again, Failure(Reason.HANDLER, KeyError("x")), "g", 3)
    headers = dict(letter.headers or ())
    assert len(headers) == len(letter.headers or ())
    assert (headers["kafkaraw.topic"], headers["kafkaraw.offset"], headers["kafkaraw.attempts"]) == (
        b"orders",
        b"7",
        b"2",
    )
    assert headers["trace"] == b"1"
    assert "kafkaraw.not_before" not in headers


@pytest.mark.parametrize(
    "headers",
    [(), (("kafkaraw.attempts", b"many"), ("kafkaraw.not_before", None)), (("kafkaraw.topicality", b""),)],
)
def test_any_record_can_be_written_into_a_retry_topic(headers: tuple) -> None:
    written = record(0, b"k", headers, "orders.retry")
    assert original_of(written) == (written, 0, 0)


def test_headers_that_are_no_numbers_count_as_their_defaults() -> None:
    written = record(0, b"k", (("kafkaraw.topic", b"orders"), ("kafkaraw.attempts", b"x"), ("kafkaraw.offset", None)))
    original, attempts, not_before_ms = original_of(written)
    assert (original.topic, original.offset, attempts, not_before_ms) == ("orders", -1, 0, 0)


# -- settings


def test_settings_go_to_the_client_that_has_them() -> None:
    own, consumer, producer = split(
        {**SERVERS, "concurrency": 3, "linger_ms": 7, "auto_offset_reset": "earliest", "transactional_id": "b-1"}
    )
    assert own.concurrency == 3
    assert consumer["bootstrap_servers"] == producer["bootstrap_servers"] == "localhost:9092"
    assert (producer["linger_ms"], consumer["auto_offset_reset"]) == (7, "earliest")
    assert "linger_ms" not in consumer
    assert (consumer["enable_auto_commit"], consumer["isolation_level"]) == (False, "read_committed")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurency": 3}, "unknown setting 'concurency'; did you mean 'concurrency'?"),
        ({"linger": 3}, "unknown setting 'linger'; did you mean 'linger_ms'?"),
        ({"concurrency": 0}, "concurrency=0: must be at least 1"),
        ({"ordering": "keys"}, "ordering='keys': must be one of 'key', 'partition', 'unordered'; did you mean 'key'?"),
        ({"value_serializer": str}, "'value_serializer' is not accepted here: handlers return bytes"),
        ({"enable_auto_commit": True}, "'enable_auto_commit' is not accepted here: the worker commits"),
        ({"group_id": None}, "group_id is missing"),
    ],
)
def test_a_setting_that_does_not_fit_says_why(given: dict, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        split(SERVERS | given)
    assert said in str(raised.value)


@types.coroutine
def generator_made_a_coroutine(record):
    yield record


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ((each for each in "ab"), "is not a function of a record"),
        (lambda: None, "cannot be called with a record: too many positional arguments"),
        (lambda record, context: None, "cannot be called with a record: missing a required argument: 'context'"),
        (generator_made_a_coroutine, "is a generator made a coroutine; write it as `async def`"),
        (dict, "is a class; give a function of a record, or an object"),
    ],
)
def test_a_function_that_cannot_be_a_handler_is_refused(function: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        HandlerSpec(name="x", topics=("orders",), function=function, retries=Retries())
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"attempts": 0}, "attempts=0 must be at least 1"),
        ({"backoff_ms": -1}, "backoff_ms=-1 must be between 0 and"),
        ({"backoff_ms": 10, "backoff_max_ms": 5}, "backoff_ms=10 must be between 0 and backoff_max_ms=5"),
        ({"on": "ValueError"}, "on='ValueError' must be an exception class"),
        ({"on": ()}, r"on=\(\) must be an exception class"),
    ],
)
def test_retries_that_cannot_be_are_refused(given: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Retries(**given)

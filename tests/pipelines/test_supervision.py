"""Errors of flows are sorted by what helps, and restarts wait longer from failure to failure."""

from __future__ import annotations

import pytest

from kafkaraw.errors import ConfigError, KafkaTimeoutError, NetworkError, RecordTooLargeError, Stage
from kafkaraw.pipelines.model import PipelineError
from kafkaraw.pipelines.running.supervision import Backoff, Remedy, sort_error

STREAM_FAILED = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: "
)
UDF = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/pipeline/transformations/a.py", line 3, in double
    return 2 / x
{}
"""


class StreamingQueryException(Exception):
    """As Spark's: all there is, is text."""


@pytest.mark.parametrize(
    ("text", "remedy", "shown"),
    [
        ("kafkaraw.errors.NetworkError: broker b:9092: connection refused", Remedy.RETRY, "broker b:9092: connection"),
        ("kafkaraw.errors.KafkaTimeoutError: no answer", Remedy.RETRY, "no answer"),
        ("kafkaraw.errors.RetriableBrokerError: NOT_LEADER", Remedy.RETRY, "NOT_LEADER"),
        ("kafkaraw.errors.ProducerFencedError: taken over", Remedy.RETRY, "taken over"),
        ("kafkaraw.errors.ConfigError: batch 3 has other rows", Remedy.HUMAN, "batch 3 has other rows"),
        ("kafkaraw.errors.TopicAuthorizationError: no WRITE", Remedy.HUMAN, "no WRITE"),
        ("kafkaraw.spark.errors.DataLossError: records are missing: x", Remedy.HUMAN, "records are missing: x"),
        ("kafkaraw.errors.UnknownTopicError: no topic orders", Remedy.HUMAN, "no topic orders"),
        ("kafkaraw.errors.RecordTooLargeError: 2 MB", Remedy.RECORD, "2 MB"),
        ("[CAST_INVALID_INPUT] The value 'x' of the type", Remedy.RECORD, "[CAST_INVALID_INPUT] The value 'x'"),
        ("[USER_RAISED_EXCEPTION] expectation 'positive' of 'clean'", Remedy.RECORD, "expectation 'positive'"),
        ("[DIVIDE_BY_ZERO] Division by zero.", Remedy.RECORD, "Division by zero"),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key", Remedy.HUMAN, "Provided key"),
        (
            "ChecksumException: Checksum error: file:/flows/clean/1/checkpoint/offsets/1 at 0 exp: 1",
            Remedy.HUMAN,
            "Checksum error: file:/flows/clean/1/checkpoint/offsets/1: this file of the storage is damaged",
        ),
        (
            "Wrong basePath /new/tables/clean for the root path: file:/old/tables/clean/a.parquet",
            Remedy.HUMAN,
            "/new/tables/clean was file:/old/tables/clean/a.parquet before: the storage was moved",
        ),
        ("java.io.IOException: No space left on device", Remedy.RETRY, "No space left on device"),
        ("ExecutorLostFailure (executor 1 exited", Remedy.RETRY, "ExecutorLostFailure"),
        (
            UDF.format("ZeroDivisionError: division by zero"),
            Remedy.RECORD,
            "raised ZeroDivisionError: division by zero",
        ),
        (UDF.format("KeyError: 'x'"), Remedy.RECORD, "map_records"),
        (UDF.format("ConnectionRefusedError: [Errno 111]"), Remedy.RETRY, "ConnectionRefusedError: [Errno 111]"),
        (UDF.format("requests.exceptions.ConnectionError: no route"), Remedy.RETRY, "no route"),
    ],
)
def test_an_error_in_spark_s_text_is_sorted_by_its_cause(text, remedy, shown):
    failure = sort_error(StreamingQueryException(STREAM_FAILED + text + "\n\tat org.apache.spark.X(X.scala:1)"))
    assert (failure.remedy, shown in failure.text) == (remedy, True), failure
    assert "\tat" not in failure.text


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (NetworkError("gone", stage=Stage.CONNECT), Remedy.RETRY),
        (KafkaTimeoutError("late"), Remedy.RETRY),
        (ConfigError("unknown option"), Remedy.HUMAN),
        (PipelineError("is part of a cycle"), Remedy.HUMAN),
        (RecordTooLargeError("2 MB"), Remedy.RECORD),
        (ValueError("nobody knows"), Remedy.RETRY),
    ],
)
def test_an_error_of_the_driver_is_sorted_by_its_class(error, remedy):
    assert sort_error(error).remedy is remedy


def test_a_text_is_one_line_of_bounded_length():
    assert len(sort_error(ValueError("x " * 10_000)).text) < 2_100
    assert sort_error(ValueError("")).text


def test_delays_double_up_to_the_longest_and_start_anew_after_a_batch():
    backoff = Backoff(first_s=1, max_s=5)
    assert [backoff.failed(0) for _ in range(4)] == [1, 2, 4, 5]
    assert backoff.failed(1) == pytest.approx(3.5)
    backoff.succeeded()
    assert backoff.failed(0) == 1


def test_there_is_no_attempt_after_the_last_one():
    backoff = Backoff(attempts_max=3)
    assert [backoff.failed(0), backoff.failed(0), backoff.failed(0)] == [1, 2, None]

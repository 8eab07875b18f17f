"""Every thread of the driver can write with the format, also after Ctrl-C, and Ctrl-C cancels the running jobs."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from py4j.protocol import Py4JNetworkError

JOB_STARTS_S = 60
CANCELLED_S = 30


def in_another_thread(work) -> object:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def test_a_thread_that_did_not_make_the_session_writes_with_the_format(spark, kafka):
    topic = kafka.new_topic()
    rows = spark.range(3).selectExpr("CAST(id AS string) AS value")
    writer = rows.write.format("kafkaraw").options(**kafka.options(topic=topic)).mode("append")
    assert in_another_thread(writer.save) is None
    assert kafka.numbers(topic) == [0, 1, 2]


def test_a_thread_that_did_not_make_the_session_starts_a_stream_with_the_format(spark, kafka, tmp_path):
    source, target = kafka.new_topic(), kafka.new_topic()
    kafka.produce(source, range(3))
    rows = spark.readStream.format("kafkaraw").options(**kafka.options(subscribe=source, startingOffsets="earliest"))
    writer = rows.load().select("value").writeStream.format("kafkaraw").options(**kafka.options(topic=target))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = in_another_thread(writer.start)
    query.awaitTermination()
    assert kafka.numbers(target) == [0, 1, 2]


def interrupt_when_a_job_runs(spark, is_over: threading.Event) -> None:
    """Press Ctrl-C in the main thread once Spark works on a task."""
    tracker = spark.sparkContext.statusTracker()
    deadline_s = time.monotonic() + JOB_STARTS_S
    while not any(tracker.getStageInfo(stage).numActiveTasks for stage in tracker.getActiveStageIds()):
        if is_over.is_set() or time.monotonic() > deadline_s:
            return
        time.sleep(0.05)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def is_caused_by_ctrl_c(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def test_after_ctrl_c_in_a_job_the_job_is_cancelled_and_the_next_write_succeeds(spark, kafka):
    topic = kafka.new_topic()
    rows = spark.range(3).selectExpr("CAST(id AS string) AS value").write.format("kafkaraw").mode("append")
    rows = rows.options(**kafka.options(topic=topic))
    rows.save()
    is_over = threading.Event()
    presses = threading.Thread(target=interrupt_when_a_job_runs, args=(spark, is_over))
    presses.start()
    try:
        with pytest.raises((KeyboardInterrupt, Py4JNetworkError)) as caught:
            spark.range(0, 10**12, 1, 1).selectExpr("sum(hash(id))").collect()
        # PySpark asks for one thing more on its way out, on a new connection, which rarely fails: then that is raised.
        assert isinstance(caught.value, KeyboardInterrupt) or is_caused_by_ctrl_c(caught.value)
    finally:
        is_over.set()
        presses.join()
    deadline_s = time.monotonic() + CANCELLED_S
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < deadline_s, "the job goes on"
        time.sleep(0.05)
    rows.save()
    assert kafka.numbers(topic) == [0, 0, 1, 1, 2, 2]

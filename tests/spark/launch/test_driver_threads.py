"""Every thread of the driver can write with the format, also after Ctrl-C, and Ctrl-C cancels the running jobs."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

AFTER_INTERRUPT = """
import signal, sys, threading, time
import kafkaraw.spark

spark = kafkaraw.spark.session("interrupted", master="local[2]")
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(3).selectExpr("CAST(id AS string) AS value").write.format("kafkaraw").mode("append")
rows = rows.option("kafka.bootstrap.servers", sys.argv[1]).option("topic", sys.argv[2])
rows.save()

def interrupt_when_the_job_runs():
    tracker = spark.sparkContext.statusTracker()
    while not any(tracker.getStageInfo(stage).numActiveTasks for stage in tracker.getActiveStageIds()):
        time.sleep(0.05)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt_when_the_job_runs).start()
try:
    spark.range(10**12).selectExpr("sum(hash(id))").collect()
except KeyboardInterrupt:
    print("interrupted")
rows.save()
print("written again")
spark.stop()
"""


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


def test_after_ctrl_c_in_a_job_the_job_is_cancelled_and_the_next_write_succeeds(kafka):
    topic = kafka.new_topic()
    command = [sys.executable, "-c", AFTER_INTERRUPT, kafka.servers, topic]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.stdout.splitlines() == ["interrupted", "written again"], result.stderr
    assert kafka.numbers(topic) == [0, 0, 1, 1, 2, 2]

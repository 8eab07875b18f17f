"""What the readers make of options, cores and brokers that are not there yet, without a session."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import NetworkError, UsageError
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.source import KafkaBatchReader, KafkaStreamReader
from tests.spark.spark_types import struct


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setenv("KAFKARAW_SPARK_CORES", "2")


def tasks(reader: type[KafkaBatchReader | KafkaStreamReader], size: int, **given: str) -> int:
    """Return the number of tasks that read 4 partitions with this number of offsets each."""
    return tasks_of(reader, [size] * 4, **given)


def tasks_of(reader: type[KafkaBatchReader | KafkaStreamReader], sizes: list[int], **given: str) -> int:
    """Return the number of tasks that read partitions with these numbers of offsets."""
    options = parse_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | given)
    ranges = [OffsetRange("t", number, 0, size) for number, size in enumerate(sizes)]
    return len(reader(options, struct("value binary"))._tasks(ranges))


def test_a_small_micro_batch_has_as_many_tasks_as_there_are_cores():
    assert tasks(KafkaStreamReader, 2_500) == 2


def test_each_partition_has_a_task_in_a_large_batch_or_with_an_option():
    assert tasks(KafkaStreamReader, 7_501) == 4
    assert tasks(KafkaStreamReader, 10, minPartitions="4") == 4
    assert tasks(KafkaStreamReader, 10, maxRecordsPerPartition="10") == 4
    assert tasks(KafkaStreamReader, 10, maxTasks="3") == 3
    assert tasks(KafkaBatchReader, 10) == 4


def test_each_partition_has_a_task_if_the_number_of_cores_is_unknown(monkeypatch):
    monkeypatch.delenv("KAFKARAW_SPARK_CORES")
    assert tasks(KafkaStreamReader, 10) == 4


def test_thousands_of_small_ranges_share_tasks_of_about_ten_thousand_offsets():
    assert tasks_of(KafkaStreamReader, [5] * 10_000) == 5
    assert tasks_of(KafkaStreamReader, [5] * 10_000, minPartitions="10000") == 10_000
    assert tasks_of(KafkaBatchReader, [5] * 10_000) == 200
    assert tasks_of(KafkaBatchReader, [5] * 200) == 200
    assert tasks_of(KafkaBatchReader, [1_000_000] * 1_000) == 1_000


class _StartsBroker(logging.Handler):
    """Starts a broker as soon as anybody has said that there is none yet."""

    def __init__(self, port: int) -> None:
        super().__init__(logging.WARNING)
        self.asked = threading.Event()
        self.broker = EmbeddedBroker(port)
        self.starting = threading.Thread(target=self._start)
        self.starting.start()

    def emit(self, record: logging.LogRecord) -> None:
        if "no broker yet" in record.getMessage():
            self.asked.set()

    def _start(self) -> None:
        if self.asked.wait(30):
            self.broker.start()


def _prepare(reader: KafkaStreamReader) -> None:
    reader.prepareForTriggerAvailableNow()
    assert reader.reportLatestOffset() == {}  # the broker has no topic
    reader.stop()


def _plan(reader: KafkaBatchReader) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        reader.partitions()


@pytest.mark.parametrize(("reader", "ask"), [(KafkaStreamReader, _prepare), (KafkaBatchReader, _plan)])
def test_a_read_waits_for_the_first_broker(closed_port, reader, ask):
    options = parse_options({"kafka.bootstrap.servers": f"127.0.0.1:{closed_port}", "subscribe": "t"})
    log = logging.getLogger("kafkaraw.client.network.engine")
    handler = _StartsBroker(closed_port)
    log.addHandler(handler)
    try:
        ask(reader(options, struct("value binary")))
        assert handler.asked.is_set()
    finally:
        log.removeHandler(handler)
        handler.asked.set()
        handler.starting.join()
        handler.broker.stop()


@pytest.mark.parametrize("timeout_ms", ["0", "300"])
def test_a_batch_read_waits_for_a_broker_as_long_as_the_option_says_and_names_the_cause(closed_port, timeout_ms):
    given = {"kafka.bootstrap.servers": f"127.0.0.1:{closed_port}", "kafka.bootstrap.timeout.ms": timeout_ms}
    reader = KafkaBatchReader(parse_options(given | {"subscribe": "t"}), struct("value binary"))
    began_s = time.monotonic()
    with pytest.raises(NetworkError, match="Connection refused"):
        reader.partitions()
    assert time.monotonic() - began_s >= int(timeout_ms) / 1000

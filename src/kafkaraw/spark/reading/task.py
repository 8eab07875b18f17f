"""Read a range of offsets of one partition as Arrow batches: what a task of the source does.

Runs in Spark's workers. Record batches go from the wire straight into Arrow buffers; there is no object per record.
Must not decide what to read: the driver did. Start at `read_range`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.config import ConsumerConfig
from kafkaraw.core.fetch.failures import is_unknown
from kafkaraw.errors import BrokerError, KafkaError, KafkaTimeoutError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Batch
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.client import Settings, typed_settings
from kafkaraw.spark.reading.arrow import RowCollector
from kafkaraw.spark.reading.planning import OffsetRange
from kafkaraw.spark.reading.typing_choice import typing_for
from kafkaraw.spark.worker import ClientPool, freeze_modules_once, rack_of_this_machine

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.spark.reading.json_values import JsonValues
    from kafkaraw.spark.reading.typed_columns import Decoding

T = TypeVar("T")

_log = logging.getLogger(__name__)

_POLL_TIMEOUT_S = 0.1
_END_CHECK_AFTER_S = 1.0


@dataclass(frozen=True)
class ReadSettings:
    """Settings of a task's reads; pickled to the workers.

    Attributes:
        consumer: settings of the consumer, as text.
        fail_on_data_loss: whether missing records are an error or a warning.
        poll_timeout_ms: the longest time without a change of a task's position, in ms.
        decoding: how columns are decoded; None for bytes.
    """

    consumer: Settings
    fail_on_data_loss: bool
    poll_timeout_ms: int
    decoding: Decoding | JsonValues | None = None


def _make_consumer(settings: Settings) -> Consumer:
    rack = rack_of_this_machine()
    if rack is not None and "client_rack" not in settings:
        settings = settings | {"client_rack": rack}
    return Consumer(runtime=None, **typed_settings(ConsumerConfig, settings))


_consumers: ClientPool[Consumer] = ClientPool(_make_consumer)


def read_range(work: OffsetRange, schema: pa.Schema, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Return the records of the range.

    Args:
        work: the partition and its offsets.
        schema: the columns that Spark expects, a selection of the source's.
        settings: how to read.

    Raises:
        DataLossError: records of the range are missing and `fail_on_data_loss` is set.
        KafkaTimeoutError: the position did not advance for `poll_timeout_ms`.
    """
    freeze_modules_once()
    with _consumers.borrow(settings.consumer) as consumer:
        consumer.assign([work.topic_partition])
        yield from _RangeRead(consumer, work, settings).batches(schema)
        consumer.assign([])  # not after an error: the pool closes the consumer then


class _RangeRead:
    """One pass over a range. Its attributes are the state that the steps share."""

    def __init__(self, consumer: Consumer, work: OffsetRange, settings: ReadSettings) -> None:
        self._consumer = consumer
        self._work = work
        self._settings = settings
        self._position = work.start

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Return Arrow batches of the whole range, in order."""
        work = self._work
        with typing_for(self._settings.decoding, work.topic, work.partition) as typing:
            rows = RowCollector(schema, work.topic, work.partition, typing)
            for fetched in self._fetched():
                yield from rows.add(fetched, work.end)
            yield from rows.rest()

    def _fetched(self) -> Iterator[Batch]:
        """Return the fetched batches of the range; the last one may reach beyond it."""
        self._seek(self._work.start)
        waiting_since_s = time.monotonic()
        while self._position < self._work.end:
            before = self._position
            fetched = self._unless_gone(self._poll)
            if fetched is not None:
                self._position = max(before, fetched.next_offset)
                yield fetched
            # Aborted transactions and compaction leave long ranges without a record: to read them is progress, too.
            if self._position > before:
                waiting_since_s = time.monotonic()
            elif self._position < self._work.end:
                self._unless_gone(partial(self._check_waiting, waiting_since_s))

    def _seek(self, offset: int) -> None:
        self._position = offset
        self._consumer.seek(self._work.topic_partition, offset)

    def _unless_gone(self, ask: Callable[[], T]) -> T | None:
        """Fetch. An unknown topic or partition ends the range, unless a second lookup finds it."""
        try:
            return ask()
        except KafkaError as error:
            if not is_unknown(error):
                raise
        if not self._is_there():
            self._end_with_loss(f"{self._name} does not exist any more")
        elif self._is_of_planned_topic():
            self._seek(self._position)
        return None

    def _is_there(self) -> bool:
        """Return whether brokers know the partition; they have some seconds to learn of a topic."""
        try:
            return self._work.topic_partition in self._consumer.partitions_for(self._work.topic)
        except KafkaError as error:
            if not is_unknown(error):
                raise
            return False

    def _poll(self) -> Batch | None:
        tp = self._work.topic_partition
        try:
            fetched = self._consumer.poll(_POLL_TIMEOUT_S).get(tp)
            if fetched is None:
                # The rest of the range may hold no record: only transaction markers, or it was compacted.
                self._position = max(self._position, self._consumer.position(tp))
                return None
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            if self._is_of_planned_topic():
                self._skip_what_is_gone()
            return None
        return fetched if self._is_of_planned_topic() else None

    def _is_of_planned_topic(self) -> bool:
        """Return whether the records are of the topic that the driver has planned; if it is gone, end the range.

        The range does not end if only the consumer's metadata is outdated and has an older topic of that name: then
        the consumer fetches again.
        """
        if not self._knows_another_topic():
            return True
        self._consumer.partitions_for(self._work.topic)
        if self._knows_another_topic():
            self._end_with_loss(f"topic {self._work.topic} was deleted and created again")
        else:
            self._seek(self._position)
        return False

    def _end_with_loss(self, why: str) -> None:
        self._report_loss(f"{why}, {self._name} is gone from offset {self._position} on")
        self._work = replace(self._work, end=self._position)

    def _knows_another_topic(self) -> bool:
        planned, known = self._work.topic_id, self._consumer.topic_id(self._work.topic)
        return ZERO_UUID not in (planned, known) and planned != known

    def _skip_what_is_gone(self) -> None:
        """Handle a position outside the log: continue at the log start offset, or stop at the end of the log."""
        tp = self._work.topic_partition
        first = self._consumer.beginning_offsets([tp])[tp]
        if first > self._position:
            self._report_loss(f"{self._name} starts at offset {first} now, {self._position} is gone")
            self._seek(first)
        else:
            self._check_end()

    def _check_waiting(self, since_s: float) -> None:
        waited_s = time.monotonic() - since_s
        if waited_s >= _END_CHECK_AFTER_S:
            self._check_end()
            if not self._is_of_planned_topic():
                return
        if waited_s * 1000 >= self._settings.poll_timeout_ms:
            raise KafkaTimeoutError(
                f"{self._name}: the position {self._position} did not advance within "
                f"{self._settings.poll_timeout_ms} ms, the task reads up to offset {self._work.end}; is its leader up? "
                "(the option kafkaConsumer.pollTimeoutMs sets the limit)"
            )

    def _check_end(self) -> None:
        tp = self._work.topic_partition
        end = self._consumer.end_offsets([tp])[tp]
        if end < self._work.end:
            self._report_loss(f"{self._name} ends at offset {end} now, records up to {self._work.end} were expected")
            self._work = replace(self._work, end=end)

    @property
    def _name(self) -> str:
        return f"{self._work.topic}-{self._work.partition}"

    def _report_loss(self, what: str) -> None:
        if self._settings.fail_on_data_loss:
            raise DataLossError.explained(what)
        _log.warning("records may be missing: %s", what)

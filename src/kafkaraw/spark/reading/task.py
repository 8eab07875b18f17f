"""Read ranges of offsets as Arrow batches: what a task of the source does.

Runs in Spark's workers. Record batches go from the wire straight into Arrow buffers; there is no object per record.
Must not decide what to read: the driver did. Start at `read_ranges`; `kafkaraw.ranges` does the work.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaraw.client.config import ConsumerConfig
from kafkaraw.ranges.consumer import RangeConsumer
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.ranges.reading import ReadLimits, read_batches
from kafkaraw.ranges.rows import RowCollector
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.client import Settings, typed_settings
from kafkaraw.spark.reading.typing_choice import typing_for
from kafkaraw.spark.worker import ClientPool, freeze_modules_once, rack_of_this_machine

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.spark.reading.json_values import JsonValues
    from kafkaraw.spark.reading.typed_columns import Decoding

_log = logging.getLogger(__name__)


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

    def limits(self) -> ReadLimits:
        """Return what bounds the read of a task."""
        return ReadLimits(self.poll_timeout_ms, "the option kafkaConsumer.pollTimeoutMs", self._report_loss)

    def _report_loss(self, what: str) -> None:
        if self.fail_on_data_loss:
            raise DataLossError.explained(what)
        _log.warning("records may be missing: %s", what)


def _make_consumer(settings: Settings) -> RangeConsumer:
    rack = rack_of_this_machine()
    if rack is not None and "client_rack" not in settings:
        settings = settings | {"client_rack": rack}
    return RangeConsumer(runtime=None, **typed_settings(ConsumerConfig, settings))


_consumers: ClientPool[RangeConsumer] = ClientPool(_make_consumer)


def read_ranges(work: Sequence[OffsetRange], schema: pa.Schema, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Return the records of the ranges.

    Args:
        work: the partitions and their offsets.
        schema: the columns that Spark expects, a selection of the source's.
        settings: how to read.

    Raises:
        DataLossError: records of a range are missing and `fail_on_data_loss` is set.
        KafkaTimeoutError: no position advanced for `poll_timeout_ms`.
    """
    freeze_modules_once()
    with _consumers.borrow(settings.consumer) as consumer, typing_for(settings.decoding) as typing:
        rows = RowCollector(schema, typing)
        for fetched, end in read_batches(consumer, work, settings.limits()):
            yield from rows.add(fetched, end)
        yield from rows.rest()

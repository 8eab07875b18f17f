"""Read a range of offsets from log files as Arrow batches: what a task does for the option `logDirs`.

Runs in Spark's workers. Must not decide what to read: the driver did. Start at `read_log_range`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkaraw.errors import CorruptBatchError
from kafkaraw.logs.segment_reader import Damages, LogBatch, LogRange, read_pieces
from kafkaraw.ranges.rows import RowCollector
from kafkaraw.records import Batch
from kafkaraw.records.memory import make_columns_in_huge_pages
from kafkaraw.spark.reading.typing_choice import typing_for
from kafkaraw.spark.worker import freeze_modules_once

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.spark.reading.json_values import JsonValues
    from kafkaraw.spark.reading.typed_columns import Decoding

_log = logging.getLogger(__name__)


def read_log_range(
    work: LogRange, schema: pa.Schema, *, fail_on_data_loss: bool, decoding: Decoding | JsonValues | None = None
) -> Iterator[pa.RecordBatch]:
    """Return the records of the range.

    Args:
        work: the partition, its offsets and where they are.
        schema: the columns that Spark expects, a selection of the source's.
        fail_on_data_loss: whether damaged batches and missing files are an error, or skipped with a warning.
        decoding: how columns are decoded; None for bytes.

    Raises:
        DamagedFileError: a batch is damaged, or a file does not exist any more; the error names file and position.
        OSError: a file cannot be read.
    """
    freeze_modules_once()
    make_columns_in_huge_pages()
    damages = Damages(fails=fail_on_data_loss)
    with typing_for(decoding) as typing:
        rows = RowCollector(schema, typing)
        for found in read_pieces(work, damages):
            try:
                yield from rows.add(found.batch, work.end)
            except CorruptBatchError:
                yield from _one_by_one(found, rows, work, damages)
        yield from rows.rest()
    if damages.count:
        _log.warning(
            "%s-%d, offsets %d to %d: %d damaged places of %d bytes were skipped",
            work.topic,
            work.partition,
            work.start,
            work.end,
            damages.count,
            damages.size_bytes,
        )


def _one_by_one(found: LogBatch, rows: RowCollector, work: LogRange, damages: Damages) -> Iterator[pa.RecordBatch]:
    """Decode the batches from the one that failed on, to find out which one it is, and to skip only that one."""
    start = max(rows.position, work.start)
    for each in found.wires:
        if each.header.next_offset <= start:
            continue
        batch = Batch(work.topic, work.partition, [(each.header, each.wire)], start_offset=start, end_offset=work.end)
        try:
            yield from rows.add(batch, work.end)
        except CorruptBatchError as error:
            damages.found(found.file, each.position, str(error))
            damages.skipped(each.end - each.position)

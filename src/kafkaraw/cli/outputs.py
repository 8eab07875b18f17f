"""The output of `kafkaraw consume`: bytes on a stream, or columns in Arrow's and Parquet's formats.

Everything is written a batch at a time. Start at `Output`.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from kafkaraw.cli.formats import Records, Renderer
from kafkaraw.errors import UsageError
from kafkaraw.records import Batch

if TYPE_CHECKING:
    import pyarrow

_ROW_GROUP_ROWS: Final = 128 * 1024
_ROW_GROUP_BYTES: Final = 128 * 1024 * 1024
_PIECE_RECORDS: Final = 5000


class Output(Protocol):
    """Writes batches."""

    @property
    def size_bytes(self) -> int:
        """Number of bytes written."""

    def write(self, batch: Batch) -> int:
        """Write the records; return how many they are."""

    def flush(self) -> None:
        """Write everything that can be shown already."""

    def close(self) -> None:
        """Write the end of the format."""


class StreamOutput:
    """Rendered records.

    Args:
        renderer: renders a batch as bytes.
        stream: the stream to write to.
    """

    def __init__(self, renderer: Renderer, stream: BinaryIO) -> None:
        self.size_bytes: int = 0
        self._renderer = renderer
        self._stream = stream

    def write(self, batch: Batch) -> int:
        """Write the records; return how many they are."""
        return sum(map(self.write_records, pieces_of(batch)))

    def write_records(self, records: Records) -> int:
        """Write records at once; return how many they are."""
        data, count = self._renderer.render(records)
        write_all(self._stream, data)
        self.size_bytes += len(data)
        return count

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: the format has no end."""


class ColumnsOutput:
    """Records as columns, in the schema of `Consumer.poll_arrow`.

    Args:
        form: "arrow" for Arrow's stream format, or "parquet".
        stream: the stream to write to.

    Raises:
        UsageError: pyarrow is missing, or the stream is a terminal.
    """

    def __init__(self, form: str, stream: BinaryIO) -> None:
        if stream.isatty():
            raise UsageError(f"--output {form}: binary output cannot be written to a terminal; redirect it: ... > FILE")
        try:
            import pyarrow as pa
        except ImportError:
            raise UsageError(f"--output {form} needs pyarrow: pip install 'kafkaraw[arrow]'") from None
        self._form = form
        self._sink = pa.PythonFile(stream, mode="w")
        self._writer: Any = None
        self._waiting: list[pyarrow.RecordBatch] = []
        self._schema: pyarrow.Schema | None = None  # if it is not that of a batch
        self._rows = 0
        self._size_bytes = 0  # size of the waiting batches
        self._stream = stream

    @property
    def size_bytes(self) -> int:
        """Number of bytes written."""
        return int(self._sink.tell())

    def write(self, batch: Batch) -> int:
        """Write the records; return how many they are."""
        return sum(map(self._add, batch.arrow_batches()))

    def write_table(self, table: pyarrow.Table) -> int:
        """Write rows of `ShareConsumer.poll_arrow`; return how many they are."""
        self._schema = table.schema
        return sum(map(self._add, table.to_batches()))

    def _add(self, columns: pyarrow.RecordBatch) -> int:
        self._waiting.append(columns)
        self._rows += columns.num_rows
        self._size_bytes += columns.nbytes
        if self._rows >= _ROW_GROUP_ROWS or self._size_bytes >= _ROW_GROUP_BYTES:
            self._write_waiting()
        return int(columns.num_rows)

    def flush(self) -> None:
        """Write waiting records; but Parquet keeps those that do not fill a row group."""
        if self._form == "arrow" and self._waiting:
            self._write_waiting()
            self._stream.flush()

    def close(self) -> None:
        """Write the rest and the footer; a file without records has a schema nevertheless."""
        if not self._waiting and self._writer is None:
            self._waiting.append(self._empty())
        if self._waiting:
            self._write_waiting()
        self._writer.close()
        self._stream.flush()

    def _empty(self) -> pyarrow.RecordBatch:
        import pyarrow as pa

        if self._schema is None:
            return Batch("", 0, memoryview(b""), start_offset=0).to_arrow()
        return pa.record_batch([pa.array([], each.type) for each in self._schema], schema=self._schema)

    def _write_waiting(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._waiting).unify_dictionaries()
        self._waiting, self._rows, self._size_bytes = [], 0, 0
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table)

    def _open(self, schema: pyarrow.Schema) -> Any:  # noqa: ANN401 - one of two classes without a common base
        if self._form == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self._sink, schema)
        import pyarrow as pa

        return pa.ipc.new_stream(self._sink, schema)


def pieces_of(batch: Batch) -> Iterator[Batch]:
    """Cut batches into pieces of some thousand records, so that memory is reused and not allocated for each batch.

    They are cut between wire batches: a divided one would be decompressed twice.
    """
    ends, count = [], 0
    for header in batch.headers[:-1]:
        count += header.records_count
        if count >= _PIECE_RECORDS:
            ends.append(header.next_offset)
            count = 0
    for end in ends:
        if end > batch.start_offset:
            rest = batch.starting_at(end)
            yield batch.first(batch.records_count - rest.records_count)
            batch = rest
    yield batch


def write_all(stream: BinaryIO, data: bytes) -> None:
    """Write everything, also to an unbuffered stream (PYTHONUNBUFFERED), which may write only some of the bytes."""
    written = stream.write(data)
    while written < len(data):
        written += stream.write(memoryview(data)[written:])


def is_gone(stream: BinaryIO) -> bool:
    """Return whether the reader of a pipe has closed it, as far as that can be known without writing."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def discard_pending(stream: BinaryIO) -> None:
    """Discard the bytes that were not written to a broken pipe, so that the process ends without an error message."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()

"""Runs a statement of DuckDB on a thread, so that the caller can be interrupted and can stop it.

DuckDB does not return to Python while it reads and sorts: a caller that waited in it could not be interrupted. Here the
caller waits for a queue. Must not know topics. Start at `Running.start`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Final

import duckdb
import pyarrow as pa

from kafkaraw.datasets.scan import QueryInterruptedError, put_unless
from kafkaraw.errors import UsageError

_WAITING_BATCHES: Final = 2
_LOOK_S: Final = 0.1
_END_S: Final = 30.0


class Running:
    """A statement that runs, or its rows that are not read yet.

    Args:
        connection: nothing else uses it meanwhile.

    Attributes:
        stopped: set when the statement has to end; its scans look at it.
        failures: the errors of its scans, of which DuckDB makes texts.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.stopped: threading.Event = threading.Event()
        self.failures: list[Exception] = []
        self._connection = connection
        self._ready: queue.Queue[pa.Schema | pa.RecordBatch | BaseException | None] = queue.Queue(_WAITING_BATCHES)
        self._thread: threading.Thread | None = None

    def start(self, text: str, rows_per_batch: int) -> pa.RecordBatchReader:
        """Run a statement until it has a result, and return its rows while they come; may be called again on an error.

        Raises:
            QueryInterruptedError: `stop` was called.
            duckdb.Error: the statement is wrong; from the first row on it is a UsageError.
            Exception: a scan has failed.
        """
        self.failures.clear()
        self._thread = threading.Thread(
            target=self._run, args=(text, rows_per_batch), name="kafkaraw-statement", daemon=True
        )
        self._thread.start()
        try:
            schema = self._next()
        except BaseException:  # KeyboardInterrupt, too
            self.stop()
            raise
        assert isinstance(schema, pa.Schema)
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def stop(self) -> None:
        """End the statement and its scans, and wait for them; without effect when it has ended. Any thread may call."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        self.stopped.set()
        self._connection.interrupt()
        if thread is not threading.current_thread():
            thread.join(_END_S)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while (found := self._next()) is not None:
                yield found
        finally:
            self.stop()

    def _next(self) -> pa.Schema | pa.RecordBatch | None:
        while True:
            try:
                found = self._ready.get(timeout=_LOOK_S)
            except queue.Empty:
                if self.stopped.is_set():
                    raise QueryInterruptedError("the query was interrupted") from None
                continue
            if isinstance(found, BaseException):
                raise found
            return found

    def _run(self, text: str, rows_per_batch: int) -> None:
        last: BaseException | None = None
        try:
            relation: duckdb.DuckDBPyRelation | None = self._connection.sql(text)
            if relation is None:  # a statement without a result
                self._put(pa.schema([]))
            else:
                reader = relation.to_arrow_reader(rows_per_batch)
                if self._put(reader.schema):
                    self._put_rows(reader)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            last = QueryInterruptedError("the query was interrupted") if self.stopped.is_set() else error
            if self.failures:
                last = self.failures[0]
        self._put(last)

    def _put_rows(self, reader: pa.RecordBatchReader) -> None:
        try:
            for batch in reader:
                if not self._put(batch):
                    break
        except (OSError, pa.ArrowException) as error:  # what DuckDB says, by way of Arrow's stream
            raise UsageError(str(error)) from error

    def _put(self, what: pa.Schema | pa.RecordBatch | BaseException | None) -> bool:
        return put_unless(self.stopped.is_set, self._ready, what)

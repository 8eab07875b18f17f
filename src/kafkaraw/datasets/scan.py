"""Read ranges of offsets with several threads, and return Arrow batches while they come.

Each thread reads a share of the ranges, with a consumer of its own if brokers have them. Finished batches wait for the
reader, at most `_WAITING_BYTES` of them: a slow reader slows the threads, and memory does not depend on the size of the
topic. The reader may stop early: the threads end, and their consumers are closed. Must not decide what to read. Start
at `scanned`.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.datasets.origins import Origin
from kafkaraw.errors import KafkaError
from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.ranges.planning import OffsetRange, bundle, split
from kafkaraw.ranges.rows import RowCollector, Typing
from kafkaraw.records import Batch, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Item = TypeVar("Item")

_WAITING_BYTES: Final = 8 << 20
"""Of all threads. Each of them has one more batch in hand, and its response."""
_BATCH_BYTES: Final = 4 << 20
"""Of keys, values and headers, unless a single batch of the producer has more."""
_LOOK_S: Final = 0.1
_END_S: Final = 30.0
_ROWS_PER_THREAD_MIN: Final = 50_000
"""A second consumer takes longer to connect than so many rows take to read."""


@dataclass(frozen=True)
class Scan:
    """What is read.

    Attributes:
        ranges: the offsets.
        schema: the columns.
        origin: where the records are.
        threads: how many read at most.
        typing: makes what decodes values, for each thread; None leaves bytes.
        on_read: called with the number of offsets that were read since the last call, from any thread.
        finish: what the threads make of each batch; None leaves it as it is.
    """

    ranges: Sequence[OffsetRange]
    schema: pa.Schema
    origin: Origin
    threads: int
    typing: Callable[[], Typing] | None
    on_read: Callable[[int], None] | None = None
    finish: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]] | None = None

    def without_ranges(self) -> Scan:
        """Return a scan that reads nothing."""
        return replace(self, ranges=())

    def watched(self, on_read: Callable[[int], None] | None) -> Scan:
        """Return a scan that says how many offsets were read."""
        return replace(self, on_read=on_read)


class QueryInterruptedError(KafkaError):
    """A query was interrupted before its end."""


def scanned(scan: Scan, interrupted: threading.Event | None = None) -> Generator[pa.RecordBatch]:
    """Return the records of the ranges; those of one partition are not in order if several threads read it.

    Args:
        scan: what is read.
        interrupted: when it is set, the scan ends with an error.

    Raises:
        QueryInterruptedError: the event was set.
        KafkaError: as `Origin.read` does, and for records that do not decode if that is an error.
        OSError: a file cannot be read.
    """
    shares = _shares(scan)
    if not shares:
        return
    readers = _Readers(scan, shares, interrupted or threading.Event())
    try:
        yield from readers.batches()
    finally:
        readers.stop()


def _shares(scan: Scan) -> list[tuple[OffsetRange, ...]]:
    ranges = [each for each in scan.ranges if each.size]
    offsets = sum(each.size for each in ranges)
    threads = max(1, min(scan.threads, offsets // _ROWS_PER_THREAD_MIN))
    return bundle(split(ranges, threads), threads)


class _Readers:
    """The threads of a scan."""

    def __init__(self, scan: Scan, shares: Sequence[tuple[OffsetRange, ...]], interrupted: threading.Event) -> None:
        self._scan = scan
        self._interrupted = interrupted
        self._ready = _Ready()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(share,), name=f"kafkaraw-scan-{index}", daemon=True)
            for index, share in enumerate(shares)
        ]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Start the threads, and return what they read."""
        for thread in self._threads:
            thread.start()
        left = len(self._threads)
        while left:
            if self._interrupted.is_set():
                raise QueryInterruptedError("the query was interrupted")
            found = self._ready.take(_LOOK_S)
            if found is _NOTHING:
                continue
            if found is None:
                left -= 1
            elif isinstance(found, BaseException):
                raise found
            else:
                yield found

    def stop(self) -> None:
        """End the threads; a thread that is in a Fetch ends with it."""
        self._stopped.set()
        if client_loop_thread().is_current:  # the garbage collector may end a scan on any thread
            return
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_END_S)

    def _read(self, share: Sequence[OffsetRange]) -> None:
        last: BaseException | None = None
        try:
            with closing(self._scan.origin.read(share)) as batches:
                self._read_from(batches, share)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            last = error
        self._put(last)

    def _read_from(self, batches: Iterator[tuple[Batch, int]], share: Sequence[OffsetRange]) -> None:
        typing = self._scan.typing() if self._scan.typing is not None else None
        rows = RowCollector(self._scan.schema, typing, _BATCH_BYTES)
        progress = _Progress(share, self._scan.on_read)
        for fetched, end in batches:
            next_offset = min(fetched.next_offset, end)
            for batch in rows.add(fetched, end):
                if not self._put_finished(batch):
                    return
            progress.read(fetched.topic_partition, next_offset)
            if self._has_ended:
                return
        progress.end()
        for batch in rows.rest():
            self._put_finished(batch)

    def _put_finished(self, batch: pa.RecordBatch) -> bool:
        finish = self._scan.finish
        return all(map(self._put, (batch,) if finish is None else finish(batch)))

    @property
    def _has_ended(self) -> bool:
        return self._stopped.is_set() or self._interrupted.is_set()

    def _put(self, what: pa.RecordBatch | BaseException | None) -> bool:
        while not self._has_ended:
            if self._ready.put(what, _LOOK_S):
                return True
        return False


class _Ready:
    """What threads have read, in its order: bounded in bytes, though one batch of any size is always taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[tuple[pa.RecordBatch | BaseException | None, int]] = deque()
        self._bytes = 0

    def put(self, what: pa.RecordBatch | BaseException | None, timeout_s: float) -> bool:
        """Add an item; return False if there was no room in time."""
        size = 0 if what is None or isinstance(what, BaseException) else what.nbytes
        with self._changed:
            if not self._changed.wait_for(
                lambda: not size or not self._bytes or self._bytes + size <= _WAITING_BYTES, timeout_s
            ):
                return False
            self._items.append((what, size))
            self._bytes += size
            self._changed.notify_all()
        return True

    def take(self, timeout_s: float) -> pa.RecordBatch | BaseException | None:
        """Remove and return the first item; `_NOTHING` if none came in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, timeout_s):
                return _NOTHING
            what, size = self._items.popleft()
            self._bytes -= size
            self._changed.notify_all()
        return what


_NOTHING: Final = TimeoutError()


def put_unless(has_ended: Callable[[], bool], ready: queue.Queue[Item], what: Item) -> bool:
    """Wait until a queue has room for an item; return False if the reader of the queue has ended."""
    while not has_ended():
        try:
            ready.put(what, timeout=_LOOK_S)
        except queue.Full:
            continue
        return True
    return False


class _Progress:
    """Counts the offsets of a share that were read, those without a record, too."""

    def __init__(self, share: Sequence[OffsetRange], on_read: Callable[[int], None] | None) -> None:
        self._on_read = on_read
        self._left = sum(each.size for each in share)
        self._positions: dict[TopicPartition, int] = {}
        for each in share:
            self._positions.setdefault(each.topic_partition, each.start)

    def read(self, of: TopicPartition, next_offset: int) -> None:
        """Report the offsets of a partition up to its next one."""
        offsets = min(max(next_offset - self._positions[of], 0), self._left)
        self._positions[of] = max(next_offset, self._positions[of])
        self._report(offsets)

    def end(self) -> None:
        """Report what is left: offsets behind the last record."""
        self._report(self._left)

    def _report(self, offsets: int) -> None:
        self._left -= offsets
        if self._on_read is not None and offsets:
            self._on_read(offsets)

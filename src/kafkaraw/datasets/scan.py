"""Read ranges of offsets with several threads, and return Arrow batches while they come.

Each thread has a consumer and a share of the ranges. Finished batches wait in a queue of bounded length, so a slow
reader slows the threads, and memory does not depend on the size of the topic. The reader may stop early: the threads
end, and their consumers are closed. Must not decide what to read. Start at `scanned`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import KafkaError
from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.ranges.consumer import RangeConsumer
from kafkaraw.ranges.planning import OffsetRange, bundle, split
from kafkaraw.ranges.reading import ReadLimits, read_batches
from kafkaraw.ranges.rows import RowCollector, Typing

if TYPE_CHECKING:
    import pyarrow as pa

_WAITING_BATCHES: Final = 4
"""Of each thread: up to 10,000 rows or 16 MiB each."""
_LOOK_S: Final = 0.1
_END_S: Final = 30.0
_ROWS_PER_THREAD_MIN: Final = 50_000
"""A second consumer takes longer to connect than so many rows take to read."""


class RecordsGoneError(KafkaError):
    """Records of a data set were deleted before they were read."""


@dataclass(frozen=True)
class Scan:
    """What is read.

    Attributes:
        ranges: the offsets.
        schema: the columns.
        settings: of the consumers.
        threads: how many read at most.
        poll_timeout_ms: the longest time without a change of a position, in ms.
        typing: makes what decodes values, for each thread; None leaves bytes.
        on_read: called with the number of offsets that were read since the last call, from any thread.
    """

    ranges: Sequence[OffsetRange]
    schema: pa.Schema
    settings: Mapping[str, Any]
    threads: int
    poll_timeout_ms: int
    typing: Callable[[], Typing] | None
    on_read: Callable[[int], None] | None = None

    def without_ranges(self) -> Scan:
        """Return a scan that reads nothing."""
        return replace(self, ranges=())

    def watched(self, on_read: Callable[[int], None] | None) -> Scan:
        """Return a scan that says how many offsets were read."""
        return replace(self, on_read=on_read)


def scanned(scan: Scan) -> Iterator[pa.RecordBatch]:
    """Return the records of the ranges; those of one partition are not in order if several threads read it.

    Raises:
        RecordsGoneError: records were deleted.
        KafkaTimeoutError: no position advanced for `poll_timeout_ms`.
        KafkaError: a broker refuses to be read, or records are damaged.
    """
    shares = _shares(scan)
    if not shares:
        return
    readers = _Readers(scan, shares)
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

    def __init__(self, scan: Scan, shares: Sequence[tuple[OffsetRange, ...]]) -> None:
        self._scan = scan
        self._ready: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(_WAITING_BATCHES * len(shares))
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
            found = self._ready.get()
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
            consumer = RangeConsumer(runtime=None, **self._scan.settings)
            with consumer:
                self._read_with(consumer, share)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            last = error
        self._put(last)

    def _read_with(self, consumer: RangeConsumer, share: Sequence[OffsetRange]) -> None:
        rows = RowCollector(self._scan.schema, self._scan.typing() if self._scan.typing is not None else None)
        limits = ReadLimits(self._scan.poll_timeout_ms, "poll_timeout_ms", _raise_loss)
        for fetched, end in read_batches(consumer, share, limits):
            for batch in rows.add(fetched, end):
                if not self._put(batch):
                    return
            if self._scan.on_read is not None:
                self._scan.on_read(min(fetched.next_offset, end) - fetched.start_offset)
            if self._stopped.is_set():
                return
        for batch in rows.rest():
            self._put(batch)

    def _put(self, what: pa.RecordBatch | BaseException | None) -> bool:
        """Wait for room; return False if nobody reads any more."""
        while not self._stopped.is_set():
            try:
                self._ready.put(what, timeout=_LOOK_S)
            except queue.Full:
                continue
            return True
        return False


def _raise_loss(what: str) -> None:
    raise RecordsGoneError(
        f"records are missing: {what}. They were there when the data set was made; `refresh()` makes one of what is "
        "there now"
    )

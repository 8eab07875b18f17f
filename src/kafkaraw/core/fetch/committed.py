"""Take the records of aborted transactions out of what a broker sent to a read_committed consumer.

The broker sends everything up to the last stable offset, and says which transactions in it were aborted. Their batches
are exchanged for empty ones, so that nothing behind this knows of transactions. Pure.
Source: KIP-98; Kafka's CompletedFetch.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaraw.protocol.messages.fetch import AbortedTransaction
from kafkaraw.records import ControlType, control_type_of, emptied, iter_headers


def without_aborted(records: memoryview, aborted: Sequence[AbortedTransaction]) -> memoryview:
    """The same batches, those of aborted transactions empty.

    Args:
        records: whole wire batches.
        aborted: the transactions that end in an abort, with the first offset of each; in any order.

    Raises:
        CorruptBatch: a header or a marker makes no sense.
    """
    if not aborted:
        return records
    coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    skipped: set[int] = set()
    pieces: list[bytes | memoryview] = []
    for header, batch in iter_headers(records):
        while coming and coming[-1].first_offset <= header.last_offset:
            skipped.add(coming.pop().producer_id)
        if header.is_control:
            if header.producer_id in skipped and control_type_of(batch) is ControlType.ABORT:
                skipped.discard(header.producer_id)
            pieces.append(batch)
        elif header.is_transactional and header.producer_id in skipped:
            pieces.append(emptied(header))
        else:
            pieces.append(batch)
    return memoryview(b"".join(pieces))

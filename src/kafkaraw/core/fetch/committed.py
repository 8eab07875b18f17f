"""Take the records of aborted transactions out of what a broker sent to a read_committed consumer.

The broker sends everything up to the last stable offset, and says which transactions in it were aborted. Their batches
are exchanged for empty ones, so that nothing behind this knows of transactions. Pure.
Source: KIP-98; Kafka's CompletedFetch.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaraw.protocol.messages.fetch import AbortedTransaction
from kafkaraw.records import ControlType, Wire, control_type_of, emptied, parse_header


def without_aborted(wires: Sequence[Wire], aborted: Sequence[AbortedTransaction]) -> Sequence[Wire]:
    """The same batches, those of aborted transactions empty.

    Args:
        wires: whole wire batches with their headers.
        aborted: the transactions that end in an abort, with the first offset of each; in any order.

    Raises:
        CorruptBatchError: a header or a marker makes no sense.
    """
    if not aborted:
        return wires
    coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    skipped: set[int] = set()
    left: list[Wire] = []
    for header, batch in wires:
        while coming and coming[-1].first_offset <= header.last_offset:
            skipped.add(coming.pop().producer_id)
        if header.is_control:
            if header.producer_id in skipped and control_type_of(batch) is ControlType.ABORT:
                skipped.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in skipped:
            empty = memoryview(emptied(header))
            left.append((parse_header(empty), empty))
            continue
        left.append((header, batch))
    return left

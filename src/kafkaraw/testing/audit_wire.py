"""The auditor of the bytes between clients and brokers, for the history of a `MemoryNetwork` without corruption.

Each request gets one response, in order (`audit_wire`). A batch that a producer sends again under the same sequence
numbers is the same to the byte (`audit_numbering`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from kafkaraw.protocol import FileSlice, Segment
from kafkaraw.protocol.frames import decode_request
from kafkaraw.protocol.messages.produce import ProduceRequest
from kafkaraw.records.header import NO_SEQUENCE, BatchHeader, iter_headers
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.memory_network import Sent

_SIZE_BYTES: Final = 4
_PRODUCE_KEY: Final = 0


def audit_wire(history: Iterable[Sent]) -> list[Violation]:
    """Responses without a request: second ones, and those that overtook an earlier one.

    Args:
        history: the frames sent, in order.
    """
    found: list[Violation] = []
    waiting: dict[int, dict[int, int]] = defaultdict(dict)  # link -> correlation id -> api key
    for sent in history:
        frame = sent.data[_SIZE_BYTES:]
        if sent.by == "client":
            waiting[sent.link][int.from_bytes(frame[4:8], "big")] = int.from_bytes(frame[:2], "big")
            continue
        unanswered, correlation_id = waiting[sent.link], int.from_bytes(frame[:4], "big")
        where = f"on link {sent.link} at {sent.at_s:.6f} s, correlation id {correlation_id}"
        if correlation_id not in unanswered:
            found.append(Violation(Invariant.ANSWERED_TWICE, f"{where}: no request waits for it"))
            continue
        while (first := next(iter(unanswered))) != correlation_id:
            if unanswered.pop(first) != _PRODUCE_KEY:  # with acks=0 there is no response
                found.append(Violation(Invariant.ANSWERED_TWICE, f"{where}: {first} was to be answered before"))
        del unanswered[correlation_id]
    return found


def audit_numbering(history: Iterable[Sent]) -> list[Violation]:
    """Batches with the same producer id, epoch and first sequence that are not the same.

    Fewer records are no violation: after a batch split, the new batches have the same numbers.

    Args:
        history: the frames sent, in order.
    """
    found: list[Violation] = []
    known: dict[tuple[object, ...], tuple[int, int]] = {}
    for sent in history:
        for where, header in _numbered_batches(sent):
            which = (*where, header.producer_id, header.producer_epoch, header.base_sequence)
            count, crc = known.setdefault(which, (header.records_count, header.crc))
            if header.records_count > count or (header.records_count == count and header.crc != crc):
                what = f"sequence {header.base_sequence} of producer {header.producer_id} to {where[0]} {where[2]}"
                found.append(Violation(Invariant.REWRITTEN, f"{what} stands for other bytes at {sent.at_s:.6f} s"))
    return found


def _numbered_batches(sent: Sent) -> Iterator[tuple[tuple[str, bytes, int], BatchHeader]]:
    """Return the batches of idempotent producers in a frame, each with topic, topic id and partition."""
    frame = sent.data[_SIZE_BYTES:]
    if sent.by != "client" or int.from_bytes(frame[:2], "big") != _PRODUCE_KEY:
        return
    _, request = decode_request(frame)
    assert isinstance(request, ProduceRequest)
    for topic in request.topic_data:
        for data in topic.partition_data:
            for header, _ in iter_headers(memoryview(_bytes_of(data.records))):
                if header.base_sequence != NO_SEQUENCE:
                    yield (topic.name, topic.topic_id, data.index), header


def _bytes_of(records: Segment | None) -> bytes | bytearray | memoryview:
    assert not isinstance(records, FileSlice), "what was sent was read from a file, and is bytes now"
    return records or b""

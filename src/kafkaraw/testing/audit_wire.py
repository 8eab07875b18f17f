"""What must hold of the bytes between clients and brokers: each request is answered once, and in its turn.

For the history of a `MemoryNetwork` in which nothing was corrupted. Start at `audit_wire`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.memory_network import Sent

_SIZE_BYTES: Final = 4
_PRODUCE_KEY: Final = 0


def audit_wire(history: Iterable[Sent]) -> list[Violation]:
    """Answers that nobody waited for: second ones, and those that overtook an earlier one.

    Args:
        history: what was sent, in order.
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
            found.append(Violation(Invariant.ANSWERED_TWICE, f"{where}: nobody waits for it"))
            continue
        while (first := next(iter(unanswered))) != correlation_id:
            if unanswered.pop(first) != _PRODUCE_KEY:  # with acks=0 it wants no answer
                found.append(Violation(Invariant.ANSWERED_TWICE, f"{where}: {first} was to be answered before"))
        del unanswered[correlation_id]
    return found

"""How much a reading of some bytes explains: the measure by which guesses are ranked.

A reading gives every byte a meaning, and some values are likelier than others for their meaning: an error code is
mostly 0, a port is near 9092, text is letters. A value that was expected with probability p costs log2(1/p) bits to
write; the bits saved compared with the plain bytes are the gain. Readings of the same bytes compare by their gains, as
in the minimum description length principle. The probabilities are estimates by hand, measured in
`tests/inspect/test_guess.py`. This module must not read bytes. Start at `gain_of`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkaraw.protocol.annotate import Node
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.error_codes import ERROR_TABLE
from kafkaraw.protocol.types import FLOAT64, ZERO_UUID, Uuid

# Costs in bits.
IMPLAUSIBLE: Final = 12.0  # on top of the plain bits
LENGTH_COST: Final = 2.0
LETTER_COST, PRINTABLE_COST, FOREIGN_COST, CONTROL_COST = 5.2, 7.5, 12.0, 18.0
NULL_COST: Final = 2.0
EMPTY_COST: Final = 2.5
TAG_COST: Final = 4.0
UNKNOWN_TAG_COST: Final = 24.0
NOT_CANONICAL_COST: Final = 24.0
BATCH_GAIN: Final = 60.0  # lengths that fit and a magic byte
RANDOM_UUID_GAIN: Final = 5.0  # version and variant bits of a random UUID
YEAR_2001_MS, YEAR_2045_MS = 978_307_200_000, 2_366_841_600_000
NO_OPERATIONS: Final = -(1 << 31)  # "authorized operations" that were not requested

LETTERS: Final = re.compile(r"[A-Za-z0-9._:/ -]")


class Gain(NamedTuple):
    """The evidence for a reading.

    Attributes:
        bits: saved compared with the plain bytes; negative if the reading is improbable.
        worst: the least that any one field saves: far below 0 if a value is impossible for its meaning.
    """

    bits: float
    worst: float


def gain_of(root: Node, data: memoryview) -> Gain:
    """Weigh a tree."""
    bits = worst = 0.0
    stack = [root]
    while stack:
        node = stack.pop()
        one = _gain(node, data)
        bits += one
        worst = min(worst, one)
        stack.extend(node.children)
    return Gain(bits, worst)


def _gain(node: Node, data: memoryview) -> float:
    own_end = node.children[0].start if node.children else node.end
    own_bits = 8.0 * (own_end - node.start)
    penalty = NOT_CANONICAL_COST * sum(note.startswith("not canonical") for note in node.notes)
    return own_bits - _cost(node, data, own_bits) - penalty


def _cost(node: Node, data: memoryview, own_bits: float) -> float:
    value = node.value
    if node.kind == "tag section":
        return 0.1 if not value else TAG_COST
    if node.kind == "tagged field":
        return TAG_COST
    if node.kind == "unknown tagged field":
        return UNKNOWN_TAG_COST + own_bits
    if "array" in node.kind:
        return _count_cost(value)
    if isinstance(value, Uuid):
        return _uuid_cost(value)
    if isinstance(value, str):
        return _text_cost(value)
    if isinstance(value, (bytes, memoryview)):
        return _blob_cost(node, value)
    if isinstance(value, bool):
        return 1.0 if data[node.start] < 2 else 8 + IMPLAUSIBLE
    if isinstance(value, float):
        return _float_cost(value)
    if isinstance(value, int):
        return _number_cost(node.name, value, node.end - node.start)
    # A structure: no bytes of its own, or the byte that says whether it is null. Else a null.
    return min(NULL_COST, own_bits)


def _count_cost(count: object) -> float:
    if not isinstance(count, int):
        return NULL_COST + 1
    return 1.0 + 1.6 * math.log2(count + 1) if count else EMPTY_COST


def _uuid_cost(value: Uuid) -> float:
    if value == ZERO_UUID:
        return NULL_COST
    is_random = value[6] >> 4 == 4 and value[8] >> 6 == 2
    return 128.0 - RANDOM_UUID_GAIN if is_random else 128.0 + IMPLAUSIBLE


def _text_cost(text: str) -> float:
    if not text:
        return EMPTY_COST
    cost = LENGTH_COST + 1.5 * math.log2(len(text))
    for char in text:
        if LETTERS.match(char):
            cost += LETTER_COST
        elif char.isprintable():
            cost += PRINTABLE_COST if char.isascii() else FOREIGN_COST
        else:
            cost += CONTROL_COST
    return cost


def _blob_cost(node: Node, value: bytes | memoryview) -> float:
    size = len(value)
    if not size:
        return EMPTY_COST
    cost = LENGTH_COST + 1.5 * math.log2(size) + 8.0 * size
    if "records" not in node.kind:
        return cost
    fits = size > 16 and value[16] <= 2 and 0 < int.from_bytes(value[8:12]) <= size - 12
    return cost - BATCH_GAIN if fits else cost + IMPLAUSIBLE


def _float_cost(value: float) -> float:
    plausible = value == 0 or (math.isfinite(value) and 1e-6 < abs(value) < 1e15)
    return FLOAT64.size * 8 - 4.0 if plausible else FLOAT64.size * 8 + IMPLAUSIBLE


def _number_cost(name: str, value: int, size: int) -> float:
    for pattern, rule in NAMED:
        if pattern.search(name):
            cost = rule(value)
            return 8.0 * size + IMPLAUSIBLE if cost is None else cost
    return _plain_cost(value, size)


def _plain_cost(value: int, size: int) -> float:
    """Small numbers are the most frequent, 0 and -1 above all; negative ones are rare."""
    if value == 0:
        return 1.5
    if value == -1:
        return 3.0
    if value < -1:
        return 8.0 * size + IMPLAUSIBLE
    return min(3.5 + 1.25 * math.log2(value + 2), 8.0 * size + IMPLAUSIBLE / 2)


# A rule gives the cost of a value, or None when it does not fit the name.


def _error_cost(value: int) -> float | None:
    return 0.2 if value == 0 else 8.0 if value in ERROR_TABLE else None


def _port_cost(value: int) -> float | None:
    if 9000 <= value < 10_000:
        return 6.0
    return 14.0 if 0 < value < 65_536 else 8.0 if value in (0, -1) else None


def _throttle_cost(value: int) -> float | None:
    return 0.3 if value == 0 else 18.0 if 0 < value < 60_000 else None


def _api_key_cost(value: int) -> float | None:
    return 5.5 if value in API_BY_KEY else None


def _time_cost(value: int) -> float | None:
    return 2.5 if value in (-1, 0) else 40.0 if YEAR_2001_MS < value < YEAR_2045_MS else None


def _operations_cost(value: int) -> float | None:
    return 1.0 if value == NO_OPERATIONS else 12.0 if 0 <= value < 1 << 14 else None


def _count_like_cost(value: int) -> float | None:
    return 4.0 + 1.5 * math.log2(value + 2) if value >= -1 else None


NAMED: Final[tuple[tuple[re.Pattern[str], Callable[[int], float | None]], ...]] = (
    (re.compile(r"error_code$"), _error_cost),
    (re.compile(r"^port$"), _port_cost),
    (re.compile(r"^throttle_time_ms$"), _throttle_cost),
    (re.compile(r"^api_key$"), _api_key_cost),
    (re.compile(r"timestamp(_ms)?$|append_time_ms$|start_time_ms$"), _time_cost),
    (re.compile(r"authorized_operations$"), _operations_cost),
    (re.compile(r"_(id|index|epoch)$|offset$|_ms$"), _count_like_cost),
)

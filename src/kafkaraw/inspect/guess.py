"""Find out what a frame is when nobody says: request or response, which API and version, with a size prefix or not.

A request names its API. A response does not: every (API, version) that reads all of its bytes is a candidate, and
what it reads is weighed: known error codes, readable text, plausible ids and ports speak for it. Start at `guess`.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

from kafkaraw.errors import KafkaError
from kafkaraw.inspect.frames import SIZE_PREFIX, FrameKind, Reading
from kafkaraw.protocol.annotate import Node, annotate_message
from kafkaraw.protocol.apis import API_BY_KEY, API_TABLE, Api
from kafkaraw.protocol.error_codes import ERROR_TABLE
from kafkaraw.protocol.frames import decode_request_header, response_header_version
from kafkaraw.protocol.types import decode_uvarint

# Evidence is counted in bits, as in a likelihood: a plausible value of n random bits speaks for a reading.
TEXT_BITS_PER_CHARACTER: Final = 1.3
TEXT_BITS_MAX: Final = 40.0
IMPLAUSIBLE_BITS: Final = -12.0
UNKNOWN_TAG_BITS: Final = -10.0
EMPTY_BITS: Final = 0.5
CANDIDATES_MAX: Final = 12
# Guessing tries hundreds of readings: only the beginning of a large frame is weighed.
WEIGHED_SIZE_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to read the bytes.

    Attributes:
        reading: the way.
        evidence: bits that speak for it.
        share: how likely it is among all candidates, from 0 to 1.
    """

    reading: Reading
    evidence: float
    share: float


def guess(
    data: memoryview, *, kind: FrameKind | None = None, api: Api | None = None, version: int | None = None
) -> list[Candidate]:
    """Rank the ways to read some bytes, the likeliest first.

    Args:
        data: the bytes, with or without size prefix.
        kind: request or response, when known.
        api: when known.
        version: when known.

    Returns:
        Candidates; empty when no reading consumes all bytes.
    """
    found: list[tuple[Reading, float]] = []
    for prefixed in _framings(data):
        body = data[SIZE_PREFIX:] if prefixed else data
        bonus = 31.0 if prefixed else 0.0
        if kind is not FrameKind.RESPONSE:
            found += [(reading, bits + bonus) for reading, bits in _as_request(body, prefixed, api, version)]
        if kind is not FrameKind.REQUEST:
            found += [(reading, bits + bonus) for reading, bits in _as_response(body, prefixed, api, version)]
    return _ranked(found)


def guess_broken(data: memoryview, api: Api | None = None, version: int | None = None) -> Reading | None:
    """The likeliest reading of bytes that no reading consumes: a request whose header makes sense, cut or damaged."""
    for prefixed in (True, False):
        body = data[SIZE_PREFIX:] if prefixed else data
        if prefixed and not _size_is_near(data):
            continue
        if len(body) < 8:
            continue
        key, stated = struct.unpack_from(">hh", body)
        known = API_BY_KEY.get(key)
        if known is not None and known.versions.includes(stated) and api in (None, known):
            return Reading(FrameKind.REQUEST, known, stated, prefixed)
    if api is not None and version is not None:
        return Reading(FrameKind.RESPONSE, api, version, _size_is_near(data))
    return None


def _framings(data: memoryview) -> list[bool]:
    """Whether there is a size prefix: certain when it fits the length exactly."""
    fits = len(data) >= SIZE_PREFIX and int.from_bytes(data[:SIZE_PREFIX]) == len(data) - SIZE_PREFIX
    return [True, False] if fits else [False]


def _size_is_near(data: memoryview) -> bool:
    """Whether the first four bytes could be the size of a frame that was cut or has something behind it."""
    if len(data) < SIZE_PREFIX:
        return False
    size = int.from_bytes(data[:SIZE_PREFIX], signed=True)
    return 8 <= size <= max(4096, 8 * len(data))


def _as_request(body: memoryview, prefixed: bool, api: Api | None, version: int | None) -> list[tuple[Reading, float]]:
    try:
        header, at = decode_request_header(body)
    except KafkaError:
        return []
    known = API_BY_KEY.get(header.api_key)
    if known is None or not known.versions.includes(header.api_version):
        return []
    if api not in (None, known) or version not in (None, header.api_version):
        return []
    tree, error = annotate_message(known.request, header.api_version, body, at)
    if error is not None or tree.end != len(body):
        return []
    client_id = _text_bits(header.client_id) if header.client_id else 8.0
    # Key, version and the length of the client id agree with the declarations: 6 bytes that could be anything.
    bits = 24.0 + client_id + _weigh(tree)
    return [(Reading(FrameKind.REQUEST, known, header.api_version, prefixed), bits)]


def _as_response(body: memoryview, prefixed: bool, api: Api | None, version: int | None) -> list[tuple[Reading, float]]:
    found = []
    for candidate in API_TABLE if api is None else (api,):
        for stated in range(candidate.versions.min, candidate.versions.max + 1):
            if version not in (None, stated):
                continue
            bits = _weigh_response(body, candidate, stated)
            if bits is not None:
                found.append((Reading(FrameKind.RESPONSE, candidate, stated, prefixed), bits))
    return found


def _weigh_response(body: memoryview, api: Api, version: int) -> float | None:
    at = 4
    if len(body) < at:
        return None
    if response_header_version(api.key, version) == 1:
        try:
            count, at = decode_uvarint(body, at)
        except (IndexError, ValueError):
            return None
        if count:
            return None  # no tags are defined for response headers
    tree, error = annotate_message(api.response, version, body, at)
    if error is not None or tree.end != len(body):
        return None
    # Offered versions are likelier to be met than those that were removed long ago.
    return _weigh(tree) + (0.0 if api.supported.includes(version) else -1.0)


def _weigh(node: Node) -> float:
    return sum(_weigh(child) for child in node.children) + _weigh_value(node)


def _weigh_value(node: Node) -> float:
    value = node.value
    if node.kind == "unknown tagged field":
        return UNKNOWN_TAG_BITS
    if "array" in node.kind:
        return EMPTY_BITS if not value else 1.0
    if isinstance(value, str):
        return _text_bits(value)
    if isinstance(value, bool) or not isinstance(value, int) or (node.spec is None and not node.name.startswith("[")):
        return 0.0
    return _number_bits(node.name, value, node.end - node.start)


def _text_bits(text: str) -> float:
    if not text:
        return EMPTY_BITS
    readable = sum(char.isprintable() and char.isascii() for char in text)
    if readable < len(text):
        return IMPLAUSIBLE_BITS
    return min(TEXT_BITS_MAX, TEXT_BITS_PER_CHARACTER * readable + 4)


def _number_bits(name: str, value: int, size: int) -> float:
    if name.endswith("error_code"):
        return (8.0 if value == 0 else 4.0) if value in ERROR_TABLE else IMPLAUSIBLE_BITS
    if name == "port":
        return 8.0 if 0 < value < 65_536 else IMPLAUSIBLE_BITS
    if name == "throttle_time_ms":
        return 8.0 if value == 0 else 0.0 if 0 < value < 60_000 else IMPLAUSIBLE_BITS
    if name == "api_key":
        return 4.0 if value in API_BY_KEY else IMPLAUSIBLE_BITS
    if size == 1:
        return 1.0
    if -1 <= value < 100_000 or value == -(1 << 31):
        return 2.0
    return -1.0 if size < 8 else 0.0


def _ranked(found: list[tuple[Reading, float]]) -> list[Candidate]:
    if not found:
        return []
    found.sort(key=lambda pair: (-pair[1], pair[0].api.key, -pair[0].version))
    best = found[0][1]
    weights = [2.0 ** max(bits - best, -200.0) for _, bits in found]
    total = math.fsum(weights)
    ranked = [Candidate(reading, bits, weight / total) for (reading, bits), weight in zip(found, weights, strict=True)]
    return ranked[:CANDIDATES_MAX]

"""Detect what a frame is: request or response, which API and version, with a size prefix or not.

A request names its API. A response does not: every (API, version) that reads all of its bytes is a candidate, weighed
by what it explains (`evidence`). Versions that assign the same bytes to the same fields are one candidate. If the size
prefix does not fit, the frame may be cut short or have bytes after it, and readings that fail only for that reason are
candidates too. Start at `guess`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from kafkaraw.errors import ProtocolError
from kafkaraw.inspect.evidence import IMPLAUSIBLE, gain_of
from kafkaraw.inspect.frames import SIZE_PREFIX, FrameKind, Reading, claimed_size, walk_frame
from kafkaraw.protocol.annotate import Node, Walker
from kafkaraw.protocol.apis import API_BY_KEY, API_TABLE, Api
from kafkaraw.protocol.compile import compile_decoder
from kafkaraw.protocol.frames import DECODE_FAILURES

# Only the first fields of a large frame are weighed; the compiled decoder checks whether all of it can be read.
NODES_WEIGHED_MAX: Final = 3000
FRAME_SIZE_MAX: Final = 1 << 30
PREFIX_LIKELY_MAX: Final = 1 << 20
KEY_AND_VERSION_SIZE: Final = 4
# The evidence is reduced: the estimates behind it are rough, and their errors add up.
TEMPER: Final = 0.6
SIZE_PREFIX_GAIN: Final = 32.0  # a size that fits exactly is hardly an accident
CUT_PREFIX_GAIN: Final = 18.0  # a size that is a little larger may be one
# A number far from the number of bytes is less likely a size; one that is too small, even less.
SHORT_COST_PER_HALVING, LEFTOVER_COST_PER_HALVING = 2.0, 10.0
PART_COST: Final = 1.0  # whole frames are more frequent than parts
# Frequency of APIs, in bits: all clients use the common ones; captures seldom show those between brokers.
COMMON_KEYS: Final = frozenset({0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 22, 68})
INTERNAL_KEYS: Final = frozenset(
    {4, 5, 6, 7, 27, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 80, 81, 82, 83, 84, 85, 86, 87}
)
COMMON_BITS, INTERNAL_BITS, REMOVED_BITS, UNSTABLE_BITS = 2.0, -3.0, -3.0, -8.0
# A reading of a part of the bytes must explain this much to be shown.
REQUEST_GAIN_MIN, REQUEST_SHARE_MIN = 18.0, 0.2
PART_GAIN_MIN: Final = 60.0
PART_SHARE_MIN: Final = 0.9
PART_DOUBT_MAX: Final = 5.0
CUT_SHARE_MAX: Final = 0.1
MISSING_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to read the bytes.

    Attributes:
        reading: the reading, in the newest of its versions.
        versions: versions that assign the same bytes to the same fields, ascending.
        gain: bits of evidence for it.
        share: its probability among all candidates, from 0 to 1.
        worst: bits of the field with the strongest evidence against it.
        is_whole: whether it reads all bytes; else the frame is cut short or has bytes after it.
        is_cut: whether the frame is cut short.
    """

    reading: Reading
    versions: tuple[int, ...]
    gain: float
    share: float
    worst: float
    is_whole: bool
    is_cut: bool

    def __str__(self) -> str:
        return f"{self.reading.api.name} {self.reading.kind} v{version_words(self.versions)}"


@dataclass(frozen=True, slots=True)
class _Weighed:
    reading: Reading
    signature: int
    gain: float
    worst: float
    is_whole: bool
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Limits:
    """How bytes may fail to be a whole frame.

    Attributes:
        end_max: where a frame ends that was cut short; 0 if the bytes must be whole.
        leftover: whether bytes may be left over.
    """

    end_max: int = 0
    leftover: bool = False


_WHOLE: Final = _Limits()
_PART: Final = _Limits(end_max=FRAME_SIZE_MAX, leftover=True)


def version_words(versions: tuple[int, ...]) -> str:
    """Return versions as ranges: `1, 3-5`."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and runs[-1][-1] == version - 1:
            runs[-1][1:] = [version]
        else:
            runs.append([version])
    return ", ".join("-".join(map(str, run)) for run in runs)


def guess(
    data: memoryview, *, kind: FrameKind | None = None, api: Api | None = None, version: int | None = None
) -> list[Candidate]:
    """Rank the ways to read some bytes, the likeliest first.

    Args:
        data: the bytes, with or without size prefix.
        kind: request or response, if known.
        api: the API, if known.
        version: the version, if known.

    Returns:
        Candidates: those that read all bytes, and those for which the frame is cut short or has bytes after it.
    """
    size, have = claimed_size(data), len(data) - SIZE_PREFIX
    bare = list(_readings(data, False, kind, api, version))
    found = _weighed(data, bare, _WHOLE)
    if _is_likely_size(size, len(data)):
        limits = _Limits(end_max=SIZE_PREFIX + size) if size > have else _WHOLE
        prefixed = _readings(data, True, kind, api, version)
        halvings = math.log2(len(data) / (SIZE_PREFIX + size))
        misfit = LEFTOVER_COST_PER_HALVING * halvings if halvings > 0 else -SHORT_COST_PER_HALVING * halvings
        found += _weighed(data[: SIZE_PREFIX + size], prefixed, limits, is_whole=size == have, cost=misfit)
    if not any(one.is_whole for one in found):
        # Without a known API, only a request has enough evidence in a part of its bytes.
        parts = [one for one in bare if one.kind is FrameKind.REQUEST] if api is None else [] if found else bare
        found += _weighed(data, parts, _PART, is_whole=False)
    return _ranked(found)


def is_believable(data: memoryview, ranked: list[Candidate], *, named: bool) -> bool:
    """Return whether the first reading is good enough to be shown; `named` means that API and version are known."""
    if not ranked or named:
        return bool(ranked)
    best = ranked[0]
    if best.reading.kind is FrameKind.REQUEST:
        enough = best.gain > REQUEST_GAIN_MIN and best.share > REQUEST_SHARE_MIN and best.worst > -2 * IMPLAUSIBLE
        return best.is_whole or enough
    if best.is_cut:
        enough = claimed_size(data) <= MISSING_MAX * len(data)
        return enough and best.gain >= PART_GAIN_MIN and best.share >= PART_SHARE_MIN and best.worst > -PART_DOUBT_MAX
    # A few bytes can be a whole response without size prefix as well as the beginning of a larger frame with one.
    cut = math.fsum(candidate.share for candidate in ranked if candidate.is_cut)
    return best.gain > 0 and cut < CUT_SHARE_MAX


def guess_damaged(
    data: memoryview, *, kind: FrameKind | None = None, api: Api | None = None, version: int | None = None
) -> Reading | None:
    """Return the intended reading if the bytes become invalid in the middle: the known one, or the request's own."""
    size = claimed_size(data)
    prefixed = len(data) <= 2 * size and size <= 2 * len(data)
    requests = _requests(data, prefixed) if kind is not FrameKind.RESPONSE else []
    for reading in requests:
        if api in (None, reading.api) and version in (None, reading.version):
            # Small numbers begin with key 0, so Produce must be named; and so must old versions.
            is_sure = reading.api.key != 0 and reading.api.supported.includes(reading.version)
            return reading if is_sure or api is not None else None
    if api is not None and version is not None:
        return Reading(kind or FrameKind.RESPONSE, api, version, prefixed)
    return None


def _is_likely_size(size: int, have: int) -> bool:
    """Return whether a number could be the size of a frame that was cut short or has bytes after it."""
    return SIZE_PREFIX <= size <= max(PREFIX_LIKELY_MAX, 64 * have)


def _readings(
    data: memoryview,
    prefixed: bool,
    kind: FrameKind | None,
    api: Api | None,
    version: int | None,
) -> Iterator[Reading]:
    """Return every reading that agrees with the known facts."""
    if kind is not FrameKind.RESPONSE:
        for reading in _requests(data, prefixed):
            if api in (None, reading.api) and version in (None, reading.version):
                yield reading
        if kind and api and version is not None and len(data) < (SIZE_PREFIX if prefixed else 0) + KEY_AND_VERSION_SIZE:
            yield Reading(FrameKind.REQUEST, api, version, prefixed)
    if kind is not FrameKind.REQUEST:
        for candidate in API_TABLE if api is None else (api,):
            for stated in range(candidate.versions.min, candidate.versions.max + 1):
                if version in (None, stated):
                    yield Reading(FrameKind.RESPONSE, candidate, stated, prefixed)


def _requests(data: memoryview, prefixed: bool) -> list[Reading]:
    """Return the request that the bytes name: none or one."""
    at = SIZE_PREFIX if prefixed else 0
    if len(data) < at + KEY_AND_VERSION_SIZE:
        return []
    api = API_BY_KEY.get(int.from_bytes(data[at : at + 2]))
    version = int.from_bytes(data[at + 2 : at + 4])
    if api is None or not api.versions.includes(version):
        return []
    return [Reading(FrameKind.REQUEST, api, version, prefixed)]


def _weighed(
    data: memoryview, readings: Iterable[Reading], limits: _Limits, *, is_whole: bool = True, cost: float = 0.0
) -> list[_Weighed]:
    found = [_weigh(data, reading, limits, is_whole) for reading in readings]
    return [replace(one, gain=one.gain - cost) for one in found if one is not None]


class _Enough(Exception):
    """As many fields were read as are weighed."""


class _Sampler(Walker):
    """A walker that stops after a limited number of fields."""

    nodes_left = NODES_WEIGHED_MAX

    def open(self, name: str, parent: Node) -> Node:
        """Begin a node, unless the limit is reached."""
        if self.nodes_left == 0:
            raise _Enough
        self.nodes_left -= 1
        return super().open(name, parent)


def _weigh(data: memoryview, reading: Reading, limits: _Limits, is_whole: bool) -> _Weighed | None:
    """Read the bytes in one way; None if they are invalid within the limits."""
    at = SIZE_PREFIX if reading.prefixed else 0
    walker = _Sampler(data, at, reading.version, flexible=False, keep=True)
    root = Node("", "", at, at)
    scale = 1.0
    try:
        walk_frame(walker, root, reading)
    except ProtocolError as error:
        if not len(data) < walker.wanted_end <= limits.end_max:
            return None
        walker.close(root, error)
    except _Enough:
        if not (limits.end_max or _reads_all(data, root, reading)):
            return None
        scale = (len(data) - at) / max(walker.at - at, 1)
    else:
        if walker.at != len(data) and not limits.leftover:
            return None
    found = gain_of(root, data)
    gain = found.bits * scale + _prior(reading)
    is_cut = bool(limits.end_max)
    if reading.prefixed:
        gain += CUT_PREFIX_GAIN if is_cut else SIZE_PREFIX_GAIN
    if not is_whole:
        gain -= PART_COST
    return _Weighed(reading, _signature(root), gain, found.worst, is_whole, is_cut)


def _reads_all(data: memoryview, root: Node, reading: Reading) -> bool:
    """Return whether the compiled decoder reads the body to the last byte."""
    decoder = compile_decoder(reading.message, reading.version)
    try:
        _, end = decoder(data, root.children[-1].start)
    except DECODE_FAILURES:
        return False
    return bool(end == len(data))


def _prior(reading: Reading) -> float:
    key = reading.api.key
    bits = COMMON_BITS if key in COMMON_KEYS else INTERNAL_BITS if key in INTERNAL_KEYS else 0.0
    if reading.version < reading.api.supported.min:
        return bits + REMOVED_BITS
    return bits + (UNSTABLE_BITS if reading.version > reading.api.supported.max else 0.0)


def _signature(root: Node) -> int:
    """Return a key that is equal for trees that assign the same bytes to the same names."""
    parts: list[tuple[str, int, int]] = []
    stack = [root]
    while stack:
        node = stack.pop()
        parts.append((node.name, node.start, node.end))
        stack.extend(node.children)
    return hash(tuple(parts))


def _ranked(found: list[_Weighed]) -> list[Candidate]:
    groups: dict[tuple[FrameKind, int, bool, int], list[_Weighed]] = {}
    for one in found:
        reading = one.reading
        groups.setdefault((reading.kind, reading.api.key, reading.prefixed, one.signature), []).append(one)
    # Of equal versions, show the newest one that current brokers offer.
    best = [max(group, key=lambda one: (one.gain, one.reading.version)) for group in groups.values()]
    versions = [tuple(sorted(one.reading.version for one in group)) for group in groups.values()]
    top = max((one.gain for one in best), default=0.0)
    weights = [2.0 ** (TEMPER * (one.gain - top)) for one in best]
    total = math.fsum(weights)
    ranked = [
        Candidate(one.reading, same, one.gain, weight / total, one.worst, one.is_whole, one.is_cut)
        for one, same, weight in zip(best, versions, weights, strict=True)
    ]
    ranked.sort(key=lambda candidate: (-candidate.gain, candidate.reading.api.key, candidate.reading.prefixed))
    return ranked

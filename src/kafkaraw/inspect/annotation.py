"""`annotate`: any bytes of the protocol as a tree that people can read.

This is the Python face of `kafkaraw wire decode`. It must not print; `render` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kafkaraw.errors import ProtocolError, UsageError
from kafkaraw.inspect.frames import SIZE_PREFIX, Annotated, FrameKind, Reading, annotate_frame, api_named
from kafkaraw.inspect.guess import Candidate, guess, guess_broken
from kafkaraw.protocol.annotate import Node


@dataclass(slots=True)
class Annotation:
    """A frame and what its bytes mean.

    Attributes:
        data: the bytes.
        reading: what the frame is taken for; None when nothing fits.
        root: tree of everything that could be read; offsets count in `data`.
        error: at which byte and field the reading stopped, or None.
        canonical: whether encoding the value again gives the same bytes; None when there is no whole value.
        candidates: ways to read the bytes that consume them all, the likeliest first.
    """

    data: bytes
    reading: Reading | None
    root: Node
    error: ProtocolError | None
    canonical: bool | None
    candidates: list[Candidate] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether every byte was read and made sense."""
        return self.error is None


def annotate(
    data: bytes,
    *,
    api: str | int | None = None,
    version: int | None = None,
    direction: Literal["request", "response"] | None = None,
) -> Annotation:
    """Say what every byte of a frame means.

    Args:
        data: a frame, with or without its size prefix.
        api: name or key, when known.
        version: version of the API, when known.
        direction: request or response, when known.

    Returns:
        The annotated frame. Bytes that make no sense are no exception: `error` says where they stop doing so.

    Raises:
        UsageError: `api` is not known, does not have that version, or `direction` is neither.
    """
    known = None if api is None else api_named(api)
    if known is not None and version is not None and not known.versions.includes(version):
        raise UsageError(f"{known.name} has versions {known.versions}, not {version}")
    if direction not in (None, "request", "response"):
        raise UsageError(f"direction is 'request' or 'response', not {direction!r}")
    kind = None if direction is None else FrameKind(direction)
    view = memoryview(data)
    candidates = guess(view, kind=kind, api=known, version=version)
    if candidates:
        return _annotation(data, annotate_frame(view, candidates[0].reading), candidates)
    reading = guess_broken(view, known, version) if kind is not FrameKind.RESPONSE else None
    if reading is None and known is not None and version is not None:
        prefixed = len(data) >= SIZE_PREFIX and kind is not None and _looks_prefixed(view)
        reading = Reading(kind or FrameKind.RESPONSE, known, version, prefixed)
    if reading is not None:
        return _annotation(data, annotate_frame(view, reading), [])
    return Annotation(data, None, Node("bytes", "unknown", 0, len(data)), _nothing_fits(view), None)


def _annotation(data: bytes, annotated: Annotated, candidates: list[Candidate]) -> Annotation:
    return Annotation(data, annotated.reading, annotated.root, annotated.error, annotated.canonical, candidates)


def _looks_prefixed(view: memoryview) -> bool:
    size = int.from_bytes(view[:SIZE_PREFIX], signed=True)
    return 0 < size <= max(4096, 8 * len(view)) and view[0] == 0


def _nothing_fits(view: memoryview) -> ProtocolError:
    size = int.from_bytes(view[:SIZE_PREFIX], signed=True) if len(view) >= SIZE_PREFIX else -1
    have = len(view) - SIZE_PREFIX
    hint = f" (as a size prefix, the first four bytes declare {size} bytes, and {have} follow)" if size >= 0 else ""
    return ProtocolError(
        "no API and version read all of these bytes, neither as a request nor as a response; "
        f"give --api and --version to see how far one gets{hint}",
        offset=0,
    )


def split_frames(data: bytes) -> list[bytes]:
    """Cut bytes that are several frames with size prefixes, as a log or a stream holds them; else give them whole."""
    frames = []
    at = 0
    while len(data) - at >= SIZE_PREFIX:
        size = int.from_bytes(data[at : at + SIZE_PREFIX], signed=True)
        if size < SIZE_PREFIX or at + SIZE_PREFIX + size > len(data):
            break
        frames.append(data[at : at + SIZE_PREFIX + size])
        at += SIZE_PREFIX + size
    return frames if len(frames) > 1 and at == len(data) else [data]

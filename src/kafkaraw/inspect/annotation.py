"""`annotate`: any bytes of the protocol as a tree that people can read.

This is the Python face of `kafkaraw wire decode`. It must not print; `render` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from kafkaraw.errors import ProtocolError, UsageError
from kafkaraw.inspect.frames import (
    SIZE_PREFIX,
    FrameKind,
    Reading,
    annotate_frame,
    annotate_size,
    api_named,
    claimed_size,
)
from kafkaraw.inspect.guess import PREFIX_LIKELY_MAX, Candidate, guess, guess_damaged, is_believable
from kafkaraw.inspect.secret_fields import secret_fields_of
from kafkaraw.protocol.annotate import Node

CANDIDATES_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong within a frame that could be read, such as a record batch with a wrong checksum.

    Attributes:
        path: where in the tree.
        offset: byte offset; in the decompressed data when the records are compressed.
        message: what.
    """

    path: str
    offset: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}: at byte {self.offset}: {self.message}"


@dataclass(slots=True)
class Annotation:
    """A frame and what its bytes mean.

    Attributes:
        data: the bytes.
        reading: what the frame is taken for; None when nothing fits.
        root: tree of everything that could be read; offsets count in `data`.
        error: at which byte and field the reading stopped, or None.
        canonical: whether encoding the value again gives the same bytes; None when there is no whole value.
        candidates: ways to read the bytes, the likeliest first.
    """

    data: bytes
    reading: Reading | None
    root: Node
    error: ProtocolError | None
    canonical: bool | None
    candidates: list[Candidate] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the frame was read to its last byte."""
        return self.error is None

    @property
    def problems(self) -> list[Problem]:
        """What is wrong within the frame; of a frame that is not whole, where it ends is among them."""
        return list(_problems(self.root, ""))

    @property
    def is_sound(self) -> bool:
        """Whether the frame is whole and nothing in it is wrong."""
        return self.is_whole and not self.problems

    def _repr_html_(self) -> str:
        """Return what notebooks show: each field with its bytes and its value, without secrets."""
        from kafkaraw.notebooks import ROWS_MAX, table, tables

        secrets = frozenset() if self.reading is None else secret_fields_of(self.reading.api.key)
        fields = list(islice(_fields(self.root, 0, secrets), ROWS_MAX + 1))
        title = f"{len(self.data):,} bytes" if self.reading is None else f"{self.reading}, {len(self.data):,} bytes"
        problem = f"; {self.error}" if self.error is not None and not secrets else ""
        return tables(title + problem, table(("bytes", "field", "type", "value"), fields, count=len(fields)))


def _problems(node: Node, path: str) -> Iterator[Problem]:
    if node.problem:
        yield Problem(path, node.start, node.problem)
    for child in node.children:
        yield from _problems(child, path_of(path, child))


def path_of(parent: str, node: Node) -> str:
    """The path of a node below another, as `body.topics[0].partitions[1].leader_id`."""
    name = node.name if node.name.startswith("[") else node.name.replace(" [", "[")
    return f"{parent}{name}" if name.startswith("[") else f"{parent}.{name}".lstrip(".")


def _fields(node: Node, depth: int, secrets: frozenset[str]) -> Iterator[tuple[object, ...]]:
    for child in node.children:
        is_hidden = child.name in secrets
        value = "(hidden)" if is_hidden else child.value
        yield f"{child.start}-{child.end - 1}", "· " * depth + child.name, child.kind, value
        if not is_hidden:
            yield from _fields(child, depth + 1, secrets)


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
    named = known is not None and version is not None
    if is_believable(view, candidates, named=named):
        return _annotation(data, candidates[0].reading, candidates[:CANDIDATES_MAX])
    damaged = guess_damaged(view, kind=kind, api=known, version=version)
    return _annotation(data, damaged, []) if damaged else _unknown(data, candidates[:CANDIDATES_MAX])


def _annotation(data: bytes, reading: Reading, candidates: list[Candidate]) -> Annotation:
    annotated = annotate_frame(memoryview(data), reading)
    return Annotation(data, reading, annotated.root, annotated.error, annotated.canonical, candidates)


def _unknown(data: bytes, candidates: list[Candidate]) -> Annotation:
    """Bytes that no reading makes sense of: their size prefix at most, if that is what they begin with."""
    view = memoryview(data)
    root = Node("bytes", "unknown", 0, len(data))
    size, have = claimed_size(view), len(data) - SIZE_PREFIX
    if have < 0 or have < size <= PREFIX_LIKELY_MAX:
        error = annotate_size(root, view)
    else:
        hint = f" (as a size prefix, the first four bytes declare {size} bytes, have {have})" if size >= 0 else ""
        message = f"no API and version read all of these bytes in a way that makes sense{hint}"
        error = ProtocolError(message, offset=0)
    return Annotation(data, None, root, error, None, candidates)


def split_frames(data: bytes) -> list[bytes]:
    """Cut bytes that are several frames with size prefixes, as a log or a stream holds them; else give them whole.

    The last one may be cut short.
    """
    frames = []
    at = 0
    while len(data) - at >= SIZE_PREFIX:
        size = int.from_bytes(data[at : at + SIZE_PREFIX], signed=True)
        if size < SIZE_PREFIX or at + SIZE_PREFIX + size > len(data):
            break
        frames.append(data[at : at + SIZE_PREFIX + size])
        at += SIZE_PREFIX + size
    rest = data[at:]
    if rest and len(frames) > 1:
        frames.append(rest)
    return frames if len(frames) > 1 else [data]

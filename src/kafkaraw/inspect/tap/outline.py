"""A long frame without its records, collected while its bytes pass: small enough to keep, and still a frame.

An answer to Fetch may have 50 MB of records, and the rest of it, a hundred bytes, says which partitions failed and
where the new leaders are. An `Outline` takes the bytes of a frame in any pieces, keeps all fields, and of each records
field only the beginning, with its length set to match. So the decoder of the API reads it, and the bytes behind the
last records are those of the frame.

The fields are found by the declarations. A message with much else than records, or with a length that cannot be, has
no outline. Pure. Start at `Outline.feed`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias

from kafkaraw.inspect.exchanges import has_records
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.declare import ArrayOf, Kind, StructOf, spec_of
from kafkaraw.protocol.frames import SIZE_PREFIX, request_header_version, response_header_version
from kafkaraw.protocol.types import RECORDS, STRING, decode_uvarint, encode_uvarint

RECORDS_BYTES: Final = 61
"""So much of each records field is kept: the header of its first batch (KIP-98)."""
OUTLINE_BYTES_MAX: Final = 1 << 18
"""Messages with more than this besides records have no outline: to read them takes longer than a few milliseconds."""
_PIECE_BYTES: Final = 256
_REQUEST_FIXED_BYTES, _RESPONSE_FIXED_BYTES = 8, 4
_TAGS_VERSION: Final = {True: 2, False: 1}
"""The version of the header that has tagged fields, of requests and of responses."""

_Steps: TypeAlias = Generator[None, None, None]


@dataclass(frozen=True, slots=True)
class _Array:
    """An array; its element is a number of bytes, a structure's steps, or another step."""

    element: object


@dataclass(frozen=True, slots=True)
class _Nullable:
    """A structure that may be null."""

    steps: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    """Bytes behind a length, which takes `width` bytes if it is not compact."""

    width: int


_TAGS: Final = "tagged fields"


class Outline:
    """Collects the outline of one frame.

    Args:
        cls: the message.
        api_key: its API.
        version: its version.
        is_request: whether it is a request.

    Attributes:
        is_lost: whether there is none, since the message cannot be read, or has too much besides records.
    """

    def __init__(self, cls: type[object], api_key: int, version: int, *, is_request: bool) -> None:
        self.is_lost: bool = False
        self._is_flexible = spec_of(cls).header.flexible.includes(version)
        self._out = bytearray()
        self._at = 0
        self._passed_over = 0  # bytes of records that are still to come, and are not kept
        header = request_header_version if is_request else response_header_version
        has_tags = header(api_key, version) == _TAGS_VERSION[is_request]
        self._steps: _Steps | None = self._frame(_steps_of(cls, version, self._is_flexible), is_request, has_tags)

    def feed(self, data: memoryview) -> None:
        """Take the next bytes of the frame, which has no size prefix."""
        while len(data) and not self.is_lost:
            if self._passed_over:
                count = min(self._passed_over, len(data))
                self._passed_over -= count
            else:
                count = min(_PIECE_BYTES, len(data))
                self._out += data[:count]
                self._go_on()
            data = data[count:]

    @property
    def kept_bytes(self) -> int:
        """How much is collected so far."""
        return len(self._out)

    def lose(self) -> None:
        """Collect no more, and forget what there is."""
        self.is_lost, self._steps = True, None
        self._out.clear()

    def found(self) -> bytes | None:
        """Return the outline of a frame that has been fed to its end; None if it has none."""
        is_whole = not (self.is_lost or self._passed_over or self._steps is not None)
        return bytes(self._out) if is_whole else None

    def _go_on(self) -> None:
        try:
            if self._steps is not None:
                next(self._steps)
        except StopIteration:
            self._steps = None  # what comes now is behind the message
        except ValueError:
            self.lose()
        if len(self._out) > OUTLINE_BYTES_MAX:
            self.lose()

    # -- the walk; each generator stops where bytes are missing ----------------------------------------------------

    def _need(self, size: int) -> _Steps:
        if size > OUTLINE_BYTES_MAX:
            raise ValueError(size)
        while len(self._out) - self._at < size:
            yield

    def _frame(self, steps: tuple[object, ...], is_request: bool, has_tags: bool) -> _Steps:
        yield from self._need(_REQUEST_FIXED_BYTES if is_request else _RESPONSE_FIXED_BYTES)
        self._at += _REQUEST_FIXED_BYTES if is_request else _RESPONSE_FIXED_BYTES
        if is_request:
            yield from self._need(2)
            size = int.from_bytes(self._out[self._at : self._at + 2], signed=True)  # the client id, never compact
            self._at += 2
            yield from self._pass(max(size, 0))
        if has_tags:
            yield from self._tags()
        yield from self._structure(steps)

    def _structure(self, steps: tuple[object, ...]) -> _Steps:
        for step in steps:
            if isinstance(step, int):
                yield from self._pass(step)
            elif isinstance(step, _Text):
                size = yield from self._length(step.width)
                yield from self._pass(max(size, 0))
            elif step is RECORDS:
                yield from self._records()
            elif step is _TAGS:
                yield from self._tags()
            elif isinstance(step, _Array):
                yield from self._array(step.element)
            elif isinstance(step, _Nullable):
                yield from self._need(1)
                self._at += 1
                if self._out[self._at - 1] <= 127:
                    yield from self._structure(step.steps)

    def _pass(self, size: int) -> _Steps:
        if len(self._out) - self._at < size:
            yield from self._need(size)
        self._at += size

    def _varint(self) -> Generator[None, None, int]:
        while True:
            try:
                value, self._at = decode_uvarint(self._out, self._at)
            except IndexError:
                yield
            else:
                return value

    def _length(self, width: int) -> Generator[None, None, int]:
        if self._is_flexible:
            return (yield from self._varint()) - 1
        yield from self._need(width)
        size = int.from_bytes(self._out[self._at : self._at + width], signed=True)
        self._at += width
        if size < -1:
            raise ValueError(size)
        return size

    def _array(self, element: object) -> _Steps:
        count = yield from self._length(4)
        if isinstance(element, int):
            yield from self._pass(max(count, 0) * element)
            return
        steps = element if isinstance(element, tuple) else (element,)
        for _ in range(count):
            yield from self._structure(steps)
            if len(self._out) > OUTLINE_BYTES_MAX:
                raise ValueError(count)

    def _tags(self) -> _Steps:
        for _ in range((yield from self._varint())):
            yield from self._varint()
            yield from self._pass((yield from self._varint()))

    def _records(self) -> _Steps:
        start = self._at
        size = yield from self._length(4)
        kept = min(size, RECORDS_BYTES)
        yield from self._pass(max(kept, 0))
        if size <= RECORDS_BYTES:
            return
        prefix = encode_uvarint(kept + 1) if self._is_flexible else SIZE_PREFIX.pack(kept)
        beginning, behind = self._out[self._at - kept : self._at], self._out[self._at :]
        there = min(len(behind), size - kept)
        self._passed_over = size - kept - there
        self._out[start:] = prefix + beginning + behind[there:]
        self._at = start + len(prefix) + kept


_known_steps: dict[tuple[type[object], int, bool], tuple[object, ...]] = {}


def _steps_of(cls: type[object], version: int, is_flexible: bool) -> tuple[object, ...]:
    """Return the steps that read the fields of a structure in order; a number stands for that many bytes."""
    steps = _known_steps.get((cls, version, is_flexible))
    if steps is None:
        steps = _known_steps[cls, version, is_flexible] = _listed_steps(cls, version, is_flexible)
    return steps


def _listed_steps(cls: type[object], version: int, is_flexible: bool) -> tuple[object, ...]:
    steps: list[object] = []
    for declared in spec_of(cls).fields:
        if not declared.versions.includes(version) or declared.is_tagged(version):
            continue
        step = _step_of(declared.kind, version, is_flexible)
        if isinstance(declared.kind, StructOf):
            assert isinstance(step, tuple)
            steps += [_Nullable(step)] if declared.nullable.includes(version) else step
        else:
            steps.append(step)
    if is_flexible:
        steps.append(_TAGS)
    joined: list[object] = []
    for step in steps:
        last = joined[-1] if joined else None
        if isinstance(step, int) and isinstance(last, int):
            joined[-1] = last + step
        else:
            joined.append(step)
    return tuple(joined)


def _step_of(kind: Kind, version: int, is_flexible: bool) -> object:
    if isinstance(kind, StructOf):
        return _steps_of(kind.cls, version, is_flexible)
    if isinstance(kind, ArrayOf):
        return _Array(_step_of(kind.element, version, is_flexible))
    if kind is RECORDS or kind.size:
        return kind.size or RECORDS
    return _Text(2 if kind is STRING else 4)


def outline_for(api_key: int, version: int, *, is_request: bool) -> Outline | None:
    """Return an empty outline for a frame; None for one without records.

    Args:
        api_key: the API.
        version: of the request.
        is_request: whether the frame is the request, or an answer to it.
    """
    if not has_records(api_key, version, is_request):
        return None
    api = API_BY_KEY[api_key]
    return Outline(api.request if is_request else api.response, api_key, version, is_request=is_request)

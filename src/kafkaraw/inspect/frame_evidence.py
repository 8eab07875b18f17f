"""Whether captured bytes are frames of Kafka: requests by their header, responses by the requests that wait for them.

A request names its API and version, and repeats a readable client id, so its header is strong evidence, on any port.
A response has only a correlation id, so it is believed if a request with this id waits for it and its bytes are read
as that answer, or if one API and version reads every byte of it much better than all others (`guess`). Start at
`RequestJudge` and `ResponseJudge`, which implement `frame_finder.Judge`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

from kafkaraw.errors import KafkaError
from kafkaraw.inspect.exchanges import FRAME_SIZE_MAX, Conversation, ConversationState, ExchangeKind
from kafkaraw.inspect.frame_finder import SIZE_PREFIX
from kafkaraw.inspect.frames import FrameKind
from kafkaraw.inspect.guess import Candidate, guess, is_believable
from kafkaraw.protocol import decode_request
from kafkaraw.protocol.apis import API_BY_KEY

HEADER: Final = struct.Struct(">ihhih")
HEADER_WITHOUT_CLIENT_ID: Final = struct.Struct(">ihhi")
CORRELATION: Final = struct.Struct(">ii")
KEYS_BELOW, VERSIONS_BELOW, CLIENT_ID_MAX = 128, 48, 1024
"""Keys and versions of later releases stay below these numbers for long."""
NEWER_VERSIONS: Final = 3
GSSAPI_TOKEN: Final = 0x60
REQUEST_PATTERN: Final = re.compile(
    rb"(?=[\x00-\x12].{3}\x00[\x00-\x7f]\x00[\x00-\x2f].{4}(?:\xff\xff|[\x00-\x03]))", re.DOTALL
)
RESPONSE_PATTERN: Final = re.compile(rb"(?=[\x00-\x06].{3}[\x00-\x7f].{3})", re.DOTALL)
GUESSES_MAX: Final = 40
"""How many places of one search are guessed at; a guess takes about 10 ms."""
PLACES_MAX: Final = 1000
"""How many places of one search are compared with waiting requests."""
BUDGET_MAX: Final = 2000
GUESSED_SIZE_MAX: Final = 1 << 20
PREFIX_EVIDENCE: Final = 2000
PREFIX_GAIN_MIN: Final = 40.0
CORRELATION_STEP_MAX: Final = 1000


def request_header(data: bytes | memoryview) -> tuple[int, int, int, int] | None:
    """Return size, API key, version and length of the client id of what may be a request; None if it cannot be one."""
    if len(data) < HEADER.size:
        if len(data) < HEADER_WITHOUT_CLIENT_ID.size:
            return None
        size, key, version, _ = HEADER_WITHOUT_CLIENT_ID.unpack_from(data)
        length = -1
    else:
        size, key, version, _, length = HEADER.unpack_from(data)
    fits = HEADER_WITHOUT_CLIENT_ID.size - SIZE_PREFIX <= size <= FRAME_SIZE_MAX
    if not fits or not 0 <= key < KEYS_BELOW or not 0 <= version < VERSIONS_BELOW:
        return None
    if not -1 <= length <= min(CLIENT_ID_MAX, size - 10):
        # ControlledShutdown version 0 has no client id.
        return (size, key, version, -1) if (key, version) == (7, 0) else None
    return size, key, version, length


def is_request(data: bytes | memoryview) -> bool:
    """Return whether bytes begin with a request, believable without anything around it."""
    header = request_header(data)
    if header is None:
        return False
    size, key, version, length = header
    api = API_BY_KEY.get(key)
    if api is None or not api.versions.min <= version <= api.versions.max + NEWER_VERSIONS:
        return False
    client_id = bytes(data[HEADER.size : HEADER.size + max(length, 0)])
    if not _is_readable(client_id):
        return False
    end = SIZE_PREFIX + size
    if end > len(data) or not api.versions.includes(version):
        return len(client_id) == length >= 3
    try:
        decode_request(data[SIZE_PREFIX:end])
    except KafkaError:
        return length >= 3 and request_header(data[end:]) is not None
    return True


def _is_readable(client_id: bytes) -> bool:
    try:
        return client_id.decode().isprintable()
    except UnicodeDecodeError:
        return False


class GuessBudget:
    """How many guesses are left for all connections of a capture: hostile bytes must not take hours.

    Attributes:
        left: how many; a guess takes about 10 ms.
    """

    def __init__(self, left: int = BUDGET_MAX) -> None:
        self.left: int = left

    def spend(self) -> bool:
        """Return whether there is one, and take it."""
        self.left -= 1
        return self.left >= 0


class RequestJudge:
    """Judges what a client sends."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def can_begin(self, head: bytes) -> bool:
        """Return whether a request or a bare SASL token can begin with these bytes."""
        if self._conversation.state is ConversationState.TOKENS:
            return True
        return request_header(head) is not None or head[SIZE_PREFIX : SIZE_PREFIX + 1] == bytes([GSSAPI_TOKEN])

    def is_start(self, data: memoryview) -> bool:
        """Return whether a request begins here."""
        return is_request(data)

    def find(self, data: bytes, start: int) -> int:
        """Return where a request begins; -1 if none does."""
        view = memoryview(data)
        places = (match.start() for match in REQUEST_PATTERN.finditer(data, start))
        return next((at for at in places if is_request(view[at:])), -1)


class ResponseJudge:
    """Judges what a broker sends.

    Args:
        conversation: the requests that wait for an answer.
        misses_requests: see the attribute.
        budget: of the capture.

    Attributes:
        misses_requests: whether requests of the connection are not in the capture, so that responses may be to those.
    """

    def __init__(self, conversation: Conversation, *, misses_requests: bool, budget: GuessBudget) -> None:
        self.misses_requests: bool = misses_requests
        self._budget = budget
        self._conversation = conversation

    def can_begin(self, head: bytes) -> bool:
        """Return whether a response can begin with these bytes."""
        if len(head) < CORRELATION.size:
            return bool(self._tokens_pending())
        _, correlation_id = CORRELATION.unpack_from(head)
        pending = self._conversation.pending
        return self.misses_requests or not pending or self._tokens_pending() or self._waits(correlation_id)

    def is_start(self, data: memoryview) -> bool:
        """Return whether a response begins here."""
        return self._explains(data) or self._is_guessed(data)

    def find(self, data: bytes, start: int) -> int:
        """Return where a response begins; -1 if none does."""
        view = memoryview(data)
        waiting = sorted(set(islice(self._places(data, start), PLACES_MAX)))
        found = next((at for at in waiting if self._explains(view[at:])), -1)
        if found >= 0 or not self.misses_requests:
            return found
        guesses = 0
        for match in RESPONSE_PATTERN.finditer(data, start):
            if _has_successor(view[match.start() :]):
                guesses += 1
                if self._is_guessed(view[match.start() :]):
                    return match.start()
                if guesses == GUESSES_MAX:
                    break
        return -1

    def _tokens_pending(self) -> bool:
        pending = self._conversation.pending
        return bool(pending) and pending[0].kind is not ExchangeKind.REQUEST

    def _waits(self, correlation_id: int) -> bool:
        return any(exchange.correlation_id == correlation_id for exchange in self._conversation.pending)

    def _places(self, data: bytes, start: int) -> Iterator[int]:
        """Yield where the correlation id of a waiting request stands behind what may be a size."""
        for exchange in list(self._conversation.pending)[:GUESSES_MAX]:
            needle = struct.pack(">i", exchange.correlation_id)
            at = data.find(needle, start + SIZE_PREFIX)
            while at >= 0:
                yield at - SIZE_PREFIX
                at = data.find(needle, at + 1)

    def _explains(self, data: memoryview) -> bool:
        """Return whether a waiting request has these bytes as its answer."""
        if len(data) < CORRELATION.size:
            return False
        size, correlation_id = CORRELATION.unpack_from(data)
        if not SIZE_PREFIX <= size <= FRAME_SIZE_MAX:
            return False
        for exchange in self._conversation.pending:
            if exchange.correlation_id == correlation_id and exchange.api is not None and exchange.is_known:
                frame = data[: SIZE_PREFIX + size]
                is_cut = len(frame) < SIZE_PREFIX + size
                found = guess(
                    frame[:PREFIX_EVIDENCE] if is_cut else frame,
                    kind=FrameKind.RESPONSE,
                    api=exchange.api,
                    version=exchange.version,
                )
                if found and (found[0].gain >= PREFIX_GAIN_MIN if is_cut else found[0].is_whole):
                    return True
        return False

    def _is_guessed(self, data: memoryview) -> bool:
        if not self.misses_requests or len(data) < CORRELATION.size:
            return False
        size, _ = CORRELATION.unpack_from(data)
        end = SIZE_PREFIX + size
        if not SIZE_PREFIX < size <= GUESSED_SIZE_MAX or end > len(data):
            return False
        return self._budget.spend() and bool(guess_response(data[:end]))


def guess_response(data: memoryview) -> list[Candidate]:
    """Return what a response with its size prefix is likely to be, the likeliest first; empty if that is not clear."""
    found = [one for one in guess(data, kind=FrameKind.RESPONSE) if one.reading.prefixed and one.is_whole]
    return found if found and is_believable(data, found, named=False) else []


def _has_successor(data: memoryview) -> bool:
    """Return whether bytes begin with a size and a correlation id, and a frame with the next one follows."""
    size, correlation_id = CORRELATION.unpack_from(data)
    end = SIZE_PREFIX + size
    if not SIZE_PREFIX < size <= GUESSED_SIZE_MAX or end > len(data):
        return False
    if end + CORRELATION.size > len(data):
        return bool(end == len(data))
    next_size, next_id = CORRELATION.unpack_from(data, end)
    return bool(SIZE_PREFIX <= next_size <= FRAME_SIZE_MAX and 0 < next_id - correlation_id <= CORRELATION_STEP_MAX)

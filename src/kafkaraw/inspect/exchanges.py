r"""Connections as exchanges: each answer with its request.

    conversation = Conversation(Connection(1, "127.0.0.1:50112", "127.0.0.1:9092"))
    conversation.request(Frame(b"\x00\x12\x00\x04...", 22, 0.0, 0.0))
    for exchange in conversation.response(Frame(b"\x00\x00\x00\x01...", 298, 0.004, 0.004)):
        print(exchange.name, exchange.latency_s, exchange.errors)

Theory of operation. Both directions of a connection are frames with a four-byte size. A broker answers the requests of
a connection in order, and an answer repeats the correlation id of its request, so `Conversation` keeps the requests
that wait for an answer in a queue. A response that names a later request means that the answers before it were not
seen. Two things have no such answer: a Produce with acks=0, which ends its exchange, and the SASL tokens that travel
bare after SaslHandshake version 0 (and, before Kafka 0.10, as the first frame of a connection): they have no header,
and each is answered by a bare token. Bare tokens end with the first frame that is a whole request of Kafka.
Tokens within SaslAuthenticate, also those of a re-authentication (KIP-368), are ordinary requests.

`Conversation` takes whole frames, and decodes no body: an `Exchange` decodes its own when it is asked. `tap/stream.py`
cuts the bytes that pass into frames, `frame_finder.py` those of captures. Nothing here does I/O, reads a clock or fails
because of what a peer sent: an exchange says what is wrong in `Exchange.problem`. Start at `Conversation`.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from kafkaraw.errors import KafkaError, ProtocolError
from kafkaraw.inspect.subjects import ErrorAt, Subjects, errors_of
from kafkaraw.light_classes import dataclass
from kafkaraw.light_classes import field as dataclass_field
from kafkaraw.protocol import decode_message, decode_request_header, decode_response
from kafkaraw.protocol.apis import API_BY_KEY, Api
from kafkaraw.protocol.declare import ArrayOf, Request, Response, StructOf, spec_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.frames import (
    API_VERSIONS_KEY,
    REQUEST_HEADER_SIZE_MIN,
    SIZE_PREFIX,
    STRANGERS,
    explain_size,
    request_header_version,
)
from kafkaraw.protocol.messages.produce import ProduceRequest
from kafkaraw.protocol.types import RECORDS, ZERO_UUID, Uuid, decode_uvarint

Bytes: TypeAlias = bytes | bytearray | memoryview

FRAME_SIZE_MAX: Final = 300 << 20
"""Larger sizes are no frames of Kafka: three times Kafka's default limit of a request (`socket.request.max.bytes`)."""
PENDING_MAX: Final = 10_000
"""Requests of a connection that wait for an answer; beyond it, the oldest is given up."""
OUTLINE_KEPT_BYTES: Final = 1 << 11
"""Of a larger outline what it says is noted, and it is not kept."""
BODY_KEPT_BYTES: Final = 1 << 9
"""Of a larger frame a body that was decoded before is dropped: it takes much more memory, and may be a view."""
_OF_REQUEST: Final = ("request_body", "subjects", "batches")
_OF_RESPONSE: Final = ("response_body", "errors", "throttle_time_ms")
"""A body, and what is noted of it when it is dropped."""
CLIENT_ID_CHARS_MAX: Final = 100
"""Of a client id, when memory is short."""
_NAME_BYTES: Final = 60  # of a text, besides its characters
TOPIC_NAMES_MAX: Final = 100_000
PRODUCE_KEY: Final = 0
FETCH_KEY: Final = 1
SASL_HANDSHAKE_KEY: Final = 17
_NAMES_TOPICS: Final = frozenset({3, 19})
_FIXED: Final = struct.Struct(">hhi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ERROR_AT: Final = 4  # of an answer to ApiVersions: behind the correlation id
_MAGIC_AT, _MAGIC, _RECORDS_COUNT_AT = 16, 2, 57  # in a record batch (KIP-98)
_GSSAPI_TOKEN: Final = 0x60  # RFC 2743: the tag of an initial token


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of a client with a broker.

    Attributes:
        number: of the connection, counted from 1.
        client: address of the client, "host:port".
        broker: address of the broker, "host:port".
        node_id: of the broker, if it is known.
        broker_address: address of the broker's host, if `broker` has its name.
    """

    number: int
    client: str
    broker: str
    node_id: int | None = None
    broker_address: str = ""


@dataclass(slots=True, eq=False)
class Frame:
    """A frame as it was seen.

    Attributes:
        data: its bytes without size prefix; only the first ones if it is large (`is_cut`).
        size_bytes: its size, as its size prefix says.
        began_s: time of its first byte, in seconds since 1970.
        ended_s: time of its last byte.
        note: what the reader changed or could not read, in words; empty if nothing.
        outline: the frame without most of its records, if it is cut: what `Exchange.trim` notes is taken from it.
    """

    data: Bytes
    size_bytes: int
    began_s: float
    ended_s: float
    note: str = ""
    outline: bytes | None = None

    @property
    def is_cut(self) -> bool:
        """Whether bytes at its end were not kept."""
        return len(self.data) < self.size_bytes


class TopicNames:
    """Names of topics by id, as Metadata and CreateTopics answers say them; since 4.0, clients produce by id only."""

    def __init__(self) -> None:
        self._names: dict[Uuid, str] = {}

    def learn(self, exchange: Exchange) -> None:
        """Take the names from an answer; other answers have none, and are not decoded."""
        if exchange.api_key not in _NAMES_TOPICS or len(self._names) >= TOPIC_NAMES_MAX:
            return
        for topic in getattr(exchange.response_body, "topics", ()):
            if topic.name and topic.topic_id != ZERO_UUID:
                self._names[topic.topic_id] = topic.name

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic; None if no answer has named it."""
        return self._names.get(Uuid(topic_id))


class ExchangeKind(Enum):
    """What an exchange carries."""

    REQUEST = "request"
    TOKEN = "SASL token"
    UNKNOWN = "unknown frame"
    """The frame from the client is too short for a request."""
    ORPHAN = "answer without a request"


class Exchange:
    """A request and its answer.

    Args:
        connection: the connection.
        kind: what it carries.
        request: the frame from the client; None for `ExchangeKind.ORPHAN`.
        api_key: of the request; -1 if there is none.
        version: API version of the request; -1 if there is none.
        correlation_id: of the request, or of an answer without one.
        client_id: of the request header; None for null.
        topic_names: of topics that the request names by id.

    Attributes:
        response: the frame from the broker; None if there is none (yet).
        is_answered: False for a Produce with acks=0, which has no answer.
        fault: the fault that was injected, in words; empty if none was.
        ended: why no answer will come, in words; empty if one came or may come.
    """

    def __init__(
        self,
        connection: Connection,
        kind: ExchangeKind,
        request: Frame | None,
        *,
        api_key: int = -1,
        version: int = -1,
        correlation_id: int = 0,
        client_id: str | None = None,
        topic_names: TopicNames | None = None,
    ) -> None:
        self.connection: Connection = connection
        self.kind: ExchangeKind = kind
        self.request: Frame | None = request
        self.api_key: int = api_key
        self.version: int = version
        self.correlation_id: int = correlation_id
        self.client_id: str | None = client_id
        self.response: Frame | None = None
        self.is_answered: bool = True
        self.fault: str = ""
        self.ended: str = ""
        self._topic_names = topic_names

    @property
    def api(self) -> Api | None:
        """The API; None if it is not known here, and for tokens."""
        return API_BY_KEY.get(self.api_key)

    @property
    def is_known(self) -> bool:
        """Whether the API and its version are declared here, so that the bodies can be decoded."""
        return self.api is not None and self.api.versions.includes(self.version)

    @property
    def name(self) -> str:
        """API and version, as `Fetch v17`; `API 120 v3` for one that is not known here."""
        if self.kind is not ExchangeKind.REQUEST:
            return str(self.kind.value)
        return f"{self.api.name if self.api is not None else f'API {self.api_key}'} v{self.version}"

    @property
    def response_version(self) -> int:
        """Version of the answer: that of the request, but 0 for an ApiVersions request that is refused (KIP-511)."""
        if self.api_key == API_VERSIONS_KEY and self.version > 0 and self.response is not None:
            data = self.response.data
            if len(data) >= _ERROR_AT + _INT16.size:
                refused: bool = _INT16.unpack_from(data, _ERROR_AT)[0] == ErrorCode.UNSUPPORTED_VERSION
                return 0 if refused else self.version
        return self.version

    @property
    def began_s(self) -> float:
        """Time of the first byte, in seconds since 1970."""
        frame = self.request or self.response
        assert frame is not None
        return frame.began_s

    @property
    def latency_s(self) -> float | None:
        """Time from the last byte of the request to the last byte of its answer, in seconds; None without both."""
        if self.request is None or self.response is None:
            return None
        return max(self.response.ended_s - self.request.ended_s, 0.0)

    @property
    def request_bytes(self) -> int:
        """Size of the request with its size prefix; 0 if there is none."""
        return 0 if self.request is None else self.request.size_bytes + SIZE_PREFIX.size

    @property
    def response_bytes(self) -> int:
        """Size of the answer with its size prefix; 0 if there is none."""
        return 0 if self.response is None else self.response.size_bytes + SIZE_PREFIX.size

    @cached_property
    def request_body(self) -> Request[Response] | None:
        """The decoded request; None if it cannot be decoded, see `problem`."""
        body, self._request_problem = self._decoded_request()
        return body

    @cached_property
    def response_body(self) -> Response | None:
        """The decoded answer; None if there is none, or if it cannot be decoded, see `problem`."""
        body, self._response_problem = self._decoded_response()
        return body

    _request_problem: str = ""
    _response_problem: str = ""

    @property
    def problem(self) -> str:
        """Why a body cannot be decoded, in words; empty if both can, or if there is none."""
        if self.kind is not ExchangeKind.REQUEST:
            return ""
        if not self.is_known:
            known = f", only {self.api.versions}" if self.api is not None else ""
            return f"{self.name} is not known here{known}"
        _ = self.request_body, self.response_body
        return "; ".join(filter(None, (self._request_problem, self._response_problem)))

    @cached_property
    def subjects(self) -> Subjects:
        """The topics, groups and transactional ids that the request names; of a cut Produce its first topic."""
        body = self.request_body
        if body is not None:
            return Subjects.of(body)
        if self.api_key == PRODUCE_KEY and self.is_known and self.request is not None and self.request.is_cut:
            return _subjects_of_cut_produce(self.request, self.version)
        return Subjects()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the request names; the id of one whose name is not known."""
        subjects, names = self.subjects, self._topic_names
        if not subjects.topic_ids:
            return subjects.topics
        by_id = ((names and names.name_of(topic_id)) or str(topic_id) for topic_id in subjects.topic_ids)
        return tuple(dict.fromkeys((*subjects.topics, *by_id)))

    @cached_property
    def errors(self) -> list[ErrorAt]:
        """The error codes in the answer, other than 0."""
        body = self.response_body
        return [] if body is None else errors_of(body)

    @cached_property
    def batches(self) -> list[int]:
        """The number of records of each batch in a Produce request; empty for other requests, and for old formats."""
        body = self.request_body
        if not isinstance(body, ProduceRequest):
            return []
        return [
            _INT32.unpack_from(part.records, _RECORDS_COUNT_AT)[0]
            for topic in body.topic_data
            for part in topic.partition_data
            if isinstance(part.records, memoryview)
            and len(part.records) >= _RECORDS_COUNT_AT + _INT32.size
            and part.records[_MAGIC_AT] == _MAGIC
        ]

    @cached_property
    def throttle_time_ms(self) -> int:
        """How long the broker wants the client to stay quiet, in milliseconds."""
        return int(getattr(self.response_body, "throttle_time_ms", 0))

    def take_response_body(self, body: Response) -> None:
        """Take the decoded answer from a caller that needed it, so that it is not decoded again."""
        self.__dict__["response_body"] = body

    def trim(self, kept_bytes: int, kept_record_bytes: int | None = None) -> None:
        """Keep only the beginnings of the frames, after noting what the bodies say: `subjects`, `errors` and so on.

        A small outline of a frame is kept instead of it, and decoded when it is asked for. Views become bytes.

        Args:
            kept_bytes: how much of each frame is kept.
            kept_record_bytes: the same of frames with records; None for the same number.
        """
        for frame, is_request in ((self.request, True), (self.response, False)):
            if frame is not None:
                kept = kept_bytes
                if kept_record_bytes is not None and has_records(self.api_key, self.version, is_request):
                    kept = kept_record_bytes
                self._trim(frame, kept, _OF_REQUEST if is_request else _OF_RESPONSE)

    def _trim(self, frame: Frame, kept_bytes: int, of_body: tuple[str, ...]) -> None:
        data, (body, *noted) = frame.data, of_body
        is_cut = len(data) > kept_bytes if frame.outline is None else len(frame.outline) > OUTLINE_KEPT_BYTES
        if is_cut or (len(data) > BODY_KEPT_BYTES and body in self.__dict__):
            for name in noted:
                getattr(self, name)
            if self.__dict__.get(body) is not None:  # else why it cannot be decoded stays known
                del self.__dict__[body]
        if is_cut:
            frame.outline = None
        if len(data) > kept_bytes or isinstance(data, memoryview):
            frame.data = bytes(data[:kept_bytes])

    def release(self) -> None:
        """Drop the decoded bodies, after noting what they say; they are decoded again when they are asked for."""
        _ = self.subjects, self.batches, self.errors, self.throttle_time_ms
        for body in ("request_body", "response_body"):
            self.__dict__.pop(body, None)

    def shorten(self, kept_bytes: int) -> None:
        """Keep the beginnings of the frames and of the client id, and nothing of what the bodies say: see `trim`."""
        for frame in (self.request, self.response):
            if frame is not None:
                frame.data, frame.outline = bytes(frame.data[:kept_bytes]), None
        if self.client_id is not None and len(self.client_id) > CLIENT_ID_CHARS_MAX:
            self.client_id = self.client_id[:CLIENT_ID_CHARS_MAX] + "\N{HORIZONTAL ELLIPSIS}"
        for name in ("request_body", "response_body"):
            self.__dict__.pop(name, None)

    @property
    def memory_bytes(self) -> int:
        """How much memory the frames take, and the names and words that were noted of them; nearly."""
        size = len(self.client_id or "")
        for frame in (self.request, self.response):
            if frame is not None:
                size += len(frame.data) + len(frame.outline or b"")
        subjects = self.__dict__.get("subjects")
        if subjects is not None:
            names = (*subjects.topics, *subjects.groups, *subjects.transactional_ids)
            size += sum(map(len, names)) + _NAME_BYTES * (len(names) + len(subjects.topic_ids))
        for error in self.__dict__.get("errors", ()):
            size += _NAME_BYTES + len(error.path) + len(error.message)
        return size

    def _decoded_request(self) -> tuple[Request[Response] | None, str]:
        if self.request is None or self.api is None or not self.is_known:
            return None, ""
        if self.request.is_cut and self.request.outline is None:
            return None, _cut_words("request", self.request)
        data = self.request.data if self.request.outline is None else self.request.outline
        try:
            _, at = decode_request_header(data)
            # As brokers do: librdkafka sends bytes behind some requests.
            body = decode_message(self.api.request, self.version, data, at, allow_trailing_bytes=True)
        except KafkaError as error:
            return None, f"request: {error}"
        return body, ""

    def _decoded_response(self) -> tuple[Response | None, str]:
        if self.response is None or not self.is_known:
            return None, ""
        if self.response.is_cut and self.response.outline is None:
            return None, _cut_words("answer", self.response)
        data = self.response.data if self.response.outline is None else self.response.outline
        try:
            _, body = decode_response(data, self.api_key, self.response_version, allow_trailing_bytes=True)
        except KafkaError as error:
            return None, f"answer: {error}"
        return body, ""

    def __repr__(self) -> str:
        return f"<Exchange {self.name}, correlation id {self.correlation_id}, connection {self.connection.number}>"


def _cut_words(what: str, frame: Frame) -> str:
    return f"{what}: not decoded, only the first {len(frame.data)} of {frame.size_bytes} bytes were kept"


def _subjects_of_cut_produce(frame: Frame, version: int) -> Subjects:
    from kafkaraw.inspect.frames import FrameKind, Reading, annotate_frame  # it takes long, and such frames are few

    root = annotate_frame(memoryview(frame.data)[:1024], Reading(FrameKind.REQUEST, API_BY_KEY[0], version, False)).root
    names = [node for top in root.children for part in top.children for one in part.children for node in one.children]
    topics = [node.value for node in names if node.name == "name" and isinstance(node.value, str) and node.value]
    return Subjects(topics=tuple(topics))


class ConversationState(Enum):
    """What the next frame from the client is."""

    REQUESTS = "requests"
    TOKENS = "bare SASL tokens"


@dataclass(slots=True, eq=False)
class Conversation:
    """Matches the frames of one connection.

    Attributes:
        connection: the connection.
        state: what the next frame from the client is.
        pending: exchanges that wait for an answer, the oldest first.
        topic_names: of the cluster.
    """

    connection: Connection
    topic_names: TopicNames | None = None
    state: ConversationState = ConversationState.REQUESTS
    pending: deque[Exchange] = dataclass_field(default_factory=deque)
    _is_first: bool = True

    def request(self, frame: Frame) -> Exchange:
        """Take the next frame from the client; return its exchange, which is `pending` unless it has no answer."""
        exchange = self._begun(frame)
        self._is_first = False
        if exchange.is_answered:
            self.pending.append(exchange)
        return exchange

    def response(self, frame: Frame) -> list[Exchange]:
        """Take the next frame from the broker; return the exchanges that end with it.

        The last one is that of the frame. Exchanges before it have been passed over: their answers were not seen.
        """
        index = self._index_of(frame)
        if index is None:
            exchange = Exchange(
                self.connection, ExchangeKind.ORPHAN, None, correlation_id=_correlation_id(frame.data) or 0
            )
            exchange.response = frame
            return [exchange]
        ended = [self.pending.popleft() for _ in range(index + 1)]
        for exchange in ended[:-1]:
            exchange.ended = "the broker answered a later request first, or its answer was not seen"
        ended[-1].response = frame
        return ended

    def drop_oldest(self, reason: str, pending_max: int = PENDING_MAX) -> Exchange | None:
        """Give the oldest pending exchange up if there are more than `pending_max`; return it."""
        if len(self.pending) <= pending_max:
            return None
        exchange = self.pending.popleft()
        exchange.ended = reason
        return exchange

    def end(self, reason: str) -> list[Exchange]:
        """End the conversation; return the exchanges that will have no answer, with that reason in words."""
        ended = list(self.pending)
        self.pending.clear()
        for exchange in ended:
            exchange.ended = reason
        return ended

    def _begun(self, frame: Frame) -> Exchange:
        data = frame.data
        if self.state is ConversationState.TOKENS:
            if not _is_whole_request(frame):
                return Exchange(self.connection, ExchangeKind.TOKEN, frame)
            self.state = ConversationState.REQUESTS
        if len(data) < REQUEST_HEADER_SIZE_MIN:
            return Exchange(self.connection, ExchangeKind.UNKNOWN, frame)
        api_key, version, correlation_id = _FIXED.unpack_from(data)
        if self._is_first and data[0] == _GSSAPI_TOKEN:
            self.state = ConversationState.TOKENS
            return Exchange(self.connection, ExchangeKind.TOKEN, frame)
        exchange = Exchange(
            self.connection,
            ExchangeKind.REQUEST,
            frame,
            api_key=api_key,
            version=version,
            correlation_id=correlation_id,
            client_id=_client_id(data) if request_header_version(api_key, version) else None,
            topic_names=self.topic_names,
        )
        if api_key == PRODUCE_KEY and acks_of(data, version) == 0:
            exchange.is_answered = False
        if api_key == SASL_HANDSHAKE_KEY and version == 0:
            self.state = ConversationState.TOKENS
        return exchange

    def _index_of(self, frame: Frame) -> int | None:
        """Return where the exchange that a frame answers stands in the queue; None if there is none."""
        if not self.pending:
            return None
        if self.pending[0].kind is not ExchangeKind.REQUEST:
            return 0
        correlation_id = _correlation_id(frame.data)
        for index, exchange in enumerate(self.pending):
            if exchange.correlation_id == correlation_id and exchange.kind is ExchangeKind.REQUEST:
                return index
        return None


@lru_cache(maxsize=1024)  # bounded, because peers choose the arguments
def has_records(api_key: int, version: int, is_request: bool) -> bool:
    """Return whether the version of a message is known, and has a field of records."""
    api = API_BY_KEY.get(api_key)
    if api is None or not api.versions.includes(version):
        return False
    return _holds_records(api.request if is_request else api.response)


def _holds_records(cls: type[object]) -> bool:
    for declared in spec_of(cls).fields:
        kind = declared.kind
        while isinstance(kind, ArrayOf):
            kind = kind.element
        if kind is RECORDS or (isinstance(kind, StructOf) and _holds_records(kind.cls)):
            return True
    return False


def acks_of(data: Bytes, version: int) -> int | None:
    """Return `acks` of a Produce request; None if the bytes do not reach so far.

    Args:
        data: the frame without its size prefix, or its first bytes.
        version: of the request.
    """
    try:
        at = 10 + max(_INT16.unpack_from(data, 8)[0], 0)
        if request_header_version(PRODUCE_KEY, version) == 2:
            tags, at = decode_uvarint(data, at)
            if tags:
                return None
            size, at = decode_uvarint(data, at)
            at += max(size - 1, 0)
        elif version >= 3:
            at += 2 + max(_INT16.unpack_from(data, at)[0], 0)
        acks: int = _INT16.unpack_from(data, at)[0]
    except (struct.error, IndexError, ValueError):
        return None
    return acks


def _client_id(data: Bytes) -> str | None:
    """Read the client id, with a mark for bytes that are no text; None for null, and if it is longer than the frame."""
    if len(data) < 10:
        return None
    (size,) = _INT16.unpack_from(data, 8)
    return None if size < 0 or 10 + size > len(data) else bytes(data[10 : 10 + size]).decode(errors="replace")


def _correlation_id(data: Bytes) -> int | None:
    if len(data) < _INT32.size:
        return None
    correlation_id: int = _INT32.unpack_from(data)[0]
    return correlation_id


def _is_whole_request(frame: Frame) -> bool:
    """Return whether a frame can be nothing but a request: every byte of it is read."""
    if frame.is_cut or len(frame.data) < REQUEST_HEADER_SIZE_MIN:
        return False
    api_key, version, _ = _FIXED.unpack_from(frame.data)
    api = API_BY_KEY.get(api_key)
    if api is None or not api.versions.includes(version):
        return False
    try:
        _, at = decode_request_header(frame.data)
        decode_message(api.request, version, frame.data, at)
    except ProtocolError:
        return False
    return True


def stranger_in(prefix: bytes, *, is_first: bool, size_max: int = FRAME_SIZE_MAX) -> str:
    """Return why four bytes are no size prefix of Kafka, in words; empty if they are one.

    Args:
        prefix: the bytes.
        is_first: whether they are the first ones of a direction, where another protocol is named, too.
        size_max: largest size of a frame, in bytes.
    """
    size: int = SIZE_PREFIX.unpack(prefix)[0]
    is_named = is_first and prefix.startswith(tuple(STRANGERS))
    return explain_size(prefix, size, size_max) if is_named or not 0 <= size <= size_max else ""

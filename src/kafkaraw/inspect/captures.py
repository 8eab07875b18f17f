"""A capture file as exchanges of Kafka: the connections that speak it, on any port, and what the capture lacks of them.

    with open("broker.pcapng", "rb") as file:
        for item in CaptureReader(file).read():
            print(item)

`packets` reads segments, `streams` orders them, `frame_finder` cuts frames, and `exchanges` matches them, as it does
for the tap. This module decides what a connection speaks. If the capture has its start, the first frame of the client
decides. Else both directions are kept until one of them shows a request, and at last until a response can be guessed.
A response whose request is not in the capture is guessed, and `GuessedResponse` says how sure that is. Nothing is lost
silently: a `Remark` names every hole and every byte that is in no frame. Start at `CaptureReader`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import BinaryIO, Final, TypeAlias

from kafkaraw.inspect.exchanges import (
    PENDING_MAX,
    Connection,
    Conversation,
    Exchange,
    ExchangeKind,
    Frame,
    TopicNames,
    stranger_in,
)
from kafkaraw.inspect.frame_evidence import (
    GSSAPI_TOKEN,
    GuessBudget,
    RequestJudge,
    ResponseJudge,
    guess_response,
    is_request,
    request_header,
)
from kafkaraw.inspect.frame_finder import HEAD_SIZE, SIZE_PREFIX, FrameFinder, Unread
from kafkaraw.inspect.frames import FrameKind
from kafkaraw.inspect.guess import Candidate, guess
from kafkaraw.inspect.packets import NANOSECONDS, CaptureFile, PacketCounts
from kafkaraw.inspect.streams import Bytes, Closed, Event, Hole, Streams
from kafkaraw.inspect.streams import Connection as TcpConnection
from kafkaraw.inspect.tls_records import KeyLog, TlsSession
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol.apis import API_BY_KEY

EARLY_BYTES_MAX: Final = 256 << 10
"""How much of a connection is kept until it is decided what it speaks."""
GUESSES_MAX: Final = 500
"""How many responses of a capture are guessed among all APIs; a guess takes about 10 ms."""
GUESSED_SIZE_MAX: Final = 1 << 20
TLS_RECORDS: Final = (b"\x16\x03", b"\x17\x03", b"\x15\x03")
TLS_WORDS: Final = "TLS"


class Remark(NamedTuple):
    """What a capture lacks, or what cannot be read in it.

    Attributes:
        at_s: when, in seconds since 1970.
        connection: of which connection.
        words: what.
    """

    at_s: float
    connection: Connection
    words: str


class GuessedResponse(Exchange):
    """A response whose request is not in the capture, with the API that its bytes fit best.

    Attributes:
        candidates: what it may be, the likeliest first.
    """

    def __init__(self, connection: Connection, frame: Frame, correlation_id: int, candidates: list[Candidate]) -> None:
        best = candidates[0].reading
        super().__init__(
            connection,
            ExchangeKind.ORPHAN,
            None,
            api_key=best.api.key,
            version=best.version,
            correlation_id=correlation_id,
        )
        self.response: Frame | None = frame
        self.candidates: list[Candidate] = candidates

    @property
    def name(self) -> str:
        """The API, all versions that read the same, and the probability."""
        return f"{self.candidates[0]}, guessed, {self.candidates[0].share:.0%} sure"


@dataclass(slots=True)
class CaptureReport:
    """What a capture contains.

    Attributes:
        packets: counts of packets; None before the first is read.
        connections: TCP connections with data.
        kafka: those that speak Kafka.
        encrypted: those that speak TLS, and were not decrypted, or not to their end.
        tls_problems: why they were not, if a key log was given.
        others: what the other connections speak, with how many.
        exchanges: exchanges with a request.
        unanswered: those of them that wait for an answer at the end of their connection.
        guessed: responses without a request whose API was guessed.
        unknown: responses without a request whose API is unclear.
        missing_bytes: bytes of Kafka's connections that the capture does not have.
        unread_bytes: bytes of Kafka's connections that it has, and that belong to no frame.
    """

    packets: PacketCounts | None = None
    connections: int = 0
    kafka: int = 0
    encrypted: int = 0
    tls_problems: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    exchanges: int = 0
    unanswered: int = 0
    guessed: int = 0
    unknown: int = 0
    missing_bytes: int = 0
    unread_bytes: int = 0


Item: TypeAlias = Exchange | Remark


class CaptureReader:
    """Reads a capture.

    Args:
        file: opened for bytes; it may be a pipe.
        tls_key_log: secrets of TLS sessions (`SSLKEYLOGFILE`); those that a pcapng file has in it are used, too.

    Attributes:
        report: what the part that was read contains.

    Raises:
        UsageError: the file is no capture, or the package `dpkt` is not installed.
    """

    def __init__(self, file: BinaryIO, *, tls_key_log: bytes = b"") -> None:
        self._file = CaptureFile(file)
        self._key_log = KeyLog(tls_key_log)
        self.report: CaptureReport = CaptureReport(packets=self._file.counts)
        self._guesser = _Guesser(self.report)

    def read(self) -> Iterator[Item]:
        """Yield exchanges as they end, and remarks where they belong."""
        connections: dict[TcpConnection, CapturedConnection] = {}
        known_bytes = 0
        for event in Streams().follow(self._file.segments()):
            if len(self._file.tls_key_log) > known_bytes:
                self._key_log.add(self._file.tls_key_log[known_bytes:])
                known_bytes = len(self._file.tls_key_log)
            found = connections.get(event.connection)
            if found is None:
                found = CapturedConnection(event.connection, self.report, self._guesser, self._key_log)
                connections[event.connection] = found
            yield from found.take(event)
            if isinstance(event.what, Closed):
                del connections[event.connection]


class _Speaks(Enum):
    UNDECIDED = "undecided"
    KAFKA = "Kafka"
    OTHER = "another protocol"


class CapturedConnection:
    """One TCP connection of a capture.

    Args:
        tcp: the connection.
        report: counts what is found.
        guesser: guesses responses without a request.
        key_log: secrets of TLS sessions.
    """

    def __init__(self, tcp: TcpConnection, report: CaptureReport, guesser: _Guesser, key_log: KeyLog) -> None:
        self._tcp = tcp
        self._key_log = key_log
        self._tls: TlsSession | None = None
        self._report = report
        self._guesser = guesser
        self._speaks = _Speaks.UNDECIDED
        self._early: list[tuple[bool, Bytes | Hole]] = []
        self._early_bytes = 0
        self._is_swapped = False  # the end that `tcp` calls the client is the broker
        self._kafka: _KafkaConnection | None = None

    def take(self, event: Event) -> Iterator[Item]:
        """Take what happened next."""
        if isinstance(event.what, Closed):
            yield from self._close(event.what)
        elif self._tls is not None:
            yield from self._decrypt(self._tls, event.from_client, event.what)
        else:
            yield from self._take_plain(event)

    def _take_plain(self, event: Event) -> Iterator[Item]:
        if self._kafka is not None:
            assert not isinstance(event.what, Closed)
            yield from self._pass(self._kafka, event.from_client, event.what)
        elif isinstance(event.what, Bytes | Hole) and self._speaks is _Speaks.UNDECIDED:
            if not self._early:
                self._report.connections += self._tls is None
            self._early.append((event.from_client, event.what))
            self._early_bytes += len(event.what.data) if isinstance(event.what, Bytes) else 0
            yield from self._decide(at_end=self._early_bytes > EARLY_BYTES_MAX)

    def _decrypt(self, tls: TlsSession, from_client: bool, what: Bytes | Hole) -> Iterator[Item]:
        if isinstance(what, Hole):
            tls.hole(from_client)
            return
        plain = tls.feed(from_client, what.data)
        if plain:
            yield from self._take_plain(Event(self._tcp, from_client, Bytes(what.time_ns, plain)))

    def _pass(self, kafka: _KafkaConnection, from_client: bool, what: Bytes | Hole) -> Iterator[Item]:
        at_s = what.time_ns / NANOSECONDS
        asks = from_client != self._is_swapped
        if isinstance(what, Bytes):
            yield from kafka.feed(asks, what.data, at_s)
        else:
            yield from kafka.hole(asks, what.size, at_s)

    def _close(self, closed: Closed) -> Iterator[Item]:
        if self._speaks is _Speaks.UNDECIDED and self._early:
            yield from self._decide(at_end=True)
        if self._tls is not None and (self._kafka is None or self._tls.problem):
            self._report.encrypted += 1
            self._report.tls_problems[self._tls.problem or "its end speaks no Kafka"] += 1
        if self._kafka is not None:
            yield from self._kafka.close(closed.reason.value, closed.time_ns / NANOSECONDS)

    def _decide(self, *, at_end: bool) -> Iterator[Item]:
        words = self._stranger()
        if words == TLS_WORDS and self._key_log and self._tcp.has_start:
            self._tls = TlsSession(self._key_log)
            early, self._early, self._early_bytes = self._early, [], 0
            for from_client, what in early:
                yield from self._decrypt(self._tls, from_client, what)
            return
        if words:
            self._is_other(words)
            return
        has_start = self._tcp.has_start and isinstance(self._early[0][1], Bytes)
        is_kafka = self._has_kafka_start(at_end) if has_start else self._shows_kafka(at_end)
        if is_kafka is None and not at_end:
            return
        if not is_kafka:
            self._is_other("another protocol")
            return
        self._speaks = _Speaks.KAFKA
        self._report.kafka += 1
        ends = str(self._tcp.client), str(self._tcp.server)
        connection = Connection(self._tcp.number, *(reversed(ends) if self._is_swapped else ends))
        self._kafka = _KafkaConnection(connection, self._report, self._guesser, has_start=has_start)
        early, self._early = self._early, []
        for from_client, what in early:
            yield from self._pass(self._kafka, from_client, what)

    def _is_other(self, words: str) -> None:
        self._speaks = _Speaks.OTHER
        self._early.clear()
        if words == TLS_WORDS:
            self._report.encrypted += 1
        else:
            self._report.others[words] += 1

    def _stranger(self) -> str:
        """Return which other protocol the first bytes of either direction belong to; empty if that is not clear."""
        for from_client in (True, False):
            first = next((what for side, what in self._early if side is from_client), None)
            if isinstance(first, Bytes) and len(first.data) >= SIZE_PREFIX:
                if first.data.startswith(TLS_RECORDS) and self._tls is None:
                    return TLS_WORDS
                words = stranger_in(first.data[:SIZE_PREFIX], is_first=True)
                if words and self._tcp.has_start:
                    return _protocol_of(words)
        return ""

    def _has_kafka_start(self, at_end: bool) -> bool | None:
        """Return whether the first frame of the client is a request; None if more bytes are needed."""
        if not self._early[0][0]:
            return False  # brokers never speak first
        data = self._from(client=True)
        if len(data) < HEAD_SIZE and not at_end:
            return None
        if data[SIZE_PREFIX : SIZE_PREFIX + 1] == bytes([GSSAPI_TOKEN]):
            return True
        header = request_header(data)
        if header is None:
            return False
        if is_request(data):
            return True
        if SIZE_PREFIX + header[0] > len(data) and not at_end:
            return None
        # A request with an error in it, or of an API that is not known here: the client id decides.
        return header[3] > 0 and data[HEAD_SIZE + 2 : HEAD_SIZE + 2 + header[3]].isascii()

    def _shows_kafka(self, at_end: bool) -> bool | None:
        """Return whether either direction has a request, or at the end a response; None if that is not known yet."""
        last_side, last = self._early[-1]
        sides = (True, False) if self._tcp.has_start or last_side else (False, True)
        if isinstance(last, Bytes) and is_request(last.data):
            self._is_swapped = not last_side
            return True
        if not at_end:
            return None
        for side in sides:
            if RequestJudge(Conversation(_NOWHERE)).find(self._from(client=side), 0) >= 0:
                self._is_swapped = not side
                return True
        for side in sides:
            judge = ResponseJudge(Conversation(_NOWHERE), misses_requests=True, budget=self._guesser.budget)
            pieces = [what.data for early, what in self._early if early is side and isinstance(what, Bytes)]
            if any(judge.is_start(memoryview(piece)) for piece in pieces) or judge.find(b"".join(pieces), 0) >= 0:
                self._is_swapped = side
                return True
        return False

    def _from(self, *, client: bool) -> bytes:
        return b"".join(what.data for side, what in self._early if side is client and isinstance(what, Bytes))


_NOWHERE: Final = Connection(0, "", "")


def _protocol_of(words: str) -> str:
    """Return the name of a protocol out of the words about its first bytes."""
    return next((name for name in ("HTTP", "SSH", "TLS", "PROXY") if name in words), "another protocol")


class _KafkaConnection:
    """A connection that speaks Kafka."""

    def __init__(self, connection: Connection, report: CaptureReport, guesser: _Guesser, *, has_start: bool) -> None:
        self._connection = connection
        self._report = report
        self._guesser = guesser
        self._conversation = Conversation(connection, guesser.topic_names)
        self._responses = ResponseJudge(self._conversation, misses_requests=not has_start, budget=guesser.budget)
        self._requests_finder = FrameFinder(RequestJudge(self._conversation), synchronised=has_start)
        self._responses_finder = FrameFinder(self._responses, synchronised=has_start)

    def feed(self, asks: bool, data: bytes, at_s: float) -> Iterator[Item]:
        """Take bytes."""
        finder = self._requests_finder if asks else self._responses_finder
        for found in finder.feed(data, at_s):
            yield from self._take(asks, found)

    def hole(self, asks: bool, size: int, at_s: float) -> Iterator[Item]:
        """Pass over bytes that the capture does not have."""
        self._report.missing_bytes += size
        finder = self._requests_finder if asks else self._responses_finder
        for found in finder.hole(size, at_s):
            yield from self._take(asks, found)

    def close(self, reason: str, at_s: float) -> Iterator[Item]:
        """End the connection."""
        for asks, finder in ((True, self._requests_finder), (False, self._responses_finder)):
            for found in finder.end(at_s):
                yield from self._take(asks, found)
        for exchange in self._conversation.end(reason):
            self._report.unanswered += 1
            yield from self._ended(exchange)

    def _take(self, asks: bool, found: Frame | Unread) -> Iterator[Item]:
        if isinstance(found, Unread):
            yield self._remark(asks, found)
        elif asks:
            yield from self._request(found)
        else:
            for exchange in self._conversation.response(found):
                yield from self._ended(self._guesser.named(exchange, self._responses))

    def _remark(self, asks: bool, unread: Unread) -> Remark:
        if asks:
            self._responses.misses_requests = True
        self._report.unread_bytes += unread.size - unread.missing
        sender = "client" if asks else "broker"
        rest = unread.size - unread.missing
        if unread.missing:
            before = f"; the {_counted(rest)} before them are of the same frame" if rest else ""
            words = f"{_counted(unread.missing)} from the {sender} are missing in the capture{before}"
        else:
            words = f"{_counted(unread.size)} from the {sender} are in no frame that can be read: {unread.why}"
        return Remark(unread.at_s, self._connection, words)

    def _request(self, frame: Frame) -> Iterator[Item]:
        exchange = self._conversation.request(frame)
        if not exchange.is_answered:
            yield from self._ended(exchange)
        dropped = self._conversation.drop_oldest(f"{PENDING_MAX} later requests have no answer, either")
        if dropped is not None:
            yield from self._ended(dropped)

    def _ended(self, exchange: Exchange) -> Iterator[Item]:
        if exchange.request is not None:
            self._report.exchanges += 1
        self._guesser.topic_names.learn(exchange)
        yield exchange


def _counted(size: int) -> str:
    return f"{size} byte{'' if size == 1 else 's'}"


class _Guesser:
    """Names responses whose requests are not in the capture, and topics by their ids.

    Attributes:
        topic_names: those that any connection of the capture has named.
        budget: guesses that are left for finding where responses begin.
    """

    def __init__(self, report: CaptureReport) -> None:
        self.topic_names: TopicNames = TopicNames()
        self.budget: GuessBudget = GuessBudget()
        self._report = report
        self._left = GUESSES_MAX
        self._usual: Counter[tuple[int, int]] = Counter()

    def named(self, exchange: Exchange, judge: ResponseJudge) -> Exchange:
        """Return an exchange as it is, or a response without a request with its likely API."""
        frame = exchange.response
        if exchange.kind is not ExchangeKind.ORPHAN or frame is None:
            return exchange
        judge.misses_requests = True
        candidates = [] if frame.is_cut or len(frame.data) > GUESSED_SIZE_MAX else self._candidates(bytes(frame.data))
        if not candidates:
            self._report.unknown += 1
            return exchange
        self._report.guessed += 1
        self._usual[candidates[0].reading.api.key, candidates[0].reading.version] += 1
        return GuessedResponse(exchange.connection, frame, exchange.correlation_id, candidates)

    def _candidates(self, data: bytes) -> list[Candidate]:
        view = memoryview(len(data).to_bytes(SIZE_PREFIX) + data)
        if self._left:
            self._left -= 1
            return guess_response(view)
        # All APIs are too many for every response of a large capture: those that were found before are tried.
        for key, version in self._usual:
            found = guess(view, kind=FrameKind.RESPONSE, api=API_BY_KEY[key], version=version)
            if found and found[0].is_whole and found[0].gain > 0:
                return found
        return []

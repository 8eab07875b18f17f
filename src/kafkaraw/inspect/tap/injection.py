"""Faults on a tapped connection: the vocabulary of the embedded broker, between a real client and a real cluster.

While faults are set, the requests of a connection go to the broker one after another, as brokers handle them: the next
one leaves when the one before is answered. So a fault may hold a request back, answer it in the place of the broker, or
replace the broker's answer, and the order of the answers stays right. What has no fault passes unchanged. Start at
`Injection.request`; `broker.faults` decides.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from kafkaraw.broker.faults import Damaged, Fault, FaultReply, Faults, Incoming, Undecoded
from kafkaraw.broker.replies import NO_REPLY, CloseConnection, Deferred, Failed, NoReply, Reply
from kafkaraw.errors import KafkaError
from kafkaraw.inspect.exchanges import Bytes, Exchange, Frame, TopicNames
from kafkaraw.protocol import (
    FileSlice,
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    encode_response_segments,
)
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.frames import SIZE_PREFIX

if TYPE_CHECKING:
    from kafkaraw.inspect.tap.passage import Passage
    from kafkaraw.net import Link, Segments

WAITING_MAX: Final = 100
WAITING_BYTES_MAX: Final = 4 << 20
"""While more requests wait than these, the client is not read."""
_SASL_KEYS: Final = frozenset({17, 36})
_NO_NODE: Final = -1


class Injection:
    """Applies a plan of faults to one connection.

    Args:
        faults: the plan, which all connections share.
        topic_names: of the cluster, for faults on topics that are named by id.
        passage: the connection.
    """

    def __init__(self, faults: Faults, topic_names: TopicNames, passage: Passage) -> None:
        self._faults = faults
        self._topic_names = topic_names
        self._passage = passage
        self._waiting: deque[Frame] = deque()
        self._waiting_bytes = 0
        self._current: Exchange | None = None
        self._awaited: Deferred[Response] | None = None
        self._is_decoded = False
        self._from_broker: Frame | None = None
        self._reply: Deferred[object] | None = None
        self._is_over = False

    @property
    def is_set(self) -> bool:
        """Whether frames come here: there are faults, or requests that wait for an earlier one."""
        return self._faults.are_set or self._current is not None or bool(self._waiting)

    def request(self, frame: Frame) -> None:
        """Take a request from the client."""
        self._waiting.append(frame)
        self._waiting_bytes += len(frame.data)
        self._work()
        self._slow_client_down()

    def response(self, frame: Frame, data: Bytes) -> bool:
        """Take an answer from the broker; return False if it is passed on without a fault.

        Args:
            frame: the answer as it came.
            data: the same with the addresses of the tap.
        """
        awaited, current = self._awaited, self._current
        if awaited is None or current is None:
            asyncio.get_running_loop().call_soon(self._work)
            return False
        if int.from_bytes(frame.data[:4], signed=True) != current.correlation_id:
            return False
        self._awaited, self._from_broker = None, frame
        answer: Response = Undecoded(bytes(data))
        if self._is_decoded:
            try:
                _, answer = decode_response(data, current.api_key, current.version, allow_trailing_bytes=True)
            except KafkaError as error:
                self._fail(f"{current.name}: the answer cannot be decoded: {error}")
                return True
        awaited.resolve(answer)
        return True

    def end(self) -> None:
        """The connection has ended: nothing waits any longer."""
        self._is_over = True
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._reply is not None:
            self._reply.cancel()

    def _work(self) -> None:
        """Begin with the next request if all earlier ones are answered."""
        while self._waiting and self._current is None and not self._passage.conversation.pending and not self._is_over:
            frame = self._waiting.popleft()
            self._waiting_bytes -= len(frame.data)
            self._slow_client_down()
            exchange = self._passage.exchange_of(frame)
            body = exchange.request_body
            if body is None or exchange.api_key in _SASL_KEYS:
                self._forward(frame.data)
                if not exchange.is_answered:
                    self._passage.report(exchange)
                continue
            self._current, self._from_broker = exchange, None
            self._settle(self._reply_to(exchange, frame, body))

    def _slow_client_down(self) -> None:
        too_many = len(self._waiting) > WAITING_MAX or self._waiting_bytes > WAITING_BYTES_MAX
        self._passage.client.read(not too_many, "faults")

    def _reply_to(self, exchange: Exchange, frame: Frame, body: Request[Response]) -> FaultReply:
        header, _ = decode_request_header(frame.data)
        api = exchange.api
        assert api is not None, "its body was decoded"
        node_id = exchange.connection.node_id

        def handle(asked: Request[Response]) -> Reply[Response]:
            return self._ask(exchange, header, frame, asked, is_changed=asked is not body)

        incoming = Incoming(
            api,
            header,
            _NO_NODE if node_id is None else node_id,
            body,
            self._topic_names.name_of,
            handle,
            frame.size_bytes,
        )
        fault: Fault | None = self._faults.chosen(incoming)
        if fault is None:
            return handle(body)
        exchange.fault = fault.description
        return fault.act(incoming)

    def _ask(
        self, exchange: Exchange, header: RequestHeader, frame: Frame, asked: Request[Response], *, is_changed: bool
    ) -> Reply[Response]:
        """Send a request to the broker."""
        self._forward(encode_request(header, asked) if is_changed else frame.data)
        if not exchange.is_answered:
            return NO_REPLY
        self._is_decoded = is_changed
        self._awaited = Deferred(lambda: None)
        return self._awaited

    def _forward(self, data: Bytes) -> None:
        self._passage.broker.write(SIZE_PREFIX.pack(len(data)) + bytes(data))

    def _settle(self, reply: FaultReply | Failed) -> None:
        """Do what a reply says."""
        exchange = self._current
        if exchange is None or self._is_over:
            return
        if isinstance(reply, Deferred):
            self._reply = reply
            reply.when_done(self._settle)
        elif isinstance(reply, Undecoded):
            self._answer(bytes(reply.frame))
        elif isinstance(reply, Damaged):
            outlet = _Outlet(self._passage)
            if isinstance(reply.response, Undecoded):
                segments: Segments = [reply.response.frame]
            else:
                header = ResponseHeader(exchange.correlation_id)
                segments = encode_response_segments(header, reply.response, exchange.version)
            reply.send(cast("Link", outlet), segments)
            self._finish(outlet.sent)
        elif isinstance(reply, NoReply):
            self._current = None
            self._passage.report(exchange)
            asyncio.get_running_loop().call_soon(self._work)
        elif isinstance(reply, CloseConnection):
            self._passage.end(f"fault: {exchange.fault}")
        elif isinstance(reply, Failed):
            self._fail(f"{exchange.name}: {reply.error}")
        else:
            self._answer(encode_response(ResponseHeader(exchange.correlation_id), reply, exchange.version))

    def _answer(self, data: bytes) -> None:
        self._passage.client.write(SIZE_PREFIX.pack(len(data)) + data)
        self._finish(data)

    def _finish(self, data: bytes) -> None:
        """Note the answer that the client was sent, and go on with the next request."""
        exchange, self._current, self._reply = self._current, None, None
        assert exchange is not None
        frame = self._from_broker if self._from_broker is not None and not exchange.fault else None
        now_s = time.time()
        if int.from_bytes(data[:4], signed=True) == exchange.correlation_id:  # else it was cut before that
            self._passage.answered(frame or Frame(data, len(data), now_s, now_s))
        self._topic_names.learn(exchange)
        asyncio.get_running_loop().call_soon(self._work)

    def _fail(self, text: str) -> None:
        self._passage.end(text)


class _Outlet:
    """The part of a link that damaged answers are sent with."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage
        self.sent: bytes = b""

    def send(self, segments: Segments) -> None:
        """Send one frame."""
        data = b"".join(segment for segment in segments if not isinstance(segment, FileSlice))
        self.sent = data
        self._passage.client.write(SIZE_PREFIX.pack(len(data)) + data)

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sent = data[SIZE_PREFIX.size :]
        self._passage.client.write(data)

    def close(self) -> None:
        """End the connection after what is unsent."""
        self._passage.end("fault: the connection is closed within the answer")

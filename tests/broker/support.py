"""What the broker's tests share: a state without network, requests that go through real bytes, and batches."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import Any, TypeVar

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import load_handlers
from kafkaraw.broker.listeners import Endpoint
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.partitions.partition import Appended, Partition
from kafkaraw.broker.replies import Deferred, NoReply
from kafkaraw.broker.security.listener_security import ANONYMOUS
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Broker
from kafkaraw.broker.turns import run_to_end
from kafkaraw.protocol import (
    FileSlice,
    RequestHeader,
    ResponseHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response_segments,
)
from kafkaraw.protocol.apis import api_of
from kafkaraw.records import encode_batch, unpack_header
from kafkaraw.testing.simulated_disk import SimulatedDisk
from kafkaraw.testing.virtual import VirtualLoop

NOW_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"

Response = TypeVar("Response")
Answer = TypeVar("Answer")


def append_sent(partition: Partition, batch: bytes | memoryview, *, in_transaction: bool = False) -> Appended:
    """Check a producer's batch and append it, as a Produce request does."""
    sent = batch if isinstance(batch, memoryview) else memoryview(bytearray(batch))
    if in_transaction:
        partition.attempted(unpack_header(sent), bumps_epochs=False)
    return partition.append(run_to_end(partition.check(sent)), in_transaction=in_transaction)


def disk_without_luck() -> SimulatedDisk:
    """A disk on which a crash loses every write that was not synced."""
    return SimulatedDisk(random.Random(1), kept_share=0.0, keeps_names=True)


class FixedClock:
    """A wall clock that moves when it is told to."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def time_ms(self) -> int:
        return self.now_ms


FEW_PARTITIONS: dict[str, Any] = {"offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4}
"""Properties of a broker, unless a test sets them: to open 50 partitions takes longer than most tests."""


def make_state(
    storage: LogStorage | None = None, *, clock: FixedClock | None = None, seed: int = 1, **properties: Any
) -> BrokerState:
    """A broker's state; properties with `_` for `.`."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    config = BrokerConfig.parse(FEW_PARTITIONS | named)
    state = BrokerState(config, storage or MemoryStorage(), clock or FixedClock(), random.Random(seed))
    in_a_loop(state.open)
    broker = Broker(config.node_id, {LISTENER: Endpoint(LISTENER, "127.0.0.1", 9092)})
    state.controller.brokers_up([broker])
    return state


def ask(
    state: BrokerState,
    request: Any,
    version: int | None = None,
    *,
    principal: str = ANONYMOUS,
    client_id: str = "test",
    listener: str = LISTENER,
    by_token: bool = False,
) -> Any:
    """Send a request through its bytes to its handler, and the answer back through its bytes.

    A deferred answer, and no reply, are returned as they are.
    """
    api = api_of(request)
    version = api.supported.max if version is None else version
    header, message = decode_request(bytearray(encode_request(RequestHeader(api.key, version, 7, client_id), request)))
    peer = "127.0.0.1:50000"
    context = RequestContext(header.api_version, listener, header.client_id, peer, principal, by_token)
    answer = in_a_loop(lambda: load_handlers()[api.key](state, context, message))
    if isinstance(answer, Deferred | NoReply):
        return answer
    return through_bytes(answer, version)


def in_a_loop(act: Callable[[], Answer]) -> Answer:
    """Do something while a loop runs, which is the test's own or one for this moment: its timers never fire."""

    async def acted() -> Answer:
        return act()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(acted())
    return act()


def through_bytes(response: Response, version: int) -> Response:
    """A response as the client decodes it."""
    api = api_of(response)
    segments = encode_response_segments(ResponseHeader(7), response, version)
    encoded = b"".join(content_bytes(segment) for segment in segments)
    header, decoded = decode_response(encoded, api.key, version)
    assert header.correlation_id == 7
    return decoded  # type: ignore[return-value]


def batch(*values: bytes | None, key: bytes | None = None, timestamp_ms: int = NOW_MS, **settings: Any) -> bytes:
    """One encoded batch, a record per value."""
    return encode_batch([(timestamp_ms, key, value, []) for value in values], **settings)


def content_bytes(content: Any) -> bytes:
    """What a log gave, read."""
    if content is None:
        return b""
    if isinstance(content, FileSlice):
        return os.pread(content.fd, content.size, content.offset)
    return bytes(content)

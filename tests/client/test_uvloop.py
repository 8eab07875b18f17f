"""Clients and the embedded broker on uvloop, the usual loop of web services, in a process of their own."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine

import pytest

from kafkaraw import AsyncAdmin, AsyncConsumer, AsyncProducer, NewTopic, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import InternalError, UsageError
from kafkaraw.net import AsyncioNetwork
from kafkaraw.net.transport import StreamLink
from tests.net.handlers import Answerers, Recorder

VALUES = [b"%d" % number * 1000 for number in range(2_000)]
P0 = TopicPartition("t", 0)
USERS = {"ada": "opensesame"}
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "ada", "sasl_password": "opensesame"}
LOGINS = [{}, {**LOGIN, "sasl_mechanism": "PLAIN"}, {**LOGIN, "sasl_mechanism": "SCRAM-SHA-512"}]
Runner = Callable[[Coroutine[object, object, None]], None]


@pytest.fixture
def run() -> Runner:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed: pip install 'kafkaraw[dev]'")
    return uvloop.run


@pytest.mark.parametrize("login", LOGINS, ids=["plaintext", "PLAIN", "SCRAM"])
def test_the_asyncio_clients_work_on_uvloop(login: dict[str, str], run: Runner) -> None:
    async def main(servers: str) -> None:
        given = {"bootstrap_servers": servers, "default_api_timeout_ms": 20_000, **login}
        async with AsyncAdmin(**given) as admin:
            await admin.create_topics([NewTopic("t", 1)])
            assert [topic.name for topic in await admin.list_topics()] == ["t"]
        async with AsyncProducer(**given, transactional_id="tx") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                for value in VALUES:
                    await producer.send("t", value)
        async with AsyncConsumer(**given, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            values = []
            async for record in consumer:
                values.append(record.value)
                if len(values) == len(VALUES):
                    break
            assert values == VALUES
            await consumer.commit()
            found = (await consumer.committed([P0]))[P0]
            assert found is not None and found.offset >= len(VALUES)

    with EmbeddedBroker(users=USERS if login else None, properties={"group.initial.rebalance.delay.ms": 0}) as broker:
        run(main(broker.bootstrap_servers))


EVERYTHING = """
import asyncio, sys, uvloop
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
from kafkaraw import Consumer, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
assert sys.flags.optimize, "assertions are on"
with EmbeddedBroker() as broker:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(20_000):
            producer.send("t", b"%d" % number * 100, partition=0)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        count = 0
        for record in consumer:
            if record.value != b"%d" % count * 100:
                sys.exit(f"record {count} is {record.value[:20]!r}")
            count += 1
            if count == 20_000:
                break
print(count)
"""


def test_blocking_clients_and_the_broker_work_on_uvloop_and_without_assertions() -> None:
    pytest.importorskip("uvloop", reason="uvloop is not installed: pip install 'kafkaraw[dev]'")
    done = subprocess.run(
        [sys.executable, "-O", "-c", EVERYTHING], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("20000", 0), done.stderr


# -- errors of our own, on asyncio's loop


async def loss_after(frames: list[bytes], handler: Recorder) -> object:
    """Send frames to a handler over a connection; return why the connection was lost."""
    answerers = Answerers()
    listener = await AsyncioNetwork().listen("127.0.0.1", 0, answerers, frame_size_max=1 << 20)
    try:
        await AsyncioNetwork().dial("127.0.0.1", listener.port, handler, timeout=10, frame_size_max=1 << 20)
        server = await answerers.next()
        assert server.link is not None
        try:
            server.link.send(frames)
            return await asyncio.wait_for(handler.loss(), 10)
        finally:
            server.link.abort()
            await asyncio.wait_for(server.loss(), 10)
    finally:
        await listener.close()


def test_an_error_of_a_handler_is_the_cause_of_an_internal_error() -> None:
    class Faulty(Recorder):
        def frame_received(self, frame: memoryview) -> None:
            raise LookupError("no such thing")

    async def main() -> None:
        error = await loss_after([b"echo"], Faulty())
        assert isinstance(error, InternalError)
        assert "a fault in kafkaraw itself" in str(error)
        assert isinstance(error.__cause__, LookupError)

    asyncio.run(main())


def test_an_error_during_connection_setup_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an assertion about the loop's transports was, which made every client time out on uvloop."""
    begin = StreamLink._begin
    clients_loop: list[asyncio.AbstractEventLoop] = []
    accepted = threading.Event()

    def broken(self: StreamLink, transport: asyncio.Transport) -> None:
        if self.loop in clients_loop:
            raise AssertionError("not one of asyncio's transports")
        begin(self, transport)  # the broker's side
        accepted.set()

    async def main(servers: str) -> None:
        clients_loop.append(asyncio.get_running_loop())
        async with AsyncAdmin(bootstrap_servers=servers) as admin:
            async with asyncio.timeout(5):
                with pytest.raises(InternalError, match="not one of asyncio's transports"):
                    await admin.list_topics()
        # asyncio leaks a connection that it accepts while the server closes (cpython issue 109564).
        assert await asyncio.to_thread(accepted.wait, 5)

    with EmbeddedBroker() as broker, monkeypatch.context() as patch:
        patch.setattr(StreamLink, "_begin", broken)
        asyncio.run(main(broker.bootstrap_servers))


def test_a_producer_that_is_used_on_a_second_loop_says_so() -> None:
    with EmbeddedBroker() as broker:
        producers = [AsyncProducer(bootstrap_servers=broker.bootstrap_servers)]

        async def use() -> None:
            await producers[0].send("t", b"v")
            await producers[0].flush()

        async def use_and_forget() -> None:
            await use()
            await producers[0]._core._close_network()  # else Python warns of the sockets, rightly

        asyncio.run(use_and_forget())
        with pytest.raises(UsageError, match="another event loop"):
            asyncio.run(use())
        with pytest.warns(ResourceWarning, match="AsyncProducer was not closed"):
            producers.clear()
            gc.collect()

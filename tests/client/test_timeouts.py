"""Every call that waits ends at its timeout, whatever the brokers do not do: all public methods, both faces.

A method that is new needs a line in `CALLS`, or, when it never waits for a broker, in `NEVER_WAITS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pyarrow
import pytest

import kafkaraw
from kafkaraw import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ConfigResource,
    Consumer,
    PreparedTransaction,
    Producer,
    QuotaEntity,
    ResourcePattern,
    ResourceType,
    ScramPassword,
    TopicPartition,
)
from kafkaraw.errors import KafkaTimeoutError, UsageError
from kafkaraw.protocol import ResponseHeader, decode_request_header, encode_response
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import ScriptedCluster, runtime_of
from tests.client.stub_broker import api_versions

P0 = TopicPartition("t", 0)
TIMEOUT = 3.0
CLOSE_S = 2.0
"""What closing may take beyond its timeout: a second for each connection's last bytes."""
Call = Callable[[Any, float], Any]

TOPIC = ConfigResource.topic("t")
ACL = AclBinding(ResourcePattern(ResourceType.TOPIC, "t"), "User:ada", AclOperation.READ)
CALLS: dict[str, dict[str, Call]] = {
    "Admin": {
        "create_topics": lambda admin, timeout: admin.create_topics(["new"], timeout=timeout),
        "delete_topics": lambda admin, timeout: admin.delete_topics(["t"], timeout=timeout),
        "list_topics": lambda admin, timeout: admin.list_topics(timeout=timeout),
        "describe_topics": lambda admin, timeout: admin.describe_topics(["t"], timeout=timeout),
        "create_partitions": lambda admin, timeout: admin.create_partitions({"t": 2}, timeout=timeout),
        "delete_records": lambda admin, timeout: admin.delete_records({P0: 0}, timeout=timeout),
        "describe_cluster": lambda admin, timeout: admin.describe_cluster(timeout=timeout),
        "describe_configs": lambda admin, timeout: admin.describe_configs([TOPIC], timeout=timeout),
        "alter_configs": lambda admin, timeout: admin.alter_configs({TOPIC: {"retention.ms": "1"}}, timeout=timeout),
        "alter_user_scram_credentials": lambda admin, timeout: admin.alter_user_scram_credentials(
            [ScramPassword("ada", "SCRAM-SHA-256", "opensesame")], timeout=timeout
        ),
        "describe_user_scram_credentials": lambda admin, timeout: admin.describe_user_scram_credentials(
            timeout=timeout
        ),
        "alter_client_quotas": lambda admin, timeout: admin.alter_client_quotas(
            {QuotaEntity(user="ada"): {"producer_byte_rate": 1.0}}, timeout=timeout
        ),
        "describe_client_quotas": lambda admin, timeout: admin.describe_client_quotas(timeout=timeout),
        "create_acls": lambda admin, timeout: admin.create_acls([ACL], timeout=timeout),
        "describe_acls": lambda admin, timeout: admin.describe_acls(timeout=timeout),
        "delete_acls": lambda admin, timeout: admin.delete_acls([AclBindingFilter()], timeout=timeout),
        "list_groups": lambda admin, timeout: admin.list_groups(timeout=timeout),
        "describe_groups": lambda admin, timeout: admin.describe_groups(["g"], timeout=timeout),
        "delete_groups": lambda admin, timeout: admin.delete_groups(["g"], timeout=timeout),
        "remove_members": lambda admin, timeout: admin.remove_members("g", timeout=timeout),
        "list_group_offsets": lambda admin, timeout: admin.list_group_offsets(["g"], timeout=timeout),
        "alter_group_offsets": lambda admin, timeout: admin.alter_group_offsets("g", {P0: 1}, timeout=timeout),
        "delete_group_offsets": lambda admin, timeout: admin.delete_group_offsets("g", [P0], timeout=timeout),
        "list_transactions": lambda admin, timeout: admin.list_transactions(timeout=timeout),
        "fence_producers": lambda admin, timeout: admin.fence_producers(["tx"], timeout=timeout),
        "end_transaction": lambda admin, timeout: admin.end_transaction(
            PreparedTransaction("tx", 1, 0, bumps_epochs=True), commit=True, timeout=timeout
        ),
    },
    "Producer": {
        "send": lambda producer, timeout: producer.send("t", b"v"),  # max_block_ms is its timeout
        "send_arrow": lambda producer, timeout: producer.send_arrow("t", pyarrow.table({"value": [b"v"]})),  # likewise
        "partitions_for": lambda producer, timeout: producer.partitions_for("t", timeout),
        "init_transactions": lambda producer, timeout: producer.init_transactions(timeout),
    },
    "Consumer": {
        "position": lambda consumer, timeout: consumer.position(P0, timeout),
        "partitions_for": lambda consumer, timeout: consumer.partitions_for("t", timeout),
        "beginning_offsets": lambda consumer, timeout: consumer.beginning_offsets([P0], timeout),
        "end_offsets": lambda consumer, timeout: consumer.end_offsets([P0], timeout),
        "offsets_for_times": lambda consumer, timeout: consumer.offsets_for_times({P0: 0}, timeout),
        "commit": lambda consumer, timeout: consumer.commit({P0: 1}, timeout),
        "committed": lambda consumer, timeout: consumer.committed([P0], timeout),
    },
}
EMPTY: dict[str, dict[str, Call]] = {
    "Consumer": {
        "poll": lambda consumer, timeout: consumer.poll(timeout),
        "batches": lambda consumer, timeout: first(consumer.batches(timeout)),
        "poll_arrow": lambda consumer, timeout: consumer.poll_arrow(timeout=timeout),
    },
    "Producer": {"flush": lambda producer, timeout: producer.flush(timeout)},
}
"""At their timeout these return what there is: nothing."""
UNUSABLE: dict[str, dict[str, Call]] = {
    "Producer": {
        "begin_transaction": lambda producer, timeout: producer.begin_transaction(),
        "send_offsets_to_transaction": lambda producer, timeout: producer.send_offsets_to_transaction(
            {P0: 1}, "group", timeout
        ),
        "commit_transaction": lambda producer, timeout: producer.commit_transaction(timeout),
        "prepare_transaction": lambda producer, timeout: producer.prepare_transaction(timeout),
        "abort_transaction": lambda producer, timeout: producer.abort_transaction(timeout),
    },
}
"""Before `init_transactions` has ended these are refused at once."""
NEVER_WAITS = {
    "assign", "assignment", "subscribe", "seek", "seek_to_beginning", "seek_to_end", "send_nowait", "metrics",
    "from_properties", "transaction", "pause", "resume", "paused", "lag", "topic_id", "next_offsets", "subscription",
    "commit_nowait", "group_metadata", "unsubscribe",  # what a member does when it leaves has its own tests
    "close",  # has its own tests below and in test_connection
}  # fmt: skip


def first(batches: Any) -> Any:
    return next(batches, {}) if isinstance(batches, Iterator) else anext(batches, {})


def kinds_of(name: str) -> list[dict[str, Call]]:
    return [table.get(name, {}) for table in (CALLS, EMPTY, UNUSABLE)]


@pytest.mark.parametrize("face", [Admin, Producer, Consumer, AsyncAdmin, AsyncProducer, AsyncConsumer])
def test_every_public_method_is_tried_here(face: type) -> None:
    methods = {name for name, _ in inspect.getmembers(face, inspect.isroutine) if not name.startswith("_")}
    tried = {name for kind in kinds_of(face.__name__.removeprefix("Async")) for name in kind}
    assert methods - tried - NEVER_WAITS == set()
    assert tried <= methods


def flat(table: dict[str, dict[str, Call]]) -> list[tuple[str, str]]:
    return [(client, name) for client, calls in table.items() for name in calls]


# -- the async face, on virtual time -------------------------------------------------------------------------------


def never(message: object) -> asyncio.Event:
    return asyncio.Event()


def silent_from_the_start(cluster: ScriptedCluster) -> None:
    cluster.simulation.network.silence("broker1", 9092)


def a_black_hole(cluster: ScriptedCluster) -> None:
    cluster.hold = never


def answers_api_versions_only(cluster: ScriptedCluster) -> None:
    cluster.hold = lambda message: None if type(message).__name__ == "ApiVersionsRequest" else asyncio.Event()


def silent_after_the_start(cluster: ScriptedCluster) -> None:
    cluster.hold = lambda message: asyncio.Event() if len(cluster.seen) > 2 else None


WAYS = [silent_from_the_start, a_black_hole, answers_api_versions_only, silent_after_the_start]


def settings_of(client: str, name: str) -> dict[str, object]:
    if client != "Producer":
        return {"group_id": "g"} if name.startswith("commit") else {}
    more = {"transactional_id": "tx"} if "transaction" in name else {}
    return {"max_block_ms": int(TIMEOUT * 1000), **more}


def simulate(
    client: str, name: str, way: Callable[[ScriptedCluster], None], play: Callable[[Any], Awaitable[None]]
) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation).start()
        cluster.create("t")
        way(cluster)
        face = getattr(kafkaraw, f"Async{client}")
        made = face(
            runtime=runtime_of(simulation), bootstrap_servers=cluster.bootstrap_servers, **settings_of(client, name)
        )
        if client == "Consumer":
            made.assign([P0])
        await play(made)
        closing = simulation.loop.time()
        await (made.close(TIMEOUT) if client == "Producer" else made.close())
        assert simulation.loop.time() - closing <= (TIMEOUT if client == "Producer" else 0) + CLOSE_S

    run_virtual(main, 1)


async def timed(work: Awaitable[object]) -> tuple[object, float]:
    """What came of it, and after how long."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        result: object = await work
    except KafkaTimeoutError as error:
        result = error
    return result, loop.time() - began


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("client", "name"), flat(CALLS))
def test_a_call_ends_at_its_timeout(client: str, name: str, way: Callable[[ScriptedCluster], None]) -> None:
    async def play(made: Any) -> None:
        result, seconds = await timed(CALLS[client][name](made, TIMEOUT))
        if isinstance(result, KafkaTimeoutError):
            assert seconds == pytest.approx(TIMEOUT, abs=0.1)
        else:  # what was known from the start needs no answer
            assert name in ("send", "partitions_for")
            assert way is silent_after_the_start
            assert seconds < TIMEOUT

    simulate(client, name, way, play)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("client", "name"), flat(EMPTY))
def test_waiting_for_records_ends_at_its_timeout(
    client: str, name: str, way: Callable[[ScriptedCluster], None]
) -> None:
    async def play(made: Any) -> None:
        result, seconds = await timed(EMPTY[client][name](made, TIMEOUT))
        if client == "Consumer":
            assert len(result) == 0  # type: ignore[arg-type]
            assert seconds == pytest.approx(TIMEOUT, abs=0.1)
        else:  # nothing was sent: nothing is waited for
            assert (result, seconds) == (None, 0)

    simulate(client, name, way, play)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("client", "name"), flat(UNUSABLE))
def test_what_cannot_be_done_yet_is_refused_at_once(
    client: str, name: str, way: Callable[[ScriptedCluster], None]
) -> None:
    async def play(made: Any) -> None:
        with pytest.raises(UsageError):
            await timed(UNUSABLE[client][name](made, TIMEOUT))
        assert asyncio.get_running_loop().time() == pytest.approx(0, abs=0.1)

    simulate(client, name, way, play)


# -- the blocking face, on real sockets, all at once ---------------------------------------------------------------


def says_nothing(sock: socket.socket) -> None:
    while sock.recv(1 << 16):
        pass


def says_its_versions(sock: socket.socket) -> None:
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
    header, _ = decode_request_header(sock.recv(size, socket.MSG_WAITALL))
    answer = encode_response(ResponseHeader(header.correlation_id), api_versions(), header.api_version)
    sock.sendall(len(answer).to_bytes(4, "big") + answer)
    says_nothing(sock)


@contextlib.contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that treats every connection so; its address."""

    def treat(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            serve(sock)

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=treat, args=(sock,)))
            threads[-1].start()

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


@pytest.mark.parametrize("serve", [says_nothing, says_its_versions])
def test_a_blocking_call_ends_at_its_timeout_on_many_threads_at_once(serve: Callable[[socket.socket], None]) -> None:
    wait_s, found = 0.5, {}

    def attempt(client: str, name: str, call: Call, address: str) -> None:
        more = settings_of(client, name) | ({"max_block_ms": int(wait_s * 1000)} if client == "Producer" else {})
        with contextlib.suppress(KafkaTimeoutError), getattr(kafkaraw, client)(bootstrap_servers=address, **more) as it:
            if client == "Consumer":
                it.assign([P0])
            began = time.monotonic()
            try:
                found[client, name] = (call(it, wait_s), time.monotonic() - began)
            except (KafkaTimeoutError, UsageError) as error:
                found[client, name] = (error, time.monotonic() - began)

    with peer(serve) as address:
        every = [
            (client, name, call)
            for table in (CALLS, EMPTY, UNUSABLE)
            for client, calls in table.items()
            for name, call in calls.items()
        ]
        threads = [threading.Thread(target=attempt, args=(*it, address)) for it in every]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    for client, name, _ in every:
        result, seconds = found[client, name]
        assert seconds < wait_s + 10, f"{client}.{name} took {seconds:g} s"
        expected = (
            KafkaTimeoutError if name in CALLS[client] else UsageError if name in UNUSABLE.get(client, ()) else None
        )
        if expected is not None:
            assert isinstance(result, expected), f"{client}.{name} gave {result!r}"

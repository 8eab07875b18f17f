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
    ElectionType,
    PreparedTransaction,
    Producer,
    ProducerState,
    QuotaEntity,
    RaftVoterEndpoint,
    ResourcePattern,
    ResourceType,
    ScramPassword,
    TopicPartition,
    TopicPartitionReplica,
)
from kafkaraw.errors import DeliveryError, KafkaTimeoutError, UsageError
from kafkaraw.protocol import ResponseHeader, Uuid, decode_request_header, encode_response
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.testing.memory_network import MemoryLink
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import TELEMETRY, ScriptedCluster, runtime_of
from tests.client.stub_broker import api_versions
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0 = TopicPartition("t", 0)
TIMEOUT = 3.0
CLOSE_S = 1.0
"""What closing may take where it has no timeout: for the last bytes of all connections together."""
GRAIN_S = 0.01
Call = Callable[[Any, float], Any]

TOPIC = ConfigResource.topic("t")
DIRECTORY = Uuid(b"\x09" * 16)
VOTER = RaftVoterEndpoint("CONTROLLER", "localhost", 1)
STATE = ProducerState(1, 0, 0, 0, 0, 0)
ACL = AclBinding(ResourcePattern(ResourceType.TOPIC, "t"), "User:ada", AclOperation.READ)
CALLS: dict[str, dict[str, Call]] = {
    "Admin": {
        "create_topics": lambda admin, timeout: admin.create_topics(["new"], timeout=timeout),
        "delete_topics": lambda admin, timeout: admin.delete_topics(["t"], timeout=timeout),
        "list_topics": lambda admin, timeout: admin.list_topics(timeout=timeout),
        "describe_topics": lambda admin, timeout: admin.describe_topics(["t"], timeout=timeout),
        "create_partitions": lambda admin, timeout: admin.create_partitions({"t": 2}, timeout=timeout),
        "delete_records": lambda admin, timeout: admin.delete_records({P0: 0}, timeout=timeout),
        "describe_log_dirs": lambda admin, timeout: admin.describe_log_dirs(timeout=timeout),
        "alter_replica_log_dirs": lambda admin, timeout: admin.alter_replica_log_dirs(
            {TopicPartitionReplica("t", 0, 0): "/disk2"}, timeout=timeout
        ),
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
        "list_share_group_offsets": lambda admin, timeout: admin.list_share_group_offsets(["s"], timeout=timeout),
        "alter_share_group_offsets": lambda admin, timeout: admin.alter_share_group_offsets(
            "s", {P0: 1}, timeout=timeout
        ),
        "delete_share_group_offsets": lambda admin, timeout: admin.delete_share_group_offsets(
            "s", ["t"], timeout=timeout
        ),
        "list_offsets": lambda admin, timeout: admin.list_offsets({P0: 0}, timeout=timeout),
        "describe_producers": lambda admin, timeout: admin.describe_producers([P0], timeout=timeout),
        "describe_replica_log_dirs": lambda admin, timeout: admin.describe_replica_log_dirs(
            [TopicPartitionReplica("t", 0, 0)], timeout=timeout
        ),
        "list_config_resources": lambda admin, timeout: admin.list_config_resources(timeout=timeout),
        "elect_leaders": lambda admin, timeout: admin.elect_leaders(ElectionType.PREFERRED, [P0], timeout=timeout),
        "alter_partition_reassignments": lambda admin, timeout: admin.alter_partition_reassignments(
            {P0: [0]}, timeout=timeout
        ),
        "list_partition_reassignments": lambda admin, timeout: admin.list_partition_reassignments(timeout=timeout),
        "describe_metadata_quorum": lambda admin, timeout: admin.describe_metadata_quorum(timeout=timeout),
        "add_raft_voter": lambda admin, timeout: admin.add_raft_voter(9, DIRECTORY, [VOTER], timeout=timeout),
        "remove_raft_voter": lambda admin, timeout: admin.remove_raft_voter(9, DIRECTORY, timeout=timeout),
        "describe_api_versions": lambda admin, timeout: admin.describe_api_versions(timeout=timeout),
        "describe_features": lambda admin, timeout: admin.describe_features(timeout=timeout),
        "update_features": lambda admin, timeout: admin.update_features({"transaction.version": 2}, timeout=timeout),
        "unregister_broker": lambda admin, timeout: admin.unregister_broker(9, timeout=timeout),
        "create_delegation_token": lambda admin, timeout: admin.create_delegation_token(timeout=timeout),
        "renew_delegation_token": lambda admin, timeout: admin.renew_delegation_token(b"hmac", timeout=timeout),
        "expire_delegation_token": lambda admin, timeout: admin.expire_delegation_token(b"hmac", timeout=timeout),
        "describe_delegation_tokens": lambda admin, timeout: admin.describe_delegation_tokens(timeout=timeout),
        "list_transactions": lambda admin, timeout: admin.list_transactions(timeout=timeout),
        "describe_transactions": lambda admin, timeout: admin.describe_transactions(["tx"], timeout=timeout),
        "list_open_transactions": lambda admin, timeout: admin.list_open_transactions([P0], timeout=timeout),
        "abort_transaction": lambda admin, timeout: admin.abort_transaction(P0, STATE, timeout=timeout),
        "fence_producers": lambda admin, timeout: admin.fence_producers(["tx"], timeout=timeout),
        "end_transaction": lambda admin, timeout: admin.end_transaction(
            PreparedTransaction("tx", 1, 0, bumps_epochs=True), commit=True, timeout=timeout
        ),
        "client_instance_id": lambda admin, timeout: admin.client_instance_id(timeout=timeout),
    },
    "Producer": {
        "send": lambda producer, timeout: producer.send("t", b"v"),  # max_block_ms is its timeout
        "send_arrow": lambda producer, timeout: producer.send_arrow("t", pyarrow.table({"value": [b"v"]})),  # likewise
        "partitions_for": lambda producer, timeout: producer.partitions_for("t", timeout),
        "init_transactions": lambda producer, timeout: producer.init_transactions(timeout),
        "client_instance_id": lambda producer, timeout: producer.client_instance_id(timeout),
    },
    "Consumer": {
        "position": lambda consumer, timeout: consumer.position(P0, timeout),
        "partitions_for": lambda consumer, timeout: consumer.partitions_for("t", timeout),
        "beginning_offsets": lambda consumer, timeout: consumer.beginning_offsets([P0], timeout),
        "end_offsets": lambda consumer, timeout: consumer.end_offsets([P0], timeout),
        "offsets_for_times": lambda consumer, timeout: consumer.offsets_for_times({P0: 0}, timeout),
        "commit": lambda consumer, timeout: consumer.commit({P0: 1}, timeout),
        "committed": lambda consumer, timeout: consumer.committed([P0], timeout),
        "list_topics": lambda consumer, timeout: consumer.list_topics(timeout),
        "client_instance_id": lambda consumer, timeout: consumer.client_instance_id(timeout),
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
    "incremental_assign", "incremental_unassign", "store_offsets", "wakeup",
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
        if name == "client_instance_id":
            cluster.versions |= dict.fromkeys(TELEMETRY, (0, 0))
        way(cluster)
        face = getattr(kafkaraw, f"Async{client}")
        made = face(
            runtime=runtime_of(simulation), bootstrap_servers=cluster.bootstrap_servers, **settings_of(client, name)
        )
        if client == "Consumer":
            made.assign([P0])
        await play(made)
        closing = simulation.loop.time()
        await (made.close() if client == "Admin" else made.close(TIMEOUT))
        assert simulation.loop.time() - closing <= (CLOSE_S if client == "Admin" else TIMEOUT) + GRAIN_S

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


# -- closing


CLOSE_AFTER_S = [0.0, 0.5, 3.0]


def on_silent_broker(use: Callable[[VirtualCluster], Awaitable[Any]], timeout: float) -> None:
    """Close a client by a deadline, after its broker has fallen silent."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        client = await use(cluster)
        cluster.silence()
        began = cluster.now
        with contextlib.suppress(DeliveryError):
            await client.close(timeout)
        assert cluster.now - began <= timeout + GRAIN_S
        await client.close(timeout)

    on_cluster(test, group_initial_rebalance_delay_ms=0)


async def consumer_by_hand(cluster: VirtualCluster) -> AsyncConsumer:
    consumer = cluster.consumer(group_id="g")
    consumer.assign([P0])
    await give_records(cluster, consumer)
    return consumer


async def consumer_that_has_never_committed(cluster: VirtualCluster) -> AsyncConsumer:
    """Its last look-up of the coordinator has failed, so that closing begins with another one."""
    consumer = await consumer_by_hand(cluster)
    cluster.node.faults.on("FindCoordinator", times=None).answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.node.faults.on("OffsetCommit").answer(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(KafkaTimeoutError):
        await consumer.commit(timeout=0.2)
    return consumer


async def consumer_that_commits(cluster: VirtualCluster) -> AsyncConsumer:
    """With commits under way of which nobody has heard."""
    consumer = await consumer_by_hand(cluster)
    cluster.node.faults.on("OffsetCommit", times=None).swallow()
    for offset in range(3):
        consumer.commit_nowait({P0: offset})
    await asyncio.sleep(0.1)
    return consumer


async def member(cluster: VirtualCluster) -> AsyncConsumer:
    consumer = cluster.consumer(group_id="g")
    consumer.subscribe(["t"])
    await give_records(cluster, consumer)
    return consumer


async def member_of_modern_group(cluster: VirtualCluster) -> AsyncConsumer:
    consumer = cluster.consumer(group_id="g", group_protocol="consumer")
    consumer.subscribe(["t"])
    await give_records(cluster, consumer)
    return consumer


async def give_records(cluster: VirtualCluster, consumer: AsyncConsumer) -> None:
    async with cluster.producer() as producer:
        await producer.send("t", b"v", partition=0)
    while not await consumer.poll(5):
        pass
    await consumer.poll(0.1)


async def producer_of_records(cluster: VirtualCluster) -> AsyncProducer:
    producer = cluster.producer()
    await producer.send("t", b"v", partition=0)
    await producer.flush()
    cluster.silence()
    await producer.send("t", b"lost", partition=0)
    return producer


async def producer_in_a_transaction(cluster: VirtualCluster) -> AsyncProducer:
    producer = cluster.producer(transactional_id="tx")
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send("t", b"v", partition=0)
    await producer.flush()
    cluster.silence()
    await producer.send("t", b"lost", partition=0)
    return producer


USES = [
    consumer_by_hand,
    consumer_that_has_never_committed,
    consumer_that_commits,
    member,
    member_of_modern_group,
    producer_of_records,
    producer_in_a_transaction,
]


@pytest.mark.parametrize("timeout", CLOSE_AFTER_S)
@pytest.mark.parametrize("use", USES)
def test_every_step_of_close_shares_its_timeout(use: Callable[..., Awaitable[Any]], timeout: float) -> None:
    on_silent_broker(use, timeout)


@pytest.mark.parametrize("client", ["Admin", "Consumer", "Producer"])
def test_connections_to_many_brokers_are_closed_at_the_same_time(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the last bytes of each cannot leave."""

    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, nodes=5).start()
        cluster.create("t")
        face = getattr(kafkaraw, f"Async{client}")
        made = face(runtime=runtime_of(simulation), bootstrap_servers=cluster.bootstrap_servers)
        engine = engine_of(made)
        await engine.start(5)
        for node_id in cluster.nodes:
            await engine.connection(node_id, timeout=5)
        monkeypatch.setattr(MemoryLink, "close", lambda self: None)
        began = simulation.loop.time()
        await made.close()
        assert simulation.loop.time() - began <= CLOSE_S + GRAIN_S

    run_virtual(main, 1)


def engine_of(client: Any) -> Any:
    if isinstance(client, AsyncProducer):
        return client._core._engine
    return client._engine


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
    if not size:
        return  # the client gave up before its request went out
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

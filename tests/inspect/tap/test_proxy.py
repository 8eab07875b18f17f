"""The tap on real sockets: clients stay behind it, and nothing that a peer does stops the traffic of others."""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import ssl
import struct
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.errors import NetworkError, UsageError
from kafkaraw.inspect.tap.addresses import HELD_TAIL_BYTES
from kafkaraw.inspect.tap.lines import Lines
from kafkaraw.inspect.tap.ports import PortRange
from kafkaraw.inspect.tap.proxy import Tap
from kafkaraw.protocol import ResponseHeader, decode_response, encode_response
from kafkaraw.protocol.messages import fetch, produce, share_fetch
from kafkaraw.records import encode_batch
from tests.inspect.tap.peers import WAIT_S, Client, asked, broker, client, metadata_of, metadata_request, on_loop, sized
from tests.net.stream_server import stream_server
from tests.waiting import wait_until


def brokers_in(frame: bytes, version: int = 9) -> list[tuple[int, str, int]]:
    _, message = decode_response(frame, 3, version)
    return [(one.node_id, one.host, one.port) for one in message.brokers]


def free_ports(count: int) -> int:
    """The first of some ports in a row that are free now."""
    for first in range(21_000, 30_000, count):
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


# -- with a real cluster -------------------------------------------------------------------------------------------


def test_clients_stay_behind_the_tap(kafka_cluster_session):
    with Tap(kafka_cluster_session.bootstrap_servers) as tap:
        recording = tap.record()
        with Admin(bootstrap_servers=tap.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("tapped", partitions=6, replication_factor=1)])
            ports = {broker.port for broker in admin.describe_cluster().brokers}
        with Producer(bootstrap_servers=tap.bootstrap_servers, client_id="writer") as producer:
            for partition in range(6):
                producer.send("tapped", b"value", partition=partition)
        own = {int(address.rpartition(":")[2]) for address, _ in tap.brokers.values()}
        assert ports == {port for _, port in tap.brokers.values()}
        assert ports.isdisjoint(own)
        assert {int(one.rpartition(":")[2]) for one in kafka_cluster_session.bootstrap_servers.split(",")} == own
        produced = recording.wait_for("Produce", client_id="writer", topic="tapped")
        assert produced.errors == []
        assert produced.problem == ""
        assert produced.latency_s is not None
    assert {one.connection.node_id for one in recording.exchanges("Produce")} == set(range(3))
    assert tap.dropped == 0
    assert tap.notes == []


# -- with brokers that do what a test says -------------------------------------------------------------------------


@on_loop
async def test_exchanges_are_given_while_they_happen():
    async with broker(metadata_of((1, "one.example", 9092))) as address, Tap(address) as tap:
        exchanges = aiter(tap)
        first = asyncio.ensure_future(anext(exchanges))
        await asyncio.sleep(0)
        async with client(tap.bootstrap_servers) as peer:
            await peer.ask(metadata_request(correlation_id=7))
            async with asyncio.timeout(WAIT_S):
                exchange = await first
        assert (exchange.name, exchange.correlation_id, exchange.client_id) == ("Metadata v9", 7, "app")
        assert exchange.connection.broker == address
        # The exchange has what the broker sent, not what the client was told.
        assert exchange.response_body.brokers[0].host == "one.example"
        await exchanges.aclose()


@on_loop
async def test_every_broker_has_a_port_and_keeps_it():
    named = [(1, "one.example", 9092), (2, "two.example", 9093)]
    async with broker(lambda frame: metadata_of(*named)(frame)) as address, Tap(address) as tap:
        async with client(tap.bootstrap_servers) as peer:
            first = brokers_in(await peer.ask(metadata_request()))
            named[0] = (1, "moved.example", 9094)
            named.append((3, "three.example", 9092))
            second = brokers_in(await peer.ask(metadata_request()))
        assert [node for node, *_ in second] == [1, 2, 3]
        assert second[:2] == first
        assert len({port for *_, port in second}) == 3
        assert {host for _, host, _ in second} == {"127.0.0.1"}
        assert tap.brokers[1][0] == "moved.example:9094"
        assert tap.notes == ["broker 1 has moved from one.example:9092 to moved.example:9094"]


def fetch_answer(records: bytes, host: str) -> fetch.FetchResponse:
    part = fetch.PartitionData(partition_index=0, error_code=0, high_watermark=1, records=records)
    topics = [fetch.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[part])]
    ends = [fetch.NodeEndpoint(node_id=1, host=host, port=9092)]
    return fetch.FetchResponse(throttle_time_ms=7, responses=topics, node_endpoints=ends)


def share_fetch_answer(records: bytes, host: str) -> share_fetch.ShareFetchResponse:
    part = share_fetch.PartitionData(
        partition_index=0,
        error_code=0,
        acknowledge_error_code=0,
        current_leader=share_fetch.LeaderIdAndEpoch(leader_id=1),
        records=records,
        acquired_records=[],
    )
    topics = [share_fetch.ShareFetchableTopicResponse(topic_id=bytes(range(16)), partitions=[part])]
    ends = [share_fetch.NodeEndpoint(node_id=1, host=host, port=9092)]
    return share_fetch.ShareFetchResponse(throttle_time_ms=7, error_code=0, responses=topics, node_endpoints=ends)


FETCH = asked(fetch.FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], forgotten_topics_data=[]), 17)
SHARE_FETCH = asked(
    share_fetch.ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=1,
        min_bytes=1,
        topics=[],
        forgotten_topics_data=[],
    ),
    1,
)
WITH_RECORDS = pytest.mark.parametrize(
    ("request_frame", "key", "version", "message"),
    [
        pytest.param(FETCH, 1, 17, fetch_answer, id="Fetch"),
        pytest.param(SHARE_FETCH, 78, 1, share_fetch_answer, id="ShareFetch"),
    ],
)


@WITH_RECORDS
@pytest.mark.parametrize(
    ("size", "host", "hosts"),
    [
        (1000, "b1", ["127.0.0.1"]),
        (100_000, "one.example", ["127.0.0.1"]),
        (300_000, "one.example", ["127.0.0.1"]),
        (300_000, "b1", []),  # the tap's address is longer, and the size has been passed on
    ],
)
@on_loop
async def test_new_leaders_are_rewritten_or_hidden_behind_many_records(
    request_frame, key, version, message, size, host, hosts
):
    def answer(frame: bytes) -> bytes:
        return encode_response(ResponseHeader(int.from_bytes(frame[4:8])), message(bytes(size), host), version)

    async with broker(answer) as address, Tap(address) as tap, client(tap.bootstrap_servers) as peer:
        recording = tap.record()
        _, found = decode_response(await peer.ask(request_frame), key, version)
        exchange = await asyncio.to_thread(recording.wait_for, key)
        assert [port for _, port in tap.brokers.values()] == [one.port for one in found.node_endpoints] or not hosts
    assert [one.host for one in found.node_endpoints] == hosts
    assert found.responses[0].partitions[0].records == bytes(size)
    assert "addresses" in exchange.response.note
    assert tap.notes == []
    if not exchange.response.is_cut:  # it has what the broker sent
        assert exchange.response_body.node_endpoints[0].host == host


@on_loop
async def test_requests_in_flight_and_answers_in_one_read_keep_their_order():
    async with broker(metadata_of((1, "one.example", 9092))) as address, Tap(address) as tap:
        async with client(tap.bootstrap_servers) as peer:
            peer.writer.write(b"".join(metadata_request(number) for number in range(50)))
            ids = [struct.unpack_from(">i", await peer.frame())[0] for _ in range(50)]
        assert ids == list(range(50))


@on_loop
async def test_more_brokers_than_ports_is_said_and_stops_nothing():
    first = free_ports(2)
    named = metadata_of((1, "one.example", 9092), (2, "two.example", 9093))
    async with broker(named) as address, Tap(address, listen=f"127.0.0.1:{first}-{first + 1}") as tap:
        async with client(tap.bootstrap_servers) as peer:
            found = brokers_in(await peer.ask(metadata_request()))
        assert found == [(1, "127.0.0.1", first + 1), (2, "two.example", 9093)]
        (note,) = tap.notes
        assert f"broker 2 (two.example:9093) has no port: the ports {first + 1} to {first + 1} are in use" in note
        assert "--listen" in note


@on_loop
async def test_ports_of_other_processes_are_passed_over():
    first = free_ports(3)
    with socket.create_server(("127.0.0.1", first + 1)):
        async with (
            broker(metadata_of((1, "one.example", 9092))) as address,
            Tap(address, listen=f"127.0.0.1:{first}") as tap,
            client(tap.bootstrap_servers) as peer,
        ):
            assert brokers_in(await peer.ask(metadata_request())) == [(1, "127.0.0.1", first + 2)]


@on_loop
async def test_port_that_is_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NetworkError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use; another"):
            await Tap("127.0.0.1:9092", listen=f"127.0.0.1:{port}").start()


@on_loop
async def test_advertised_host_is_what_clients_are_told():
    async with (
        broker(metadata_of((1, "one.example", 9092))) as address,
        Tap(address, listen="0.0.0.0:0", advertised_host="tap.example") as tap,
    ):
        assert tap.bootstrap_servers.startswith("tap.example:")
        async with client(tap.bootstrap_servers.replace("tap.example", "127.0.0.1")) as peer:
            assert brokers_in(await peer.ask(metadata_request()))[0][1] == "tap.example"


@on_loop
async def test_broker_that_cannot_be_reached_closes_the_connection_and_is_said():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with Tap(f"127.0.0.1:{port}") as tap:
        async with client(tap.bootstrap_servers) as peer:
            assert await peer.rest() == b""
        assert f"bootstrap servers: cannot connect to 127.0.0.1:{port}: Connection refused" in tap.notes[0]


@on_loop
async def test_next_bootstrap_server_is_used_if_the_first_is_away():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"127.0.0.1:{closed.getsockname()[1]}"
    async with (
        broker(metadata_of((1, "one.example", 9092))) as address,
        Tap(f"{away},{address}") as tap,
        client(tap.bootstrap_servers) as peer,
    ):
        assert len(brokers_in(await peer.ask(metadata_request()))) == 1


@on_loop
async def test_broker_that_disappears_ends_its_connection_only():
    def answer(frame: bytes) -> bytes | None:
        return None if b"vanish" in frame else metadata_of((1, "one.example", 9092))(frame)

    async with broker(answer) as address, Tap(address) as tap:
        recording = tap.record()
        async with client(tap.bootstrap_servers) as other, client(tap.bootstrap_servers) as peer:
            await other.ask(metadata_request())
            request = metadata_request().replace(b"\0\x03app", b"\0\x06vanish")
            peer.writer.write(struct.pack(">i", len(request) - 4) + request[4:])
            assert await peer.rest() == b""
            assert len(brokers_in(await other.ask(metadata_request()))) == 1
            await asyncio.to_thread(recording.wait_for, client_id="vanish")
        (lost,) = recording.exchanges(client_id="vanish")
        assert lost.response is None
        assert lost.ended == "the broker closed the connection"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x16\x03\x01\x02\x00\x01" + b"hello" * 100, "sent a TLS handshake to a port without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\x7f\xff\xff\xff" + b"x" * 100_000, "frame of 2147483647 bytes"),
        (b"\xff\xff\xff\xff" + b"x" * 100, "negative frame size"),
    ],
)
@on_loop
async def test_other_protocols_are_passed_on_unread(data, words):
    got = bytearray()
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while len(got) < len(data):
            got.extend(await reader.read(1 << 16))
        writer.write(b"whatever this is")
        writer.close()
        done.set()

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap:
        async with client(tap.bootstrap_servers) as peer:
            peer.writer.write(data)
            assert await peer.rest() == b"whatever this is"
        assert got == data
        assert words in tap.notes[0]
        assert "passed on unread" in tap.notes[0]


@on_loop
async def test_unfinished_frame_reaches_the_other_side_when_the_client_closes():
    got = bytearray()
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.read())
        closed.set()
        writer.close()

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap, client(tap.bootstrap_servers) as peer:
        peer.writer.write(metadata_request()[:10])
        await peer.writer.drain()
        peer.writer.close()
        async with asyncio.timeout(WAIT_S):
            await closed.wait()
    assert got == metadata_request()[:10]


@on_loop
async def test_connections_that_are_made_at_once_have_numbers_of_their_own():
    async with (
        broker(metadata_of((1, "one.example", 9092))) as address,
        Tap(address) as tap,
        AsyncExitStack() as stack,
    ):
        recording = tap.record()
        opened = (stack.enter_async_context(client(tap.bootstrap_servers)) for _ in range(20))
        for peer in await asyncio.gather(*opened):
            await peer.ask(metadata_request())
        await asyncio.to_thread(recording.wait_for, nth=20)
    assert {one.connection.number for one in recording.exchanges()} == set(range(1, 21))


@pytest.mark.parametrize("is_cut_short", [False, True])
@on_loop
async def test_client_that_has_sent_its_last_byte_still_gets_its_answers(is_cut_short):
    got = bytearray()
    asked_twice = metadata_request(1) + metadata_request(2)
    sent = asked_twice + metadata_request(3)[:9] * is_cut_short

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.read())  # as far as the client's end
        for number in (1, 2):
            writer.write(sized(metadata_of((1, "one.example", 9092))(metadata_request(number)[4:])))
        writer.close()

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap, client(tap.bootstrap_servers) as peer:
        recording = tap.record()
        peer.writer.write(sent)
        peer.writer.write_eof()
        answers = await peer.rest()
        await asyncio.to_thread(recording.wait_for, nth=2)
    assert got == sent
    (size,) = struct.unpack_from(">i", answers)
    found = [brokers_in(answers[4 : 4 + size]), brokers_in(answers[8 + size :])]
    assert [brokers[0][1] for brokers in found] == ["127.0.0.1"] * 2
    assert [one.ended for one in recording.exchanges()] == ["", ""]


@on_loop
async def test_client_that_closes_while_it_waits_ends_the_connection_to_the_broker():
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        closed.set()

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap:
        recording = tap.record()
        async with client(tap.bootstrap_servers) as peer:
            peer.writer.write(metadata_request())
            await peer.writer.drain()
            peer.writer.close()
            async with asyncio.timeout(WAIT_S):
                await closed.wait()
        exchange = await asyncio.to_thread(recording.wait_for)
    assert exchange.ended.startswith("the client closed the connection")


@pytest.mark.parametrize("slow", ["client", "broker"])
@on_loop
async def test_peer_that_does_not_read_slows_the_other_one_down(slow):
    """Of an endless frame only what buffers take is read: the tap's memory does not grow."""
    sent = 0
    stopped = asyncio.Event()

    async def send_without_end(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(struct.pack(">i", 250 << 20) + metadata_request()[4:])
        chunk = bytes(1 << 20)
        try:
            for _ in range(250):
                writer.write(chunk)
                async with asyncio.timeout(0.3):
                    await writer.drain()
                sent += len(chunk)
        except TimeoutError:
            stopped.set()
        writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if slow == "client":
            await reader.readexactly(4)
            await send_without_end(writer)
        else:
            writer.transport.pause_reading()
            await stopped.wait()
            writer.transport.abort()

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap, client(tap.bootstrap_servers) as peer:
        if slow == "client":
            peer.writer.transport.pause_reading()
            peer.writer.write(metadata_request())
        else:
            await send_without_end(peer.writer)
        async with asyncio.timeout(WAIT_S):
            await stopped.wait()
    assert sent < 40 << 20


TAIL_BYTES = 1 << 20
"""The last bytes of a frame may wait in the kernel until all of them are there (SO_RCVLOWAT)."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@WITH_RECORDS
@on_loop
async def test_large_answers_of_many_connections_take_bounded_memory(request_frame, key, version, message):
    """Each connection has 40 MB of an answer of which the end is still missing."""
    whole = encode_response(ResponseHeader(1), message(bytes(40 << 20), "one.example"), version)
    answer = memoryview(sized(whole))
    go_on = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        for at in range(0, len(answer), 1 << 18):
            writer.write(answer[at : min(at + (1 << 18), len(answer) - 1)])
            await writer.drain()
        await go_on.wait()
        writer.write(answer[-1:])
        writer.close()

    async def skip(peer: Client, count: int) -> None:
        while count > 0:
            count -= len(await peer.reader.read(min(count, 1 << 18)))

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap, AsyncExitStack() as stack:
        recording = tap.record()
        peers = [await stack.enter_async_context(client(tap.bootstrap_servers)) for _ in range(8)]
        before = resident_bytes()
        async with asyncio.timeout(6 * WAIT_S):
            for peer in peers:
                peer.writer.write(request_frame)
                await skip(peer, len(answer) - TAIL_BYTES)
            assert resident_bytes() - before < 100 << 20
            go_on.set()
            found = [await peer.rest() for peer in peers]
        exchange = await asyncio.to_thread(recording.wait_for, key, nth=len(peers))
    assert exchange.throttle_time_ms == 7
    assert "those of the tap" in exchange.response.note
    assert found[0][-TAIL_BYTES:-HELD_TAIL_BYTES] == answer[-TAIL_BYTES:-HELD_TAIL_BYTES]
    assert b"127.0.0.1" in found[0][-100:]


@pytest.mark.parametrize("value_bytes", [3000, 40_000, 200_000, 700_000])
@on_loop
async def test_of_records_that_nothing_shows_little_is_kept_and_everything_is_noted(value_bytes):
    records = bytes(encode_batch([(0, None, b"v" * value_bytes, [])] * 2))
    part = produce.PartitionProduceData(index=0, records=records)
    request = produce.ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=[produce.TopicProduceData(name="orders", partition_data=[part])]
    )
    failed = produce.PartitionProduceResponse(index=0, error_code=6, base_offset=-1)
    response = produce.ProduceResponse(
        responses=[produce.TopicProduceResponse(name="orders", partition_responses=[failed])]
    )
    received = []

    def answer(frame: bytes) -> bytes:
        received.append(sized(frame))
        return encode_response(ResponseHeader(int.from_bytes(frame[4:8])), response, 10)

    async with broker(answer) as servers, Tap(servers, kept_record_bytes=1000) as tap:
        recording = tap.record()
        async with client(tap.bootstrap_servers) as peer:
            sent = [asked(request, 10, number) for number in range(5)]
            peer.writer.write(b"".join(sent))
            for _ in sent:
                await peer.frame()
        assert await asyncio.to_thread(wait_until, lambda: len(recording.exchanges()) == len(sent), WAIT_S)
    assert received == sent
    for exchange in recording.exchanges():
        assert (exchange.topics, exchange.batches, [one.code for one in exchange.errors]) == (("orders",), [2], [6])
        assert exchange.request_bytes == len(sent[0])
        assert len(exchange.request.data) == 1000
        assert isinstance(exchange.request.data, bytes)


@on_loop
async def test_exchanges_are_dropped_and_counted_while_traffic_goes_on(monkeypatch):
    monkeypatch.setattr("kafkaraw.inspect.tap.proxy.QUEUED_MAX", 10)
    monkeypatch.setattr("kafkaraw.inspect.tap.proxy.DRAIN_EVERY_S", 1000)
    async with broker(metadata_of((1, "one.example", 9092))) as address, Tap(address) as tap:
        recording = tap.record()
        async with client(tap.bootstrap_servers) as peer:
            for number in range(25):
                await peer.ask(metadata_request(number))
        assert tap.dropped == 15
    assert len(recording.exchanges()) == 10


@on_loop
async def test_observer_that_fails_does_not_end_the_traffic(caplog):
    async with broker(metadata_of((1, "one.example", 9092))) as address, Tap(address) as tap:

        def fail(exchange) -> None:
            raise ZeroDivisionError

        tap.observe(fail)
        recording = tap.record()
        async with client(tap.bootstrap_servers) as peer:
            await peer.ask(metadata_request())
            await asyncio.to_thread(recording.wait_for)
            await peer.ask(metadata_request())
    assert "an observer of the tap failed" in caplog.text


@pytest.fixture(scope="module")
def tls_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    server, connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(server)
    authority.configure_trust(connecting)
    return server, connecting


@pytest.mark.parametrize(("near", "far"), [(True, True), (True, False), (False, True)])
@on_loop
async def test_tls_on_either_side(tls_contexts, near, far):
    server, connecting = tls_contexts
    async with (
        broker(metadata_of((1, "one.example", 9092)), tls=server if far else None) as address,
        Tap(address, tls=connecting if far else None, listen_tls=server if near else None) as tap,
        client(tap.bootstrap_servers, tls=connecting if near else None) as peer,
    ):
        recording = tap.record()
        assert brokers_in(await peer.ask(metadata_request()))[0][1] == "127.0.0.1"
        await asyncio.to_thread(recording.wait_for)


def shake_hands(servers: str) -> None:
    """As a client that does not know the tap's certificate."""
    host, _, port = servers.rpartition(":")
    with socket.create_connection((host, int(port)), WAIT_S) as sock:
        ssl.create_default_context().wrap_socket(sock, server_hostname=host)


@on_loop
async def test_tls_handshakes_that_fail_are_said(tls_contexts):
    server, _ = tls_contexts
    async with broker(metadata_of((1, "one.example", 9092))) as address:
        async with Tap(address, listen_tls=server) as tap:
            async with client(tap.bootstrap_servers) as plain:
                plain.writer.write(metadata_request())
                assert await plain.rest() == b""
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(shake_hands, tap.bootstrap_servers)
            assert await asyncio.to_thread(wait_until, lambda: len(tap.notes) == 2, WAIT_S)
        no_tls, distrust = sorted(tap.notes, key=lambda note: "trust" in note)
    assert "it does not speak TLS: set its security.protocol" in no_tls
    assert "it does not trust the tap's certificate" in distrust
    assert server.sslobject_class is ssl.SSLObject


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("19092", "is no address to listen on"),
        ("localhost:x", "is no address to listen on"),
        ("localhost:90000", "is no range of ports"),
        ("localhost:9000-8000", "is no range of ports"),
    ],
)
def test_address_that_is_none_is_an_error(text, words):
    with pytest.raises(UsageError, match=words):
        PortRange.parse(text)


def test_range_of_ports():
    found = PortRange.parse("[::1]:19092-19100")
    assert (found.host, found.first, found.last) == ("::1", 19092, 19100)
    assert PortRange.parse("0.0.0.0:19092").reachable_host == "127.0.0.1"


def hostile_bytes(rng: random.Random) -> bytes:
    """Frames that are requests, damaged requests, noise of any claimed size, or nothing of the kind."""
    pieces = []
    for _ in range(rng.randrange(1, 6)):
        frame = bytearray(metadata_request(rng.randrange(10))[4:])
        frame[:2] = rng.choice(
            (b"\0\0", b"\0\1", b"\0\3", b"\0\x0a", b"\0\x11", b"\0\x12", b"\0\x24", b"\0\x4e", b"\0\x7f")
        )
        frame[3] = rng.randrange(20)
        for _ in range(rng.randrange(3)):
            frame[rng.randrange(8, len(frame))] = rng.randrange(256)
        frame += rng.randbytes(rng.choice((0, 0, 5, 100_000)))
        claimed = len(frame) if rng.random() < 0.8 else rng.choice((0, 3, 8, 70_000, 200 << 20, 1 << 31, 1 << 32 - 1))
        pieces.append(struct.pack(">I", claimed & 0xFFFF_FFFF) + bytes(frame))
    return b"".join(pieces)


@on_loop
async def test_whatever_peers_send_reaches_the_other_side_as_it_is():
    """Only whole answers with addresses may differ, and noise is none."""
    got: asyncio.Queue[bytes] = asyncio.Queue()
    answers: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answers:
            await reader.read(1)
            writer.write(answers.pop())
        else:
            await got.put(await reader.read())
        writer.close()

    async with stream_server(serve) as port, Tap(f"127.0.0.1:{port}") as tap:
        recording = tap.record()
        for seed in range(40):
            noise = hostile_bytes(random.Random(seed))
            async with client(tap.bootstrap_servers) as peer, asyncio.timeout(WAIT_S):
                peer.writer.write(noise)
                peer.writer.close()
                assert await got.get() == noise, f"from the client, seed {seed}"
            answers.append(noise)
            async with client(tap.bootstrap_servers) as peer:
                peer.writer.write(metadata_request(seed % 10))
                assert await peer.rest() == noise, f"from the broker, seed {seed}"
    for exchange in recording.exchanges():
        assert exchange.name in Lines(1).text(exchange)
        assert Lines(1).json(exchange)

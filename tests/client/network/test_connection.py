from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.network.connection import FRAME_SIZE_MAX as CLIENT_FRAME_SIZE_MAX
from kafkaraw.client.network.connection import FRAME_SIZE_MAX_AT_FIRST, Connection
from kafkaraw.errors import (
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolError,
    Stage,
    UnsupportedVersionError,
)
from kafkaraw.net import AsyncioNetwork
from kafkaraw.protocol import ResponseHeader, decode_request_header, encode_response
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.stub_broker import FRAME_SIZE_MAX, StubBroker, api_versions
from tests.net.stream_server import stream_server

HOST, PORT = "127.0.0.1", 9092


def simulate(play: Callable[[Connection, StubBroker, Simulation], Awaitable[None]], **settings: float) -> None:
    """Play against a stub broker, on virtual time."""

    async def main(simulation: Simulation) -> None:
        broker = StubBroker()
        await simulation.network.listen(HOST, PORT, lambda: broker, frame_size_max=FRAME_SIZE_MAX)
        connection = await Connection.open(
            simulation.network,
            HOST,
            PORT,
            client_id="test",
            connect_timeout=10,
            **settings,  # type: ignore[arg-type]
        )
        await play(connection, broker, simulation)
        await connection.close()

    run_virtual(main, seed=1)


def ask(connection: Connection, timeout: float = 5) -> asyncio.Task[object]:
    return asyncio.ensure_future(connection.request(MetadataRequest(topics=[]), timeout=timeout))


async def error_of(awaitable: Awaitable[object]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await awaitable
    return caught.value


# -- opening, against real sockets and strangers ---------------------------------------------------------------------


def opening_error(answer: Callable[[bytes], bytes | None]) -> KafkaError:
    """Open a connection to a port whose answer to the first bytes is this; None: hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = answer(await reader.read(65536))
        if data is not None:
            writer.write(data)
            await reader.read()  # until the client hangs up
        writer.close()

    async def main() -> KafkaError:
        async with stream_server(serve, HOST) as port:
            opening = Connection.open(AsyncioNetwork(), HOST, port, client_id="test", connect_timeout=10)
            error = await error_of(opening)
        assert f"{HOST}:{port}" in str(error)
        return error

    return asyncio.run(main())


def test_an_http_server_is_recognised() -> None:
    error = opening_error(lambda request: b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    assert isinstance(error, ProtocolError)
    assert "is not a Kafka broker: the other side speaks HTTP" in str(error)


def test_a_tls_port_is_recognised() -> None:
    error = opening_error(lambda request: b"\x15\x03\x03\x00\x02\x02\x32")
    assert isinstance(error, ProtocolError)
    assert "TLS" in str(error)


def test_garbage_is_recognised() -> None:
    for garbage in (b"SSH-2.0-OpenSSH_9.2\r\n", b"\xff\xff\xff\xff", b"220 mail.test ESMTP\r\n", b"\0\0\0\2\0\0"):
        assert isinstance(opening_error(lambda request, garbage=garbage: garbage), ProtocolError)


def test_before_api_versions_is_answered_frames_have_a_small_limit() -> None:
    error = opening_error(lambda request: (FRAME_SIZE_MAX_AT_FIRST + 1).to_bytes(4, "big"))
    assert isinstance(error, ProtocolError)
    assert f"frame of {FRAME_SIZE_MAX_AT_FIRST + 1} bytes, the limit is {FRAME_SIZE_MAX_AT_FIRST}" in str(error)
    assert FRAME_SIZE_MAX_AT_FIRST <= 1 << 20


@pytest.mark.parametrize(("mechanism", "before"), [("", 1), ("PLAIN", 3), ("SCRAM-SHA-256", 4)])
def test_the_limit_of_frames_is_lifted_when_the_login_is_complete(
    mechanism: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    received = Connection.frame_received

    def noted(self: Connection, frame: memoryview) -> None:
        limits.append(self._link._reader.limit)
        received(self, frame)

    monkeypatch.setattr(Connection, "frame_received", noted)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism} if mechanism else {}
    user = {"sasl_username": "ada", "sasl_password": "opensesame"} if mechanism else {}
    with (
        EmbeddedBroker(users={"ada": "opensesame"} if mechanism else None) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, **login, **user) as admin,
    ):
        admin.list_topics()
    assert set(limits[:before]) == {FRAME_SIZE_MAX_AT_FIRST}
    assert set(limits[before:]) == {CLIENT_FRAME_SIZE_MAX}


def test_a_peer_that_closes_the_connection_is_named() -> None:
    error = opening_error(lambda request: None)
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.API_VERSIONS


def test_a_closed_port_and_an_unknown_name_keep_their_stages() -> None:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port = sock.getsockname()[1]

    async def main() -> list[Stage]:
        errors = [
            await error_of(Connection.open(AsyncioNetwork(), host, port, client_id=None, connect_timeout=10))
            for host in (HOST, "nohost.invalid")
        ]
        return [error.stage for error in errors if isinstance(error, NetworkError)]

    assert asyncio.run(main()) == [Stage.CONNECT, Stage.RESOLVE]


def test_opening_can_be_cancelled() -> None:
    async def main(simulation: Simulation) -> None:
        broker = StubBroker()
        await simulation.network.listen(HOST, PORT, lambda: broker, frame_size_max=FRAME_SIZE_MAX)
        broker.frame_received = lambda frame: None  # type: ignore[method-assign]
        opening = asyncio.ensure_future(
            Connection.open(simulation.network, HOST, PORT, client_id="test", connect_timeout=10)
        )
        await asyncio.sleep(1)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.sleep(1)
        assert broker.link is None

    run_virtual(main, seed=1)


def patience_error(answer: bytes) -> KafkaError:
    """Open a connection, on virtual time, to a port that answers this and then nothing; wait for 0.1 s."""

    async def main(simulation: Simulation) -> KafkaError:
        broker = StubBroker()
        await simulation.network.listen(HOST, PORT, lambda: broker, frame_size_max=FRAME_SIZE_MAX)
        broker.frame_received = lambda frame: broker.link.send_raw(answer)  # type: ignore[method-assign, union-attr]
        opening = Connection.open(simulation.network, HOST, PORT, client_id="test", connect_timeout=0.1)
        error = await error_of(opening)
        assert simulation.loop.time() == pytest.approx(0.1)
        return error

    return run_virtual(main, seed=1)


def test_silence_ends_at_the_connect_timeout() -> None:
    error = patience_error(b"")
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.API_VERSIONS
    assert f"{HOST}:{PORT} accepted the connection but did not answer ApiVersions within 0." in str(error)


def test_an_answer_that_is_cut_and_then_hangs_ends_at_the_connect_timeout() -> None:
    whole = encode_response(ResponseHeader(0), api_versions(), 4)
    answer = len(whole).to_bytes(4, "big") + whole
    for size in (1, 3, 4, 5, len(answer) - 1):
        error = patience_error(answer[:size])
        assert isinstance(error, NetworkError)
        assert error.stage is Stage.API_VERSIONS


# -- using, on virtual time ------------------------------------------------------------------------------------------


def test_requests_are_answered_each_with_its_own_answer() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        answers = await asyncio.gather(*[ask(connection) for _ in range(50)])
        assert [answer.controller_id for answer in answers] == list(range(1, 51))
        assert connection.version_for(3) == 13
        assert connection.api_versions.offered[3] == (0, 13)
        assert (connection.peer, connection.closed, connection.error) == (f"{HOST}:{PORT}", False, None)

    simulate(play)


def test_it_works_on_real_sockets_too() -> None:
    async def main() -> None:
        network, broker = AsyncioNetwork(), StubBroker()
        listener = await network.listen(HOST, 0, lambda: broker, frame_size_max=FRAME_SIZE_MAX)
        connection = await Connection.open(network, "localhost", listener.port, client_id="test", connect_timeout=10)
        answers = await asyncio.gather(*[ask(connection) for _ in range(50)])
        assert all(isinstance(answer, MetadataResponse) for answer in answers)
        await connection.close()
        await listener.close()
        await asyncio.sleep(0.01)
        assert broker.link is None

    asyncio.run(main())


def test_a_timeout_fails_its_request_only() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        broker.holding = True
        impatient, patient = ask(connection, 1), ask(connection, 20)
        started = simulation.loop.time()
        assert isinstance(await error_of(impatient), KafkaTimeoutError)
        assert simulation.loop.time() - started == pytest.approx(1, abs=0.01)
        broker.release(2)
        assert isinstance(await patient, MetadataResponse)

    simulate(play)


def test_a_cancelled_request_leaves_the_connection_in_step() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        broker.holding = True
        cancelled, kept = ask(connection), ask(connection)
        await asyncio.sleep(0.1)
        cancelled.cancel()
        broker.release(2)
        answer = await kept
        assert isinstance(answer, MetadataResponse)
        assert answer.controller_id == 2

    simulate(play)


def test_a_silent_connection_is_closed_after_the_request_timeout() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        simulation.network.silence(HOST, PORT)
        error = await error_of(ask(connection, 4))
        assert isinstance(error, KafkaTimeoutError)
        assert simulation.loop.time() == pytest.approx(4, abs=0.1)
        assert not connection.closed
        await asyncio.sleep(3.5)
        assert connection.closed
        assert "has sent nothing for 7 s" in str(connection.error)

    simulate(play, request_timeout=7)


def test_a_lost_link_fails_exactly_what_is_in_flight() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        assert await ask(connection)
        broker.holding = True
        waiting = [ask(connection) for _ in range(7)]
        await asyncio.sleep(0.1)
        broker.release()
        await asyncio.sleep(0.1)
        simulation.network.cut(HOST, PORT)
        assert isinstance(await waiting[0], MetadataResponse)
        for request in waiting[1:]:
            error = await error_of(request)
            assert isinstance(error, NetworkError)
            assert error.stage is Stage.REQUEST
            assert f"{HOST}:{PORT}" in str(error)
        assert connection.closed
        assert isinstance(await error_of(ask(connection)), NetworkError)
        assert isinstance(connection.error, NetworkError)

    simulate(play)


def test_an_answer_cut_in_the_middle_by_the_peers_end_is_reported() -> None:
    async def main() -> None:
        def answer_half(frame: memoryview) -> None:
            if frame[1] == 18:
                StubBroker.frame_received(broker, frame)
            else:
                transport = broker.link._transport  # type: ignore[union-attr]
                transport.write(b"\0\0\0\x40only half")
                transport.close()

        network, broker = AsyncioNetwork(), StubBroker()
        broker.frame_received = answer_half  # type: ignore[method-assign]
        listener = await network.listen(HOST, 0, lambda: broker, frame_size_max=FRAME_SIZE_MAX)
        connection = await Connection.open(network, HOST, listener.port, client_id="test", connect_timeout=10)
        error = await error_of(ask(connection))
        assert isinstance(error, NetworkError)
        assert "after 9 of 64 bytes of a frame" in str(error)
        await connection.close()
        await listener.close()

    asyncio.run(main())


def test_garbage_in_mid_life_is_a_network_error_with_its_cause() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        broker.holding = True
        request = ask(connection)
        await asyncio.sleep(0.1)
        broker.link.send([b"\x7f\xff\xff\xffnonsense"])
        error = await error_of(request)
        assert isinstance(error, NetworkError)
        assert isinstance(error.__cause__, ProtocolError)

    simulate(play)


def send_oneway(connection: Connection, size: int = 0, version: int = 9, timeout: float = 30.0) -> list[object]:
    """Submit a Produce request with acks=0; return the list that its outcome is put into."""
    outcomes: list[object] = []
    partition = PartitionProduceData(index=0, records=bytes(size))
    request = ProduceRequest(
        acks=0, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[partition])] if size else []
    )
    connection.submit(request, outcomes.append, version=version, timeout=timeout, oneway=True)
    return outcomes


def test_a_oneway_request_succeeds_without_an_answer() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        assert send_oneway(connection) == [None]
        assert isinstance(await ask(connection), MetadataResponse)
        assert broker.seen == [18, 0, 3]
        assert isinstance(send_oneway(connection, version=99)[0], UnsupportedVersionError)
        await connection.close()
        assert isinstance(send_oneway(connection)[0], NetworkError)

    simulate(play)


def test_a_oneway_request_succeeds_only_when_its_bytes_have_left() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        broker.link.pause_reading()
        outcomes = [send_oneway(connection, 100_000) for _ in range(5)]
        await asyncio.sleep(1)
        taken = sum(outcome == [None] for outcome in outcomes)
        assert 0 < taken < 5
        assert outcomes == [[None]] * taken + [[]] * (5 - taken)
        assert connection.idle_since is None
        broker.link.resume_reading()
        await asyncio.sleep(1)
        assert outcomes == [[None]] * 5
        assert connection.idle_since is not None

    simulate(play)


def test_a_peer_that_stops_reading_ends_the_connection_after_the_timeout_of_a_oneway_request() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        broker.link.pause_reading()
        outcomes = send_oneway(connection, 500_000, timeout=3.0)
        await asyncio.sleep(2.9)
        assert outcomes == []
        await asyncio.sleep(0.2)
        assert isinstance(outcomes[0], NetworkError)
        assert "did not accept the bytes of Produce" in str(outcomes[0])
        assert connection.closed

    simulate(play)


def test_a_request_submitted_in_a_callback_is_sent_after_those_submitted_before_it() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        def submit(version: int, then: Callable[[object], None]) -> None:
            request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
            connection.submit(request, then, version=version, timeout=9.0, oneway=True)

        broker.holding = True
        asked = ask(connection)
        await asyncio.sleep(0.1)
        submit(7, lambda _: submit(9, lambda _: None))
        submit(8, lambda _: None)
        broker.release()  # both are sent now
        await asked
        frames = [sent.data[4:] for sent in simulation.network.history if sent.by == "client"]
        headers = [decode_request_header(frame)[0] for frame in frames]
        assert [header.api_version for header in headers if header.api_key == 0] == [7, 8, 9]
        assert [header.correlation_id for header in headers] == [0, 1, 2, 3, 4]

    simulate(play, max_in_flight=1)


def test_closing_fails_what_is_in_flight_as_closed() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        broker.holding = True
        request = ask(connection)
        await asyncio.sleep(0.1)
        await connection.close()
        assert isinstance(await error_of(request), ClosedError)
        await asyncio.sleep(0.1)
        assert broker.link is None
        assert connection.closed
        await connection.close()

    simulate(play)


def test_close_sends_unsent_bytes_and_aborts_if_the_peer_does_not_read() -> None:
    async def main(reads: bool) -> list[int]:
        network, broker = AsyncioNetwork(), StubBroker()
        listener = await network.listen(HOST, 0, lambda: broker, frame_size_max=1 << 28)
        connection = await Connection.open(network, HOST, listener.port, client_id="test", connect_timeout=10)
        if not reads:
            broker.link.pause_reading()
        send_oneway(connection, 30_000_000)
        await asyncio.wait_for(connection.close(), 30)
        if not reads:
            broker.link.resume_reading()
        while broker.link is not None:
            await asyncio.sleep(0.01)
        await listener.close()
        return broker.seen

    assert asyncio.run(main(reads=True)) == [18, 0]
    assert asyncio.run(main(reads=False)) == [18]


def test_reading_can_be_paused() -> None:
    async def play(connection: Connection, broker: StubBroker, simulation: Simulation) -> None:
        connection.pause_reading()
        request = ask(connection)
        await asyncio.sleep(1)
        assert not request.done()
        connection.resume_reading()
        assert isinstance(await request, MetadataResponse)

    simulate(play)

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading

import pytest

from kafkaraw.errors import NetworkError, Stage
from kafkaraw.net import AsyncioNetwork
from kafkaraw.net.dial import dial
from kafkaraw.net.os_errors import advice_for, connection_broken, host_port, reason_of
from tests.net.handlers import Answerers, Recorder
from tests.net.stream_server import stream_server


def failure(host: str, port: int, *, timeout: float = 10, tls: ssl.SSLContext | None = None) -> NetworkError:
    async def main() -> None:
        await dial(host, port, Recorder(), timeout=timeout, frame_size_max=100, tls=tls)

    with pytest.raises(NetworkError) as caught:
        asyncio.run(main())
    return caught.value


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """Make every name resolve to these addresses, in this order."""
    real = socket.getaddrinfo

    def fake(host: str, port: int, *args: int, flags: int = 0, **more: int) -> list[object]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        return [found for each in hosts for found in real(each, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", fake)


def test_a_name_without_address_fails_at_resolving() -> None:
    error = failure("nohost.invalid", 9092)
    assert error.stage is Stage.RESOLVE
    assert "'nohost.invalid' (of nohost.invalid:9092)" in str(error)
    assert "advertised.listeners" in str(error)


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".test"])
def test_a_name_that_is_none_fails_at_resolving(host: str) -> None:
    assert failure(host, 9092).stage is Stage.RESOLVE


def test_a_name_server_that_is_silent_does_not_hold_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def hang(host: str, port: int, *args: int, flags: int = 0, **more: int) -> list[object]:
        if not flags:
            answer.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "none")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    error = failure("slow.test", 9092, timeout=0.05)
    answer.set()
    assert error.stage is Stage.RESOLVE
    assert "within 0.05 s" in str(error)


def test_a_closed_port_fails_at_connecting() -> None:
    port = closed_port()
    error = failure("127.0.0.1", port)
    assert error.stage is Stage.CONNECT
    assert str(error).startswith(f"cannot connect to 127.0.0.1:{port}: Connection refused; nothing listens there")


@pytest.mark.parametrize("port", [-1, 0, 65_536, 70_000])
def test_a_port_that_does_not_exist_is_not_taken_for_another(port: int) -> None:
    error = failure("127.0.0.1", port)
    assert error.stage is Stage.CONNECT
    assert f"127.0.0.1:{port}: there is no such port" in str(error)


def test_every_address_is_tried_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-602: client.dns.lookup=use_all_dns_ips."""

    async def main() -> None:
        answerers = Answerers()
        listener = await AsyncioNetwork().listen("127.0.0.1", 0, answerers, frame_size_max=100)
        resolve_to(monkeypatch, "127.0.0.3", "127.0.0.2", "127.0.0.1")
        client = Recorder()
        link = await dial("cluster.test", listener.port, client, timeout=10, frame_size_max=100)
        assert link.peer == f"cluster.test:{listener.port}"  # as the user knows it
        link.close()
        await client.loss()
        await (await answerers.next()).loss()
        await listener.close()

    asyncio.run(main())


def test_an_error_names_every_address_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.3", "127.0.0.2")
    port = closed_port()
    text = str(failure("cluster.test", port))
    assert f"cluster.test:{port}: 127.0.0.3:{port} Connection refused, 127.0.0.2:{port} Connection refused" in text


def test_a_silent_address_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline holds for all together, and each address has a share of it."""
    tried: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def silent(sock: socket.socket, address: tuple[str, int]) -> None:
            tried.append(address[0])
            await asyncio.sleep(3600)

        monkeypatch.setattr(loop, "sock_connect", silent)
        started = loop.time()
        with pytest.raises(NetworkError, match=r"127\.0\.0\.3:9 no answer in time, 127\.0\.0\.2:9 no answer") as caught:
            await dial("cluster.test", 9, Recorder(), timeout=0.1, frame_size_max=100)
        assert caught.value.stage is Stage.CONNECT
        assert "firewall" in str(caught.value)
        assert loop.time() - started < 5

    resolve_to(monkeypatch, "127.0.0.3", "127.0.0.2")
    asyncio.run(main())
    assert tried == ["127.0.0.3", "127.0.0.2"]


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def test_a_plain_port_fails_at_tls() -> None:
    async def main() -> None:
        async with stream_server(hang_up) as port:
            context = ssl.create_default_context()
            with pytest.raises(NetworkError, match="TLS") as caught:
                await dial("127.0.0.1", port, Recorder(), timeout=5, frame_size_max=100, tls=context)
        assert caught.value.stage is Stage.TLS

    asyncio.run(main())


def test_a_port_that_is_silent_during_tls_does_not_hold_the_caller() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        error = failure("127.0.0.1", server.getsockname()[1], timeout=0.1, tls=ssl.create_default_context())
    assert error.stage is Stage.TLS
    assert "no answer in time" in str(error)


def test_a_port_that_is_taken_says_so() -> None:
    async def main() -> None:
        network = AsyncioNetwork()
        listener = await network.listen("127.0.0.1", 0, Answerers(), frame_size_max=100)
        with pytest.raises(NetworkError, match="another process listens there"):
            await network.listen("127.0.0.1", listener.port, Answerers(), frame_size_max=100)
        await listener.close()

    asyncio.run(main())


def test_closing_a_listener_leaves_its_links_alone() -> None:
    async def main() -> None:
        network, answerers = AsyncioNetwork(), Answerers()
        listener = await network.listen("127.0.0.1", 0, answerers, frame_size_max=100)
        client = Recorder()
        link = await network.dial("127.0.0.1", listener.port, client, timeout=10, frame_size_max=100)
        server = await answerers.next()
        await listener.close()
        with pytest.raises(NetworkError):
            await network.dial("127.0.0.1", listener.port, Recorder(), timeout=10, frame_size_max=100)
        link.send([b"still there"])
        assert await server.frame() == b"still there"
        link.close()
        await client.loss()
        await server.loss()

    asyncio.run(main())


def test_os_errors_are_described_in_words() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")
    assert reason_of(refused) == "Connection refused"
    assert reason_of(TimeoutError()) == "no answer in time"
    assert reason_of(ConnectionResetError()) == "the other side closed the connection"
    assert reason_of(OSError("odd")) == "odd"
    assert advice_for(OSError("odd")) == ""
    assert host_port("::1", 9092) == "[::1]:9092"
    assert str(connection_broken(ConnectionResetError(errno.ECONNRESET, "x"), "b:1")) == (
        "the connection to b:1 broke: Connection reset by peer; the peer dropped the connection: look into its log"
    )

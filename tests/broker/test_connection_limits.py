"""How many connections a broker takes, from whom, and how long it waits until they say who they are."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import struct

import pytest
import trustme

from kafkaraw import Admin
from kafkaraw.broker import BrokerConfig, BrokerNode, EmbeddedBroker
from kafkaraw.broker.connection_limits import ConnectionCount, ConnectionLimits
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.errors import ConfigError
from kafkaraw.testing.virtual import Simulation, run_virtual

UNAUTHENTICATED = 1000
ALLOWED = 50


class Peer:
    """Somebody who connects and says nothing."""

    def __init__(self) -> None:
        self.lost_at: float | None = None

    def link_made(self, link: object) -> None:
        self.link = link

    def frame_received(self, frame: memoryview) -> None:
        raise AssertionError("nobody asked")

    def link_lost(self, error: object) -> None:
        self.lost_at = asyncio.get_running_loop().time()

    def writing_paused(self, paused: bool) -> None:
        pass


def on_node(play, *, users=None, **properties):
    async def main(simulation: Simulation) -> None:
        protocol = "SASL_PLAINTEXT" if users else "PLAINTEXT"
        given = {"listeners": f"{protocol}://127.0.0.1:9092", **properties}
        config = BrokerConfig.parse({name.replace("_", "."): value for name, value in given.items()}, users)
        node = BrokerNode(
            config,
            network=simulation.network,
            storage=MemoryStorage(),
            clock=simulation.clock,
            rng=random.Random(1),
        )
        async with node:
            await play(simulation, node)

    run_virtual(main, 1)


async def dial(simulation: Simulation) -> Peer:
    peer = Peer()
    await simulation.network.dial("127.0.0.1", 9092, peer, timeout=1, frame_size_max=1000)
    return peer


def test_each_address_has_its_own_limit_and_gets_its_place_back():
    count = ConnectionCount(
        ConnectionLimits(total=5, per_address=2, by_address={"::1": 1}, authentication_timeout_ms=1, unsent_limit_ms=1)
    )
    assert [count.add("10.0.0.1") for _ in range(2)] == ["", ""]
    assert "max.connections.per.ip of 2 is reached for 10.0.0.1" in count.add("10.0.0.1")
    count.remove("10.0.0.1")
    assert count.add("10.0.0.2") == count.add("::1") == ""
    assert "of 1" in count.add("::1")
    count.remove("::1")
    assert count.add("10.0.0.3") == ""
    assert "max.connections of 5 is reached" in count.add("10.0.0.4")


@pytest.mark.parametrize("text", ["localhost:3", "127.0.0.1", "127.0.0.1:many", "127.0.0.1:-1", ":3"])
def test_an_override_that_is_none_is_refused(text: str):
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides.*127\.0\.0\.1:200"):
        BrokerConfig.parse({"max.connections.per.ip.overrides": text})


def test_overrides_are_read_for_both_kinds_of_addresses():
    config = BrokerConfig.parse({"max.connections.per.ip.overrides": "127.0.0.1:3, [::1]:4,fe80::1:5"})
    assert config.connection_limits.by_address == {"127.0.0.1": 3, "::1": 4, "fe80::1": 5}


def test_connections_from_one_address_above_the_limit_are_turned_away(caplog: pytest.LogCaptureFixture):
    async def play(simulation: Simulation, node: BrokerNode) -> None:
        peers = [await dial(simulation) for _ in range(4)]
        await asyncio.sleep(1)
        assert [peer.lost_at is None for peer in peers] == [True, True, True, False]
        peers[0].link.close()
        await asyncio.sleep(1)
        again = await dial(simulation)
        await asyncio.sleep(1)
        assert again.lost_at is None

    on_node(play, max_connections_per_ip=1, max_connections_per_ip_overrides="127.0.0.1:3")
    assert "max.connections.per.ip of 3 is reached for 127.0.0.1" in caplog.text


def test_a_connection_without_authentication_is_closed_at_the_timeout(caplog: pytest.LogCaptureFixture):
    async def play(simulation: Simulation, node: BrokerNode) -> None:
        peer = await dial(simulation)
        began = simulation.loop.time()
        await asyncio.sleep(20)
        assert peer.lost_at is not None and peer.lost_at - began == pytest.approx(5, abs=0.1)
        assert node.connections_count == 0

    on_node(play, users={"ada": "opensesame"}, connections_max_login_ms=5000)
    assert "not authenticated after 5000 ms (connections.max.login.ms)" in caplog.text


def test_without_sasl_there_is_no_authentication_timeout():
    async def play(simulation: Simulation, node: BrokerNode) -> None:
        peer = await dial(simulation)
        await asyncio.sleep(60)
        assert peer.lost_at is None

    on_node(play)


def test_cve_2022_34917_a_thousand_connections_that_do_not_log_in_cost_what_is_allowed(
    caplog: pytest.LogCaptureFixture,
):
    """Those that may stay claim a large frame; the others are turned away. Users get in again when they have left."""
    limits = {"max.connections": ALLOWED, "connections.max.login.ms": 60_000}
    with caplog.at_level(logging.WARNING), EmbeddedBroker(users={"ada": "opensesame"}, properties=limits) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        stay: list[socket.socket] = []
        for _ in range(UNAUTHENTICATED):
            sock = socket.create_connection((host, int(port)), timeout=20)
            if len(stay) < ALLOWED:
                sock.sendall(struct.pack(">i", 512 * 1024) + b"\0")
                stay.append(sock)
                continue
            with sock:
                assert closed(sock)
        assert broker._node is not None
        assert broker._node.connections_count == ALLOWED
        for sock in stay:
            sock.close()
        login = {"sasl_mechanism": "PLAIN", "sasl_username": "ada", "sasl_password": "opensesame"}
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", **login) as admin:
            assert list(admin.list_topics()) == []
    assert f"max.connections of {ALLOWED} is reached" in caplog.text


def closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_tls_handshakes_that_fail_leave_nothing_behind():
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": b"".join(it.bytes() for it in certificate.cert_chain_pems).decode(),
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
    }
    with EmbeddedBroker(properties=properties) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        for _ in range(20):
            with socket.create_connection((host, int(port)), timeout=20) as sock:
                sock.sendall(b"\0\0\0\x10 no handshake    ")
                while not closed(sock):
                    pass
        assert broker._node is not None
        assert broker._node.connections_count == 0

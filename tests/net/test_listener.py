"""Listeners that close while connections arrive, and held ports: nobody else gets them, nobody is answered there."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest

from kafkaraw.net.listener import HeldPort, listen
from kafkaraw.net.transport import abort_links_of
from tests.net.handlers import Answerers


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_held_port_cannot_be_bound_and_refuses_connections():
    port = free_port()
    held = HeldPort("127.0.0.1", port)
    try:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(("127.0.0.1", port))
    finally:
        held.release()


def test_a_listener_takes_the_port_while_it_is_held_and_keeps_it():
    async def life() -> None:
        port = free_port()
        held = HeldPort("127.0.0.1", port)
        listener = await listen("127.0.0.1", port, lambda: None, frame_size_max=1)  # type: ignore[arg-type, return-value]
        held.release()
        held.release()
        assert listener.port == port
        await listener.close()

    asyncio.run(life())


def test_a_port_that_is_in_use_is_not_held():
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        held = HeldPort("127.0.0.1", somebody.getsockname()[1])
        assert held.descriptors() == []
        held.release()


@pytest.mark.parametrize("turns", range(4))
def test_a_connection_that_arrives_while_the_listener_closes_is_closed_with_the_loop(turns: int):
    async def life(client: socket.socket) -> None:
        listener = await listen("127.0.0.1", 0, Answerers(), frame_size_max=1)
        client.connect(("127.0.0.1", listener.port))  # the kernel accepts it; the loop learns of it in its next turn
        for _ in range(turns):
            await asyncio.sleep(0)
        await listener.close()
        await asyncio.sleep(0)
        abort_links_of(asyncio.get_running_loop())
        await asyncio.sleep(0)

    with socket.socket() as client, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(life(client))
        gc.collect()
    assert [str(each.message) for each in found] == []

"""A port that is held: nobody else gets it, nobody is answered on it, and its listener has it back."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kafkaraw.net.listener import HeldPort, listen


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

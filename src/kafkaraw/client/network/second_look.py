"""What an address speaks that does not answer as the settings say it should: TLS or not, HTTP, a login.

Each guess is a connection of its own, tried at the same time and for a short while; nothing secret is sent, and no
setting of the client's is used. Only `diagnosis` asks. Start at `second_look`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkaraw.client.config import Address
from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import KafkaError, ProtocolError
from kafkaraw.net import AsyncioNetwork, Link
from kafkaraw.net.tls import handshake_context
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest

TIMEOUT_S: Final = 2.0
FRAME_SIZE_MAX_AT_FIRST: Final = 1 << 20
_WEB_REQUEST: Final = b"HEAD / HTTP/1.0\r\n\r\n"
_HANDSHAKE_VERSION: Final = 1


async def second_look(address: Address, *, tls: bool, timeout: float) -> str:
    """What to change, as far as the address itself tells; an empty string when it does not.

    Args:
        address: where it did not work.
        tls: whether the client tried it with TLS.
        timeout: for all guesses together, in seconds, and no more than `TIMEOUT_S`.
    """
    timeout = min(timeout, TIMEOUT_S)
    guesses = [_kafka(address, timeout, tls=tls), _web_server(address, timeout)]
    if not tls:
        guesses.append(_tls(address, timeout))
    found = await asyncio.gather(*guesses)
    return next((text for text in found if text), "")


async def _kafka(address: Address, timeout: float, *, tls: bool) -> str:
    """Whether it speaks Kafka without TLS, and by which mechanisms it wants a login."""
    try:
        connection = await Connection.open(
            AsyncioNetwork(), address.host, address.port, client_id=None, connect_timeout=timeout
        )
    except KafkaError:
        return ""
    try:
        answer = await connection.request(
            SaslHandshakeRequest(mechanism=""), version=_HANDSHAKE_VERSION, timeout=timeout
        )
    except KafkaError:
        answer = None
    finally:
        connection.abort()
    if answer is not None and answer.mechanisms:
        ways = ", ".join(answer.mechanisms)
        return (
            f"this listener wants a login without TLS: set security_protocol=SASL_PLAINTEXT and sasl_mechanism ({ways})"
        )
    return "this listener speaks Kafka without TLS and without a login: set security_protocol=PLAINTEXT" if tls else ""


async def _tls(address: Address, timeout: float) -> str:
    try:
        network = AsyncioNetwork(dial_tls=handshake_context())
        link = await network.dial(
            address.host, address.port, _Listener(), timeout=timeout, frame_size_max=FRAME_SIZE_MAX_AT_FIRST
        )
    except KafkaError:
        return ""
    link.abort()
    return "this port speaks TLS: set security_protocol=SSL, or SASL_SSL where it wants a login, and ssl_cafile"


async def _web_server(address: Address, timeout: float) -> str:
    listener = _Listener()
    try:
        link = await AsyncioNetwork().dial(
            address.host, address.port, listener, timeout=timeout, frame_size_max=FRAME_SIZE_MAX_AT_FIRST
        )
    except KafkaError:
        return ""
    link.send_raw(_WEB_REQUEST)
    await asyncio.wait([listener.lost], timeout=timeout)
    link.abort()
    error = listener.lost.result() if listener.lost.done() else None
    is_web = isinstance(error, ProtocolError) and "HTTP" in str(error)
    return "a web server (HTTP) listens there: give the port of a Kafka listener" if is_web else ""


class _Listener:
    """Waits for the end of a link."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

    def link_made(self, link: Link) -> None:
        """See `LinkHandler.link_made`."""

    def frame_received(self, frame: memoryview) -> None:
        """See `LinkHandler.frame_received`."""

    def link_lost(self, error: KafkaError | None) -> None:
        """See `LinkHandler.link_lost`."""
        if not self.lost.done():
            self.lost.set_result(error)

    def writing_paused(self, paused: bool) -> None:
        """See `LinkHandler.writing_paused`."""

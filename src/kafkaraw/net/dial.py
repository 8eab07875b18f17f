"""Opens connections: resolves a host, tries every address in order, within one deadline.

It must not retry: whether and when to dial again is decided above. Start at `dial`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence

from kafkaraw.errors import NetworkError, Stage
from kafkaraw.light_classes import NamedTuple
from kafkaraw.net.link import LinkHandler
from kafkaraw.net.os_errors import advice_for, cannot_resolve, host_port, reason_of
from kafkaraw.net.threads import run_in_daemon_thread
from kafkaraw.net.transport import StreamLink


class Address(NamedTuple):
    """One address of a host."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]

    def __str__(self) -> str:
        return host_port(str(self.sockaddr[0]), int(self.sockaddr[1]))


async def dial(
    host: str,
    port: int,
    handler: LinkHandler,
    *,
    timeout: float,
    frame_size_max: int,
    tls: ssl.SSLContext | None = None,
) -> StreamLink:
    """Connect to a host, trying all of its addresses in the order in which they resolve.

    Args:
        host: name or address.
        port: TCP port.
        handler: called with all events of the link, beginning with `link_made`.
        timeout: for everything together, in seconds; each address gets a fair share of what is left.
        frame_size_max: largest frame to accept, in bytes.
        tls: how to speak TLS; None for plain TCP.

    Raises:
        NetworkError: stage RESOLVE, CONNECT or TLS; names the address and what to try.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    sock = await connect_socket(host, port, timeout=timeout)
    link = StreamLink(loop, handler, frame_size_max=frame_size_max, peer=host_port(host, port))
    try:
        if tls is None:
            await loop.create_connection(lambda: link, sock=sock)
        else:
            async with asyncio.timeout_at(deadline):
                await loop.create_connection(lambda: link, sock=sock, ssl=tls, server_hostname=host)
    except (OSError, TimeoutError) as error:
        sock.close()
        raise tls_failed(error, host, port) from error
    except BaseException:
        sock.close()
        raise
    return link


async def connect_socket(host: str, port: int, *, timeout: float) -> socket.socket:
    """Connect a TCP socket to a host, trying all of its addresses in the order in which they resolve.

    Args:
        host: name or address.
        port: TCP port.
        timeout: for everything together, in seconds; each address gets a fair share of what is left.

    Raises:
        NetworkError: stage RESOLVE or CONNECT; names the address and what to try.
    """
    if not 0 < port < 65_536:  # the system would take it modulo 65,536 and connect to a stranger
        raise NetworkError(f"cannot connect to {host_port(host, port)}: there is no such port", stage=Stage.CONNECT)
    deadline = asyncio.get_running_loop().time() + timeout
    return await _connect_any(await _resolve(host, port, timeout), host, port, deadline)


async def _resolve(host: str, port: int, timeout: float) -> Sequence[Address]:
    if numeric := _numeric_addresses(host, port):
        return numeric
    try:
        async with asyncio.timeout(timeout):
            return await _resolve_in_thread(host, port)
    except TimeoutError:
        raise NetworkError(
            f"cannot resolve {host!r} (of {host_port(host, port)}) within {timeout:g} s; check this machine's DNS",
            stage=Stage.RESOLVE,
        ) from None
    except OSError as error:
        raise cannot_resolve(error, host, port) from error


def _numeric_addresses(host: str, port: int) -> list[Address]:
    """Return the addresses if `host` already is one, which needs no look-up and cannot block."""
    try:
        return _addresses(host, port, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def _addresses(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))


async def _resolve_in_thread(host: str, port: int) -> Sequence[Address]:
    """Ask the operating system."""

    def look_up() -> Sequence[Address]:
        try:
            return _addresses(host, port, 0)
        except UnicodeError as error:  # a label that is empty or too long
            raise OSError(0, f"not a host name: {error}") from None

    return await run_in_daemon_thread(look_up, f"kafkaraw-resolve-{host}")


async def _connect_any(addresses: Sequence[Address], host: str, port: int, deadline: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    failures: list[tuple[Address, OSError]] = []
    for index, address in enumerate(addresses):
        left = max(deadline - loop.time(), 0.0)
        try:
            return await _connect(address, left / (len(addresses) - index))
        except OSError as error:
            failures.append((address, error))
    where = host_port(host, port)
    if len(failures) == 1 and str(failures[0][0]) == where:
        tried = reason_of(failures[0][1])
    else:
        tried = ", ".join(f"{address} {reason_of(error)}" for address, error in failures) or "no address"
    advice = next((text for _, error in failures if (text := advice_for(error))), "")
    raise NetworkError(
        f"cannot connect to {where}: {tried}" + (f"; {advice}" if advice else ""), stage=Stage.CONNECT
    ) from (failures[-1][1] if failures else None)


async def _connect(address: Address, timeout: float) -> socket.socket:
    """Connect to one address; TimeoutError is an OSError, so all that can fail comes as one."""
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().sock_connect(sock, address.sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


def tls_failed(error: BaseException, host: str, port: int) -> NetworkError:
    """Return the error for a handshake that failed."""
    certificate = isinstance(error, ssl.SSLCertVerificationError)
    other = "check that this port speaks TLS (see security_protocol), and the certificates"
    advice = advice_for(error) if certificate else other
    return NetworkError(
        f"cannot agree on TLS with {host_port(host, port)}: {reason_of(error)}; {advice}", stage=Stage.TLS
    )

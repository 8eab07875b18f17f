"""Translates the operating system's errors into kafkaraw's, the only place that does.

A message names the stage, the address and what to try. Below `net` nothing raises OSError; above it nothing
catches it.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from typing import Final

from kafkaraw.errors import NetworkError, Stage

_WHAT_TO_TRY = {
    errno.ECONNREFUSED: "nothing listens there: check host and port, and that the broker runs",
    errno.EHOSTUNREACH: "this machine has no route there: check the address, VPN and firewall",
    errno.ENETUNREACH: "this machine has no route there: check the address, VPN and firewall",
    errno.ETIMEDOUT: "no answer: check the address and that no firewall drops the packets",
    errno.EADDRINUSE: "another process listens there: stop it, or choose another port (0 takes a free one)",
    errno.EADDRNOTAVAIL: "this machine does not have that address: check the host",
    errno.EACCES: "not allowed: ports below 1024 need privileges",
    errno.ECONNRESET: "the peer dropped the connection: look into its log",
    errno.EPIPE: "the peer dropped the connection: look into its log",
    errno.EMFILE: "this process has too many open files: raise `ulimit -n` or close some clients",
}

_NO_AUTHORITY: Final = "give the certificate of the authority that signed the broker's (ssl_cafile)"
_OTHER_NAME: Final = "dial a name that the certificate has, or have it issued for this one"
# By X509_V_ERR_ code of OpenSSL.
_OF_CERTIFICATES: Final = {
    **dict.fromkeys((2, 18, 19, 20, 21), _NO_AUTHORITY),
    **dict.fromkeys((62, 64), _OTHER_NAME),
}


def host_port(host: str, port: int) -> str:
    """Return "host:port", with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reason_of(error: BaseException) -> str:
    """Return an operating system error in words, without its number and address."""
    if isinstance(error, TimeoutError) and not error.args:
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.reason}, {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)  # asyncio puts texts of its own into `strerror`
    if isinstance(error, ConnectionError) and not str(error):
        return "the other side closed the connection"  # asyncio's own, without a number
    return str(error) or type(error).__name__


def advice_for(error: BaseException) -> str:
    """Return what to try, or an empty string when nothing sensible is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _OF_CERTIFICATES.get(error.verify_code, "check the broker's certificate, and this machine's clock")
    if isinstance(error, TimeoutError) and not error.args:
        return _WHAT_TO_TRY[errno.ETIMEDOUT]
    return _WHAT_TO_TRY.get(getattr(error, "errno", None) or 0, "")


def cannot_resolve(error: OSError, host: str, port: int) -> NetworkError:
    """Return the error for a name that has no address."""
    reason = error.strerror if isinstance(error, socket.gaierror) else reason_of(error)  # its numbers are no errnos
    return NetworkError(
        f"cannot resolve {host!r} (of {host_port(host, port)}): {reason}; check the spelling and this machine's DNS, "
        "and, if a broker named this host, its advertised.listeners",
        stage=Stage.RESOLVE,
    )


def cannot_listen(error: OSError, host: str, port: int) -> NetworkError:
    """Return the error for an address on which no listener can be opened."""
    advice = advice_for(error)
    return NetworkError(
        f"cannot listen on {host_port(host, port)}: {reason_of(error)}" + (f"; {advice}" if advice else ""),
        stage=Stage.CONNECT,
    )


def connection_broken(error: BaseException, peer: str) -> NetworkError:
    """Return the error for a connection that stood and broke."""
    advice = advice_for(error)
    return NetworkError(
        f"the connection to {peer} broke: {reason_of(error)}" + (f"; {advice}" if advice else ""),
        stage=Stage.REQUEST,
    )

"""Become a child of the fork server: Spark's command to start Python runs this module, see `fork_server.py`.

Run with `-I -S` and the arguments SOCKET PROGRAM ARGUMENTS...; without a server it starts PROGRAM itself. Must be
fast: it imports only compiled or frozen modules, so `_socket` and not `socket`.
"""

import _socket
import marshal
import os
import resource
import sys

_ANSWER_TIMEOUT_S = 8.0  # Spark waits 10 s for a process; a starting server is ready before a new process would be
_READY = b"R"
_GO = b"G"


def main() -> None:
    """Send the request to the server, wait for the child and end with its exit code."""
    place, *command = sys.argv[1:]
    connection = _asked(place, command)
    if connection is None:
        os.execv(command[0], command)
    connection.settimeout(None)
    code = int.from_bytes(_all_of(connection, 4), sys.byteorder, signed=True)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def _asked(place: str, command: list[str]) -> _socket.socket | None:
    """Return the connection to a server that has forked a child; None if there is no server."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(_ANSWER_TIMEOUT_S)
    umask = os.umask(0o077)
    os.umask(umask)
    kinds = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    limits = {kind: resource.getrlimit(kind) for kind in kinds}
    content = marshal.dumps((command[0], command[1:], dict(os.environ), os.getcwd(), umask, limits))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    try:
        connection.connect(place)
        connection.sendmsg(
            [len(content).to_bytes(4, sys.byteorder)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)]
        )
        connection.sendall(content)
        if connection.recv(1) != _READY:
            return None
        connection.sendall(_GO)
    except OSError:
        return None
    return connection


def _all_of(connection: _socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        more = connection.recv(size - len(content))
        if not more:  # the server was killed, and then the child has ended
            os._exit(1)
        content += more
    return content


if __name__ == "__main__":
    main()

"""What `echo_server.c` does, for machines without a C compiler: slower, so ratios against it flatter nobody."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path


def serve(sock: socket.socket, answers: dict[int, bytes]) -> None:
    """Answer one connection's requests."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sock, sock.makefile("rb") as stream:
        while prefix := stream.read(4):
            request = stream.read(int.from_bytes(prefix, "big"))
            answer = answers[int.from_bytes(request[:2], "big")]
            sock.sendall(len(answer).to_bytes(4, "big") + request[4:8] + answer[4:])


def main(arguments: list[str]) -> None:
    """Listen until killed."""
    pairs = (argument.split("=", 1) for argument in arguments)
    answers = {int(key): Path(path).read_bytes() for key, path in pairs}
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=serve, args=(sock, answers), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1:])

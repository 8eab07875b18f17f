"""Servers with S3's interface, in processes of their own, since deltalake keeps Python's lock while it uploads.

Run as a script with the name of a server: it prints its address, and ends when its standard input is closed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUCKET = "lake"


class _Refusing(BaseHTTPRequestHandler):
    """Answers every request as S3 does when a session's credentials have expired."""

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _refuse

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def expired() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def moto() -> str:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    signed = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    bucket = f"http://{host}:{port}/{BUCKET}"
    urllib.request.urlopen(urllib.request.Request(bucket, method="PUT", headers={"Authorization": signed})).close()
    return f"http://{host}:{port}"


SERVERS: dict[str, Callable[[], str]] = {"moto": moto, "expired": expired}


@contextmanager
def running(name: str) -> Iterator[str]:
    """Start a server, and return its address."""
    command = [sys.executable, "-m", __name__, name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        try:
            address = process.stdout.readline().strip()
            assert address, f"the server {name} ended with exit code {process.wait()}"
            yield address
        finally:
            process.kill()


def settings(kind: str, address: str) -> dict[str, str]:
    """The options of a format for such a server."""
    given = (address, "key", "secret", "us-east-1")
    if kind == "delta":
        names = ("endpoint_url", "access_key_id", "secret_access_key", "region")
        found = {f"storage.aws_{name}": value for name, value in zip(names, given, strict=True)}
        return found | {"storage.aws_allow_http": "true"}
    names = ("endpoint", "access-key-id", "secret-access-key", "region")
    return {f"catalog.s3.{name}": value for name, value in zip(names, given, strict=True)}


if __name__ == "__main__":
    print(SERVERS[sys.argv[1]](), flush=True)
    sys.stdin.read()

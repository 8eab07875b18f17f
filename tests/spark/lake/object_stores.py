"""Servers with S3's interface, in processes of their own, since deltalake keeps Python's lock while it uploads.

Run as a script with the name of a server: it prints its address, and ends when its standard input is closed. moto is
in an environment of its own, which is made once per user (decision 0006), so a script may import nothing else. The
packages with which fsspec opens object stores are in such environments, too.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

BUCKET = "lake"
SECRET_KEY = "Sesam-7-amazon"
MOTO = "5.2.5"
ADLFS, GCSFS = "2026.8.0", "2026.8.2"
PIP_TIMEOUT_S = 90


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


class MissingError(Exception):
    """The server cannot be installed; the message says why."""


def python_with_moto() -> str:
    """Return a Python that has moto, and s3fs of fsspec's version here.

    Raises:
        MissingError: pip could not install it.
    """
    fsspec = version("fsspec")
    wanted = (f"moto[s3]=={MOTO}", "flask>=3.1,<4", "flask-cors>=6,<7", f"s3fs=={fsspec}")
    return str(_environment(f"moto-{MOTO}-s3fs-{fsspec}", wanted) / "bin" / "python")


def packages_with_s3fs() -> str:
    """Return a folder of packages, s3fs among them, to be the last one of `sys.path`; raises as `python_with_moto`."""
    return _packages(Path(python_with_moto()).parents[1])


def packages_with_adlfs_and_gcsfs() -> str:
    """Return a folder of packages, with what fsspec opens Azure's and Google's stores; raises as `python_with_moto`."""
    return _packages(_environment(f"adlfs-{ADLFS}-gcsfs-{GCSFS}", (f"adlfs=={ADLFS}", f"gcsfs=={GCSFS}")))


def _packages(environment: Path) -> str:
    (found,) = environment.glob("lib/python*/site-packages")
    return str(found)


def _environment(name: str, wanted: tuple[str, ...]) -> Path:
    """Return the folder of an environment of its own, which is made at the first call."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkaraw"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    with open(cache / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            _run(str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *wanted)
            (folder / "complete").touch()
    return folder


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise MissingError(f"{' '.join(command)} took longer than {PIP_TIMEOUT_S} s") from late
    if done.returncode:
        raise MissingError(f"{' '.join(command)} failed: {done.stderr[-500:]}")


@contextmanager
def running(name: str) -> Iterator[str]:
    """Start a server, and return its address."""
    command = [python_with_moto() if name == "moto" else sys.executable, __file__, name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            address = process.stdout.readline().strip()
            assert address, f"the server {name} ended with exit code {process.wait()}"
            yield address
        finally:
            process.kill()


def settings(kind: str, address: str) -> dict[str, str]:
    """The options of a format for such a server."""
    given = (address, "key", SECRET_KEY, "us-east-1")
    if kind == "delta":
        names = ("endpoint_url", "access_key_id", "secret_access_key", "region")
        found = {f"storage.aws_{name}": value for name, value in zip(names, given, strict=True)}
        return found | {"storage.aws_allow_http": "true"}
    names = ("endpoint", "access-key-id", "secret-access-key", "region")
    return {f"catalog.s3.{name}": value for name, value in zip(names, given, strict=True)}


if __name__ == "__main__":
    print(SERVERS[sys.argv[1]](), flush=True)
    sys.stdin.read()

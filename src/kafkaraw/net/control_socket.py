"""A Unix socket by which its user controls a process: a request is one line of JSON, and so is the response.

Only the user can connect: the socket has mode 0600, in a directory that no other user may enter. This module does not
interpret the lines. Start at `ControlSocket` and `ask`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kafkaraw.errors import ConfigError, KafkaTimeoutError, NetworkError, Stage
from kafkaraw.net.threads import wait_interruptibly

LINE_BYTES_MAX: Final = 1 << 16
ASKING_TIMEOUT_S: Final = 10.0
"""How long a peer may take to send its request."""
SUFFIX: Final = ".sock"

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, object]]]


def default_folder() -> Path:
    """Return the default directory of control sockets."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "kafkaraw")
    return Path(tempfile.gettempdir(), f"kafkaraw-{os.getuid()}")


def default_path() -> Path:
    """Return the path of the control socket of this process."""
    return default_folder() / f"broker-{os.getpid()}{SUFFIX}"


def found_by_default() -> list[Path]:
    """Return the control sockets of running processes; remove those of processes that were killed."""
    folder = default_folder()
    try:
        _check_private(folder)
        paths = sorted(folder.glob(f"*{SUFFIX}"))
    except (ConfigError, OSError):
        return []
    return [path for path in paths if _is_alive(path)]


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                path.unlink()
            return False
        except OSError:
            return False
    return True


def _check_private(folder: Path) -> None:
    """Check that only this user may enter a directory.

    Raises:
        ConfigError: other users may enter it, or it is not a directory that this user owns.
        OSError: it does not exist.
    """
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise ConfigError(f"control socket: {folder} is not a directory of this user; name another one")
    if status.st_mode & 0o077:
        raise ConfigError(f"control socket: other users may enter {folder}; `chmod 700` it, or name another directory")


class ControlSocket:
    """Listens on a control socket.

    Args:
        path: the path of the socket; its directory is created if it does not exist.
        answer: returns the response to a request; an exception ends the connection.
    """

    def __init__(self, path: Path, answer: Answer) -> None:
        self.path: Path = path.absolute()
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen.

        Raises:
            ConfigError: the path cannot be used, other users may enter its directory, or another process has it.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(self.path.parent)
            if self.path.is_socket() and _is_alive(self.path):
                raise ConfigError(f"control socket: {self.path} is in use by another process; stop it first")
            self._server = await asyncio.start_unix_server(self._serve, self.path, limit=LINE_BYTES_MAX)
            self.path.chmod(0o600)
        except OSError as error:
            raise ConfigError(f"control socket: {self.path} cannot be used: {error}") from error

    async def close(self) -> None:
        """Listen no more, and remove the socket."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            with contextlib.suppress(OSError):
                self.path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASKING_TIMEOUT_S):
                line = await reader.readline()
            if line:
                writer.write(json.dumps(await self._answer(_decoded(line))).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the peer is gone, too slow, or did not send JSON: there is no response to send
        finally:
            writer.close()


def _decoded(line: bytes) -> Mapping[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def ask(path: Path, request: Mapping[str, object], timeout_s: float) -> Mapping[str, Any]:
    """Ask the process that listens on a control socket.

    Raises:
        NetworkError: no process listens there, or it ended the connection without an answer.
        KafkaTimeoutError: it did not answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        answer = bytearray()
        try:
            asking.connect(str(path))
            asking.sendall(json.dumps(request).encode() + b"\n")
            while not answer.endswith(b"\n"):
                if not wait_interruptibly(lambda seconds: _is_readable(asking, seconds), timeout_s):
                    raise KafkaTimeoutError(f"control socket {path}: no answer within {timeout_s:g} s")
                part = asking.recv(LINE_BYTES_MAX)
                if not part:
                    raise NetworkError(
                        f"control socket {path}: the broker ended the connection without an answer", stage=Stage.REQUEST
                    )
                answer += part
        except OSError as error:
            raise NetworkError(
                f"control socket {path}: no broker listens there: {error.strerror or error}", stage=Stage.CONNECT
            ) from error
    return _decoded(bytes(answer))


def _is_readable(asking: socket.socket, seconds: float) -> bool:
    asking.settimeout(seconds)
    try:
        asking.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return False
    finally:
        asking.settimeout(None)
    return True

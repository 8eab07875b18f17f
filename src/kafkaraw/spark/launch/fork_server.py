"""Fork Spark's Python processes on this machine from one that has imported their modules.

Spark starts a Python process for each streaming query (its planner), one for each lookup of data sources and one for
each kind of worker. Importing pyspark and kafkaraw costs each of them 0.5 to 1.2 s of CPU; on a busy machine a process
misses Spark's limit of 10 s to connect. The server imports both once. Spark runs the script of
`worker_python`, which becomes a client (`fork_client.py`): it sends its arguments, environment, working directory,
limits and standard streams. The server forks a child with these, and the client lives as long as the child.

A child must be equal to a started process. If it would not be (another interpreter, other settings of the
interpreter, other files of a package that is imported already), the child starts Python instead. The server must have
only one thread, else it does not serve: so it must not import pyarrow, which starts threads. It ends with its parent.

Start at `start_fork_server`, then `main`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import re
import resource
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

SOCKET_VARIABLE: Final = "KAFKARAW_SPARK_FORK_SERVER"
"""The environment variable with the server's socket, for Spark's processes."""

READY: Final = b"R"
GO: Final = b"G"

_REQUEST_TIMEOUT_S: Final = 1.0
_ENDING_TIMEOUT_S: Final = 5.0
_SOCKET_PATH_MAX: Final = 107
"""Bytes: `sun_path` of Linux, without its end."""

_GC_THRESHOLDS: Final = (10_000, 10, 20)
"""Arguments of gc.set_threshold(): a task with thousands of partitions makes many objects that stay, and no cycles."""

# Every module here is imported without pyarrow; modules that a version of Spark does not have are ignored.
_PRELOADED: Final = (
    "pyspark.sql.datasource",
    "pyspark.sql.datasource_internal",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.worker.utils",
    "pyspark.worker_util",
    "kafkaraw.spark.source",
    "kafkaraw.spark.sink",
    "kafkaraw.spark.reading.lookup",
    "kafkaraw.spark.reading.stream_plan",
    "kafkaraw.spark.reading.task",
    "kafkaraw.spark.reading.log_lookup",
    "kafkaraw.spark.reading.log_task",
)
_PACKAGES: Final = ("kafkaraw", "pyspark", "py4j")

# Variables that take effect when Python starts or one of the packages is imported, so no longer in a child.
_COUNT_AT_START: Final = re.compile(
    r"PYTHON(?!PATH$)[A-Z0-9]+|(LD|LC|MALLOC)_.*|LANG|TZ|GLIBC_TUNABLES|KAFKARAW_(IMPL|REUSE_VALUES)"
)
# Variables that Spark sets for every Python process.
_OF_SPARK: Final = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}


# -- in the driver ------------------------------------------------------------------------------------------------


class _Started:
    """The server of this process: started once, ended with the process."""

    def __init__(self) -> None:
        self.socket = _new_socket_path()
        self._folder = self.socket.parent
        self._owner = os.getpid()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.socket))
            listener.listen(64)  # clients that connect while the server imports wait
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main()", str(listener.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal is for the driver
                env={**os.environ, **_OF_SPARK},
            )
        atexit.register(self._end)

    @property
    def is_running(self) -> bool:
        """Return whether the server runs, and was started by this process."""
        return self._owner == os.getpid() and self._process.poll() is None

    def _end(self) -> None:
        if self._owner != os.getpid():  # a forked child ends, too
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_TIMEOUT_S)
        shutil.rmtree(self._folder, ignore_errors=True)


_started: list[_Started] = []


def start_fork_server() -> Path | None:
    """Start the server of this process, if it does not run.

    Returns:
        the server's socket, for `SOCKET_VARIABLE`; None on systems other than Linux.
    """
    if sys.platform != "linux":
        return None
    if not _started or not _started[-1].is_running:
        _started.append(_Started())
    return _started[-1].socket


def _new_socket_path() -> Path:
    """Return a path in a new folder that only this user may enter, short enough for a socket."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        folder = Path(tempfile.mkdtemp(prefix="kafkaraw-fork-", dir=parent))
        if len(os.fsencode(folder / "socket")) <= _SOCKET_PATH_MAX:
            break
        folder.rmdir()
    return folder / "socket"


# -- in the server ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """The process that a client asks for.

    Attributes:
        program: the interpreter.
        arguments: its arguments: `-m`, a module, and the module's arguments.
        environment: all variables.
        folder: the working directory.
        umask: the umask for new files.
        limits: soft and hard limit by resource.
        streams: descriptors for standard input, output and error.
    """

    program: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    umask: int
    limits: dict[int, tuple[int, int]]
    streams: tuple[int, ...] = ()


@dataclass
class _Server:
    """The server's loop. Its attributes are the state that the steps share.

    Attributes:
        listener: the socket to which clients connect.
        children: connection of the client by process id of its child.
    """

    listener: socket.socket
    children: dict[int, socket.socket] = field(default_factory=dict)

    def requested(self) -> Iterator[tuple[Request, socket.socket]]:
        """Wait for clients, and for the end of children and clients, until standard input ends."""
        wakeup, woken = socket.socketpair()
        for each in (wakeup, woken):
            each.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        while True:
            poller = select.poll()
            clients = {connection.fileno(): pid for pid, connection in self.children.items()}
            for descriptor in (0, self.listener.fileno(), wakeup.fileno(), *clients):
                poller.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poller.poll()}
            if wakeup.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    wakeup.recv(4096)
            for descriptor in ready & clients.keys():  # clients send nothing more: this one has ended
                self._forget(clients[descriptor])
            self._reap()
            if 0 in ready:
                break
            if self.listener.fileno() in ready:
                with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
                    yield self._accept()
        for pid in list(self.children):
            self._forget(pid)

    def _accept(self) -> tuple[Request, socket.socket]:
        connection, _ = self.listener.accept()
        connection.settimeout(_REQUEST_TIMEOUT_S)
        size, streams, _, _ = socket.recv_fds(connection, 4, 3)
        try:
            content = _received(connection, int.from_bytes(size, sys.byteorder))
            request = replace(Request(*marshal.loads(content)), streams=tuple(streams))  # from our own client
            connection.sendall(READY)
            if _received(connection, len(GO)) != GO:
                raise EOFError
        except BaseException:
            connection.close()
            for each in streams:
                os.close(each)
            raise
        connection.settimeout(None)
        return request, connection

    def _forget(self, pid: int) -> None:
        """End the child of a client that has ended, as Spark ends the process that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        self.children.pop(pid).close()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                connection = self.children.pop(pid, None)
                if connection is not None:
                    code = os.waitstatus_to_exitcode(status)
                    with contextlib.suppress(OSError):
                        connection.sendall(code.to_bytes(4, sys.byteorder, signed=True))
                    connection.close()


def _received(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        more = connection.recv(size - len(content))
        if not more:
            raise EOFError
        content += more
    return content


def main() -> None:
    """Serve until standard input ends; in a child, run the requested module."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    entries = _entries(os.environ)
    base = [each for each in sys.path[1:] if each not in entries]
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        listener.set_inheritable(False)
        for name in _PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        found = None if _threads_count() > 1 else _served(_Server(listener))
    if found is not None:
        _run(*found, base)


def _served(server: _Server) -> tuple[Request, socket.socket] | None:
    """Fork a child for each request; return its request in a child, and None in the server when it must end."""
    for request, connection in server.requested():
        pid = os.fork()
        if pid == 0:
            for other in server.children.values():
                other.close()
            return request, connection
        for each in request.streams:
            os.close(each)
        server.children[pid] = connection
    return None


def _threads_count() -> int:
    return len(os.listdir("/proc/self/task"))


# -- in a child ---------------------------------------------------------------------------------------------------

_connections: list[socket.socket] = []
"""The connection to the client, open until the child ends: the client waits for it even if the server was killed."""


def _run(request: Request, connection: socket.socket, base: list[str]) -> None:
    """Run the requested module, as `python -m` does; end as the interpreter ends."""
    _connections.append(connection)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(request.streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for kind, limits in request.limits.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, limits)
    os.umask(request.umask)
    os.chdir(request.folder)
    differs = counts_at_start(os.environ) != counts_at_start(request.environment)
    os.environ.clear()
    os.environ.update(request.environment)
    path = [os.getcwd(), *dict.fromkeys([*_entries(request.environment), *base])]  # as site.removeduppaths
    if differs or request.program != sys.executable or request.arguments[0] != "-m" or not _same_packages(path):
        os.execv(request.program, [request.program, *request.arguments])
    sys.path[:] = path
    importlib.invalidate_caches()
    sys.argv[:] = request.arguments[1:]
    runpy.run_module(request.arguments[1], run_name="__main__", alter_sys=True)


def counts_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that take effect only when an interpreter starts."""
    return {name: text for name, text in environment.items() if _COUNT_AT_START.fullmatch(name)}


def _entries(environment: Mapping[str, str]) -> list[str]:
    """Return the entries that PYTHONPATH adds to the path."""
    text = environment.get("PYTHONPATH")
    return [os.path.abspath(each) for each in text.split(os.pathsep)] if text else []


def _same_packages(path: list[str]) -> bool:
    """Return whether Python would find the packages that are imported already in the same place."""
    for name in _PACKAGES:
        found = PathFinder.find_spec(name, path)
        if name in sys.modules and (found is None or found.origin != sys.modules[name].__file__):
            return False
    return True

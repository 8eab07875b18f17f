"""A child process under attack: what it holds, what it logs, and how long the machine kept it from running.

Memory, descriptors and threads come from Linux's /proc. So does the run delay: the time in which the process was ready
and another process had the core. Latencies are judged without it, so that a loaded machine is not a finding.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[3]
SAMPLE_EVERY_S = 0.02
KEPT_LOG_LINES = 2_000
STOP_TIMEOUT_S = 15.0
ADDRESSES_MAX_BYTES = 6 << 30
"""The machine has other work: what takes more than that fails, and is found as it does."""


@dataclass(frozen=True)
class Holdings:
    """What a process holds at one moment, or at most during a time."""

    memory_mb: float
    descriptors: int
    threads: int

    def at_most(self, other: Holdings) -> Holdings:
        """The larger of each."""
        return Holdings(
            max(self.memory_mb, other.memory_mb),
            max(self.descriptors, other.descriptors),
            max(self.threads, other.threads),
        )

    def __str__(self) -> str:
        return f"{self.memory_mb:.0f} MB, {self.descriptors} descriptors, {self.threads} threads"


def holdings(process_id: int) -> Holdings | None:
    """What a process holds now; None when it is gone."""
    proc = Path("/proc", str(process_id))
    try:
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return Holdings(int(status["RssAnon"].split()[0]) / 1024, len(os.listdir(proc / "fd")), int(status["Threads"]))
    except (OSError, KeyError):
        return None


def run_delay_s(process_id: int) -> float:
    """For how long the main thread of a process has been ready while others had the core, since it began."""
    with suppress(OSError):
        return int(Path("/proc", str(process_id), "schedstat").read_text().split()[1]) / 1e9
    return 0.0


class Watched:
    """A child process whose holdings and log are watched.

    Args:
        command: arguments for this Python.
        environment: variables that it gets besides ours.
        descriptors_max: its limit of open descriptors.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        descriptors_max: int | None = None,
    ) -> None:
        # What malloc gave back, and kept all the same, is not what is looked for.
        own = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072", "PYTHONFAULTHANDLER": "1"}
        self._child = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | own | dict(environment or {}),
            start_new_session=True,
        )
        if descriptors_max is not None:
            resource.prlimit(self._child.pid, resource.RLIMIT_NOFILE, (descriptors_max, descriptors_max))
        limit_memory(self._child.pid)
        self.log: deque[str] = deque(maxlen=KEPT_LOG_LINES)
        self.log_lines = 0
        self.lines: deque[str] = deque()
        self._told = threading.Condition()
        self._out_ended = False
        self._over = threading.Event()
        self._peak = Holdings(0, 0, 0)
        self._threads = [
            threading.Thread(target=self._read_log, args=(self._child.stderr,), daemon=True),
            threading.Thread(target=self._read_lines, args=(self._child.stdout,), daemon=True),
            threading.Thread(target=self._sample, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def process_id(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._child.poll()

    def now(self) -> Holdings:
        """What it holds now; nothing when it is gone."""
        return holdings(self.process_id) or Holdings(0, 0, 0)

    def forget_peak(self) -> None:
        """Begin a new time for `peak`."""
        self._peak = self.now()

    @property
    def peak(self) -> Holdings:
        """The most that it held since `forget_peak`."""
        return self._peak.at_most(self.now())

    def line(self, timeout_s: float) -> str:
        """The next line that it prints.

        Raises:
            TimeoutError: there was none in time, or its output ended.
        """
        with self._told:
            if not self._told.wait_for(lambda: self.lines or self._out_ended, timeout_s) or not self.lines:
                ended = "its output ended" if self._out_ended else f"nothing within {timeout_s:g} s"
                raise TimeoutError(f"a line was expected of process {self.process_id}: {ended}\n{self.last_log()}")
            return self.lines.popleft()

    def say(self, line: str) -> None:
        """Write a line to its standard input; a process that is gone does not hear it."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.write(line.encode() + b"\n")
            self._child.stdin.flush()

    def last_log(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(list(self.log)[-lines:])

    def stop(self, *, kill: bool = False) -> int:
        """End it, and return its exit code; it is killed when it does not end in time."""
        if kill:
            self._child.kill()
        else:
            self._child.terminate()
        try:
            code = self._child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            code = self._child.wait()
        self._over.set()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        return code

    def _read_log(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            self.log_lines += 1
            self.log.append(line[:2_000].decode(errors="replace").rstrip("\n"))

    def _read_lines(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            with self._told:
                self.lines.append(line.decode().rstrip("\n"))
                self._told.notify_all()
        with self._told:
            self._out_ended = True
            self._told.notify_all()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_EVERY_S):
            seen = holdings(self.process_id)
            if seen is None:
                return
            self._peak = self._peak.at_most(seen)


def limit_memory(process_id: int) -> None:
    """Let a process have no more than `ADDRESSES_MAX_BYTES`."""
    hard = resource.prlimit(process_id, resource.RLIMIT_AS)[1]
    limit = ADDRESSES_MAX_BYTES if hard == resource.RLIM_INFINITY else min(hard, ADDRESSES_MAX_BYTES)
    resource.prlimit(process_id, resource.RLIMIT_AS, (limit, limit))

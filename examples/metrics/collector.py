"""Collects the metrics of this machine from /proc, and lines of its log files. Start at `sample` and `log_lines`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
LOGS: Final = ("/var/log/dpkg.log", "/var/log/alternatives.log", "/var/log/apt/history.log", "/var/log/bootstrap.log")
_IDLE, _IOWAIT = 3, 4  # columns of /proc/stat


@dataclass(frozen=True)
class CpuTimes:
    """Processor time since the machine's start, in ticks."""

    busy: int
    idle: int

    @classmethod
    def read(cls) -> CpuTimes:
        """Return the times of all processors together."""
        first = (PROC / "stat").read_text().splitlines()[0]
        ticks = [int(each) for each in first.split()[1:9]]
        idle = ticks[_IDLE] + ticks[_IOWAIT]
        return cls(sum(ticks) - idle, idle)


def sample(since: CpuTimes) -> tuple[dict[str, float], CpuTimes]:
    """Return the metrics of the time since a reading of the processor times, and the newest reading."""
    now = CpuTimes.read()
    total = now.busy - since.busy + now.idle - since.idle
    memory = {}
    for line in (PROC / "meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        memory[name] = int(rest.split()[0])
    load = (PROC / "loadavg").read_text().split()
    metrics = {
        "cpu.busy.percent": 100 * (now.busy - since.busy) / total if total else 0.0,
        "memory.used.percent": 100 * (1 - memory["MemAvailable"] / memory["MemTotal"]),
        "load.1m": float(load[0]),
        "processes": float(load[3].partition("/")[2]),
    }
    return metrics, now


def host() -> str:
    """Return the machine's name."""
    return socket.gethostname()


def log_lines(limit: int | None) -> Iterator[tuple[str, str]]:
    """Yield name and line of each log file that this machine has; the last `limit` lines of each."""
    for name in LOGS:
        try:
            lines = Path(name).read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines if limit is None else lines[-limit:]:
            yield name, line

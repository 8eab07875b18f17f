"""What processes hold: memory, threads, descriptors, sockets. Read from Linux's /proc, for tests of what is let go.

`family()` measures a process and all that it started, `ConnectionCount` counts the connections that a broker gets.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
IS_LINUX = Path("/proc/self/smaps_rollup").exists()

_LOOK_EVERY_S = 2.0  # the kernel remembers a closed connection for 60 seconds


@dataclass(frozen=True)
class Footprint:
    """What one process holds.

    Attributes:
        parent: id of the process that started it.
        command: its command line.
        memory_kb: its own memory: pages that are shared, after a fork, count by share; those of files do not.
        threads: how many there are.
        files: open descriptors.
        sockets: those of them that are sockets.
    """

    parent: int
    command: str
    memory_kb: int
    threads: int
    files: int
    sockets: int


def footprint(process_id: int) -> Footprint | None:
    """What a process holds; None when it is gone."""
    proc = PROC / str(process_id)
    try:
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        rollup = dict(line.split(":") for line in (proc / "smaps_rollup").read_text().splitlines()[1:])
        files = [os.readlink(each) for each in _listed(proc / "fd")]
        return Footprint(
            parent=int(fields[1]),
            command=(proc / "cmdline").read_text().replace("\0", " ").strip(),
            memory_kb=int(rollup["Pss_Anon"].split()[0]),
            threads=int(fields[17]),
            files=len(files),
            sockets=sum(each.startswith("socket:") for each in files),
        )
    except (OSError, KeyError):
        return None


def _listed(folder: Path) -> Iterator[Path]:
    for each in list(folder.iterdir()):
        if each.is_symlink():  # the one of this very listing is gone
            yield each


def family(process_id: int | None = None) -> dict[int, Footprint]:
    """What a process, this one by default, and all that descend from it hold, by process id."""
    everyone = {int(each.name): found for each in PROC.iterdir() if each.name.isdigit() and (found := _parent(each))}
    members = [os.getpid() if process_id is None else process_id]
    for member in members:
        members += [child for child, parent in everyone.items() if parent == member]
    return {member: found for member in members if (found := footprint(member)) is not None}


def _parent(proc: Path) -> int | None:
    with suppress(OSError):
        return int((proc / "stat").read_text().rpartition(")")[2].split()[1])
    return None


def client_ports(port: int) -> frozenset[int]:
    """The other ends of the connections to a port of this machine, with those that were closed in the last minute."""
    found = set[int]()
    for table in ("tcp", "tcp6"):
        for line in (PROC / "net" / table).read_text().splitlines()[1:]:
            _, local, remote = line.split()[:3]
            ends = [int(address.rpartition(":")[2], 16) for address in (local, remote)]
            if port in ends and 0 not in ends:
                found |= {end for end in ends if end != port}
    return frozenset(found)


@dataclass
class ConnectionCount:
    """Counts the connections made to a port; a connection that its end resets within two seconds may be missed."""

    port: int
    _seen: set[int] = field(default_factory=set)

    def look(self) -> int:
        """How many there have been so far."""
        self._seen |= client_ports(self.port)
        return len(self._seen)

    @contextmanager
    def running(self) -> Iterator[ConnectionCount]:
        """Keep looking."""
        over = threading.Event()

        def keep_looking() -> None:
            while not over.wait(_LOOK_EVERY_S):
                self.look()

        looking = threading.Thread(target=keep_looking, daemon=True)
        looking.start()
        try:
            yield self
        finally:
            over.set()
            looking.join()

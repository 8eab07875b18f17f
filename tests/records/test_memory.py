"""Advice about memory: it costs no memory itself, and where nobody takes it nothing happens."""

from __future__ import annotations

import ctypes
import gc
import platform
import subprocess
import sys

import pytest

from kafkaraw.records import memory

PROGRAM = """
import resource
from kafkaraw.records.memory import keep_freed_memory, make_columns_in_huge_pages
import ctypes
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for _ in range(5):
    keep_freed_memory()
    make_columns_in_huge_pages()
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="advice is for Linux")
def test_the_advice_touches_no_memory() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 500  # of 4096 pages and more that the blocks have


RETURNING = """
from kafkaraw.records.memory import keep_freed_memory, return_freed_memory
resident_mb = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
return_freed_memory()
keep_freed_memory()
before = resident_mb()
blocks = [b"1" * (2 << 20) for _ in range(20)]
full = resident_mb()
blocks.pop(10)
last = blocks.pop()
blocks.clear()
print(full - before, resident_mb() - before)
"""


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="advice is for glibc")
def test_a_program_that_returns_freed_memory_keeps_only_what_it_uses() -> None:
    done = subprocess.run([sys.executable, "-c", RETURNING], capture_output=True, text=True, timeout=60, check=True)
    full, left = map(float, done.stdout.split())
    assert full > 40
    assert left < 4


def test_a_system_without_the_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def missing(name: object) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr(ctypes, "CDLL", missing)
    memory.make_columns_in_huge_pages.__wrapped__()
    assert asked in ([None], [])


def test_the_garbage_collector_runs_less_often_while_the_process_is_a_broker_or_a_mirror():
    before = gc.get_threshold()
    with memory.rare_collections():
        assert all(now >= then for now, then in zip(gc.get_threshold(), before, strict=True))
        assert gc.get_threshold()[0] >= 10 * before[0]
    assert gc.get_threshold() == before

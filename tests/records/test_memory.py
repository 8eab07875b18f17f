"""Advice about memory: it costs no memory itself, and where nobody takes it nothing happens."""

from __future__ import annotations

import ctypes
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


def test_a_system_without_the_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def missing(name: object) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr(ctypes, "CDLL", missing)
    memory.make_columns_in_huge_pages.__wrapped__()
    assert asked in ([None], [])

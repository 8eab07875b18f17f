"""Runs a command of kafkaraw, and ends its own process with SIGKILL at the n-th step that changes files.

`python -m tests.mirror.killed_copy STEP WORD...` runs `kafkaraw WORD...`; step 0 runs it to its end, and prints the
number of steps. Steps are writes and syncs of log files, syncs, renames, removals, and new folders.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileOpener

from kafkaraw.broker.log.descriptor_file import DescriptorFile
from kafkaraw.cli import main

STEPS = [
    (os, "fsync"),
    (os, "replace"),
    (os, "mkdir"),
    (os, "rename"),
    (Path, "rename"),
    (shutil, "rmtree"),
    (DescriptorFile, "append"),
    (LocalFileOpener, "write"),
    (LocalFileOpener, "close"),
]


def run(last: int, words: list[str]) -> None:
    """Run a command until its step `last`."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **more)

        return call

    for owner, name in STEPS:
        setattr(owner, name, counted(getattr(owner, name)))
    main(words, standalone_mode=False)
    print(f"steps={count}")


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2:])

"""Processes that read files side by side, and that Ctrl-C ends at once and silently. Start at `processes`."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


@contextlib.contextmanager
def processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes; after an error or Ctrl-C, work that has not begun is dropped.

    Args:
        jobs: their number.
    """
    import multiprocessing  # only for large directories
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_die_of_interrupts) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _die_of_interrupts() -> None:
    """Let Ctrl-C, which the terminal sends to all processes, end this one without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

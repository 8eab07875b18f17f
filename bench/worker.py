"""A measurement in a fresh process: start it, wait, and read what it printed last, one line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

SECONDS_MAX: Final = 600
_STDERR_LETTERS: Final = 2000


class BenchError(click.ClickException):
    """A measurement that means nothing: a worker failed, or records are missing."""


def measured_by(
    module: str, *arguments: str, what: str, environ: Mapping[str, str] | None = None, seconds_max: float = SECONDS_MAX
) -> dict[str, Any]:
    """Run `python -m module` and return what it measured.

    Args:
        module: the worker.
        arguments: its command line.
        what: it measures; for the error.
        environ: variables for it, besides those of this process.
        seconds_max: how long it may take.

    Raises:
        BenchError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
        env={**os.environ, **(environ or {})},
    )
    if done.returncode:
        raise BenchError(f"{what} failed:\n{done.stderr[-_STDERR_LETTERS:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found

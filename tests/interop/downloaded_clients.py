"""Clients of other languages, built once per user in the user's cache from packages that their registries have.

Start at `prepare`. Without the language or a network, the test that asks is skipped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kafkaraw" / "clients"
COMMAND_SECONDS_MAX: Final = 180
"""Of each command: Go compiles franz-go's requests of all versions in 40 seconds on two cores."""


def prepare(tool: str, name: str, source: Path, *commands: list[str]) -> Path:
    """Return a folder with the client, made by the commands if it is not there yet.

    Args:
        tool: the program that must be installed.
        name: of the client.
        source: the program that uses it; `.txt` at the end of its name is left out.
        commands: download and build it, in the folder.
    """
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    known = hashlib.sha256(source.read_bytes() + repr(commands).encode()).hexdigest()[:16]
    folder = CACHE / f"{name}-{known}"
    if (folder / "ready").exists():
        return folder
    making = CACHE / f"{name}-{known}.{os.getpid()}"
    making.mkdir(parents=True)
    try:
        shutil.copyfile(source, making / source.name.removesuffix(".txt"))
        for command in commands:
            done = subprocess.run(
                command, cwd=making, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False
            )
            if done.returncode:
                pytest.skip(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}")
        (making / "ready").touch()
        if not folder.exists():
            making.rename(folder)
    except subprocess.TimeoutExpired as late:
        pytest.skip(f"{late.cmd} took more than {COMMAND_SECONDS_MAX} s")
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def prepare_go(name: str, source: Path, package: str) -> Path:
    """Return the executable of a Go program, `name.go.txt`, that uses a package at a version."""
    main = source.name.removesuffix(".txt")
    build = ["go", "build", "-o", "client", main]
    return prepare("go", name, source, ["go", "mod", "init", "client"], ["go", "get", package], build) / "client"

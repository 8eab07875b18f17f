"""A Python with what Spark Connect needs, made once per user in the cache: nobody else's processes should load it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

_PACKAGES = ("grpcio>=1.76,<2", "grpcio-status>=1.76,<2", "googleapis-common-protos", "pandas>=2.2,<3", "pyyaml")
_SECONDS_MAX = 600


class FetchError(Exception):
    """The packages could not be fetched; the message holds what pip said."""


def connect_python() -> Path:
    """Its interpreter; it sees the packages of this one as well."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkaraw"
    folder = cache / f"spark-connect-{sys.version_info.major}.{sys.version_info.minor}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            _run(str(folder / "bin" / "pip"), "install", "-q", *_PACKAGES)
            (folder / "complete").touch()
        (own,) = folder.glob("lib/python*/site-packages")
        (own / "parent.pth").write_text("\n".join(_packages_of_this_python()) + "\n")
    return folder / "bin" / "python"


def _packages_of_this_python() -> list[str]:
    """Its folders of packages, also those that a `.pth` file names."""
    return [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    if done.returncode:
        raise FetchError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")

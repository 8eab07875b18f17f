"""Spark's own connector, with the Spark it was released for: fetched once per user, into the cache."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

SPARK_VERSION: Final = "4.2.0"
JARS: Final = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
AVRO_JAR: Final = "org.apache.spark:spark-avro_2.13:4.1.1"
"""The newest on Maven; it works with Spark 4.1 to 4.3."""
_SECONDS_MAX: Final = 1200


class FetchError(Exception):
    """Something could not be fetched; the message holds what pip or Maven said."""


def python() -> Path:
    """A Python with that Spark, made when there is none."""
    folder = _cache() / f"pyspark-{SPARK_VERSION}"

    def make() -> None:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(folder / "bin" / "pip"), "install", "-q", f"pyspark=={SPARK_VERSION}")

    _once(folder, make)
    return folder / "bin" / "python"


def jars() -> list[Path]:
    """The connector and what it needs."""
    return _fetched(f"spark-sql-kafka-{SPARK_VERSION}", *JARS)


def avro_jars() -> list[Path]:
    """What from_avro needs."""
    return _fetched("spark-avro-4.1.1", AVRO_JAR)


def _fetched(name: str, *artifacts: str) -> list[Path]:
    folder = _cache() / name

    def fetch() -> None:
        for artifact in artifacts:
            _run("mvn", "-B", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")

    _once(folder, fetch)
    return sorted(folder.glob("*.jar"))


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkaraw"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _once(folder: Path, make: Callable[[], None]) -> None:
    done = folder / "complete"
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make()
            done.touch()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    if done.returncode:
        raise FetchError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")

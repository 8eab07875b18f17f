"""Spark's own connector, with the Spark it was released for: fetched once per user, into the cache."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.worker import BenchError

ROOT: Final = Path(__file__).parents[2]
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


def said_by(
    script: str, asked: Mapping[str, object], *, ours: bool, what: str, path: Sequence[Path] = (), seconds_max: float
) -> Iterator[dict[str, Any]]:
    """Run a script in the Python of a connector; yield the lines of JSON objects that it prints, as they come.

    Args:
        script: its file.
        asked: its one argument, as JSON.
        ours: whether it runs in this Python, with the sources of this project; otherwise with Spark's own connector.
        what: it does; for the error.
        path: where it finds modules, if it is not ours.
        seconds_max: how long it may take.

    Raises:
        BenchError: it failed, or took too long.
    """
    chosen = Path(sys.executable) if ours else python()
    environ = {
        name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "PYTHONP"))
    }
    paths = [ROOT / "src", ROOT] if ours else path
    environ |= {"PYSPARK_PYTHON": str(chosen), "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [str(chosen), script, json.dumps(asked)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ)
        limit = threading.Timer(seconds_max, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
            process.wait()
        finally:
            limit.cancel()
            process.kill()
            process.wait()
        if process.returncode:
            errors.seek(0)
            raise BenchError(f"{what} failed with exit code {process.returncode}: {errors.read()[-2000:]}")


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

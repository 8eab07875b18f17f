"""Options of every JVM that the tests start: the quick compiler alone, one garbage collecting thread, shared classes.

Most of these JVMs run for seconds. The optimizing compiler took 40 % of the processor time of a Spark session that runs
a dozen small queries (23 s with it, 14 s without), and a third of what starting Apache Kafka takes (5.9 s with it,
4.1 s without). Reading, verifying and linking classes takes half of the rest: a Spark session with three queries took
16.1 s, and 7.0 s when it mapped its classes from a file (Java's class data sharing). Benchmarks must use none of this.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

JVM_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Spark's start script gives the first to the driver, the second to the JVM that makes up the driver's command line."""

_ROOT = Path(__file__).parents[1]
_ARCHIVE_SECONDS_MAX = 600


def start_spark_with_quick_jvms() -> None:
    """Set the options for every Spark that this process and its children start, where the user has set none."""
    for name in JVM_VARIABLES:
        os.environ.setdefault(name, " ".join(QUICK_JVM))


@cache
def share_spark_classes() -> str:
    """Let every Spark that this process and its children start from now on map its classes from a file.

    `tests.spark_classes` writes the file into the virtual environment, once for this Spark and this Java.

    Returns:
        Why there is no such file; nothing where there is one.
    """
    drivers, _ = JVM_VARIABLES
    if os.environ[drivers] != " ".join(QUICK_JVM):
        return f"{drivers} was set"
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        return "there is no Spark"
    try:
        os.environ[drivers] = options_of_drivers(Path(spark.origin).parent, Path(sys.prefix), os.environ)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return f"the file of Spark's classes could not be written: {error}"
    return "" if "SharedArchiveFile" in os.environ[drivers] else "this Java writes no archives of classes"


def options_of_drivers(spark: Path, folder: Path, environ: Mapping[str, str]) -> str:
    """Return the options of a Spark's drivers, which map their classes from a file; write it where it is not there.

    Args:
        spark: the folder of that Spark's package `pyspark`.
        folder: where its file lies.
        environ: variables with which Python finds this Spark.

    Raises:
        OSError: the file could not be written, or there is no Java.
        RuntimeError: the program that has it written failed.
        subprocess.TimeoutExpired: so it did by taking too long.
    """
    java = _java_of_spark()
    if java is None:
        raise FileNotFoundError("there is no Java")
    jars = sorted((spark / "jars").iterdir())
    digest = hashlib.sha256("".join(f"{jar} {jar.stat().st_mtime_ns}\n" for jar in jars).encode()).hexdigest()[:8]
    archive = folder / f"spark-{digest}-{name_of_java(java)}.jsa"
    with made_once(archive) as scratch:
        if scratch is not None:
            for older in folder.glob("spark-*.jsa"):
                older.unlink()
            _write_spark_classes(scratch, environ)
    return shlex.join([*QUICK_JVM, *shared_options(archive)])


def _write_spark_classes(archive: Path, environ: Mapping[str, str]) -> None:
    drivers, _ = JVM_VARIABLES
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark_classes"],
        env={**environ, drivers: shlex.join([*QUICK_JVM, *archive_options(archive)])},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_ARCHIVE_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"tests.spark_classes ended with {done.returncode}:\n{done.stderr[-2000:]}")


def _java_of_spark() -> str | None:
    from kafkaraw import KafkaError
    from kafkaraw.spark.launch.executables import java_home

    try:
        home = java_home()
    except KafkaError:  # the tests say that there is no Java
        return None
    own = home or os.environ.get("JAVA_HOME")
    return str(Path(own, "bin", "java")) if own else shutil.which("java")


def archive_options(archive: Path) -> tuple[str, ...]:
    """Options of a JVM that writes the classes that it has loaded to a file when it ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}",)


def shared_options(archive: Path) -> tuple[str, ...]:
    """Options of a JVM that maps its classes from such a file; none where Java could not write one.

    Java ignores the file where the class path does not begin with the one of the JVM that wrote it, and says so on
    standard output, where tests expect the program's.
    """
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable") if archive.stat().st_size else ()


def name_of_java(java: str) -> str:
    """A few characters that tell this Java from others."""
    binary = Path(java).resolve()
    return hashlib.sha256(f"{binary} {binary.stat().st_mtime_ns}".encode()).hexdigest()[:8]


def cache_folder() -> Path:
    """Where tests keep what they fetch or make once per user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkaraw"


@contextlib.contextmanager
def made_once(target: Path) -> Iterator[Path | None]:
    """The path at which the caller makes a file or folder that then becomes `target`; None where it is there already.

    Where the caller makes nothing there, an empty file says that there is nothing to be had.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_name(f"{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            yield None
            return
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder, target.name)
            yield made
            if not made.exists():
                made.touch()
            made.rename(target)  # whole or not at all

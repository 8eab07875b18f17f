"""One path of a Python that is valid on the driver and on executors which unpack an archive.

Spark starts Python processes for a data source on executors and on the driver (its planner), and takes one path for
both: PYSPARK_PYTHON, or PYSPARK_DRIVER_PYTHON if the driver's JVM has that variable, which then fails on executors.
Executors unpack `spark.archives` into their working directory, so the path is `./NAME/bin/python`. In client mode the
driver has no such folder: a link of that name in its working directory leads to a folder with a script that starts the
driver's own Python. The name is new for each run, so that runs in the same folder do not share a link.

Must not start Spark. Start at `linked`.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch.environment import PYTHON
from kafkaraw.spark.launch.executables import make_script, worker_python
from kafkaraw.spark.launch.packing import described

_PREFIX: Final = ".kafkaraw-environment-"
_EXECUTOR: Final = re.compile(r"\((\S+) executor (\w+)\)")
# What Spark says of an executor whose Python cannot be used, and what that means.
_CAUSES: Final = (
    (re.compile(r"No module named '(kafkaraw|pyarrow)"), "The Python of the executor lacks packages"),
    (re.compile(r"Cannot run program .*python"), "The executor has no such Python"),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH|Python in worker has different version"),
        f"The executor has another Python than the driver, which runs {sys.executable}",
    ),
    (
        re.compile(r"pyspark\.daemon's std|pyspark\.daemon's standard output"),
        "The Python of the executor does not start: a line with 'kafkaraw: the archive', or an error of the system, in "
        "Spark's error or in the log of the executor (stderr), names the reason",
    ),
)
_MARK: Final = "_kafkaraw_notes"
_SCRIPT: Final = """#!/bin/sh
exec {program} "$@"
"""


@dataclass(frozen=True, slots=True)
class SharedPath:
    """An archive, and where its Python is.

    Attributes:
        archives: the value of `spark.archives`.
        python: the value of PYSPARK_PYTHON, for the driver and for executors.
    """

    archives: str
    python: str


def shared_path(archive: str, name: str) -> SharedPath:
    """Return the settings for executors that unpack the archive into a folder of that name."""
    return SharedPath(f"{archive}#{name}", f"./{name}/{PYTHON}")


def check_archive(archive: str, *, driver_here: bool) -> None:
    """Check an archive before Spark starts; one in HDFS or an object store is not looked at.

    Args:
        archive: a path or URI.
        driver_here: this Python runs the driver.

    Raises:
        ConfigError: the file is missing, not an archive of `kafkaraw spark pack`, or has another Python.
    """
    if "#" in archive or "," in archive:
        raise ConfigError(
            f"the archive {archive}: its path must not contain '#' or ',', which spark.archives separates by"
        )
    if archive.startswith("file://"):
        archive = unquote(urlsplit(archive).path)
    if "://" in archive:
        return
    about = described(Path(archive))
    version = ".".join(map(str, sys.version_info[:2]))
    if driver_here and about.python != version:
        raise ConfigError(
            f"the archive {archive} has Python {about.python}, the driver here is Python {version}: executors and "
            f"driver need the same version; run `kafkaraw spark pack -o {archive}` with this Python ({sys.executable})"
        )


def note_executor_python(error: BaseException) -> None:
    """Add to an error what executors need, if it says that the Python of an executor cannot be used.

    Spark starts that Python, and imports pyarrow in it, before an object of this package can explain more.
    """
    text = f"{error}\n{getattr(error, '_desc', '')}"
    cause = next((cause for pattern, cause in _CAUSES if pattern.search(text)), None)
    if cause is None or hasattr(error, "__notes__"):
        return
    found = _EXECUTOR.search(text)
    where = f" (executor {found[2]} on {found[1]})" if found else ""
    python, archives = _settings_of_executors()
    error.add_note(
        f"{cause}{where}. PYSPARK_PYTHON is {python}, spark.archives is {archives}. Executors need the driver's "
        "version of Python, with kafkaraw and pyarrow: make an archive with `kafkaraw spark pack` on a machine like "
        "theirs, and start the job with `kafkaraw spark submit --archive FILE`, which sets both"
    )


def _settings_of_executors() -> tuple[str, str]:
    """Return the path by which Spark starts Python on executors, and the archives that they unpack."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001  # `getOrCreate` would make one
    if context is None:
        return os.environ.get("PYSPARK_PYTHON", "not set"), "unknown"
    return str(context.pythonExec), context.getConf().get("spark.archives", "not set")


def note_errors_of_spark() -> None:
    """Let errors that Spark raises in this process say what executors need, see `note_executor_python`.

    Each new object of a session makes PySpark install what raises the errors of the JVM as Python's, by a function of a
    module: that function is wrapped.
    """
    from pyspark.errors.exceptions import captured

    original: Callable[[Callable[..., object]], Callable[..., object]] = captured.capture_sql_exception
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def capture(function: Callable[..., object]) -> Callable[..., object]:
        capturing = original(function)

        @functools.wraps(capturing)
        def noted(*args: object, **named: object) -> object:
            try:
                return capturing(*args, **named)
            except Exception as error:
                note_executor_python(error)
                raise

        return noted

    setattr(capture, _MARK, True)
    captured.capture_sql_exception = capture  # type: ignore[assignment]
    captured.install_exception_handler()


@contextmanager
def linked(archive: str) -> Iterator[SharedPath]:
    """Make the link for a driver in this working directory, which processes started in it inherit.

    Args:
        archive: a path or URI, as for `check_archive`.

    Raises:
        ConfigError: the archive cannot be used, or the working directory not be written.
    """
    check_archive(archive, driver_here=True)
    link = Path.cwd() / f"{_PREFIX}{secrets.token_hex(6)}"
    try:
        link.symlink_to(_driver_folder(), target_is_directory=True)
    except OSError as error:
        raise ConfigError(
            f"the working directory {link.parent} cannot be written ({error.strerror}): Spark needs a link there, by "
            "which the driver and its executors start Python with the same path; start the driver in another folder"
        ) from error
    try:
        yield shared_path(archive if "://" in archive else str(Path(archive).resolve()), link.name)
    finally:
        link.unlink(missing_ok=True)


def linked_until_exit(archive: str) -> SharedPath:
    """Make the link, as `linked` does, and remove it when this process ends."""
    owner = os.getpid()
    context = linked(archive)
    made = context.__enter__()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child ends, too
            context.__exit__(None, None, None)

    atexit.register(remove)
    return made


def _driver_folder() -> Path:
    """Return a folder with a script, in the place of an archive's Python, that starts this Python."""
    python = Path(worker_python())
    if python.parts[-2:] == Path(PYTHON).parts and python != Path(sys.executable):
        return python.parent.parent
    return make_script(PYTHON, _SCRIPT, program=sys.executable)

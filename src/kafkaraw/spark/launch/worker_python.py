"""The Python with which Spark starts its processes on this machine.

Spark puts a zip of its own Python code in front of PYTHONPATH. Python compiles imports from a zip again in each
process, which takes longer than everything else that a streaming query's process does before its first batch. If
pyspark is installed as a package, the same code is there, compiled: a script in front of Python removes the zip.
Then the fork server starts the process, if there is one (`fork_server.py`). Must not be used with a cluster, because
its machines do not have the script.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path

from kafkaraw.spark.launch.scripts import make_script

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

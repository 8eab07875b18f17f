"""Options of every JVM that the tests start: the quick compiler alone, and one thread that collects garbage.

Most of these JVMs run for seconds. The optimizing compiler took 40 % of the processor time of a Spark session that runs
a dozen small queries (23 s with it, 14 s without), and a third of what starting Apache Kafka takes (5.9 s with it,
4.1 s without). Benchmarks must not use these options.
"""

from __future__ import annotations

import os

QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_SPARK_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Spark's start script gives the first to the driver, the second to the JVM that makes up the driver's command line."""


def start_spark_with_quick_jvms() -> None:
    """Set the options for every Spark that this process and its children start, where the user has set none."""
    for name in _SPARK_VARIABLES:
        os.environ.setdefault(name, " ".join(QUICK_JVM))

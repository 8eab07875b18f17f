"""Apache Kafka's own command-line tools, run from its jars; each call is a JVM of its own, a second or so."""

from __future__ import annotations

import subprocess

from tests.interop.apache_kafka import fetch_jars
from tests.interop.java_client import JAVA_OPTIONS, RUN_SECONDS_MAX

CONFIGS = "kafka.admin.ConfigCommand"


def run_tool(main_class: str, *arguments: str) -> str:
    """Run a tool and return what it printed.

    Raises:
        AssertionError: it failed.
    """
    command = ["java", *JAVA_OPTIONS, "-cp", f"{fetch_jars()}/*", main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

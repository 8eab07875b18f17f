"""Apache Kafka's own command-line tools, run from its jars; each call is a JVM of its own, a second or so."""

from __future__ import annotations

import subprocess

from tests.interop.apache_kafka import fetch_jars, fetch_tools
from tests.interop.java_client import JAVA_OPTIONS, RUN_SECONDS_MAX

CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"


def run_tool(main_class: str, *arguments: str) -> str:
    """Run a tool and return what it printed.

    Raises:
        AssertionError: it failed.
    """
    class_path = f"{fetch_jars()}/*"
    if main_class.startswith("org.apache.kafka.tools."):
        class_path += f":{fetch_tools()}/*"
    command = ["java", *JAVA_OPTIONS, "-cp", class_path, main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

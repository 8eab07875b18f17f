"""Apache Kafka's own command-line tools, run from its jars.

A call of `run_tool` is a JVM of its own, a second or so; `SharedTools` runs many in one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

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


class SharedTools:
    """One JVM that runs tools one after the other, by way of Tools.java.

    Args:
        class_dir: where to put the compiled class.
    """

    def __init__(self, class_dir: Path) -> None:
        class_path = f"{class_dir}:{fetch_jars()}/*:{fetch_tools()}/*"
        source = Path(__file__).with_name("Tools.java")
        compiled = subprocess.run(
            ["javac", "-cp", class_path, "-d", str(class_dir), str(source)],
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        assert compiled.returncode == 0, compiled.stderr
        self._jvm = subprocess.Popen(
            ["java", *JAVA_OPTIONS, "-cp", class_path, "Tools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._jvm.stdin is not None
        self._jvm.stdin.close()
        try:
            self._jvm.wait(10)
        except subprocess.TimeoutExpired:
            self._jvm.kill()
            self._jvm.wait()
        assert self._jvm.stdout is not None
        self._jvm.stdout.close()

    def run(self, main_class: str, *arguments: str, given: str = "") -> str:
        """Run a tool that reads `given`, and return what it printed.

        Raises:
            AssertionError: it failed.
        """
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        fields = [main_class, given.encode().hex() or "-", *(argument.encode().hex() for argument in arguments)]
        self._jvm.stdin.write("\t".join(fields) + "\n")
        self._jvm.stdin.flush()
        status, printed, complained = self._jvm.stdout.readline().rstrip("\n").split("\t")
        text = bytes.fromhex(printed).decode()
        assert status == "0", text + bytes.fromhex(complained).decode()
        return text

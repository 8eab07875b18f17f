"""Kafka's own Java client as one more adapter; see `clients` for what an adapter does.

Each call is a JVM of its own, half a second or so: use it where Java itself is the yardstick.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.apache_kafka import fetch_jars, why_missing
from tests.interop.clients import Received, Sample
from tests.java_options import QUICK_JVM

SOURCE = Path(__file__).with_name("JavaClient.java")
JAVA_OPTIONS = (
    "-Xmx256M",
    *QUICK_JVM,
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
RUN_SECONDS_MAX = 60


def why_no_java_client() -> str | None:
    """What this machine lacks to compile and run the client, or None."""
    if shutil.which("javac") is None:
        return "the Java client is compiled with javac, and there is none on the path"
    return why_missing()


def _field(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


def _value(field: str) -> bytes | None:
    return None if field == "-" else bytes.fromhex(field)


class JavaClient:
    """kafka-clients, by way of JavaClient.java.

    Args:
        class_dir: where to put the compiled class.
    """

    name = "Java"
    null_header_values = True

    def __init__(self, class_dir: Path) -> None:
        self._jars = fetch_jars()
        self._class_dir = class_dir
        command = ["javac", "-cp", f"{self._jars}/*", "-d", str(class_dir), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        """As every adapter; Java's defaults are acks=all and idempotent."""
        assert acks == "all" and idempotent
        lines = []
        for sample in samples:
            headers = [field for name, value in sample.headers for field in (name.encode().hex(), _field(value))]
            lines.append("\t".join([_field(sample.key), _field(sample.value), str(sample.timestamp_ms), *headers]))
        self._run("\n".join(lines) + "\n", "produce", bootstrap_servers, topic, codec)

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        """As every adapter."""
        received = []
        for line in self._run("", "consume", bootstrap_servers, topic, str(partitions), str(count)).splitlines():
            partition, offset, key, value, timestamp_ms, *headers = line.split("\t")
            pairs = zip(headers[::2], headers[1::2], strict=True)
            sample = Sample(
                _value(key),
                _value(value),
                tuple((bytes.fromhex(name).decode(), _value(content)) for name, content in pairs),
                int(timestamp_ms),
            )
            received.append(Received(int(partition), int(offset), sample))
        return received

    def setting_names(self) -> dict[str, set[str]]:
        """Names of all settings, by kind of client."""
        found: dict[str, set[str]] = {}
        for line in self._run("", "names").splitlines():
            kind, _, name = line.partition("\t")
            found.setdefault(kind, set()).add(name)
        return found

    def _run(self, given: str, *arguments: str) -> str:
        command = ["java", *JAVA_OPTIONS, "-cp", f"{self._class_dir}:{self._jars}/*", "JavaClient", *arguments]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

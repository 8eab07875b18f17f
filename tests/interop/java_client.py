"""Kafka's own Java client as one more adapter; see `clients` for what an adapter does.

Each call is a JVM of its own, half a second or so: use it where Java itself is the yardstick.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.apache_kafka import compile_java, fetch_jars, fetch_tools, shared_classes, why_missing
from tests.interop.clients import Received, Sample
from tests.java_options import QUICK_JVM

SOURCE = Path(__file__).with_name("JavaClient.java")
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


def java_command(program: Path | str, *arguments: str, heap: str = "256M") -> list[str]:
    """The command that runs a Java program of the tests, or a class of Kafka's jars.

    Args:
        program: the program's source, which is compiled once, or the name of a class.
        arguments: of the program.
        heap: the most memory that its objects may take.
    """
    class_path = f"{fetch_jars()}/*:{fetch_tools()}/*"
    if isinstance(program, Path):
        class_path += f":{compile_java(program)}"
        program = program.stem
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    options = (f"-Xmx{heap}", *QUICK_JVM, *shared_classes(), logging)
    return ["java", *options, "-cp", class_path, program, *arguments]


class JavaClient:
    """kafka-clients, by way of JavaClient.java."""

    name = "Java"
    null_header_values = True

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
        done = subprocess.run(
            java_command(SOURCE, *arguments),
            input=given,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

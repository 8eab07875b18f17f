"""Apache Avro's own Java classes, from the jars that Spark brings, behind a pipe. Confluent's registry uses them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop.apache_kafka import compile_java
from tests.java_options import QUICK_JVM

SOURCE = Path(__file__).with_name("AvroOracle.java")
JARS = ("avro-1.*.jar", "jackson-core-2*.jar", "jackson-databind-*.jar", "jackson-annotations-*.jar", "slf4j-api-*.jar")


def why_no_avro_oracle() -> str | None:
    """What this machine lacks to ask Apache Avro's classes, or None."""
    if shutil.which("javac") is None:
        return "the oracle is compiled with javac, and there is none on the path"
    if _jars() is None:
        return "Avro's jars are Spark's, and there is no pyspark"
    return None


def _jars() -> list[str] | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "jars"
    found = [str(path) for pattern in JARS for path in folder.glob(pattern)]
    return found if len(found) == len(JARS) else None


class AvroOracle:
    """A JVM that answers one question after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to a question (see AvroOracle.java)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the JVM of the oracle has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def avro_oracle() -> Iterator[AvroOracle]:
    """Start the JVM, and end it."""
    jars = _jars()
    assert jars is not None
    classes = compile_java(SOURCE, tuple(jars))
    command = ["java", "-Xmx256M", *QUICK_JVM, "-cp", ":".join([*jars, str(classes)]), SOURCE.stem]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    )
    try:
        yield AvroOracle(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

"""Apache Kafka's command-line tools and the tests' Java programs, all in one JVM: each JVM takes a second to start."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

import pytest

from tests.interop.apache_kafka import compile_java, fetch_jars, fetch_tools, shared_classes, why_missing
from tests.java_options import QUICK_JVM

CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
RUN_SECONDS_MAX = 60
ERRORS_BYTES_MAX = 4000
"""How much of the end of the JVM's standard error an error message quotes."""


def why_no_java_client() -> str | None:
    """What this machine lacks to compile and run the client, or None."""
    if shutil.which("javac") is None:
        return "the Java client is compiled with javac, and there is none on the path"
    return why_missing()


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


def run_tool(main_class: str, *arguments: str) -> str:
    """Run a tool and return what it printed.

    Raises:
        AssertionError: it failed.
    """
    return shared_tools().run(main_class, *arguments)


def first_offsets(files: Iterable[str]) -> set[str]:
    """Return what DumpLogSegments complains of in each log file that does not start at offset 0.

    It takes -1 for the offset before the first record of every file, also of later segments that Apache Kafka wrote.
    """
    logs = [Path(name) for name in files if name.endswith(".log")]
    lines = {f"Non-consecutive offsets in {log}" for log in logs if int(log.stem)}
    return lines | {f"  -1 is followed by {int(log.stem)}" for log in logs if int(log.stem)}


@cache
def shared_tools() -> SharedTools:
    """The JVM of this process, which ends with it; the test is skipped where there is no Java to run it."""
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    tools = SharedTools()
    atexit.register(tools.close)
    return tools


class SharedTools:
    """A JVM that runs tools and programs one after the other, by way of Tools.java; the first of them starts it."""

    def __init__(self) -> None:
        self._jvm: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the JVM; the next tool gets a new one."""
        jvm, self._jvm = self._jvm, None
        errors, self._errors = self._errors, None
        if errors is not None:
            errors.close()
        if jvm is None:
            return
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        with suppress(OSError):
            jvm.stdin.close()
        try:
            jvm.wait(10)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()
        jvm.stdout.close()

    def run(self, tool: Path | str, *arguments: str, given: str = "", complaints: list[str] | None = None) -> str:
        """Run a tool that reads `given`, and return what it printed.

        Args:
            tool: the name of its class, or the source of a program of the tests, which is compiled once.
            arguments: its arguments.
            given: what it reads.
            complaints: gets the lines that it prints to its standard error.

        Raises:
            AssertionError: it failed.
        """
        status, text, complained = self.outcome(tool, *arguments, given=given)
        assert status == 0, text + complained
        if complaints is not None:
            complaints += complained.splitlines()
        return text

    def outcome(self, tool: Path | str, *arguments: str, given: str = "") -> tuple[int, str, str]:
        """Run a tool, and return its exit code, what it printed, and what it printed to standard error.

        Args:
            tool: as for `run`.
            arguments: its arguments.
            given: what it reads.
        """
        main_class = f"{tool.stem}@{compile_java(tool)}" if isinstance(tool, Path) else tool
        fields = [main_class, given.encode().hex() or "-", *(argument.encode().hex() for argument in arguments)]
        with self._lock:
            try:
                answer = self._answer("\t".join(fields) + "\n")
            except BaseException:  # such as the end of a test's time: the answer would be taken for the next tool's
                self._kill()
                raise
        status, printed, complained = answer.rstrip("\n").split("\t")
        return int(status), bytes.fromhex(printed).decode(), bytes.fromhex(complained).decode()

    def _answer(self, line: str) -> str:
        if self._jvm is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # `close` closes it
            self._jvm = subprocess.Popen(
                java_command(Path(__file__).with_name("Tools.java")),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        with suppress(BrokenPipeError):  # it has ended before: there is no answer, and its errors tell why
            self._jvm.stdin.write(line)
            self._jvm.stdin.flush()
        answer = self._jvm.stdout.readline()
        if not answer:
            status = self._jvm.wait(10)
            raise AssertionError(f"the JVM of the tools has ended with exit code {status}: {self._last_errors()}")
        return answer

    def _last_errors(self) -> str:
        """Return the end of what the JVM has written to its standard error."""
        assert self._errors is not None
        end = self._errors.seek(0, 2)
        self._errors.seek(max(0, end - ERRORS_BYTES_MAX))
        return self._errors.read().decode(errors="replace").strip() or "it printed no error"

    def _kill(self) -> None:
        if self._jvm is not None:
            self._jvm.kill()
            self.close()

"""Apache Kafka's own command-line tools, run from its jars, all in one JVM: one of its own takes a second or so."""

from __future__ import annotations

import atexit
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

import pytest

from tests.interop.java_client import java_command, why_no_java_client

CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
ERRORS_BYTES_MAX = 4000
"""How much of the end of the JVM's standard error an error message quotes."""


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
    """A JVM that runs tools one after the other, by way of Tools.java; it is started for the first of them."""

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

    def run(self, main_class: str, *arguments: str, given: str = "", complaints: list[str] | None = None) -> str:
        """Run a tool that reads `given`, and return what it printed.

        Args:
            main_class: the tool.
            arguments: its arguments.
            given: what it reads.
            complaints: gets the lines that it prints to its standard error.

        Raises:
            AssertionError: it failed.
        """
        fields = [main_class, given.encode().hex() or "-", *(argument.encode().hex() for argument in arguments)]
        with self._lock:
            try:
                answer = self._answer("\t".join(fields) + "\n")
            except BaseException:  # such as the end of a test's time: the answer would be taken for the next tool's
                self._kill()
                raise
        status, printed, complained = answer.rstrip("\n").split("\t")
        text = bytes.fromhex(printed).decode()
        assert status == "0", text + bytes.fromhex(complained).decode()
        if complaints is not None:
            complaints += bytes.fromhex(complained).decode().splitlines()
        return text

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

"""The JVM of the tools: what the error message says if it ends in the middle of a tool."""

from __future__ import annotations

import contextlib

import pytest

from tests.interop.java_tools import SharedTools, why_no_java_client


def test_the_error_of_a_jvm_that_ended_has_its_exit_code_and_standard_error():
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    with (
        contextlib.closing(SharedTools()) as tools,
        pytest.raises(AssertionError, match=r"(?s)exit code 1: .*ClassNotFoundException: no\.such\.Tool"),
    ):
        tools.run("no.such.Tool")

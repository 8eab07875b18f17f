"""Every command of the page about schemas runs, in an empty folder, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import spark, what_tasks_keep_is_closed  # noqa: F401  # fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "schemas.md"
TIMEOUT = 60.0
BROKER, REGISTRY = "localhost:9092", "http://localhost:8081"
STREAM = "$ python stream.py 2> spark.log"


def steps() -> Iterator[tuple[str, str]]:
    """The page's files, as (name, content), and terminal sessions, as ("", session), in their order."""
    pattern = r"(?:^`([\w.]+)`:\n\n)?^```\w*\n(.*?)^```$"
    for found in re.finditer(pattern, PAGE.read_text(), re.DOTALL | re.MULTILINE):
        name, content = found.groups()
        assert name or content.startswith("$ "), content
        yield name or "", content


def server(arguments: list[str], mark: str) -> tuple[subprocess.Popen[str], str]:
    """Start a command of the page with a free port; return it, and the address that it prints."""
    command = [sys.executable, "-m", "kafkaraw", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(mark):
            return process, line.removeprefix(mark).strip()
    raise AssertionError(f"{command} ended with {process.wait(TIMEOUT)}")


def started(line: str, addresses: dict[str, str]) -> subprocess.Popen[str]:
    """Run a command that ends in & and remember its address."""
    arguments = line.removesuffix("&").split()[1:]
    place, mark = (BROKER, "bootstrap.servers=") if arguments[0] == "broker" else (REGISTRY, "url=")
    arguments[arguments.index("--port") + 1] = "0"
    process, address = server([addresses.get(each, each) for each in arguments], mark)
    addresses[place] = address
    return process


def printed(session: str, environment: dict[str, str], folder: Path) -> str:
    """Run the commands of a session in one shell; return the session as it goes."""
    commands = re.findall(r"^\$ (.*)$", session, re.MULTILINE)
    functions = f'kafkaraw() {{ "{sys.executable}" -m kafkaraw "$@"; }}; python() {{ "{sys.executable}" "$@"; }}'
    functions += '; prompt() { local status=$?; printf "%s\\n" "$1"; return $status; }'
    keep = 'printf "%s" "$KAFKARAW_SCHEMA_REGISTRY_URL" > .url'
    script = "\n".join([functions, *(f"prompt {quoted(command)}; {command}" for command in commands), keep])
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"], capture_output=True, text=True, timeout=TIMEOUT, cwd=folder,
        env=environment, check=True,
    )  # fmt: skip
    if url := (folder / ".url").read_text():
        environment["KAFKARAW_SCHEMA_REGISTRY_URL"] = url
    return done.stdout


def quoted(command: str) -> str:
    return "'$ " + command.replace("'", "'\\''") + "'"


def streamed(shared: SparkSession, patch: pytest.MonkeyPatch, folder: Path) -> str:
    """Run the page's program for Spark in this process, with the session of the tests; return what the page shows."""
    program = folder / "stream.py"
    checkpoint = f'"{folder / "checkpoint"}"'  # the JVM was started in another folder
    program.write_text(program.read_text().replace('"checkpoint"', checkpoint))
    assert checkpoint in program.read_text()
    output = io.StringIO()
    patch.setattr("kafkaraw.spark.session", lambda _: shared)
    with contextlib.chdir(folder), contextlib.redirect_stdout(output):
        runpy.run_path("stream.py", run_name="__main__")
    return f"{STREAM}\n{output.getvalue()}"


def test_the_page_runs_from_an_empty_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,  # noqa: F811
) -> None:
    addresses: dict[str, str] = {}
    processes: list[subprocess.Popen[str]] = []
    environment = dict(os.environ)

    def here(text: str) -> str:
        for place, address in addresses.items():
            text = text.replace(place, address)
        return text

    try:
        for name, content in steps():
            if name:
                (tmp_path / name).write_text(here(content))
            elif "&\n" in content:
                processes += [started(line.removeprefix("$ "), addresses) for line in content.splitlines()]
            elif content.startswith(STREAM):
                assert streamed(spark, monkeypatch, tmp_path) == content
            else:
                session = here(content)
                assert printed(session, environment, tmp_path) == session
    finally:
        for process in reversed(processes):
            process.terminate()
            process.communicate(timeout=TIMEOUT)
    assert len(processes) == 2


def test_the_page_names_every_error() -> None:
    import inspect

    from kafkaraw.schemas import errors

    names = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__ and name != "RegistryError"
    ]
    missing = [name for name in names if f"`{name}`" not in PAGE.read_text()]
    assert missing == ["RegistryTimeoutError"]  # a RegistryUnavailableError


@pytest.mark.parametrize("setting", ["basic_auth", "bearer_token", "oauth_token_endpoint_url", "ssl_certfile"])
def test_settings_that_the_page_names_exist(setting: str) -> None:
    from kafkaraw.client.settings import settings_of
    from kafkaraw.schemas.registry_config import RegistryConfig

    assert f"`{setting}" in PAGE.read_text()
    assert setting in settings_of(RegistryConfig)

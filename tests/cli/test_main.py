"""The command line as a whole: help, unknown commands, and errors without tracebacks."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from kafkaraw._version import __version__
from kafkaraw.cli import COMMANDS, main
from kafkaraw.errors import UsageError


def test_help_names_every_command():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


def test_the_version_is_shown():
    assert CliRunner().invoke(main, ["--version"]).output == f"kafkaraw, version {__version__}\n"


def test_an_unknown_command_is_a_usage_error():
    result = CliRunner().invoke(main, ["brokr"])
    assert result.exit_code == 2
    assert "No such command 'brokr'" in result.output


@pytest.mark.parametrize(
    ("raised", "exit_code", "said"),
    [(UsageError("do it like this"), 1, "Error: do it like this\n"), (KeyboardInterrupt(), 130, "Stopped.\n")],
)
def test_an_error_of_a_command_is_one_line(
    raised: BaseException, exit_code: int, said: str, monkeypatch: pytest.MonkeyPatch
):
    @click.command()
    def failing() -> None:
        raise raised

    monkeypatch.setattr("kafkaraw.cli.broker.broker", failing)
    result = CliRunner().invoke(main, ["broker"])
    assert (result.exit_code, result.stderr) == (exit_code, said)


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from click.testing import CliRunner; from kafkaraw.cli import main;"
        "assert CliRunner().invoke(main, ['demo', 'flights', '--help']).exit_code == 0;"
        "print([name for name in ('pyspark', 'pyarrow', 'rich', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "kafkaraw", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("Usage: kafkaraw ")

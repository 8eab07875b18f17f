"""`kafkaraw pipelines test`: run the tests of a pipeline that are written in YAML."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import click

from kafkaraw.cli.pipelines_options import place_argument

if TYPE_CHECKING:
    from kafkaraw.pipelines.testing.yaml_tests import YamlTest


@click.command("test")
@place_argument
@click.option("-k", "--select", "selected", metavar="TEXT", help="Run only tests whose names contain this.")
@click.option("--broker", is_flag=True, help="Keep the topics in an embedded broker instead of files.")
@click.option("-v", "--verbose", is_flag=True, help="Show what Spark prints, too.")
def test(place: Path, selected: str | None, broker: bool, verbose: bool) -> None:
    """Run the tests in tests/*.yml of a pipeline, without Kafka.

    The exit code is 0 if all tests pass, 1 if one fails, and 2 if a definition or a test is wrong.
    """
    from kafkaraw.pipelines.model import PipelineError
    from kafkaraw.pipelines.running.driver_session import output_hidden
    from kafkaraw.pipelines.specification import find_specification
    from kafkaraw.pipelines.testing.yaml_tests import TESTS_FOLDER, read_tests

    try:
        root = find_specification(place).parent
        tests = [each for each in read_tests(root) if selected is None or selected in each.name]
        if not tests:
            raise PipelineError(_none_found(root / TESTS_FOLDER, selected))
        with contextlib.nullcontext() if verbose else output_hidden() as shown:
            failed = _run(place, tests, cast("IO[str] | None", shown), broker=broker)
    except PipelineError as error:
        click.echo(f"Error: {error}", err=True)
        raise click.exceptions.Exit(2) from error
    click.echo(f"{len(tests) - failed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def _run(place: Path, tests: list[YamlTest], shown: IO[str] | None, *, broker: bool) -> int:
    """Run tests, and show their outcomes; return how many have failed."""
    from kafkaraw.pipelines.testing import FlowFailedError, load, session
    from kafkaraw.pipelines.testing.yaml_tests import run_test

    spark = session()
    pipeline = load(place, spark)
    failed = 0
    for each in tests:
        started = time.monotonic()
        try:
            differences = run_test(each, pipeline, spark, broker=broker)
        except FlowFailedError as error:
            differences = str(error)
        failed += differences is not None
        word = "passed" if differences is None else "FAILED"
        click.echo(f"{word} {each.location} {each.name} ({time.monotonic() - started:.1f} s)", file=shown)
        if differences is not None:
            click.echo("\n".join(f"    {line}" for line in differences.splitlines()), file=shown)
    return failed


def _none_found(folder: Path, selected: str | None) -> str:
    if selected is not None:
        return f"no test in {folder} has {selected!r} in its name"
    return f"no tests in {folder}: write the first one in tests/first.yml (docs/pipelines/testing.md)"

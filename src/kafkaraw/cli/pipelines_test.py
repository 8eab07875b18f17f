"""`kafkaraw pipelines test`: run the tests of a pipeline that are written in YAML."""

from __future__ import annotations

import time
from pathlib import Path

import click


@click.command("test")
@click.argument("directory", type=click.Path(exists=True, path_type=Path), default=Path("."))
@click.option("-k", "--select", "selected", metavar="TEXT", help="Run only tests whose names contain this.")
@click.option("--broker", is_flag=True, help="Keep the topics in an embedded broker instead of files.")
def test(directory: Path, selected: str | None, broker: bool) -> None:
    """Run the tests in tests/*.yml of a pipeline, without Kafka.

    The exit code is 0 if all tests pass, 1 if one fails, and 2 if a definition or a test is wrong.
    """
    from kafkaraw.pipelines.model import PipelineError
    from kafkaraw.pipelines.specification import find_specification
    from kafkaraw.pipelines.testing import FlowFailedError, load, session
    from kafkaraw.pipelines.testing.yaml_tests import TESTS_FOLDER, read_tests, run_test

    try:
        root = find_specification(directory).parent
        tests = [each for each in read_tests(root) if selected is None or selected in each.name]
        if not tests:
            raise PipelineError(_none_found(root / TESTS_FOLDER, selected))
        spark = session()
        pipeline = load(directory, spark)
        failed = 0
        for each in tests:
            started = time.monotonic()
            try:
                differences = run_test(each, pipeline, spark, broker=broker)
            except FlowFailedError as error:
                differences = str(error)
            failed += differences is not None
            word = "passed" if differences is None else "FAILED"
            click.echo(f"{word} {each.location} {each.name} ({time.monotonic() - started:.1f} s)")
            if differences is not None:
                click.echo("\n".join(f"    {line}" for line in differences.splitlines()))
    except PipelineError as error:
        click.echo(f"Error: {error}", err=True)
        raise click.exceptions.Exit(2) from error
    click.echo(f"{len(tests) - failed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def _none_found(folder: Path, selected: str | None) -> str:
    if selected is not None:
        return f"no test in {folder} has {selected!r} in its name"
    return f"no tests in {folder}: write the first one in tests/first.yml (docs/pipelines/testing.md)"

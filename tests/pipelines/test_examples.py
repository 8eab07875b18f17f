"""The examples: their own tests in YAML, and small runs of the whole with a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from _pytest.mark import ParameterSet

from examples import __main__ as all_examples
from examples.flights.__main__ import run as flights
from examples.harness import SETTINGS, place_of
from examples.messaging.__main__ import run as messaging
from examples.metrics.__main__ import run as metrics
from kafkaraw.demo.pipeline_run import DEFINITION as FLIGHTS
from kafkaraw.pipelines.testing import load
from kafkaraw.pipelines.testing.yaml_tests import read_tests, run_test
from tests.simulation.seeds import FIRST

EXAMPLES = Path(__file__).parents[2] / "examples"


PER_COMMIT = 2


def yaml_tests() -> Iterator[ParameterSet]:
    """All tests; `make test` has `PER_COMMIT` of different examples, others with each commit: they take seconds."""
    folders = (FLIGHTS, *sorted(each.parent for each in EXAMPLES.glob("*/spark-pipeline.yml")))
    commit = FIRST // 1000
    chosen = {(commit + number) % len(folders) for number in range(PER_COMMIT)}
    for place, folder in enumerate(folders):
        found = read_tests(folder)
        for number, test in enumerate(found):
            is_chosen = place in chosen and number == commit // len(folders) % len(found)
            marks = () if is_chosen else (pytest.mark.soak,)
            yield pytest.param(folder, test, id=f"{_example(folder)}: {test.name}", marks=marks)


def _example(folder: Path) -> str:
    return "flights" if folder == FLIGHTS else folder.name


@pytest.mark.parametrize(("folder", "test"), list(yaml_tests()))
def test_the_tests_of_an_example_pass(folder, test, spark):
    assert run_test(test, load(folder, spark), spark) is None


@pytest.mark.parametrize(("exit_code", "outcome"), [(0, "as expected"), (1, "FAILED with exit code 1")])
def test_all_examples_are_run_and_one_that_cannot_be_is_named(exit_code, outcome, monkeypatch, capsys):
    monkeypatch.setattr(all_examples, "missing", lambda name: "no browser" if name == "activity" else None)
    commands = []

    def run(command, check):
        commands.append(command[2:])
        return SimpleNamespace(returncode=exit_code)

    monkeypatch.setattr("subprocess.run", run)
    assert all_examples.main(["--size", "small"]) == 1
    others = [name for name in all_examples.EXAMPLES if name != "activity"]
    assert commands == [[f"examples.{name}", "--size", "small"] for name in others]
    summary = capsys.readouterr().out.partition("== all")[2]
    assert summary.count(outcome) == len(others)
    assert "activity    not run: no browser" in summary


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_tables_rebuilt_from_changes_are_those_of_the_database(spark, tmp_path):
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    from examples.commit_log.__main__ import run
    from examples.postgres import find_programs

    if find_programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with place_of(EXAMPLES / "commit_log", tmp_path, print) as place:
        assert run(place, spark, "small").startswith("<svg")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_sessions_of_a_browser_are_those_of_plain_python(spark, tmp_path):
    from examples.activity.__main__ import run
    from examples.activity.site import find_browser

    if find_browser() is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    with place_of(EXAMPLES / "activity", tmp_path, print) as place:
        assert run(place, spark, "small").startswith("<svg")


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", [flights, messaging, metrics], ids=["flights", "messaging", "metrics"])
def test_the_result_of_a_small_run_is_that_of_plain_python(run, spark, tmp_path):
    definition = FLIGHTS if run is flights else EXAMPLES / run.__module__.split(".")[1]
    for name, value in SETTINGS.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    with place_of(definition, tmp_path, print) as place:
        assert run(place, spark, "small").startswith("<svg")

"""Tests of a pipeline that are written in YAML: files `tests/*.yml` beside its specification.

    - test: a negative amount is a dead letter
      topics:
        orders:
          - {id: 1, amount: 3.5}
          - {id: 2, amount: -1}
          - not JSON
      expect:
        clean:
          - {id: 1, amount: 3.5}
      dead letters:
        - {reason: decode, value: not JSON}
        - {reason: expectation, expectation: amount is positive}

docs/pipelines/testing.md has all fields. Start at `read_tests` and `run_test`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.model import DatasetKind, Location, Pipeline, PipelineError, did_you_mean
from kafkaraw.pipelines.testing.given import EPOCH, Record
from kafkaraw.pipelines.testing.pipeline_test import PipelineTest, time_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS_FOLDER: Final = "tests"
_STEP: Final = ("topics", "rows", "watermark", "crash", "expect", "dead letters", "counts", "late rows")
_RECORD: Final = ("value", "key", "headers", "timestamp", "partition")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class YamlTest:
    """One test.

    Args:
        name: what it says.
        location: in its file.
        steps: what is given and expected, one after another.
    """

    name: str
    location: Location
    steps: tuple[Fields, ...]

    def datasets(self, pipeline: Pipeline) -> tuple[str, ...]:
        """Return the datasets whose flows have to run; none for all flows.

        Raises:
            PipelineError: the pipeline has no dataset of a name.
        """
        names = [
            name for step in self.steps for field in ("expect", "counts", "late rows") for name in step.get(field, ())
        ]
        found = [_dataset(pipeline, name, self.location) for name in dict.fromkeys(names)]
        if any(pipeline.dataset(name).kind is DatasetKind.TEMPORARY_VIEW for name in found):
            return ()  # a view is counted in the flows that read it
        return tuple(found)


def _dataset(pipeline: Pipeline, name: str, location: Location) -> str:
    try:
        return pipeline.dataset(name).name
    except PipelineError as error:
        raise PipelineError(error.what, location=location) from error


def read_tests(root: Path) -> tuple[YamlTest, ...]:
    """Return the tests of a pipeline.

    Args:
        root: the folder of its specification.

    Raises:
        PipelineError: a file is no list of tests; with file and line.
    """
    folder = root / TESTS_FOLDER
    files = sorted(each for each in folder.glob("**/*") if each.suffix in (".yml", ".yaml"))
    return tuple(test for file in files for test in _tests_of(file, root))


def _tests_of(file: Path, root: Path) -> Iterator[YamlTest]:
    import yaml

    name = str(file.relative_to(root))
    text = file.read_text(encoding="utf-8")
    try:
        node, tests = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise PipelineError(f"is no YAML: {error.problem}", location=Location(name, line)) from error
    if tests is None:
        return
    if not isinstance(tests, list):
        raise PipelineError("must be a list of tests: begin with `- test: NAME`", location=Location(name, 1))
    assert isinstance(node, yaml.SequenceNode)
    for each, fields in zip(node.value, tests, strict=True):
        yield _test(fields, Location(name, each.start_mark.line + 1))


def _test(fields: object, location: Location) -> YamlTest:
    if not isinstance(fields, dict) or not isinstance(fields.get("test"), str):
        raise PipelineError("a test is a mapping with its name in `test`", location=location)
    own = {name: value for name, value in fields.items() if name != "test"}
    steps = own.pop("steps", None)
    if steps is None:
        steps, own = [own], {}
    if own or not isinstance(steps, list):
        raise PipelineError("a test has `steps` (a list), or the fields of its only step", location=location)
    for step in steps:
        _check_step(step, location)
    return YamlTest(fields["test"], location, tuple(steps))


def _check_step(step: object, location: Location) -> None:
    if not isinstance(step, dict):
        raise PipelineError(f"a step is a mapping, not {step!r}", location=location)
    for name, value in step.items():
        if name not in _STEP:
            hint = did_you_mean(str(name), _STEP) or f": a step has {', '.join(_STEP)}"
            raise PipelineError(f"unknown field {name!r}{hint}", location=location)
        if name in ("topics", "rows", "expect", "counts", "late rows") and not isinstance(value, dict):
            raise PipelineError(f"{name!r} must be a mapping by name, not {value!r}", location=location)
        if name in ("topics", "rows", "expect"):
            for dataset, rows in value.items():
                if not isinstance(rows, list):
                    raise PipelineError(f"{name} of {dataset!r} must be a list, not {rows!r}", location=location)


def run_test(test: YamlTest, pipeline: Pipeline, spark: SparkSession, *, broker: bool = False) -> str | None:
    """Run a test; return its differences as text, or None if there are none.

    Raises:
        KafkaError: a flow failed, or the test is wrong.
    """
    datasets = test.datasets(pipeline)
    with PipelineTest(pipeline, spark, broker=broker) as under_test:
        for number, step in enumerate(test.steps, start=1):
            try:
                _run_step(step, under_test, datasets, test.location)
            except AssertionError as error:
                return str(error) if len(test.steps) == 1 else f"step {number}: {error}"
    return None


def _run_step(step: Fields, test: PipelineTest, datasets: tuple[str, ...], location: Location) -> None:
    for dataset, rows in step.get("rows", {}).items():
        test.give(dataset, *rows)
    for topic, values in step.get("topics", {}).items():
        test.send(topic, *(_record(each, location) for each in values))
    if "watermark" in step:
        test.advance_watermark(step["watermark"])
    if step.get("crash"):
        test.crash()
    test.run(*datasets)
    for dataset, rows in step.get("expect", {}).items():
        test.expect(dataset, rows)
    if "dead letters" in step:
        test.expect_dead_letters(step["dead letters"] or [])
    for dataset, counts in step.get("counts", {}).items():
        test.expect_counts(dataset, counts)
    for dataset, number in step.get("late rows", {}).items():
        late = test.late_rows(dataset)
        if late != number:
            raise AssertionError(f"{dataset}: {number} late rows expected, got {late}")


def _record(value: object, location: Location) -> object:
    """Return what a test gives as a record: a mapping whose only field is `record` has more than the value."""
    if not isinstance(value, dict) or list(value) != ["record"]:
        return value
    fields = value["record"]
    unknown = [name for name in fields if name not in _RECORD]
    if unknown:
        raise PipelineError(f"unknown field {unknown[0]!r} of a record: it has {', '.join(_RECORD)}", location=location)
    try:
        timestamp = time_of(fields.get("timestamp", EPOCH))
    except UsageError as error:
        raise PipelineError(str(error), location=location) from error
    headers = tuple((str(name), each) for name, each in (fields.get("headers") or {}).items())
    return Record(fields.get("value"), fields.get("key"), headers, timestamp, fields.get("partition", 0))

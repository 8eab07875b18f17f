"""Tests of pipelines in YAML: what they may say, and `kafkaraw pipelines test`."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from kafkaraw.cli.pipelines_test import test as command
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.model import PipelineError
from kafkaraw.pipelines.specification import read_specification
from kafkaraw.pipelines.testing import yaml_tests
from kafkaraw.pipelines.testing.yaml_tests import read_tests, run_test
from tests.pipelines.testing.test_pipeline_test import folder as folder  # the fixture

PASSING = """
- test: bad records are dead letters
  topics:
    orders:
      - {id: 1, customer: a, amount: 3.5, at: 2026-01-01T10:00:00Z}
      - record: {value: {id: 2, customer: a, amount: -1}, key: k, headers: {trace: "1"}}
      - not JSON
      - !!binary /w==
  expect:
    clean:
      - {id: 1, customer: a, amount: 3.5, at: 2026-01-01 10:00}
  dead letters:
    - {dataset: orders, reason: expectation, expectation: amount is positive, key: k}
    - {dataset: orders, reason: decode, value: not JSON}
    - {dataset: orders, reason: decode, value: !!binary /w==}
  counts:
    clean: {rows: 1, dropped: 0, unmet: {has a customer: 0}}
- test: an hour ends when the watermark has passed it
  steps:
    - rows:
        clean: [{id: 1, at: 2026-01-01T10:00:00Z}, {id: 2, at: 2026-01-01T10:30:00Z}]
      expect: {hours: []}
    - watermark: 2026-01-01 11:00
      crash: true
      expect: {hours: [{start: 2026-01-01 10:00, orders: 2}]}
    - rows:
        clean: [{id: 3, at: 2026-01-01T10:00:00Z}]
      late rows: {hours: 1}
"""
FAILING = """
- test: this one is wrong
  topics: {orders: [{id: 1, customer: a, amount: 3.5}]}
  expect: {clean: [{id: 1, amount: 4}]}
"""


def write(folder, text):
    (folder / "tests").mkdir(exist_ok=True)
    for file in (folder / "tests").iterdir():
        file.unlink()
    (folder / "tests" / "shop.yml").write_text(text)


def test_tests_in_yaml_pass_and_fail(folder, spark):
    write(folder, PASSING + FAILING)
    pipeline = load_pipeline(read_specification(folder), spark)
    *passing, failing = read_tests(folder)
    assert [run_test(each, pipeline, spark) for each in passing] == [None, None]
    text = run_test(failing, pipeline, spark)
    assert "4 expected, got 3.5" in text
    assert str(failing.location) == "tests/shop.yml:30"


def test_the_command_prints_differences_and_ends_with_1(folder, spark, monkeypatch, capfd):
    def session():
        os.write(2, b"WARN of Spark\n")
        return spark

    write(folder, FAILING)
    monkeypatch.setattr("kafkaraw.pipelines.testing.session", session)
    result = CliRunner().invoke(command, [str(folder)])
    shown = capfd.readouterr()
    assert (result.exit_code, shown.err) == (1, "")
    assert "FAILED tests/shop.yml:2 this one is wrong" in shown.out
    assert "4 expected, got 3.5" in shown.out
    assert "0 passed, 1 failed" in result.output
    CliRunner().invoke(command, [str(folder), "--verbose"])
    assert capfd.readouterr().err == "WARN of Spark\n"


def test_without_tests_the_command_says_where_to_write_one(folder):
    write(folder, PASSING)
    result = CliRunner().invoke(command, [str(folder), "-k", "no such name"])
    assert result.exit_code == 2
    assert "has 'no such name' in its name" in result.output
    write(folder, "")
    result = CliRunner().invoke(command, [str(folder)])
    assert result.exit_code == 2
    assert "write the first one in tests/first.yml" in result.output


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1", "tests/shop.yml:1: must be a list of tests"),
        ("- [1]", "tests/shop.yml:1: a test is a mapping with its name in `test`"),
        ("- test: x\n  expcet: {}", "tests/shop.yml:1: unknown field 'expcet'; did you mean 'expect'?"),
        ("- test: x\n  expect: [1]", "'expect' must be a mapping by name"),
        ("- test: x\n  topics: {orders: 1}", "topics of 'orders' must be a list"),
        ("- test: x\n  steps: 1", "a test has `steps`"),
        ("- test: x\n  steps: []\n  crash: true", "a test has `steps`"),
        ("- test: x\n  y: [", "tests/shop.yml:2: is no YAML"),
        ("- test: x\n  steps: [1]", "a step is a mapping, not 1"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_line(tmp_path, text, error):
    write(tmp_path, text)
    with pytest.raises(PipelineError) as caught:
        read_tests(tmp_path)
    assert error in str(caught.value)


def test_an_unknown_dataset_or_field_of_a_record_is_an_error_with_its_line(folder, spark):
    write(folder, "- test: x\n  expect: {claen: []}\n- test: y\n  topics: {orders: [{record: {vlaue: 1}}]}")
    pipeline = load_pipeline(read_specification(folder), spark)
    first, second = read_tests(folder)
    with pytest.raises(PipelineError, match=r"tests/shop.yml:1: .*did you mean 'clean'"):
        run_test(first, pipeline, spark)
    with pytest.raises(PipelineError, match=r"tests/shop.yml:3: unknown field 'vlaue' of a record"):
        run_test(second, pipeline, spark)


def test_a_folder_without_tests_has_none(tmp_path):
    assert yaml_tests.read_tests(tmp_path) == ()

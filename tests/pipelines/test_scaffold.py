"""`kafkaraw pipelines init`: all files or none, and a pipeline whose tests pass."""

from __future__ import annotations

import os

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.scaffold import write_pipeline
from kafkaraw.pipelines.specification import read_specification
from kafkaraw.pipelines.testing.yaml_tests import read_tests, run_test


def test_pipeline_has_the_name_of_its_folder_and_the_brokers(tmp_path):
    files = write_pipeline(tmp_path / "web" / "shop", "a:1,b:2")
    assert [str(each) for each in files] == [
        "spark-pipeline.yml",
        "transformations/orders.py",
        "tests/orders.yml",
        "sample-orders.jsonl",
        ".gitignore",
    ]
    specification = read_specification(tmp_path / "web" / "shop")
    assert specification.name == "shop"
    assert specification.settings.kafka == {"kafka.bootstrap.servers": "a:1,b:2"}
    assert 'kp.topic("shop.orders"' in (tmp_path / "web/shop/transformations/orders.py").read_text()
    assert os.listdir(tmp_path / "web") == ["shop"]


def test_empty_folder_may_exist_and_another_one_is_left_alone(tmp_path):
    (tmp_path / "empty").mkdir()
    write_pipeline(tmp_path / "empty", "a:1")
    with pytest.raises(ConfigError, match=r"empty exists and is not empty: choose another name"):
        write_pipeline(tmp_path / "empty", "b:1")
    assert "a:1" in (tmp_path / "empty/spark-pipeline.yml").read_text()


@pytest.mark.parametrize(
    ("name", "servers", "message"),
    [
        ("my shop", "a:1", "'my shop' is no name for a pipeline"),
        ("..", "a:1", "is no name for a pipeline|exists and is not empty"),
        ("shop", "localhost", "--bootstrap-server 'localhost': must be HOST:PORT"),
    ],
)
def test_wrong_name_or_server_writes_nothing(tmp_path, name, servers, message):
    (tmp_path / "work").mkdir()
    with pytest.raises(ConfigError, match=message):
        write_pipeline(tmp_path / "work" / name, servers)
    assert os.listdir(tmp_path / "work") == []


def test_files_that_cannot_be_written_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.rename", lambda self, target: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_pipeline(tmp_path / "shop", "a:1")
    assert os.listdir(tmp_path) == []


def test_tests_of_a_new_pipeline_pass(tmp_path, spark):
    write_pipeline(tmp_path / "shop", "localhost:9092")
    pipeline = load_pipeline(read_specification(tmp_path / "shop"), spark)
    assert [each.name for each in planned(pipeline, spark).flows] == ["clean", "revenue", "customers"]
    tests = read_tests(tmp_path / "shop")
    assert [run_test(each, pipeline, spark) for each in tests] == [None, None]

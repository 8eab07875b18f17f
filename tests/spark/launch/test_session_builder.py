"""The session that the package recommends."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest

from kafkaraw.spark import prepare_session, recommended_conf
from kafkaraw.spark.launch.session_builder import lookup_fails


def test_the_recommended_settings_are_in_force(spark):
    for name, value in recommended_conf().items():
        assert spark.conf.get(name) == value


def test_settings_of_the_user_win(spark):
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    # A program of a guide that ran in this process before has asked for a session with other ones.
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.appName == "kafkaraw tests"


def test_workers_run_this_interpreter_and_import_compiled_code(spark):
    def look(_):
        import pyspark

        return [(sys.executable, pyspark.__file__)]

    [(executable, pyspark_file)] = spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect()
    assert executable == sys.executable
    assert ".zip" not in pyspark_file


@pytest.mark.skipif(sys.platform != "linux", reason="the fork server runs on Linux only")
def test_workers_are_forked_from_a_process_that_has_imported_what_they_need(spark):
    def look(_):
        return ["kafkaraw.spark.reading.stream_plan" in sys.modules]

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect() == [True]


def test_object_stores_keep_sparks_own_checkpoint_writer():
    name = "spark.sql.streaming.checkpointFileManagerClass"
    assert name in recommended_conf()
    assert name not in recommended_conf(checkpoints_local=False)


def test_importing_the_package_imports_neither_pyspark_nor_pyarrow():
    code = (
        "import sys, kafkaraw.spark; print([m for m in sys.modules if m.partition('.')[0] in ('pyspark', 'pyarrow')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_the_module_that_spark_looks_for_is_there_and_never_raises():
    code = (
        "import sys; sys.modules['kafkaraw.spark.source'] = None; import pyspark_kafkaraw as found; "
        "print(hasattr(found, 'DefaultSource'))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"


AFTERWARDS = """
import json, os
from pyspark.sql import SparkSession
from kafkaraw.spark import recommended_conf, session

before = dict(os.environ)
first = session("first", master="local[1]", conf={"spark.sql.shuffle.partitions": "7"})
assert first.conf.get("spark.sql.shuffle.partitions") == "7"
python = first.sparkContext.pythonExec
assert "scripts" in python, python
first.stop()
changed = {name for name in before.keys() | os.environ.keys() if before.get(name) != os.environ.get(name)}
plain = SparkSession.builder.getOrCreate()
kept = dict(plain.sparkContext.getConf().getAll())
print(json.dumps([
    sorted(name for name in changed if name.startswith(("PYSPARK_PYTHON", "KAFKARAW", "JAVA"))),
    sorted(name for name in [*recommended_conf(), "spark.sql.shuffle.partitions"] if name in kept),
    python == plain.sparkContext.pythonExec,
]))
plain.stop()
"""


def test_a_plain_session_in_the_same_process_inherits_neither_settings_nor_environment():
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", AFTERWARDS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["[[], [], false]"], done.stderr


def test_lookup_fails_where_python_cannot_list_an_archive_after_its_caches_are_invalidated(tmp_path, monkeypatch):
    archive = tmp_path / "jar.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("pyspark_found.py", "")
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])  # last: a search that fails before it fills its cache
    pkgutil.get_importer(str(archive))
    importlib.invalidate_caches()
    try:
        listed = [each.name for each in pkgutil.iter_modules([str(archive)])]
    except KeyError:
        listed = []
    assert lookup_fails() == (listed != ["pyspark_found"])


def test_where_the_lookup_fails_the_session_registers_the_format(monkeypatch):
    registered = []
    monkeypatch.setattr("kafkaraw.spark.launch.session_builder.lookup_fails", lambda: True)
    monkeypatch.setattr("kafkaraw.spark.launch.session_builder.share_session", lambda spark: None)
    prepare_session(SimpleNamespace(dataSource=SimpleNamespace(register=registered.append)))
    databases, tables = ("postgresql", "sqlite", "duckdb"), ("delta", "iceberg")
    assert {each.name() for each in registered} == {"kafkaraw", *(f"kafkaraw.{each}" for each in databases + tables)}

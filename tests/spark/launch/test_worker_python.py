"""The Python that Spark's processes run on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from kafkaraw.spark.launch import worker_python


def run(path: str, *arguments: str) -> list[str]:
    """What a process started like Spark's sees: its PYTHONPATH and arguments."""
    code = "import json, os, sys; print(json.dumps([os.environ['PYTHONPATH'], *sys.argv[1:]]))"
    command = [worker_python.worker_python(), "-c", code, *arguments]
    shown = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True).stdout
    return json.loads(shown)


def test_sparks_zips_are_taken_off_the_path_and_nothing_else():
    zips = ["/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9.9-src.zip"]
    others = ["/a folder/*", "/jobs/pyspark.zip", "/s/python/lib/mine.zip"]
    path = os.pathsep.join([zips[0], others[0], zips[1], *others[1:]])
    assert run(path) == [os.pathsep.join(others)]


def test_arguments_arrive_as_they_were_given():
    assert run("", "-m", "a b", "", "$HOME", "*") == ["", "-m", "a b", "", "$HOME", "*"]


def test_where_pyspark_is_not_an_installed_package_the_path_stays(monkeypatch):
    monkeypatch.setattr(worker_python, "_installed", lambda package: package != "pyspark")
    assert worker_python.worker_python.__wrapped__() == sys.executable


def test_the_script_does_not_lie_where_temporary_files_are_cleaned(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script = Path(worker_python.worker_python.__wrapped__())
    assert script.is_relative_to(tmp_path / "cache")
    assert worker_python.worker_python.__wrapped__() == str(script)
    shutil.rmtree(tmp_path / "cache")
    assert worker_python.worker_python.__wrapped__() == str(script)
    assert os.access(script, os.X_OK)


def test_where_the_cache_cannot_be_written_a_temporary_script_lives_as_long_as_the_process(tmp_path):
    (tmp_path / "file").touch()
    code = """
import os, sys
from kafkaraw.spark.launch.worker_python import worker_python
script = worker_python()
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(os.path.exists(script), script)
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert shown[0] == "True"
    assert not os.path.exists(shown[1])

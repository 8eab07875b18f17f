"""Executors whose Python cannot be used: the job ends with an error that names executor, file and setting.

Most cases are tested without a cluster: tests/spark/launch/test_packing.py and test_environment.py.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from kafkaraw.spark.launch.environment import executor_environment
from tests.spark.standalone import StandaloneCluster, conf_options, submit
from tests.spark.test_clusters import JOB

OTHER = """#!/bin/sh
exec {python} -c '
import collections, runpy, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version(3, 99, 0, "final", 0)
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)' "$@"
"""
"""A Python of another version, as Spark's workers find it out."""


def archive_with(path: Path, start_script: str) -> Path:
    """An archive that the driver accepts, with another start script."""
    about = next(it for it in executor_environment([], sys.executable).texts if it.target.endswith(".json"))
    with tarfile.open(path, "w:gz") as tar:
        for name, text in (("bin/python", start_script), (about.target, about.text)):
            entry = tarfile.TarInfo(name)
            content = text.encode()
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return path


def refused(workers: StandaloneCluster, kafka, folder: Path, *options: str) -> str:
    """Submit the job, which reads a topic; return what it prints when it fails."""
    topic = kafka.new_topic()
    kafka.produce(topic, range(3))
    arguments = (kafka.servers, topic, "unused", str(folder), "3")
    # Spark tries a task four times, each time for as long as its Python takes to fail.
    words = [*options, *conf_options({"spark.task.maxFailures": "1"})]
    done = submit(workers.url, JOB, *arguments, folder=folder, options=words)
    assert done.returncode != 0
    return done.stdout + done.stderr  # Spark's launcher prints all that the driver prints on standard output


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_archive_of_another_architecture_is_named_with_executor_and_setting(kafka, workers, tmp_path):
    script = next(it.text for it in executor_environment().texts if it.target == "bin/python")
    here = executor_environment([], sys.executable).machine
    archive = archive_with(tmp_path / "environment.tar.gz", script.replace(here, "Linux riscv64"))
    shown = refused(workers, kafka, tmp_path, "--archive", str(archive))
    for text in ("does not start", " on 127.0.0.1)", f"{archive}#", "PYSPARK_PYTHON is"):
        assert text in shown, shown[-6000:]
    assert "kafkaraw: the archive environment.tar.gz, unpacked at " in shown
    assert "it was packed on Linux riscv64, this host is " in shown


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_archive_with_another_version_of_python_is_named_with_executor_and_setting(kafka, workers, tmp_path):
    archive = archive_with(tmp_path / "environment.tar.gz", OTHER.format(python=sys.executable))
    shown = refused(workers, kafka, tmp_path, "--archive", str(archive))
    for text in (
        "3.99",
        "another Python than the driver",
        "(127.0.0.1 executor ",
        f"{archive}#",
    ):
        assert text in shown, shown[-6000:]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_executor_without_the_packages_is_named_with_the_setting(kafka, workers, tmp_path):
    """The name of the Python is valid on driver and workers, but the workers' Python has no packages.

    Spark's log names the executor, its error does not.
    """
    name = f"python3.{sys.version_info[1]}"
    if shutil.which(name, path="/usr/bin:/bin") is None:
        pytest.skip(f"the system has no {name}")
    shown = refused(workers, kafka, tmp_path, "--worker-python", name)
    for text in ("(127.0.0.1 executor ", "No module named 'pyarrow'", "lacks packages", "kafkaraw spark pack"):
        assert text in shown, shown[-6000:]

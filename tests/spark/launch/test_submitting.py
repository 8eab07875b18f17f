"""Submissions: what is refused before Spark starts, and the settings, environment and arguments of `spark-submit`."""

from __future__ import annotations

import dataclasses
import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw.cli import main
from kafkaraw.errors import ConfigError
from kafkaraw.spark.launch import submitting
from kafkaraw.spark.launch.executor_python import SharedPath
from kafkaraw.spark.launch.fork_server import SOCKET_VARIABLE
from kafkaraw.spark.launch.submitting import Submission, checked, plan, submit
from tests.spark.launch.test_packing import archive_of

SECRET = "Sesam-7"
SHARED = SharedPath("/a/environment.tar.gz#.kafkaraw-1", "./.kafkaraw-1/bin/python")


@pytest.fixture
def job(tmp_path) -> str:
    path = tmp_path / "job.py"
    path.write_text("print('done')")
    return str(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"master": "mesos://h:1"}, r"the master 'mesos://h:1' is none that Spark knows: give spark://HOST:PORT, yarn"),
        ({"master": "spark://h:1", "deploy_mode": "cluster"}, r"standalone clusters \(spark://h:1\).*client mode only"),
        ({"master": "local[2]", "deploy_mode": "cluster"}, r"local\[2\] has no cluster mode"),
        ({"master": "local-cluster[2,1,1024]", "deploy_mode": "cluster"}, "has no cluster mode"),
        ({"job": "none.py"}, r"the job none\.py does not exist"),
        (
            {"master": "spark://h:1"},
            r"executors of spark://h:1 need a Python with kafkaraw.*spark pack.*--worker-python",
        ),
        ({"archive": "a.tar.gz", "worker_python": "/p"}, "--archive or --worker-python, not both"),
        ({"archive": "a#b.tar.gz"}, "must not contain '#'"),
        ({"secrets": {"A-B": "x"}}, "--secret 'A-B': give the name of an environment variable"),
        ({"secrets": {"PASS": SECRET}, "arguments": (f"--password={SECRET}",)}, r'os\.environ\["PASS"\]'),
        (
            {"master": "k8s://h", "deploy_mode": "cluster", "worker_python": "/p", "secrets": {"PASS": SECRET}},
            r"spark\.kubernetes\.driver\.secretKeyRef\.PASS=SECRET:KEY",
        ),
    ],
)
def test_what_spark_cannot_run_is_refused_before_it_starts(job, changes, message):
    submission = dataclasses.replace(Submission(job), **changes)
    with pytest.raises(ConfigError, match=message) as caught:
        checked(submission)
    assert SECRET not in str(caught.value)


def test_driver_and_executors_start_python_by_the_same_path(job):
    planned = plan(Submission(job, master="spark://h:1"), SHARED)
    assert planned.conf["spark.archives"] == SHARED.archives
    assert planned.environment == {"PYSPARK_DRIVER_PYTHON": None, "PYSPARK_PYTHON": SHARED.python}
    assert planned.conf["spark.pyspark.python"] == SHARED.python
    assert planned.conf["spark.pyspark.driver.python"] == sys.executable
    assert planned.conf["spark.submit.deployMode"] == "client"


@pytest.mark.parametrize(
    ("master", "prefix"), [("yarn", "spark.yarn.appMasterEnv"), ("k8s://h", "spark.kubernetes.driverEnv")]
)
def test_driver_on_the_cluster_starts_the_python_of_the_archive(job, master, prefix):
    shared = SharedPath("hdfs:///e.tar.gz#environment", "./environment/bin/python")
    planned = plan(Submission(job, master=master, deploy_mode="cluster"), shared)
    assert planned.conf[f"{prefix}.PYSPARK_PYTHON"] == shared.python
    assert "spark.pyspark.driver.python" not in planned.conf


def test_settings_of_the_user_override_the_recommended_ones_and_add_archives(job):
    conf = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.archives": "model.zip#model"}
    planned = plan(Submission(job, master="yarn", conf=conf, py_files=("a.py",), name="n"), SHARED)
    assert planned.conf["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert planned.conf["spark.archives"] == f"model.zip#model,{SHARED.archives}"
    assert (planned.conf["spark.submit.pyFiles"], planned.conf["spark.app.name"]) == ("a.py", "n")
    assert "spark.ui.enabled" not in planned.conf


def test_secrets_go_through_the_environment_and_their_settings_are_redacted(job):
    submission = Submission(job, master="yarn", deploy_mode="cluster", secrets={"KAFKA_LOGIN": SECRET})
    planned = plan(submission, SHARED)
    assert planned.conf["spark.yarn.appMasterEnv.KAFKA_LOGIN"] == SECRET
    assert re.search(planned.conf["spark.redaction.regex"], "spark.yarn.appMasterEnv.KAFKA_LOGIN")
    assert SECRET not in repr(submission) + repr(planned)
    here = plan(dataclasses.replace(submission, deploy_mode="client"), SHARED)
    assert here.environment["KAFKA_LOGIN"] == SECRET
    assert SECRET not in here.conf.values()


def test_spark_submit_gets_a_file_that_only_this_user_can_read(job, tmp_path, monkeypatch):
    seen = {}

    def note(command, environment):
        [properties] = [word for word in command if word.endswith(".conf")]
        seen["command"], seen["environment"], seen["path"] = command, environment, Path(properties)
        seen["mode"], seen["text"] = stat.S_IMODE(Path(properties).stat().st_mode), Path(properties).read_text()
        return 3

    monkeypatch.setattr(submitting, "_run", note)
    monkeypatch.setattr(submitting, "start_fork_server", lambda: Path("/fork/socket"))
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "elsewhere")
    monkeypatch.chdir(tmp_path)
    archive_of(tmp_path / "a.tar.gz")
    value = "a=b:c #é😀 \\n"
    given = Submission(job, ("x", "--y"), "spark://h:1", archive="a.tar.gz", conf={"spark.x": value})
    assert submit(given) == 3
    assert seen["command"][1] == "--properties-file"
    assert seen["command"][3:] == [job, "x", "--y"]
    assert seen["mode"] == 0o600
    assert not seen["path"].exists()
    assert "PYSPARK_DRIVER_PYTHON" not in seen["environment"]
    assert seen["environment"][SOCKET_VARIABLE] == "/fork/socket"
    line = next(line for line in seen["text"].splitlines() if line.startswith("spark.x="))
    assert json.loads(f'"{line.partition("=")[2]}"') == value  # the escapes of Java are those of JSON


def test_command_reads_secrets_from_environment_and_files_and_never_shows_them(job, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr("kafkaraw.spark.launch.submitting.submit", lambda submission: given.append(submission) or 5)
    monkeypatch.setenv("FROM_ENVIRONMENT", "one")
    (tmp_path / "two").write_text("two\n")
    (tmp_path / "conf").write_text("spark.ssl.keyPassword=three\nspark.a=1\n")
    options = ["--master", "yarn", "--worker-python", "/p", "--secret", "FROM_ENVIRONMENT"]
    options += ["--secret", f"FROM_FILE={tmp_path}/two", "--conf-file", f"{tmp_path}/conf", "--conf", "spark.a=2"]
    result = CliRunner().invoke(main, ["spark", "submit", *options, job, "--master", "of the job"])
    assert result.exit_code == 5, result.output
    [submission] = given
    assert submission.secrets == {"FROM_ENVIRONMENT": "one", "FROM_FILE": "two"}
    assert submission.conf == {"spark.ssl.keyPassword": "three", "spark.a": "2"}
    assert submission.arguments == ("--master", "of the job")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--secret", "UNSET_VARIABLE"], "the environment has no such variable"),
        (["--secret", f"NAME={SECRET}"], "--secret NAME=FILE: the file cannot be read"),
        (["--conf", f"spark.authenticate.secret={SECRET}"], "--conf spark.authenticate.secret: every user"),
        (["--conf", f"spark.hadoop.fs.s3a.access.key={SECRET}"], "give it with --conf-file"),
    ],
)
def test_secret_that_would_be_shown_or_is_missing_is_refused(job, options, message):
    result = CliRunner().invoke(main, ["spark", "submit", "--master", "local[1]", *options, job])
    assert result.exit_code == 2
    flat = " ".join(result.output.split())
    assert message in flat
    assert SECRET not in flat


def test_exit_code_is_that_of_spark_submit(tmp_path):
    assert submitting._run([sys.executable, "-c", "raise SystemExit(7)"], {}) == 7
    assert submitting._run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], {}) == 137
    assert subprocess.run(["true"], check=True).returncode == 0

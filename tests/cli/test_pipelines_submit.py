"""`kafkaraw pipelines submit`: the driver that it starts here, and the job that it sends to a cluster."""

from __future__ import annotations

import tarfile

import pytest
from click.testing import CliRunner

from kafkaraw.cli import main

SPECIFICATION = "name: shop\nstorage: {storage}\nlibraries:\n  - glob: {{include: transformations/**}}\n"


@pytest.fixture
def pipeline(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "shop/transformations").mkdir(parents=True)
    (tmp_path / "shop/transformations/orders.py").write_text("X = 1\n")
    (tmp_path / "shop/spark-pipeline.yml").write_text(SPECIFICATION.format(storage=tmp_path / "shared"))
    return tmp_path / "shop"


def test_client_mode_runs_the_pipeline_here_with_the_settings_of_the_submission(pipeline, monkeypatch):
    started = []
    monkeypatch.setattr(
        "kafkaraw.spark.launch.submitting.run_driver", lambda given, command: started.append((given, command)) or 143
    )
    options = ["--master", "spark://h:1", "--worker-python", "/opt/python", "--once", "--select", "orders"]
    result = CliRunner().invoke(main, ["pipelines", "submit", str(pipeline), *options])
    assert result.exit_code == 143, result.output
    [(submission, command)] = started
    assert (submission.job, submission.master, submission.worker_python) == (None, "spark://h:1", "/opt/python")
    assert command[1:6] == ["-m", "kafkaraw", "pipelines", "run", str(pipeline)]
    assert command[6:9] == ["--master", "spark://h:1", "--once"]
    assert command[-2:] == ["--select", "orders"]


def test_cluster_mode_sends_the_folder_of_the_pipeline(pipeline, monkeypatch):
    sent = []

    def note(submission):
        [archive] = submission.more_archives
        path, _, name = archive.partition("#")
        with tarfile.open(path) as tar:
            sent.append((submission, name, {each.removeprefix("./") for each in tar.getnames()}))
        return 0

    monkeypatch.setattr("kafkaraw.spark.launch.submitting.submit", note)
    options = ["--master", "yarn", "--deploy-mode", "cluster", "--worker-python", "/opt/python"]
    result = CliRunner().invoke(main, ["pipelines", "submit", str(pipeline), *options])
    assert result.exit_code == 0, result.output
    [(submission, name, names)] = sent
    assert name == submission.arguments[0] == "pipeline"
    assert submission.job.endswith("pipelines_submit.py")
    assert {"spark-pipeline.yml", "transformations/orders.py"} <= names


@pytest.mark.parametrize("storage", ["storage", "hdfs:///pipelines/shop"])
def test_cluster_mode_refuses_a_storage_that_the_cluster_does_not_reach(pipeline, storage):
    (pipeline / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=storage))
    options = ["--master", "yarn", "--deploy-mode", "cluster", "--worker-python", "/opt/python"]
    result = CliRunner().invoke(main, ["pipelines", "submit", str(pipeline), *options])
    assert result.exit_code == 2
    assert "cannot be reached from the cluster" in " ".join(result.output.split())
    assert "give the absolute path of a folder outside of the pipeline's" in " ".join(result.output.split())

"""`kafkaraw pipelines submit`: `run` on a cluster, with an archive for its executors.

In cluster mode this file is also the job: Spark runs it there, and it runs the unpacked folder of the pipeline.
"""

from __future__ import annotations

import dataclasses
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.pipelines_options import place_argument
from kafkaraw.cli.spark_submit import SubmitOptions, submission, submit_options
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from kafkaraw.pipelines.specification import Specification

_FOLDER: Final = "pipeline"
"""The name of the unpacked pipeline in the working directory of a driver on the cluster."""


class _PipelineOptions(SubmitOptions):
    once: bool
    select: tuple[str, ...]
    full_refresh: tuple[str, ...]


@click.command()
@place_argument
@submit_options
@click.option("--once/--continuous", help="Read what is there, and end; or go on until stopped.  [default: continuous]")
@click.option("--select", multiple=True, metavar="NAME", help="As of `kafkaraw pipelines run`; repeatable.")
@click.option("--full-refresh", multiple=True, metavar="TABLE", help="As of `kafkaraw pipelines run`; repeatable.")
@click.pass_context
def submit(ctx: click.Context, place: Path, **options: Unpack[_PipelineOptions]) -> None:
    """Run a pipeline on a Spark cluster, with an archive for its executors.

    In client mode the driver is `kafkaraw pipelines run` on this machine, with its output, signals and exit codes. In
    cluster mode the folder of the pipeline is sent along, and its storage must be the absolute path of a file system
    that is mounted on all machines.
    Values of the specification such as ${env:PASSWORD} come from --secret PASSWORD.
    """
    from kafkaraw.pipelines.specification import read_specification
    from kafkaraw.spark.launch.submitting import CLUSTER, run_driver
    from kafkaraw.spark.launch.submitting import submit as run

    arguments = _arguments(options)
    if options["deploy_mode"] == CLUSTER:
        with _packed(read_specification(place)) as packed:
            given = submission(__file__, (_FOLDER, *arguments), options)
            ctx.exit(run(dataclasses.replace(given, more_archives=(f"{packed}#{_FOLDER}",))))
    command = [sys.executable, "-m", "kafkaraw", "pipelines", "run", str(place), *arguments]
    ctx.exit(run_driver(submission(None, (), options), command))


def _arguments(options: _PipelineOptions) -> tuple[str, ...]:
    """Return the arguments of `kafkaraw pipelines run`, which sets Spark's master and keeps its user interface."""
    words = ["--master", options["master"], "--once" if options["once"] else "--continuous"]
    words += ["--conf", "spark.ui.enabled=true"]
    words += [word for name in options["select"] for word in ("--select", name)]
    words += [word for name in options["full_refresh"] for word in ("--full-refresh", name)]
    return tuple(words)


@contextmanager
def _packed(specification: Specification) -> Iterator[Path]:
    """Write the folder of a pipeline to an archive."""
    folder_of_pipeline = specification.path.parent.resolve()
    if "://" in specification.storage or Path(specification.storage).resolve().is_relative_to(folder_of_pipeline):
        raise ConfigError(
            f"storage: {specification.storage} cannot be reached from the cluster, where the driver and the executors "
            "run: give the absolute path of a folder outside of the pipeline's, in a file system that is mounted on "
            "all of their machines"
        )
    with tempfile.TemporaryDirectory(prefix="kafkaraw-pipeline-") as folder:
        archive = Path(folder, f"{_FOLDER}.tar.gz")
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(specification.path.parent, ".")
        yield archive


if __name__ == "__main__":
    from kafkaraw.cli import main

    main(["pipelines", "run", *sys.argv[1:]])

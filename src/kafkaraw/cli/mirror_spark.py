"""The options of `kafkaraw mirror run --master`: where Spark runs the tasks of a mirror.

The command starts itself again as Spark's driver (`start_driver`), so that the JVM has all settings before it starts,
and no setting is on a command line. The driver makes the session (`tasks_of`). Spark is loaded for these only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

import click

from kafkaraw.cli.pipelines_options import conf_option
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from kafkaraw.mirror.settings import MirrorFlow
    from kafkaraw.spark.mirroring import SparkTasks

ROUND_SECONDS: Final = 10.0
_ROUND_SECONDS_MIN: Final = 1.0

F = TypeVar("F", bound=Callable[..., object])


class SparkOptions(TypedDict):
    """The values of the options."""

    master: str | None
    tasks: int | None
    round_seconds: float
    archive: str | None
    worker_python: str | None
    conf: dict[str, str]
    conf_file: Path | None
    driver: bool


def spark_options(command: F) -> F:
    """Add the options to the command."""
    for option in reversed(
        (
            click.option(
                "--master",
                metavar="URL",
                help="Copy by tasks of Spark: spark://HOST:PORT, yarn, k8s://URL, local-cluster[W,C,MB] or local[C].",
            ),
            click.option(
                "--tasks",
                type=click.IntRange(min=1),
                help="Tasks of Spark that copy at once.  [default: cores of the executors]",
            ),
            click.option(
                "--round-seconds",
                type=click.FloatRange(min=_ROUND_SECONDS_MIN),
                default=ROUND_SECONDS,
                show_default=True,
                metavar="SECONDS",
                help="How long these tasks copy until they report to the driver.",
            ),
            click.option("--archive", metavar="FILE|URI", help="Environment for executors, of `kafkaraw spark pack`."),
            click.option("--worker-python", metavar="PATH", help="A Python of executors that have kafkaraw installed."),
            conf_option,
            click.option(
                "--conf-file",
                type=click.Path(path_type=Path, exists=True, dir_okay=False),
                help="Settings of Spark in a properties file; --conf overrides them.",
            ),
            click.option("--driver", is_flag=True, hidden=True),
        )
    ):
        command = option(command)
    return command


def check_options(options: SparkOptions) -> None:
    """Refuse options of Spark without `--master`.

    Raises:
        click.UsageError: there are some.
    """
    given = {
        "--tasks": options["tasks"],
        "--archive": options["archive"],
        "--worker-python": options["worker_python"],
        "--conf": options["conf"],
        "--conf-file": options["conf_file"],
    }
    without = [name for name, value in given.items() if value]
    if options["master"] is None and without:
        raise click.UsageError(f"{', '.join(without)}: only with --master, which has Spark copy")


def start_driver(options: SparkOptions, path: Path, arguments: Sequence[str]) -> int:
    """Run this command as Spark's driver in a process of its own; return its exit code.

    Args:
        options: as given.
        path: of the configuration.
        arguments: further ones of the command.

    Raises:
        click.UsageError: an option is wrong.
    """
    from kafkaraw.cli.spark_submit import submission
    from kafkaraw.spark.launch.submitting import run_driver

    assert options["master"] is not None
    words = ["--driver", "--master", options["master"], "--round-seconds", str(options["round_seconds"])]
    if options["tasks"] is not None:
        words += ["--tasks", str(options["tasks"])]
    command = [sys.executable, "-m", "kafkaraw", "mirror", "run", str(path), *words, *arguments]
    try:
        submitted = submission(
            None,
            (),
            {
                "master": options["master"],
                "deploy_mode": "client",
                "archive": options["archive"],
                "worker_python": options["worker_python"],
                "conf": _settings(options),
                "conf_file": options["conf_file"],
                "secret": (),
                "name": f"kafkaraw mirror {path.name}",
                "py_files": (),
            },
        )
        return run_driver(submitted, command)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _settings(options: SparkOptions) -> dict[str, str]:
    """Return the settings of `--conf`, with those that a mirror needs."""
    on_this_machine = str(options["master"]).startswith("local[")
    pages = {"spark.ui.enabled": "false"} if on_this_machine else {}
    # A second attempt of a task copies nothing, and would end the first one.
    return {**pages, **options["conf"], "spark.speculation": "false"}


@contextmanager
def tasks_of(options: SparkOptions, flows: Sequence[MirrorFlow]) -> Iterator[list[SparkTasks]]:
    """Make a session, which is stopped at the end; yield the tasks of each flow.

    Raises:
        ConfigError: there is no usable Java, or no usable Spark.
    """
    from kafkaraw.spark import session
    from kafkaraw.spark.mirroring import SparkTasks

    spark = session(master=options["master"])
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield [SparkTasks(spark, flow.name, options["tasks"], len(flows)) for flow in flows]
    finally:
        spark.stop()

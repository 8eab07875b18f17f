"""`kafkaraw spark submit`, and the options that `kafkaraw pipelines submit` shares with it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, Unpack

import click

from kafkaraw.cli.pipelines_options import conf_option
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from kafkaraw.spark.launch.submitting import Submission

_SECRET_SETTING: Final = re.compile(r"(?i)(password|secret|token|credentials?|(access|secret)[._-]?key)$")

F = TypeVar("F", bound=Callable[..., object])


class SubmitOptions(TypedDict):
    """The values of the shared options."""

    master: str
    deploy_mode: str
    archive: str | None
    worker_python: str | None
    conf: dict[str, str]
    conf_file: Path | None
    secret: tuple[str, ...]
    name: str | None
    py_files: tuple[str, ...]


def submit_options(command: F) -> F:
    """Add the options of a submission."""
    for option in reversed(
        (
            click.option(
                "--master", required=True, help="spark://HOST:PORT, yarn, k8s://URL, local-cluster[W,C,MB] or local[C]."
            ),
            click.option(
                "--deploy-mode",
                type=click.Choice(("client", "cluster")),
                default="client",
                show_default=True,
                help="Where the driver runs: here, or on the cluster.",
            ),
            click.option("--archive", metavar="FILE|URI", help="Environment for executors, of `kafkaraw spark pack`."),
            click.option("--worker-python", metavar="PATH", help="A Python of executors that have kafkaraw installed."),
            click.option("--name", help="Name of the application."),
            conf_option,
            click.option(
                "--conf-file",
                type=click.Path(path_type=Path, exists=True, dir_okay=False),
                help="Settings of Spark in a properties file; --conf overrides them.",
            ),
            click.option(
                "--secret",
                multiple=True,
                metavar="NAME[=FILE]",
                help="An environment variable for the driver, from this environment or a file; repeatable.",
            ),
            click.option(
                "--py-files", multiple=True, metavar="FILE", help="A .py, .zip or .egg for all processes; repeatable."
            ),
        )
    ):
        command = option(command)
    return command


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@submit_options
@click.argument("job", metavar="JOB.py")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS...]")
@click.pass_context
def submit(ctx: click.Context, job: str, arguments: tuple[str, ...], **options: Unpack[SubmitOptions]) -> None:
    """Run a Spark job in Python on a cluster, with an archive for its executors.

    The job makes its session with `kafkaraw.spark.session()` or `SparkSession.builder.getOrCreate()`. Executors unpack
    the archive and run its Python; settings and secrets go through files and the environment, so that no command line
    and no page of Spark shows them. The job reads a secret from os.environ.

    The exit code is that of spark-submit; 2 if an option is wrong.
    """
    from kafkaraw.spark.launch.submitting import submit as run

    try:
        code = run(submission(job, arguments, options))
    except ConfigError as error:
        raise click.UsageError(str(error), ctx) from error
    ctx.exit(code)


def submission(job: str | None, arguments: tuple[str, ...], options: SubmitOptions) -> Submission:
    """Return the submission that the options describe.

    Raises:
        ConfigError: a secret or a setting cannot be read.
    """
    from kafkaraw.spark.launch.submitting import Submission

    for setting in options["conf"]:
        if _SECRET_SETTING.search(setting) and "secretKeyRef" not in setting:
            raise ConfigError(
                f"--conf {setting}: every user of this machine can read the arguments of a process; put the setting "
                "into a file that only you can read, and give it with --conf-file"
            )
    conf = {**_settings_in(options["conf_file"]), **options["conf"]}
    return Submission(
        job,
        arguments,
        options["master"],
        options["deploy_mode"],
        options["archive"],
        options["worker_python"],
        conf,
        dict(_secret(each) for each in options["secret"]),
        options["name"],
        options["py_files"],
    )


def _settings_in(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    from kafkaraw.client.java_names import read_properties

    return read_properties(file)


def _secret(given: str) -> tuple[str, str]:
    name, from_file, file = given.partition("=")
    if not from_file:
        if name not in os.environ:
            raise ConfigError(f"--secret {name}: the environment has no such variable: set it, or give {name}=FILE")
        return name, os.environ[name]
    try:
        return name, Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        # The text behind = is not shown: it may be the secret itself.
        raise ConfigError(f"--secret {name}=FILE: the file cannot be read ({error.strerror})") from None

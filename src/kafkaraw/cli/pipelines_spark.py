"""`kafkaraw pipelines run` and `dry-run`: Spark's own command for pipelines, with format "kafkaraw"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])


def _common(command: F) -> F:
    options = (
        click.option(
            "--spec",
            type=click.Path(dir_okay=False, exists=True, path_type=Path),
            help="The spec of the pipeline.  [default: spark-pipeline.yml in this folder, or in the nearest parent]",
        ),
        click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of the Spark session; repeatable."),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Master URL of Spark, or sc://HOST:PORT for Spark Connect.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@_common
@click.option("--refresh", multiple=True, metavar="TABLES", help="Update only these tables, separated by commas.")
@click.option("--full-refresh", multiple=True, metavar="TABLES", help="Truncate these tables, and compute them again.")
@click.option("--full-refresh-all", is_flag=True, help="Truncate all tables, and compute them again.")
def run(
    spec: Path | None,
    conf: tuple[str, ...],
    master: str,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
) -> None:
    """Run a pipeline until it has read all present records; the exit code is 0 if it succeeds."""
    tables = [f"--refresh={each}" for each in refresh] + [f"--full-refresh={each}" for each in full_refresh]
    _start(["run", *tables, *(["--full-refresh-all"] if full_refresh_all else [])], spec, conf, master)


@click.command("dry-run")
@_common
def dry_run(spec: Path | None, conf: tuple[str, ...], master: str) -> None:
    """Check a pipeline without running it."""
    _start(["dry-run"], spec, conf, master)


def _start(arguments: list[str], spec: Path | None, conf: tuple[str, ...], master: str) -> None:
    from kafkaraw.spark.launch.declarative import run_pipelines

    settings = dict[str, str]()
    for each in conf:
        name, separator, value = each.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{each!r} must be NAME=VALUE", param_hint="--conf")
        settings[name] = value
    run_pipelines([*arguments, *([] if spec is None else [f"--spec={spec}"])], settings, master)

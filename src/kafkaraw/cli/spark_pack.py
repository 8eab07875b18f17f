"""`kafkaraw spark pack`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("environment.tar.gz"),
    show_default=True,
    help="The archive, a .tar.gz or .tgz.",
)
@click.option(
    "--with", "packages", multiple=True, metavar="PACKAGE", help="Pack this installed package, too; repeatable."
)
@click.option(
    "--without",
    "left_out",
    multiple=True,
    metavar="PACKAGE",
    help="Leave this package out, with what only it requires; repeatable.",
)
@click.option(
    "--worker-python",
    metavar="PATH",
    help="Use the Python that executors have at this path, instead of packing this one.",
)
def pack(output: Path, packages: tuple[str, ...], left_out: tuple[str, ...], worker_python: str | None) -> None:
    """Pack this environment into an archive for executors that have nothing installed.

    The archive has kafkaraw, what it requires, and this Python with its standard library. Modules are those that are
    imported here, so compiled modules and editable installs are in it. Executors need the same operating system and
    architecture. The archive is unpacked elsewhere and checked before the command ends.

    Give it to `kafkaraw spark submit --archive`, or to Spark's setting spark.archives.
    """
    from kafkaraw.spark.launch.environment import executor_environment
    from kafkaraw.spark.launch.packing import pack as write

    environment = executor_environment(packages, worker_python, output.name, left_out)
    click.echo(f"{len(environment.files)} files of {len(environment.packages)} packages, Python {environment.python}")
    try:
        with _progress(environment.size) as advance:
            size = write(environment, output, advance)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error}") from error
    if environment.system_libraries:
        click.echo(f"Executors need these libraries of their system: {', '.join(environment.system_libraries)}")
    click.echo(f"{output}: {size / 1e6:.0f} MB, unpacked {environment.size / 1e6:.0f} MB, checked")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how much of the files was read."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("Packing", total=total)

        def advance(count: int) -> None:
            progress.advance(task, count)
            if progress.finished:
                progress.update(task, description="Checking")

        yield advance

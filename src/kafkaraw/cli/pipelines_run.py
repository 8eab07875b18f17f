"""`kafkaraw pipelines run` and `status`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from kafkaraw.cli.pipelines_options import conf_option, place_argument
from kafkaraw.cli.stopping import Stop

if TYPE_CHECKING:
    from kafkaraw.pipelines.running.runner import RunOptions

_UNREAD: Final = 141
"""The exit code, that of SIGPIPE, of a run that ended because the reader of its output has closed the pipe."""


class _RunOptions(TypedDict):
    once: bool
    select: tuple[str, ...]
    full_refresh: tuple[str, ...]
    port: int | None
    host: str
    master: str
    conf: dict[str, str]


@click.command()
@place_argument
@click.option("--once/--continuous", help="Read what is there, and end; or go on until stopped.  [default: continuous]")
@click.option(
    "--select", multiple=True, metavar="NAME", help="Run this dataset or flow, and what it reads; repeatable."
)
@click.option("--full-refresh", multiple=True, metavar="TABLE", help="Empty a table, and compute it again; repeatable.")
@click.option("--port", type=click.IntRange(0, 65535), help="Serve /healthz, /metrics and /status; 0 for a free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on. There is no authentication.")
@click.option("--master", default="local[*]", show_default=True, help="Master URL of Spark.")
@conf_option
@click.pass_context
def run(ctx: click.Context, place: Path, **options: Unpack[_RunOptions]) -> None:
    """Run a pipeline: one query for each flow, each with its checkpoint. A second run continues.

    A terminal shows a bar for each flow, anything else gets JSON lines. What Spark prints goes to a log in the storage.
    SIGTERM and Ctrl-C finish the current micro-batches; a second signal ends the run at once, and the next run repeats
    what was not finished.

    The exit code is 0, 1 if a flow has failed or the counts of --once do not add up, 2 if a definition or an option is
    wrong, 143 or 130 after a signal, and 141 if the reader of the output has closed the pipe, which ends the run, too.
    A reader that is slow stops nothing.
    """
    with Stop() as early:
        from kafkaraw.pipelines.balance import imbalance_text
        from kafkaraw.pipelines.running.command import Place, run_place

        stops = [early]
        address = None if options["port"] is None else (options["host"], options["port"])
        started = Place(place, options["master"], options["conf"], address)
        summary = run_place(started, lambda: _passing_signals(options, stops))
        if not stops[-1].asked:
            for each in summary.unbalanced:
                click.echo(f"Error: {imbalance_text(each)}", err=True)
            ctx.exit(_UNREAD if summary.status.state == "stopped" else summary.exit_code)
    ctx.exit(stops[-1].exit_code or early.exit_code)


@contextlib.contextmanager
def _passing_signals(options: _RunOptions, stops: list[Stop]) -> Iterator[RunOptions]:
    """Pass signals on to the run, which notes them only. Spark has set a handler of its own."""
    from kafkaraw.pipelines.running.runner import RunOptions

    with Stop() as stop, stop.noted():
        stops.append(stop)
        yield RunOptions(
            once=options["once"],
            select=options["select"],
            full_refresh=options["full_refresh"],
            should_stop=lambda: stop.asked,
        )


@click.command()
@place_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, place: Path, as_json: bool) -> None:
    """Show what the flows of a running pipeline do, or have done in the last run.

    Neither Spark nor the definitions are loaded. The exit code is 0 if the pipeline runs well, or its last run ended
    without a failure, else 1.
    """
    from kafkaraw.pipelines.running.last_status import last_status, printed

    found = last_status(place)
    click.echo(json.dumps(found.values, indent=2) if as_json else printed(found), nl=as_json)
    ctx.exit(0 if found.well else 1)

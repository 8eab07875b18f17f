"""`kafkaraw mirror run`: copy topics between clusters, as a configuration says, until the command is stopped."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.mirror_options import read_mirror
from kafkaraw.cli.mirror_spark import SparkOptions, check_options, spark_options, start_driver, tasks_of
from kafkaraw.cli.notes import Notes
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from kafkaraw.mirror.running import MirrorRun
    from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

EPILOG: Final = """\b
Examples:
  kafkaraw mirror run mirror.properties
  kafkaraw mirror run mirror.properties --flow 'east->west' --metrics-every 10
  kafkaraw mirror run mirror.properties --master spark://localhost:7077 --archive environment.tar.gz
\b
mirror.properties:
  clusters = east, west
  east.bootstrap.servers = east:9092
  west.bootstrap.servers = west:9092
  east->west.enabled = true
  east->west.topics = orders, payments.*
\b
The first Ctrl-C (or SIGTERM) commits what was copied and ends with 0, the second one ends at once: nothing is lost or
repeated. With --master, the tasks finish their round first. Exit codes: 1 if a flow ended because of an error that does
not pass, 2 for an invalid configuration.
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--flow", "names", metavar="SOURCE->TARGET", multiple=True, help="Only this flow; may be repeated.")
@click.option(
    "--metrics-every",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Print MirrorMaker's metrics of each partition on stdout, as lines of JSON.",
)
@spark_options
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def run(
    ctx: click.Context,
    file: Path | None,
    names: tuple[str, ...],
    metrics_every: float | None,
    quiet: bool,
    **spark: Unpack[SparkOptions],
) -> None:
    """Copy topics between clusters: FILE is mirror.properties or mirror.yml, with MirrorMaker 2's names.

    Whole record batches are copied, still compressed, each record exactly once (delivery=at-least-once is faster). New
    topics and partitions, configurations, ACLs and the offsets of consumer groups follow. The positions are in the
    target: start the command again, on any machine, and it continues.

    If one machine is not enough, --master has a Spark cluster copy, with the same state: a mirror that was stopped in
    one way continues in the other one.
    """
    check_options(spark)
    mirror = read_mirror(file)
    try:
        flows = [mirror.flow(name) for name in names] or list(mirror.flows)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if not flows:
        raise click.UsageError(f"{mirror.path}: no flow is enabled: add {_example(mirror)}.enabled = true")
    if spark["master"] is not None and not spark["driver"]:
        words = [word for name in names for word in ("--flow", name)]
        words += [] if metrics_every is None else ["--metrics-every", str(metrics_every)]
        ctx.exit(start_driver(spark, mirror.path, [*words, *(["--quiet"] if quiet else [])]))
    from kafkaraw.mirror.running import MirrorRun
    from kafkaraw.records.memory import rare_collections

    with Notes(quiet=quiet, shares_terminal=False) as notes, rare_collections(), ExitStack() as stack:
        runners = stack.enter_context(tasks_of(spark, flows)) if spark["driver"] else [None] * len(flows)
        runs = [
            MirrorRun(flow, mirror.topology, runner=runner, round_s=spark["round_seconds"])
            for flow, runner in zip(flows, runners, strict=True)
        ]
        asyncio.run(_run(runs, flows, notes, metrics_every))


def _example(mirror: MirrorSettings) -> str:
    first, second, *_ = mirror.clusters
    return f"{first}->{second}"


async def _run(
    runs: Sequence[MirrorRun], flows: Sequence[MirrorFlow], notes: Notes, metrics_every: float | None
) -> None:
    """Run flows until a signal comes, or one of them fails.

    Raises:
        KafkaError: the first failure that does not pass.
    """

    def stop() -> None:
        for each in runs:
            each.stop()

    async with _stopped_by_signals(stop):
        for flow in flows:
            notes.say(f"mirroring {flow.name} ({flow.copy.delivery.value}); Ctrl-C ends it")
        tasks = [asyncio.create_task(each.run(), name=flow.name) for each, flow in zip(runs, flows, strict=True)]
        printing = None if metrics_every is None else asyncio.create_task(_print_metrics(runs, flows, metrics_every))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            stop()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            if printing is not None:
                printing.cancel()
                await asyncio.gather(printing, return_exceptions=True)
    failures = [(flow, error) for flow, error in zip(flows, outcomes, strict=True) if isinstance(error, BaseException)]
    for flow, error in failures[1:]:
        notes.print(f"ERROR: {flow.name}: {error}")
    if failures:
        raise failures[0][1]


@asynccontextmanager
async def _stopped_by_signals(stop: Callable[[], None]) -> AsyncIterator[None]:
    """Have the first signal stop the flows gracefully, and the second one end the process."""
    loop = asyncio.get_running_loop()

    def came(number: signal.Signals) -> None:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, lambda _, __: sys.exit(128 + number))
        stop()

    for number in _SIGNALS:
        with suppress(NotImplementedError, ValueError, RuntimeError):  # only the main thread has signals
            loop.add_signal_handler(number, came, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            with suppress(NotImplementedError, ValueError, RuntimeError):
                loop.remove_signal_handler(number)


async def _print_metrics(runs: Sequence[MirrorRun], flows: Sequence[MirrorFlow], every_s: float) -> None:
    """Print the metrics of each partition that was copied, again and again."""
    while True:
        await asyncio.sleep(every_s)
        for each, flow in zip(runs, flows, strict=True):
            if each.flow is None:
                continue
            for (topic, partition), metrics in sorted(each.flow.metrics().items()):
                labels = {"source": flow.copy.source_alias, "target": flow.copy.target_alias}
                click.echo(json.dumps({**labels, "topic": topic, "partition": partition, **metrics}))

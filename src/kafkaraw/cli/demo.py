"""`kafkaraw demo`: process real data with Kafka and Spark."""

from __future__ import annotations

import signal
from pathlib import Path

import click


@click.group()
def demo() -> None:
    """Process real data with Kafka and Spark."""


@demo.command()
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Replay only the first N flights of the year.")
@click.option(
    "--malformed",
    type=click.IntRange(min=0),
    default=25,
    show_default=True,
    metavar="N",
    help="Add N malformed records, which must become dead letters.",
)
@click.option("--bootstrap-server", metavar="HOST:PORT", help="Use this cluster instead of an embedded broker.")
@click.option(
    "--topic-prefix",
    metavar="TEXT",
    help="Prefix of the topic names.  [default: none; demo-2. and so on if a topic exists, because the demo uses only "
    "topics that it has created]",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the logs of the broker, tables, checkpoints and Spark's log in DIR, which must be new or empty.",
)
@click.pass_context
def flights(
    ctx: click.Context,
    limit: int | None,
    malformed: int,
    bootstrap_server: str | None,
    topic_prefix: str | None,
    keep: Path | None,
) -> None:
    """Replay the flights from New York in 2013, and process them with a pipeline.

    336,776 real flights are sent to Kafka as JSON. The pipeline writes delays by hour to a topic, flights joined with
    their aircraft and the weather to tables, and malformed records to the topic of dead letters. In the end, a balance
    sheet compares the counts; the exit code is 1 if records are lost.
    """
    from kafkaraw.demo.run import FlightsOptions, run_flights

    # `kill` stops the demo as Ctrl-C does, so that it leaves no process and no temporary folder behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = FlightsOptions(
        limit=limit, malformed=malformed, bootstrap_server=bootstrap_server, topic_prefix=topic_prefix, keep=keep
    )
    if not run_flights(options):
        ctx.exit(1)

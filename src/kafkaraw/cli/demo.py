"""`kafkaraw demo`: real data through Kafka and Spark."""

from __future__ import annotations

import signal
from pathlib import Path

import click


@click.group()
def demo() -> None:
    """Real data through Kafka and Spark."""


@demo.command()
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Replay only the first N flights of the year.")
@click.option(
    "--malformed",
    type=click.IntRange(min=0),
    default=25,
    show_default=True,
    metavar="N",
    help="Mix in N broken records, which must end as dead letters.",
)
@click.option("--bootstrap-server", metavar="HOST:PORT", help="Use this Kafka cluster instead of starting a broker.")
@click.option(
    "--topic-prefix",
    metavar="TEXT",
    help="Put TEXT before the names of the topics. Without it the demo takes plain names, or demo-2. and so on "
    "when a topic of such a name exists: it never touches topics that it has not made.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the broker's data, checkpoints, Parquet files and Spark's log in DIR (new or empty).",
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
    """Replay the flights that left New York in 2013 and watch three Spark queries work on them.

    336,776 real flights go to Kafka as JSON. Spark reads them by format("kafkaraw") and writes delays by hour to
    Kafka, cleaned flights to Parquet, and what is no flight to a dead letter topic. At the end a balance sheet says
    whether anything was lost: if so, the exit code is 1.
    """
    from kafkaraw.demo.run import FlightsOptions, run_flights
    from kafkaraw.demo.screen import Screen

    # `kill` stops the demo as Ctrl-C does, so that it leaves no process and no temporary folder behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = FlightsOptions(
        limit=limit, malformed=malformed, bootstrap_server=bootstrap_server, topic_prefix=topic_prefix, keep=keep
    )
    if not run_flights(options, Screen()):
        ctx.exit(1)

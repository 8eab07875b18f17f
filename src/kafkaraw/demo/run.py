"""The flights demo from beginning to end, step by step. Start reading here."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kafkaraw.demo.flights import Flights, data_folder, load_flights
from kafkaraw.demo.pipeline_run import (
    DEFINITION,
    DEPARTURES,
    SPARK_TEMPORARY,
    PipelineRun,
    check_spark,
    specification_of,
)
from kafkaraw.demo.readback import (
    count_flights_topic,
    count_rows,
    read_airlines,
    read_dead_letters,
    read_hours,
    worst_hours,
)
from kafkaraw.demo.replay import Sent, create_topics, impatient_producer, send_flights, send_reference_tables
from kafkaraw.demo.screen import Screen
from kafkaraw.demo.sheet import BalanceSheet
from kafkaraw.demo.topics import Topics
from kafkaraw.errors import UsageError
from kafkaraw.pipelines.running.driver_session import output_in

SPARK_LOG = "spark.log"
WORST_HOURS = 10

_REPLAY_BAR, _COUNT_BAR = "replay", "count in Kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightsOptions:
    """The options of the demo.

    Attributes:
        limit: number of flights to replay, the earliest ones; None for the whole year.
        malformed: number of broken records to add.
        bootstrap_server: use this cluster; None starts a broker.
        topic_prefix: prefix of every topic's name; None for names that are free.
        keep: keep the broker's data, the pipeline's storage and Spark's log in this folder; None removes them.
    """

    limit: int | None = None
    malformed: int = 25
    bootstrap_server: str | None = None
    topic_prefix: str | None = None
    keep: Path | None = None


def run_flights(options: FlightsOptions) -> bool:
    """Run the demo; return whether the balance sheet balances.

    Raises:
        KafkaError: the options, the cluster, the data or Spark failed; the message says why.
    """
    # Report missing requirements before anything is created.
    data_folder()
    if find_spec("pyspark") is None:
        raise UsageError("pyspark is not installed: run `make setup`, or install kafkaraw[pipelines]")
    check_spark()
    # What Spark prints goes to its log, and everything else to `shown`.
    with _folder(options.keep) as folder, output_in(folder / SPARK_LOG) as shown:
        screen = Screen(shown)
        with _cluster(options, folder, screen) as bootstrap_servers:
            balanced = _run(options, folder, bootstrap_servers, screen)
        if options.keep is not None:
            _say_what_is_kept(options, screen)
    return balanced


def _run(options: FlightsOptions, folder: Path, bootstrap_servers: str, screen: Screen) -> bool:
    topics = create_topics(bootstrap_servers, options.topic_prefix)
    if topics.prefix and options.topic_prefix is None:
        screen.say("Topics with the names of the demo exist already; the demo creates topics with other names.")
    screen.say(f"Topics: {', '.join(plan.name for plan in topics.plans())}")
    log_hint = "--keep DIR keeps Spark's log" if options.keep is None else f"Spark's log: {folder / SPARK_LOG}"
    specification = specification_of(bootstrap_servers, topics, folder / "storage")
    pipeline = PipelineRun(specification, folder, log_hint)
    try:
        pipeline.start()  # takes as long as loading and replaying, which run at the same time
        flights = load_flights(options.limit)
        sent = _replay(bootstrap_servers, topics, flights, options.malformed, screen)
        _process(pipeline, screen)
    except KeyboardInterrupt:
        screen.say("Stopping Spark, which takes a few seconds ...")
        raise
    finally:
        pipeline.stop()
    return _read_back(bootstrap_servers, topics, folder, sent, screen)


def _replay(bootstrap_servers: str, topics: Topics, flights: Flights, malformed: int, screen: Screen) -> Sent:
    with impatient_producer(bootstrap_servers) as producer:
        counts = send_reference_tables(producer, topics)
        screen.say("Reference tables: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
        with screen.bars() as bars:
            bars.add(_REPLAY_BAR, len(flights) + malformed)
            return send_flights(producer, topics, flights, malformed, lambda rows: bars.show(_REPLAY_BAR, rows))


def _process(pipeline: PipelineRun, screen: Screen) -> None:
    screen.say("Waiting for Spark ...")
    pipeline.wait_until_started()
    screen.say(f"Pipeline: {DEFINITION}")
    with screen.flows() as bars:
        summary = pipeline.run(bars)
    bars.finished(summary)


def _read_back(bootstrap_servers: str, topics: Topics, folder: Path, sent: Sent, screen: Screen) -> bool:
    """Show what is in topics and tables; return whether it balances."""
    with screen.bars() as bars:
        bars.add(_COUNT_BAR, sent.records)
        bars.show(_COUNT_BAR, 0)
        held = count_flights_topic(bootstrap_servers, topics, lambda rows: bars.show(_COUNT_BAR, rows))
    hours = read_hours(bootstrap_servers, topics)
    dead = read_dead_letters(bootstrap_servers, topics)
    sheet = BalanceSheet(
        sent=sent.records,
        malformed_sent=sent.malformed,
        records_in=held.records,
        malformed_in=held.malformed,
        parquet_rows=count_rows(folder / "storage" / "tables" / DEPARTURES),
        dead_letters=dead.letters,
        malformed_dead=dead.malformed,
        flights_by_hour=sum(hour.flights for hour in hours),
    )
    screen.worst_hours(worst_hours(hours, WORST_HOURS), read_airlines(bootstrap_servers, topics))
    screen.dead_letters(dead)
    screen.balance_sheet(sheet)
    return sheet.balanced


def _say_what_is_kept(options: FlightsOptions, screen: Screen) -> None:
    screen.say(f"Kept in {options.keep}: storage/ (tables, checkpoints), {SPARK_LOG}")
    if options.bootstrap_server is None:
        screen.say(f"The topics are in broker/: kafkaraw broker --data-dir {options.keep}/broker")


@contextmanager
def _cluster(options: FlightsOptions, folder: Path, screen: Screen) -> Iterator[str]:
    """The cluster that the user named, or a broker of our own in a process of its own."""
    if options.bootstrap_server is not None:
        screen.say(f"Kafka: {options.bootstrap_server}")
        yield options.bootstrap_server
        return
    from kafkaraw.broker import EmbeddedBroker

    with EmbeddedBroker(data_dir=folder / "broker", process=True) as broker:
        screen.say(f"Kafka: a broker of our own at {broker.bootstrap_servers}")
        yield broker.bootstrap_servers


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder of this run: the user's, which must be new or empty, or a temporary one."""
    if keep is None:
        temporary = Path(tempfile.mkdtemp(prefix="kafkaraw-flights-"))
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        in_use = any(keep.iterdir())
    except OSError as error:
        raise UsageError(f"--keep {keep}: {error.strerror or error}") from error
    if in_use:
        raise UsageError(f"--keep {keep}: the folder is not empty; old checkpoints would spoil this run")
    try:
        yield keep.resolve()
    finally:
        shutil.rmtree(keep / SPARK_TEMPORARY, ignore_errors=True)

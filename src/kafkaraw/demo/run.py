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
from kafkaraw.demo.readback import (
    DeadLetters,
    FlightsTopic,
    Hour,
    count_flights_topic,
    read_dead_letters,
    read_hours,
    worst_hours,
)
from kafkaraw.demo.replay import Sent, create_topics, impatient_producer, send_flights, send_reference_tables
from kafkaraw.demo.screen import Screen
from kafkaraw.demo.sheet import BalanceSheet
from kafkaraw.demo.spark_run import SPARK_TEMPORARY, QueryMeter, SparkRun
from kafkaraw.demo.topics import FLIGHTS_PARTITIONS, Topics
from kafkaraw.errors import UsageError

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
        keep: keep the broker's data, checkpoints, Parquet and Spark's log in this folder; None removes them.
    """

    limit: int | None = None
    malformed: int = 25
    bootstrap_server: str | None = None
    topic_prefix: str | None = None
    keep: Path | None = None


def run_flights(options: FlightsOptions, screen: Screen) -> bool:
    """Run the demo; return whether the balance sheet balances.

    Raises:
        KafkaError: the options, the cluster, the data or Spark failed; the message says why.
    """
    # Report missing requirements before anything is created.
    data_folder()
    if find_spec("pyspark") is None:
        raise UsageError("pyspark is not installed: run `make setup`, or install kafkaraw[spark]")
    with _folder(options.keep) as folder, _cluster(options, folder, screen) as bootstrap_servers:
        topics = create_topics(bootstrap_servers, options.topic_prefix)
        if topics.prefix and options.topic_prefix is None:
            screen.say("Topics with the names of the demo exist already; the demo creates topics with other names.")
        screen.say(f"Topics: {', '.join(plan.name for plan in topics.plans())}")
        spark = SparkRun(folder, log_kept=options.keep is not None)
        try:
            spark.start()  # takes as long as loading and replaying, which run at the same time
            flights = load_flights(options.limit)
            sent = _replay(bootstrap_servers, topics, flights, options.malformed, screen)
            sheet, hours, dead = _process(spark, bootstrap_servers, topics, folder, sent, screen)
        except KeyboardInterrupt:
            screen.say("Stopping Spark, which takes a few seconds ...")
            raise
        finally:
            spark.stop()
        screen.worst_hours(worst_hours(hours, WORST_HOURS))
        screen.dead_letters(dead)
        screen.balance_sheet(sheet)
    if options.keep is not None:
        _say_what_is_kept(options, screen)
    return sheet.balanced


def _replay(bootstrap_servers: str, topics: Topics, flights: Flights, malformed: int, screen: Screen) -> Sent:
    with impatient_producer(bootstrap_servers) as producer:
        counts = send_reference_tables(producer, topics)
        screen.say("Reference tables: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
        with screen.bars() as bars:
            bars.add(_REPLAY_BAR, len(flights) + malformed)
            return send_flights(producer, topics, flights, malformed, lambda rows: bars.show(_REPLAY_BAR, rows))


def _process(
    spark: SparkRun, bootstrap_servers: str, topics: Topics, folder: Path, sent: Sent, screen: Screen
) -> tuple[BalanceSheet, list[Hour], DeadLetters]:
    screen.say("Waiting for Spark ...")
    spark.wait_until_started()
    from kafkaraw.demo.pipeline import CLEANED, DEAD_LETTERS, DELAYS_BY_HOUR, Places

    places = Places(bootstrap_servers, topics, folder)
    with screen.bars() as bars:
        for name in (DELAYS_BY_HOUR, CLEANED, DEAD_LETTERS):
            bars.add(name, sent.records)
        meters = spark.run(
            places,
            _offsets_per_trigger(sent.records),
            lambda meter: bars.show(meter.name, meter.rows, meter.rows_per_s),
        )
        bars.add(_COUNT_BAR, sent.records)
        held = count_flights_topic(bootstrap_servers, topics, lambda rows: bars.show(_COUNT_BAR, rows))
    hours = read_hours(bootstrap_servers, topics)
    _say_state(meters, len(hours), screen)
    dead = read_dead_letters(bootstrap_servers, topics)
    return _draw_up(sent, held, spark.parquet_rows(places), hours, dead), hours, dead


def _draw_up(sent: Sent, held: FlightsTopic, parquet_rows: int, hours: list[Hour], dead: DeadLetters) -> BalanceSheet:
    return BalanceSheet(
        sent=sent.records,
        malformed_sent=sent.malformed,
        records_in=held.records,
        malformed_in=held.malformed,
        parquet_rows=parquet_rows,
        dead_letters=dead.letters,
        malformed_dead=dead.malformed,
        flights_by_hour=sum(hour.flights for hour in hours),
    )


def _offsets_per_trigger(records: int) -> int:
    """What makes two to eight micro-batches of the whole: each has a fixed cost, and the bars should move."""
    batches = min(max(records // 10_000, 2), 8)
    # Shares of the partitions are rounded down: without a few more, a last micro-batch would take a handful of rows.
    return records // batches + 10 * FLIGHTS_PARTITIONS


def _say_state(meters: list[QueryMeter], hours_count: int, screen: Screen) -> None:
    state = max(meter.state_rows_max for meter in meters)
    screen.say(f"Of {hours_count:,} hours Spark kept at most {state:,} in memory at a time.")
    late = sum(meter.late_rows for meter in meters)
    if late:
        screen.say(f"Spark left out {late:,} aggregated rows that came too late: the sheet will show it.")


def _say_what_is_kept(options: FlightsOptions, screen: Screen) -> None:
    screen.say(f"Kept in {options.keep}: parquet/, checkpoints/, spark.log")
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

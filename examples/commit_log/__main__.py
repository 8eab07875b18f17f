"""Commit log: changes of a PostgreSQL database into compacted topics, and its tables rebuilt from them.

python -m examples.commit_log
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from examples.commit_log.capture import Capture
from examples.commit_log.workload import TABLES, Shop
from examples.harness import Place, Size, check, command
from examples.picture import bars
from examples.postgres import private_postgres
from kafkaraw import NewTopic, Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSACTIONS = {"small": 60, "whole": 20_000}
ROUNDS = 3  # runs of the pipeline, between which the shop goes on
REVENUE = (
    "SELECT city, sum(amount), count(*) FROM purchases JOIN customers ON customer = customers.id"
    " WHERE state = 'paid' GROUP BY city"
)


def run(place: Place, spark: SparkSession, size: Size) -> str:
    """Trade, capture, rebuild, compare; return the picture."""
    compacted = {"cleanup.policy": "compact"}
    place.create_topics(*(NewTopic(f"shop.public.{table}", 3, 1, compacted) for table in TABLES))
    with private_postgres() as server, psycopg.connect(server.connection_string, autocommit=True) as connection:
        shop = Shop(connection)
        shop.create_tables()
        with Producer(bootstrap_servers=place.servers, transactional_id="capture") as producer:
            producer.init_transactions()
            capture = Capture(connection, producer, "shop")
            capture.start(TABLES)
            for number in range(1, ROUNDS + 1):
                shop.trade(TRANSACTIONS[size] // ROUNDS)
                place.say(f"round {number}: {capture.poll():,} changes captured, {shop.rolled_back:,} rolled back")
                place.run_pipeline(spark)
                _compare(place, spark, shop)
        revenue = connection.execute(REVENUE).fetchall()
    rows = [{"city": city, "revenue": amount, "purchases": number} for city, amount, number in revenue]
    check("revenue_by_city", rows, (row.asDict() for row in place.table(spark, "revenue_by_city").collect()))
    best = sorted(revenue, key=lambda row: -row[1])[:15]
    return bars(
        "Revenue by city, from a table that was rebuilt from PostgreSQL's changes",
        f"{TRANSACTIONS[size]:,} transactions; every row of the tables is that of the database",
        [
            (city or "(no city)", float(amount), f"{amount:,.2f} in {number:,} purchases")
            for city, amount, number in best
        ],
    )


def _compare(place: Place, spark: SparkSession, shop: Shop) -> None:
    """Compare the tables with the database, row by row."""
    for table in TABLES:
        frame = place.table(spark, table)
        expected = shop.rows(table)
        check(table, expected, (row.asDict() for row in frame.collect()))
        place.say(f"{table}: {len(expected):,} rows, all as in the database")


if __name__ == "__main__":
    command("commit_log", run)()

"""`kafkaraw sql`: SQL over topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.registries import registry_option

if TYPE_CHECKING:
    from kafkaraw.cli.querying import QueryOptions

EPILOG: Final = """\b
Examples:
  kafkaraw sql -b localhost:9092                           a prompt
  kafkaraw sql -b localhost:9092 'SELECT status, count(*) FROM orders GROUP BY ALL'
  kafkaraw sql -b localhost:9092 'SELECT * FROM "orders-eu" WHERE timestamp > now() - INTERVAL 1 HOUR'
  kafkaraw sql -b localhost:9092 "SELECT * FROM compacted('users')"
  kafkaraw sql -b localhost:9092 -o parquet --output-file o.parquet 'SELECT * FROM orders'
  kafkaraw sql --log-dir /var/lib/kafka 'SELECT count(*) FROM orders'
  kafkaraw sql -b localhost:9092 "COPY (SELECT key, value FROM orders WHERE city = 'Rome') TO TOPIC 'rome'"
  kafkaraw sql -b localhost:9092 --to-topic totals 'SELECT status AS key, sum(amount) AS sum FROM orders GROUP BY ALL'
\b
Tables:
  orders, "orders-eu"               topics, as of now: topic, partition, offset, timestamp, timestamp_type, the fields
                                    of the values, key, value, headers, key_error, value_error
  topic('orders', value='avro')     with a format of keys or values, the subject of a schema, or tail=100: the
                                    newest 100 offsets of each partition
  topics('orders-.*')               all topics that a regex matches as a whole
  compacted('users')                the newest record of each key, without those whose value is null
\b
Filters on topic, partition, offset and timestamp limit what is fetched; only columns of the query are decoded.
\b
Exit codes:
    0  finished
    1  the query is wrong, or records cannot be read or written
    2  invalid options
  130  interrupted
"""


@click.command(epilog=EPILOG)
@click.argument("query", required=False)
@cluster_options
@registry_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "csv", "json", "parquet", "arrow"]),
    default="table",
    show_default=True,
    help="Form of the result; json has one object per line, arrow is its stream format.",
)
@click.option("--output-file", type=click.Path(dir_okay=False, writable=True), help="Write the result to this file.")
@click.option("--to-topic", metavar="TOPIC", help="Write the rows to a topic, as records; see below.")
@click.option("--key", default="auto", show_default=True, help="How keys are decoded: auto, bytes, string.")
@click.option(
    "--value",
    default="auto",
    show_default=True,
    help="How values are decoded: auto, bytes, string, json, avro, protobuf, json-schema.",
)
@click.option(
    "--log-dir",
    "log_dirs",
    multiple=True,
    metavar="DIR",
    help="Read log directories instead of a cluster: a path or URI, with patterns; repeat it for several.",
)
@click.option("--format", "formats", multiple=True, metavar="TOPIC=FORMAT", help="The format of values of one topic.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether to read only committed transactions.",
)
@click.option("--threads", type=click.IntRange(1), help="Threads that read; the default is one per processor, up to 4.")
@click.option("--explain", is_flag=True, help="Show the offsets and columns that would be read, and read nothing.")
@click.option("--rows", type=click.IntRange(1), default=1_000, show_default=True, help="Rows of a table at most.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no notes.")
@click.pass_context
def sql(ctx: click.Context, query: str | None, cluster: Cluster, **options: Unpack[QueryOptions]) -> None:
    """Run SQL of DuckDB over topics.

    Without QUERY, statements are read from a prompt, or from standard input: each ends with a semicolon.

    With --to-topic, or COPY (SELECT ...) TO TOPIC 'name', each row becomes a record: its columns key, value, headers,
    partition and timestamp are those of the record, as far as there are such columns. Without a column value, the value
    is a JSON object of the other columns.
    """
    from kafkaraw.cli.querying import run

    ctx.exit(run(cluster, query, **options))

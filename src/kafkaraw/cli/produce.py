"""`kafkaraw produce`: send messages from standard input or files to a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_topics
from kafkaraw.cli.registries import registry_option
from kafkaraw.cli.stopping import Stop

if TYPE_CHECKING:
    from kafkaraw.cli.producing import ProduceOptions

EPILOG: Final = """\b
Examples:
  echo hello | kafkaraw produce -b localhost:9092 flights
  kafkaraw produce -b localhost:9092 flights -K: -z zstd < keys-and-values.txt
  kafkaraw produce -b localhost:9092 pictures *.png        each file is one message
  kafkaraw produce -b localhost:9092 flights -l a.txt b.txt   each line is one message
  kafkaraw consume -b here:9092 flights -e -J | kafkaraw produce -b there:9092 flights -J
  kafkaraw produce -b localhost:9092 orders -s value=avro -r http://localhost:8081 < orders.jsonl
  ... | kafkaraw produce -b localhost:9092 flights -X transactional.id=load   all or nothing
\b
Exit codes:
    0  every message is acknowledged
    1  a message is not acknowledged, or the input cannot be read
    2  invalid options
  130  stopped by Ctrl-C (143: by SIGTERM) after the messages read so far were acknowledged, or their transaction
       was aborted; a second signal ends the process at once
"""


@click.command(epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="TOPIC [FILE]...", shell_complete=complete_topics)
@cluster_options
@click.option("-t", "--topic", metavar="TOPIC", help="The topic; then all arguments are files.")
@click.option(
    "-p", "--partition", type=click.IntRange(-1), help="Send to this partition; -1 lets the partitioner choose."
)
@click.option("-k", "--key", metavar="TEXT", help="Key of messages without a key.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Text between key and value.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="Text between messages.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Header of every message; repeatable."
)
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Send empty keys and values as null.")
@click.option("--null-marker", metavar="TEXT", help="Send keys and values equal to TEXT as null.")
@click.option("-l", "--lines", "by_lines", is_flag=True, help="Split files into messages, as standard input.")
@click.option(
    "-J", "--json", "as_json", is_flag=True, help="Messages are JSON objects, as written by `consume --json`."
)
@click.option(
    "--length-prefixed", is_flag=True, help="Each message follows its length, 4 bytes big-endian; -1 is null."
)
@click.option(
    "--input",
    "columns",
    type=click.Choice(["arrow", "parquet"]),
    help="The input has columns, as written by `consume --output`.",
)
@click.option(
    "-s",
    "--serde",
    "serdes",
    multiple=True,
    metavar="[key=|value=]NAME",
    help="Serializer of keys or values: string, json, short, integer, long, float, double, boolean, uuid, hex, "
    "base64, bytes; with a registry avro, json-schema, protobuf, of one JSON text per message.",
)
@registry_option
@click.option(
    "--schema",
    "schema_files",
    multiple=True,
    metavar="[key=|value=]FILE",
    help="Register the schema in FILE for -s; without it, the latest version of the subject (TOPIC-value) is used.",
)
@click.option("--ignore-rules", is_flag=True, help="Send values whose schema has rules; rules are not executed.")
@click.option(
    "--reader-property",
    "--property",
    "reader_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Kafka's console producer, such as parse.key=true or key.separator=:",
)
@click.option("-z", "--compression", metavar="CODEC[:LEVEL]", help="Compression type: none, gzip, snappy, lz4 or zstd.")
@click.option("-c", "-n", "--max-messages", type=click.IntRange(1), metavar="N", help="Stop after N messages.")
@click.option("-T", "--tee", is_flag=True, help="Copy sent messages to standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
@click.option("-v", "--verbose", count=True, help="Print more log messages; -vv for all.")
@click.pass_context
def produce(ctx: click.Context, cluster: Cluster, **options: Unpack[ProduceOptions]) -> None:
    """Send messages to a topic: the lines of standard input, or files.

    An empty line is an empty message. The command returns when the brokers have acknowledged every message: all
    in-sync replicas, or with `-X acks=1` the leader only.
    """
    with Stop() as stop:
        from kafkaraw.cli.producing import produce as run

        run(cluster, stop, **options)
    ctx.exit(stop.exit_code)

"""`kafkaraw produce`: messages from standard input or files, into a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.stopping import Stop

if TYPE_CHECKING:
    from kafkaraw.cli.producing import ProduceOptions

EPILOG: Final = """\b
Examples:
  echo hello | kafkaraw produce -b localhost:9092 flights
  kafkaraw produce -b localhost:9092 flights -K: -z zstd < keys-and-values.txt
  kafkaraw produce -b localhost:9092 pictures *.png        each file is one message
  kafkaraw produce -b localhost:9092 flights -l a.txt b.txt   each line is one
  kafkaraw consume -b here:9092 flights -e -J | kafkaraw produce -b there:9092 flights -J
  ... | kafkaraw produce -b localhost:9092 flights -X transactional.id=load   all or nothing
\b
Exit codes:
    0  every message is acknowledged
    1  some are not, or the input cannot be read
    2  wrong options
  130  stopped by Ctrl-C (143: by SIGTERM), what was read is acknowledged; a second one ends at once
"""


@click.command(epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="TOPIC [FILE]...")
@cluster_options
@click.option("-t", "--topic", metavar="TOPIC", help="The topic; all arguments are files then.")
@click.option("-p", "--partition", type=click.IntRange(-1), help="Send to this one; -1 leaves it to the partitioner.")
@click.option("-k", "--key", metavar="TEXT", help="The key of messages that have none.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Stands between key and value.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="Stands between messages.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="A header of every message.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Send empty keys and values as null.")
@click.option("--null-marker", metavar="TEXT", help="Send keys and values that are TEXT as null.")
@click.option("-l", "--lines", "by_lines", is_flag=True, help="Files hold many messages, as standard input does.")
@click.option(
    "-J", "--json", "as_json", is_flag=True, help="Messages are JSON objects as `consume --json` writes them."
)
@click.option("--length-prefixed", is_flag=True, help="4 bytes of length, big-endian, before each; -1 is null.")
@click.option(
    "--input", "columns", type=click.Choice(["arrow", "parquet"]), help="The input is what `consume --output` writes."
)
@click.option(
    "-s",
    "--serde",
    "serdes",
    multiple=True,
    metavar="[key=|value=]NAME",
    help="What to make of the text: string, json, short, integer, long, float, double, boolean, uuid, hex, base64, "
    "bytes.",
)
@click.option(
    "--reader-property",
    "--property",
    "reader_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="As of Kafka's console producer: parse.key=true, parse.headers=true, key.separator=: ...",
)
@click.option("-z", "--compression", metavar="CODEC[:LEVEL]", help="gzip, snappy, lz4 or zstd.")
@click.option("-c", "-n", "--max-messages", type=click.IntRange(1), metavar="N", help="Stop after so many.")
@click.option("-T", "--tee", is_flag=True, help="Write what was sent to standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing on stderr but errors.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for everything.")
@click.pass_context
def produce(ctx: click.Context, cluster: Cluster, **options: Unpack[ProduceOptions]) -> None:
    """Send messages to a topic: the lines of standard input, or files.

    An empty line is an empty message. Returns when every message is acknowledged by the brokers (`-X acks=1` for the
    leader only), with an exit code that says so.
    """
    with Stop() as stop:
        from kafkaraw.cli.producing import produce as run

        run(cluster, stop, **options)
    ctx.exit(stop.exit_code)

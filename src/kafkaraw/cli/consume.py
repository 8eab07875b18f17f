"""`kafkaraw consume`: write the records of topics to standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.completing import complete_groups, complete_topics
from kafkaraw.cli.registries import registry_option
from kafkaraw.cli.stopping import Stop

if TYPE_CHECKING:
    from kafkaraw.cli.consuming import ConsumeOptions

EPILOG: Final = """\b
Examples:
  kafkaraw consume -b localhost:9092 flights              all records, then wait for new ones
  kafkaraw consume -b localhost:9092 flights -o -10 -e    the last 10 records of each partition
  kafkaraw consume -b localhost:9092 flights -o s@2026-11-21T10:00:00Z -o e@-PT1H
  kafkaraw consume -b localhost:9092 -g billing flights   as a member of a group
  kafkaraw consume -b localhost:9092 --share-group resize pictures -f '%o %d %s\\n'
  kafkaraw consume -b localhost:9092 flights -f '%p:%o %k=%s\\n'
  kafkaraw consume -b localhost:9092 orders -s value=avro -r http://localhost:8081
\b
Tokens of -f:
  %s value  %S its length (-1: null)  %R its length as 4 bytes, big-endian
  %k key    %K its length (-1: null)  %h headers as name=value,...
  %t topic  %p partition  %o offset   %T timestamp in ms   %% percent sign
  %d delivery count, with --share-group
  \\n \\t \\r \\xNN \\0OO (octal)
\b
Exit codes:
    0  finished, or the reader of the output closed the pipe
    1  records cannot be read or written
    2  invalid options
  130  stopped gracefully by Ctrl-C (143: by SIGTERM); a second signal ends the process at once
"""


@click.command(epilog=EPILOG)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@cluster_options
@click.option(
    "-t", "--topic", "more_topics", multiple=True, metavar="TOPIC", help="A topic, the same as an argument; repeatable."
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Read only this partition; repeatable.",
)
@click.option(
    "-o",
    "--offset",
    "offsets",
    multiple=True,
    metavar="WHERE",
    help="Where to start: beginning, end, stored (the committed offset), OFFSET, -COUNT (before the end) or s@TIME. "
    "e@TIME: where to stop. TIME is a timestamp in ms, ISO 8601, or a duration ago such as -PT1H.  "
    "[default: beginning; with a group: stored]",
)
@click.option("--from-beginning", is_flag=True, help="Start at the beginning if the group has no committed offset.")
@click.option(
    "-g",
    "-G",
    "--group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Read as a member of this group. A topic that begins with ^ is a regex.",
)
@click.option(
    "--share-group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Read as a member of this share group: its members share the records. A new one begins at the end, "
    "unless its share.auto.offset.reset is earliest.",
)
@click.option(
    "--ack",
    type=click.Choice(["accept", "release", "reject"]),
    help="What a written record is for the share group: processed, to be delivered again, or not to be delivered again."
    "  [default: accept]",
)
@click.option("-e", "--exit-at-end", is_flag=True, help="Exit after the last record that existed at the start.")
@click.option("-c", "-n", "--max-messages", type=click.IntRange(1), metavar="N", help="Exit after N records.")
@click.option("--timeout-ms", type=click.IntRange(1), metavar="MS", help="Exit if no record arrives for this time.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether to read only committed transactions.",
)
@click.option(
    "-f", "--format", "text_format", metavar="FORMAT", help="Format string of a record; see the tokens below."
)
@click.option("-J", "--json", "as_json", is_flag=True, help="Write each record as a JSON object, as kcat -J does.")
@click.option("--output", type=click.Choice(["arrow", "parquet"]), help="Write columns in this format.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="Text after each record.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Write the key before the value, separated by TEXT.")
@click.option("-Z", "--null", "show_null", is_flag=True, help="Write null keys and values as NULL.")
@click.option("--null-marker", metavar="TEXT", help="Write null keys and values as TEXT.")
@click.option(
    "-s",
    "--serde",
    "serdes",
    multiple=True,
    metavar="[key=|value=]NAME",
    help="Deserializer of keys or values: string, json, short, integer, long, float, double, boolean, uuid, hex, "
    "base64, bytes, or a pack string of kcat; with a registry avro, json-schema, protobuf.",
)
@registry_option
@click.option("--ignore-rules", is_flag=True, help="Show values whose schema has rules; rules are not executed.")
@click.option(
    "--formatter-property",
    "--property",
    "formatter_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Kafka's console consumer, such as print.key=true or key.separator=:",
)
@click.option("-u", "--unbuffered", is_flag=True, help="Accepted for compatibility with kcat; output is never delayed.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
@click.option("-v", "--verbose", count=True, help="Print more log messages; -vv for all.")
@click.pass_context
def consume(ctx: click.Context, cluster: Cluster, **options: Unpack[ConsumeOptions]) -> None:
    """Write the records of topics to standard output.

    Without --group, all partitions are read from the beginning, and no offsets are committed. With --group, the
    members of the group share the partitions, and the offsets of written records are committed. With --share-group, the
    members share the records, and each written record is acknowledged.

    With --registry, keys and values that carry the id of a schema are written as JSON; -s requires it of all of them.
    """
    with Stop() as stop:
        from kafkaraw.cli.consuming import consume as run

        run(cluster, stop, **options)
    ctx.exit(stop.exit_code)

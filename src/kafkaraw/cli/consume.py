"""`kafkaraw consume`: the records of topics, on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.stopping import Stop

if TYPE_CHECKING:
    from kafkaraw.cli.consuming import ConsumeOptions

EPILOG: Final = """\b
Examples:
  kafkaraw consume -b localhost:9092 flights              all there is, then what comes
  kafkaraw consume -b localhost:9092 flights -o -10 -e    the last 10 of each partition
  kafkaraw consume -b localhost:9092 flights -o s@2026-11-21T10:00:00Z -o e@-PT1H
  kafkaraw consume -b localhost:9092 -g billing flights   as a member of a group
  kafkaraw consume -b localhost:9092 flights -f '%p:%o %k=%s\\n'
\b
Tokens of -f:
  %s value  %S its length (-1: null)  %R the same, 4 bytes big-endian
  %k key    %K its length             %h headers as name=value,...
  %t topic  %p partition  %o offset   %T timestamp in ms   %% percent sign
  \\n \\t \\r \\xNN \\0OO (octal)
\b
Exit codes:
    0  done, or whoever read the output went away
    1  the records cannot be read or shown
    2  wrong options
  130  stopped by Ctrl-C (143: by SIGTERM), in good order; a second one ends at once
"""


@click.command(epilog=EPILOG)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@cluster_options
@click.option("-t", "--topic", "more_topics", multiple=True, metavar="TOPIC", help="The same as the argument.")
@click.option(
    "-p", "--partition", "partitions", multiple=True, type=click.IntRange(0), help="Only this one; repeatable."
)
@click.option(
    "-o",
    "--offset",
    "offsets",
    multiple=True,
    metavar="WHERE",
    help="beginning, end, stored, OFFSET, -COUNT (before the end), s@TIME and e@TIME; TIME is in ms, ISO 8601, or "
    "-PT1H ago.  [default: beginning; stored in a group]",
)
@click.option("--from-beginning", is_flag=True, help="Begin at the beginning where a group has no offset stored.")
@click.option(
    "-g", "-G", "--group", metavar="GROUP", help="Read as a member of this group. ^TOPIC is an expression then."
)
@click.option("-e", "--exit-at-end", is_flag=True, help="Exit when everything is read that was there at the start.")
@click.option("-c", "-n", "--max-messages", type=click.IntRange(1), metavar="N", help="Exit after so many records.")
@click.option("--timeout-ms", type=click.IntRange(1), metavar="MS", help="Exit when nothing comes for so long.")
@click.option("--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]))
@click.option("-f", "--format", "text_format", metavar="FORMAT", help="How to write a record; see below.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Write JSON objects, kcat's envelope.")
@click.option("--output", type=click.Choice(["arrow", "parquet"]), help="Write columns, for pyarrow and friends.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="What follows each record.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Write the key before the value, with this between them.")
@click.option("-Z", "--null", "show_null", is_flag=True, help="Write null keys and values as NULL.")
@click.option("--null-marker", metavar="TEXT", help="Write them as TEXT.")
@click.option(
    "-s",
    "--serde",
    "serdes",
    multiple=True,
    metavar="[key=|value=]NAME",
    help="What the bytes are: string, json, short, integer, long, float, double, boolean, uuid, hex, base64, bytes, or "
    "one of kcat's pack strings.",
)
@click.option(
    "--formatter-property",
    "--property",
    "formatter_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="As of Kafka's console consumer: print.key=true, print.timestamp=true, key.separator=: ...",
)
@click.option("-u", "--unbuffered", is_flag=True, help="For kcat's sake: output is never held back.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing on stderr but errors.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for everything.")
@click.pass_context
def consume(ctx: click.Context, cluster: Cluster, **options: Unpack[ConsumeOptions]) -> None:
    """Write the records of topics to standard output.

    Without a group all partitions are read from the beginning, and nothing is stored. With one, they are shared with
    the other members, and what was written is committed.
    """
    with Stop() as stop:
        from kafkaraw.cli.consuming import consume as run

        run(cluster, stop, **options)
    ctx.exit(stop.exit_code)

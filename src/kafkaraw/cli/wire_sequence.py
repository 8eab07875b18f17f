"""`kafkaraw wire sequence`: who said what to whom, and the states that this led to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from kafkaraw.cli.wire_read import exchanges_in, report_lines, tls_keys_option
from kafkaraw.cli.wire_tap import filter_options

if TYPE_CHECKING:
    from kafkaraw.inspect.tap.lines import Filter


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@filter_options
@tls_keys_option
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture into this file.")
@click.option("--repeated", is_flag=True, help="Draw each Fetch, Produce, Metadata and heartbeat of a row of them.")
def sequence(file: BinaryIO, shown: Filter, tls_keys: BinaryIO | None, svg: Path | None, repeated: bool) -> None:
    """Draw who said what to whom in a capture file.

    Below a message that changed it stands the state of a group, a member or a transactional id, with Kafka's names:
    bootstrap, rebalances and transactions can be followed. With more than six clients and brokers, the text is a list;
    filters reduce it.
    """
    from kafkaraw.inspect.sequences import as_svg, as_text, sequence_of

    exchanges, report = exchanges_in(file, shown, tls_keys)
    drawn = sequence_of(exchanges, repeated=repeated)
    if svg is not None:
        svg.write_text(as_svg(drawn))
        click.echo(f"% {svg}: {len(drawn.messages)} messages between {len(drawn.participants)} ends", err=True)
    else:
        for line in as_text(drawn):
            click.echo(line)
    for words in report_lines(report):
        click.echo(f"% {words}", err=True)

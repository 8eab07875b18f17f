"""`kafkaraw wire export`: a pytest test out of a captured conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from kafkaraw.cli.wire_read import exchanges_in, report_lines, tls_keys_option
from kafkaraw.cli.wire_tap import filter_options

if TYPE_CHECKING:
    from kafkaraw.inspect.tap.lines import Filter


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.argument("test", type=click.File("w", lazy=True), default="-")
@filter_options
@tls_keys_option
@click.option("--name", default="conversation", show_default=True, help="Name of the test, without `test_`.")
def export(file: BinaryIO, test: TextIO, shown: Filter, tls_keys: BinaryIO | None, name: str) -> None:
    """Make a pytest test out of a captured conversation.

    TEST sends the requests of FILE to an embedded broker, on as many connections, and compares the answers with those
    of the capture, apart from addresses, times and the ids that brokers assign; those are replaced in later requests.
    The records that consumers read are compared, too. Run it with pytest, where kafkaraw is installed.
    """
    from kafkaraw.inspect.exporting import source_of

    exchanges, report = exchanges_in(file, shown, tls_keys)
    title = f"A captured conversation: {report.kafka} connections, {len(exchanges)} exchanges."
    test.write(source_of(exchanges, title=title, name=name))
    for words in report_lines(report):
        click.echo(f"% {words}", err=True)

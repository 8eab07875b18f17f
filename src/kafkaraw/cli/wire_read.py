"""`kafkaraw wire read`: the exchanges of a capture file. Start at `read`; `opened` opens captures for all commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from kafkaraw.cli.wire_tap import filter_options

if TYPE_CHECKING:
    from kafkaraw.inspect.captures import CaptureReader, CaptureReport
    from kafkaraw.inspect.exchanges import Exchange
    from kafkaraw.inspect.tap.lines import Filter, Lines

HOW_TO_DECRYPT: Final = (
    "With the session keys of either end (SSLKEYLOGFILE; for Java an agent such as jSSLKeyLog), --tls-keys FILE "
    "decrypts them. Or let the client connect through `kafkaraw wire tap`, which speaks TLS with either side."
)


tls_keys_option: Final = click.option(
    "--tls-keys", type=click.File("rb"), metavar="FILE", help="Session keys of TLS (SSLKEYLOGFILE), to decrypt with."
)


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("-v", "--verbose", "verbosity", count=True, help="Show the fields of messages; -vv shows their bytes.")
@filter_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format.  [default: text]")
@click.option("--with-secrets", is_flag=True, help="Show SASL tokens, credentials and configurations.")
@tls_keys_option
@click.option("-q", "--quiet", is_flag=True, help="Show the summary only.")
@click.pass_context
def read(
    ctx: click.Context,
    file: BinaryIO,
    shown: Filter,
    verbosity: int,
    output: str,
    with_secrets: bool,
    tls_keys: BinaryIO | None,
    quiet: bool,
) -> None:
    """Show the exchanges of a capture file.

    FILE is a pcap or pcapng file, as of tcpdump, dumpcap, Wireshark or `wire tap --save`, also compressed by gzip; -
    reads it from standard input, also while it is written: `tcpdump -U -w - tcp | kafkaraw wire read -`. Kafka is
    recognised on any port. Needs the package dpkt: pip install 'kafkaraw[wire]'.

    Lost and cut packets, and captures that begin within a connection, leave exchanges incomplete; a line with ! says
    what is missing. A response whose request is missing is shown with the API that fits its bytes best, and how sure
    that is. At the end, standard error has what the capture contains.

    The exit code is 1 if the capture has no Kafka, or is damaged.
    """
    from kafkaraw.inspect.captures import Remark
    from kafkaraw.inspect.tap.lines import Lines
    from kafkaraw.inspect.tap.summary import Summary

    is_text = output == "text"
    lines = Lines(verbosity, color=is_text and sys.stdout.isatty(), with_secrets=with_secrets, with_addresses=True)
    summary = Summary()
    reader = opened(file, tls_keys)
    try:
        for item in reader.read():
            if isinstance(item, Remark):
                if not quiet and is_text:
                    click.echo(f"! {item.words} ({item.connection.client} to {item.connection.broker})")
                elif not quiet:
                    click.echo(json.dumps(_remark_json(item)))
                continue
            summary.add(item)
            if not quiet and shown.fits(item):
                click.echo(lines.text(item) if is_text else _json_line(lines, item), nl=False)
                for note in notes_of(item) if is_text else ():
                    click.echo(f"    ! {note}")
        if quiet and is_text:
            _print_summary(summary)
        elif quiet:
            click.echo(json.dumps({"summary": summary.document()}, ensure_ascii=False))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    for words in report_lines(reader.report):
        click.echo(f"% {words}", err=True)
    if not reader.report.kafka or (reader.report.packets is not None and reader.report.packets.broken):
        ctx.exit(1)


def _json_line(lines: Lines, exchange: Exchange) -> str:
    """Return an exchange as JSON, with what the capture lacks of it, and how sure a guessed API is."""
    from kafkaraw.inspect.captures import GuessedResponse

    document = json.loads(lines.json(exchange))
    document["lacks"] = list(notes_of(exchange))
    if isinstance(exchange, GuessedResponse):
        document["guesses"] = [
            {"api": one.reading.api.name, "versions": list(one.versions), "share": round(one.share, 6)}
            for one in exchange.candidates
        ]
    return json.dumps(document, ensure_ascii=False) + "\n"


def opened(file: BinaryIO, tls_keys: BinaryIO | None) -> CaptureReader:
    """Return a reader of a capture.

    Raises:
        UsageError: it is no capture, or `dpkt` is missing.
    """
    from kafkaraw.inspect.captures import CaptureReader

    return CaptureReader(file, tls_key_log=tls_keys.read() if tls_keys is not None else b"")


def exchanges_in(file: BinaryIO, shown: Filter, tls_keys: BinaryIO | None) -> tuple[list[Exchange], CaptureReport]:
    """Return the exchanges of a capture that a filter lets through, and what the capture contains."""
    from kafkaraw.inspect.exchanges import Exchange

    reader = opened(file, tls_keys)
    found = [item for item in reader.read() if isinstance(item, Exchange) and shown.fits(item)]
    return found, reader.report


def notes_of(exchange: Exchange) -> Iterator[str]:
    """Yield what the capture lacks of an exchange."""
    for name, frame in (("request", exchange.request), ("answer", exchange.response)):
        if frame is not None and frame.note:
            yield f"{name}: {frame.note}"


def report_lines(report: CaptureReport) -> Iterator[str]:
    """Yield what a capture contains, in words."""
    packets = report.packets
    assert packets is not None
    yield (
        f"{packets.packets} packets, {report.connections} connections with data, {report.kafka} of Kafka: "
        f"{report.exchanges} exchanges, {report.unanswered} without an answer"
    )
    if report.guessed or report.unknown:
        yield (
            f"{report.guessed + report.unknown} answers whose request is not in the capture; "
            f"the API of {report.guessed} was guessed"
        )
    if report.missing_bytes or report.unread_bytes:
        yield (
            f"{report.missing_bytes} bytes of Kafka's connections are not in the capture, "
            f"{report.unread_bytes} are in no frame that can be read"
        )
    if packets.cut_bytes:
        yield f"packets were cut: {packets.cut_bytes} bytes were not captured; capture whole packets: tcpdump -s 0"
    if packets.fragments:
        yield f"{packets.fragments} IP fragments were not joined; their bytes count as missing"
    if packets.unreadable:
        links = f", of the link types {sorted(packets.link_types)}" if packets.link_types else ""
        yield f"{packets.unreadable} packets cannot be read{links}"
    for name, count in report.others.most_common():
        yield f"{count} connections speak {name}"
    if report.encrypted:
        yield f"{report.encrypted} connections are encrypted with TLS. {HOW_TO_DECRYPT}"
    for problem, count in report.tls_problems.items():
        yield f"{count} of them were not decrypted: {problem}"
    if packets.broken:
        yield f"the file cannot be read to its end: {packets.broken}"
    if not report.kafka and not report.encrypted:
        yield "no connection speaks Kafka; capture with: tcpdump -i any -s 0 -w FILE tcp port 9092"


def _remark_json(remark: object) -> dict[str, object]:
    from kafkaraw.inspect.captures import Remark

    assert isinstance(remark, Remark)
    return {
        "kind": "remark",
        "time_s": remark.at_s,
        "connection": remark.connection.number,
        "client": remark.connection.client,
        "broker": remark.connection.broker,
        "remark": remark.words,
    }


def _print_summary(summary: object) -> None:
    from kafkaraw.cli.rendering import TABLE, show
    from kafkaraw.inspect.tap.summary import Summary

    assert isinstance(summary, Summary)
    show(summary.rows(), TABLE)
    remarks = summary.remarks()
    if remarks:
        click.echo("\nWhat stands out:")
    for text in remarks:
        click.echo(f"- {text}")

"""`kafkaraw wire tap`: show what clients and brokers say to each other, through a proxy in front of a cluster.

The tap runs on a thread of its own, which makes the lines; another one writes them, so that a slow terminal costs lines
and no traffic. Start at `tap`; `LineWriter` drops lines.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.stopping import TURN_S, Stop
from kafkaraw.errors import UsageError
from kafkaraw.protocol.printable import printable

if TYPE_CHECKING:
    import ssl

    from kafkaraw.inspect.exchanges import Exchange
    from kafkaraw.inspect.tap.lines import Filter, Lines
    from kafkaraw.inspect.tap.proxy import Tap
    from kafkaraw.inspect.tap.saving import Saving
    from kafkaraw.inspect.tap.summary import Summary

QUEUED_LINES_MAX: Final = 20_000
QUEUED_BYTES_MAX: Final = 16 << 20
FLUSH_TIMEOUT_S: Final = 2.0
DESCRIPTORS_MAX: Final = 1 << 16
KEPT_UNSEEN_BYTES: Final = 1 << 10
"""Of large frames with records, if no bytes are shown."""


class LineWriter:
    """Writes lines on a thread. What a slow reader does not take is dropped and counted.

    Args:
        stream: to write to.

    Attributes:
        dropped: how many texts were dropped.
        is_broken: whether the reader has closed the stream.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.dropped: int = 0
        self.is_broken: bool = False
        self._stream = stream
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="kafkaraw-tap-lines", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Queue a text, or drop it."""
        data = text.encode(errors="backslashreplace")
        with self._changed:
            if len(self._lines) >= QUEUED_LINES_MAX or self._queued_bytes + len(data) > QUEUED_BYTES_MAX:
                self.dropped += 1
                return
            self._lines.append(data)
            self._queued_bytes += len(data)
            self._changed.notify()

    def close(self) -> None:
        """Write what is queued, as far as the reader takes it within `FLUSH_TIMEOUT_S`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(FLUSH_TIMEOUT_S)
        with self._changed:
            self.dropped += len(self._lines)
            self._lines.clear()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                lines = [self._lines.popleft() for _ in range(min(len(self._lines), 100))]
                self._queued_bytes -= sum(map(len, lines))
            try:
                self._stream.write(b"".join(lines))
                self._stream.flush()
            except (OSError, ValueError):
                self.is_broken = True
                return


def filter_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options that say which exchanges are shown, as its argument `shown`, a `Filter`."""
    options = (
        click.option("--api", "apis", multiple=True, metavar="NAME|KEY", help="Show only requests of this API."),
        click.option("--client-id", "client_ids", multiple=True, metavar="ID", help="Show only this client."),
        click.option("--topic", "topics", multiple=True, metavar="NAME", help="Show only requests about this topic."),
        click.option(
            "--group",
            "groups",
            multiple=True,
            metavar="ID",
            help="Show only requests of the group or transactional id.",
        ),
        click.option("--errors", "only_errors", is_flag=True, help="Show only what failed."),
        click.option("--slower-than", "slower_than_ms", type=float, metavar="MS", help="Show only slower answers."),
    )

    @functools.wraps(command)
    def with_filter(*arguments: object, **settings: Any) -> object:  # noqa: ANN401 - as click passes them
        from kafkaraw.inspect.frames import api_named
        from kafkaraw.inspect.tap.lines import Filter

        shown = Filter(
            api_keys=frozenset(api_named(name).key for name in settings.pop("apis")),
            client_ids=frozenset(settings.pop("client_ids")),
            topics=frozenset(settings.pop("topics")),
            groups=frozenset(settings.pop("groups")),
            only_errors=settings.pop("only_errors"),
            slower_than_ms=settings.pop("slower_than_ms"),
        )
        return command(*arguments, shown=shown, **settings)

    wrapped: Callable[..., object] = with_filter
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@click.command()
@cluster_options
@click.option(
    "--listen",
    default="127.0.0.1:19092",
    show_default=True,
    metavar="HOST:PORT[-LAST]",
    help="Address for clients; the brokers get the ports behind it.",
)
@click.option("--advertised-host", metavar="HOST", help="Host that clients are told.  [default: as they reach the tap]")
@click.option("--tls", "with_tls", is_flag=True, help="Speak TLS with clients, with a certificate made for this run.")
@click.option("--tls-cert", metavar="FILE", help="Speak TLS with clients, with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="Its private key, if it is in another file.")
@click.option("--fault", "faults", multiple=True, metavar="RULE", help="Inject a fault, as 'Produce nth=3: close'.")
@click.option("-v", "--verbose", "verbosity", count=True, help="Show the fields of messages; -vv shows their bytes.")
@filter_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format.  [default: text]")
@click.option("--save", type=click.File("wb"), metavar="FILE", help="Write a capture for Wireshark (pcapng).")
@click.option("--with-secrets", is_flag=True, help="Show SASL tokens, credentials and configurations.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N exchanges that are shown.")
@click.option("--seconds", type=click.FloatRange(0), metavar="S", help="End after this time.")
@click.option("-q", "--quiet", is_flag=True, help="Show the summary only.")
def tap(  # noqa: PLR0913 -- one for each option
    cluster: Cluster,
    shown: Filter,
    listen: str,
    advertised_host: str | None,
    with_tls: bool,
    tls_cert: str | None,
    tls_key: str | None,
    faults: tuple[str, ...],
    verbosity: int,
    output: str,
    save: BinaryIO | None,
    with_secrets: bool,
    count: int | None,
    seconds: float | None,
    quiet: bool,
) -> None:
    """Show what clients and brokers say to each other.

    Starts a proxy in front of each broker of the cluster, and shows each request with its answer. Give your client the
    address of --listen as its bootstrap server; nothing else changes for it: the tap replaces the addresses of brokers
    in answers by its own, and passes everything else on unchanged, SASL included. At the end, with Ctrl-C, it prints
    requests, bytes, latencies and errors by client and API, and what stands out.

    The security.protocol of -X or --config says whether the tap speaks TLS with the brokers; --tls or --tls-cert,
    whether clients speak TLS with the tap.

    A fault is API [name=value ...]: ACTION. The API is a name, or `any`. Names: client, topic, partition, broker,
    version, nth (the first request that it applies to), every (each so many requests from then on), times. Actions:
    answer CODE, delay TIME, limit RATE, close, swallow, cut BYTES, corrupt.
    """
    with Stop() as stop:
        from kafkaraw.inspect.tap.lines import Lines
        from kafkaraw.inspect.tap.proxy import KEPT_BYTES, Tap

        is_text = output == "text"
        tapped = Tap(
            bootstrap_of(cluster),
            listen=listen,
            advertised_host=advertised_host,
            tls=tls_of_brokers(cluster),
            listen_tls=_listen_tls(with_tls, tls_cert, tls_key, advertised_host),
            faults=_faults(faults),
            kept_record_bytes=KEPT_UNSEEN_BYTES if quiet or (is_text and not verbosity) else KEPT_BYTES,
        )
        lines = Lines(verbosity, color=is_text and sys.stdout.isatty(), with_secrets=with_secrets)
        screen = _Screen(lines, None if quiet else shown, is_text=is_text, count=count)
        saving = _saving(tapped, save, with_secrets=with_secrets)
        _allow_connections()
        try:
            with tapped:
                screen.begin(tapped)
                _wait(stop, screen, seconds)
        finally:
            screen.writer.close()
            if saving is not None:
                saving.close()
        _print_end(screen.summary, tapped, _missing(tapped, screen.writer, saving), is_text=is_text)


def _allow_connections() -> None:
    """Allow as many open files as the system permits: each connection needs two, and often 1024 are allowed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    with contextlib.suppress(OSError, ValueError):
        if wanted > resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Screen:
    """Turns exchanges into lines, on the tap's thread."""

    def __init__(self, lines: Lines, shown: Filter | None, *, is_text: bool, count: int | None) -> None:
        from kafkaraw.inspect.tap.summary import Summary

        self.summary: Summary = Summary()
        self.writer = LineWriter(sys.stdout.buffer)
        self.is_done = threading.Event()
        self._lines = lines
        self._shown = shown
        self._is_text = is_text
        self._left = count

    def begin(self, tapped: Tap) -> None:
        """Show what passes from now on."""
        tapped.observe(self._show)
        tapped.observe_notes(self._note)
        click.echo(f"% Give your client bootstrap.servers={tapped.bootstrap_servers}; Ctrl-C ends the tap.", err=True)

    def _show(self, exchange: Exchange) -> None:
        if self.is_done.is_set():
            return
        self.summary.add(exchange)
        is_shown = self._shown is None or self._shown.fits(exchange)
        if is_shown and self._shown is not None:
            self.writer.write(self._lines.text(exchange) if self._is_text else self._lines.json(exchange))
        if is_shown and self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.is_done.set()

    def _note(self, text: str) -> None:
        click.echo(f"% {printable(text)}", err=True)


def _wait(stop: Stop, screen: _Screen, seconds: float | None) -> None:
    left = seconds
    while not (stop.asked or screen.is_done.is_set() or screen.writer.is_broken):
        if left is not None and left <= 0:
            return
        turn = TURN_S if left is None else min(TURN_S, left)
        with contextlib.suppress(KeyboardInterrupt), stop.noted():
            screen.is_done.wait(turn)
        left = None if left is None else left - turn


def bootstrap_of(cluster: Cluster) -> str:
    """Return the bootstrap servers of a cluster."""
    return str(cluster.properties.get("bootstrap.servers") or cluster.properties["bootstrap_servers"])


def tls_of_brokers(cluster: Cluster) -> ssl.SSLContext | None:
    """How the tap speaks with brokers: TLS as the settings say; credentials of SASL are those of the tapped client."""
    from kafkaraw.client.config import AdminConfig, parse
    from kafkaraw.client.java_names import settings_from_properties
    from kafkaraw.client.network.security import tls_of

    given = settings_from_properties(AdminConfig, cluster.properties)
    if not str(given.get("security_protocol", "")).upper().endswith("SSL"):
        return None
    of_tls = {name: value for name, value in given.items() if name.startswith(("ssl_", "bootstrap"))}
    return tls_of(parse(AdminConfig, {**of_tls, "security_protocol": "SSL"}))


def _listen_tls(
    with_tls: bool, certificate: str | None, key: str | None, advertised_host: str | None
) -> ssl.SSLContext | None:
    if certificate is None and key is not None:
        raise UsageError("--tls-key needs --tls-cert, the certificate that it belongs to")
    if certificate is not None:
        from kafkaraw.net.tls import server_context

        return server_context(certificate=certificate, key=key, client_auth="none")
    if not with_tls:
        return None
    from kafkaraw.inspect.tap.certificates import own_certificate

    made = own_certificate(advertised_host)
    click.echo(f"% Give your client ssl.cafile (ssl.ca.location, ssl.truststore.location) {made.path}", err=True)
    return made.context


def _faults(rules: tuple[str, ...]) -> Any:  # noqa: ANN401 - Faults, which is imported only where there are some
    if not rules:
        return None
    from kafkaraw.broker.faults import Faults
    from kafkaraw.inspect.tap.rules import add_rule

    faults = Faults()
    for rule in rules:
        add_rule(faults, rule)
    return faults


def _saving(tapped: Tap, file: BinaryIO | None, *, with_secrets: bool) -> Saving | None:
    if file is None:
        return None
    from kafkaraw.inspect.tap.saving import Saving

    saving = Saving(file, with_secrets=with_secrets)
    tapped.save_to(saving)
    return saving


def _missing(tapped: Tap, writer: LineWriter, saving: Saving | None) -> list[str]:
    """What was not shown, counted or saved, in words."""
    missing = []
    if writer.dropped:
        missing.append(f"{writer.dropped} lines were not printed: the terminal is slower than the traffic")
    if tapped.dropped:
        missing.append(f"{tapped.dropped} exchanges were not counted: there were too many at once")
    if saving is not None and saving.left_out_bytes:
        missing.append(f"{saving.left_out_bytes} bytes were not saved: the file is too slow, or frames too large")
    if saving is not None and saving.error:
        missing.append(f"the capture is not complete: {saving.error}")
    return missing


def _print_end(summary: Summary, tapped: Tap, missing: list[str], *, is_text: bool) -> None:
    try:
        if not is_text:
            document = {**summary.document(), "notes": tapped.notes, "missing": missing}
            click.echo(json.dumps({"summary": document}, ensure_ascii=False))
            return
        _print_text(summary, [*tapped.notes, *missing])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_text(summary: Summary, notes: list[str]) -> None:
    from kafkaraw.cli.rendering import TABLE, show

    rows = summary.rows()
    if not rows:
        click.echo("\nNo request came.")
    else:
        click.echo()
        show(rows, TABLE)
    remarks = summary.remarks()
    if remarks or notes:
        click.echo("\nWhat stands out:")
    for text in (*remarks, *notes):
        click.echo(f"- {printable(text)}")

"""`kafkaraw registry`: a schema registry in the foreground."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import click

from kafkaraw.cli.broker import parse_properties, parse_users, read_properties
from kafkaraw.cli.stopping import Stop
from kafkaraw.errors import ConfigError

URL_LINE: Final = "url="
_DEFAULT_PORT: Final = 8081
_WAIT_S: Final = 3600.0


@click.command()
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap_servers",
    metavar="HOST:PORT[,...]",
    help="Kafka cluster with the topic _schemas, which is created if it does not exist.",
)
@click.option("--in-memory", is_flag=True, help="Keep the schemas in memory, without Kafka; they are lost at the end.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", default=_DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 for a free port."
)
@click.option("--read-only", is_flag=True, help="Refuse every change, and write nothing to the topic.")
@click.option(
    "--compatibility",
    default="backward",
    show_default=True,
    metavar="LEVEL",
    help="Level where no configuration sets one: none, backward, forward, full, or one of them with _transitive.",
)
@click.option(
    "--user", "users", multiple=True, metavar="NAME:PASSWORD", help="A user; requests must then authenticate."
)
@click.option("--tls-cert", metavar="FILE", help="Certificate chain (PEM); the registry then speaks https.")
@click.option("--tls-key", metavar="FILE", help="Private key (PEM), if it is not in --tls-cert.")
@click.option("--tls-ca", metavar="FILE", help="Certificates of the authorities of clients and other instances (PEM).")
@click.option("--tls-client-auth", is_flag=True, help="Clients need a certificate of one of the --tls-ca.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A schema-registry.properties file of Confluent's registry; -X overrides it.",
)
@click.option(
    "-X",
    "properties",
    multiple=True,
    metavar="PROPERTY=VALUE",
    help="A property under Confluent's name; those of the Kafka client begin with kafkastore.",
)
def registry(  # noqa: PLR0913  # one for each option
    bootstrap_servers: str | None,
    in_memory: bool,
    host: str,
    port: int,
    read_only: bool,
    compatibility: str,
    users: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    tls_client_auth: bool,
    config_file: Path | None,
    properties: tuple[str, ...],
) -> None:
    """Run a schema registry with the REST API of Confluent's.

    The schemas are in the compacted topic _schemas, in the format of Confluent's registry. Several instances with the
    same Kafka cluster elect the one that writes; the others send changes on to it. The first line printed is
    url=http://HOST:PORT. Ctrl-C or SIGTERM stops the command gracefully.
    """
    given: dict[str, object] = {}
    if config_file is not None:
        given.update(read_properties(config_file))
    given.update(parse_properties(properties))
    has_kafka = bootstrap_servers is not None or "kafkastore.bootstrap.servers" in given
    if in_memory == has_kafka:
        raise click.UsageError("give -b HOST:PORT for the Kafka cluster with the schemas, or --in-memory, and not both")
    if tls_cert is None and (tls_key or tls_ca or tls_client_auth):
        raise click.UsageError("--tls-key, --tls-ca and --tls-client-auth need --tls-cert")
    if tls_client_auth and tls_ca is None:
        raise click.UsageError("--tls-client-auth needs --tls-ca")
    with Stop() as stop:
        from kafkaraw.schemas.server.embedded import EmbeddedRegistry
        from kafkaraw.schemas.server.settings import TlsSettings

        tls = None
        if tls_cert is not None:
            client_auth = "required" if tls_client_auth else "none"
            tls = TlsSettings(tls_cert, tls_key, trusted=tls_ca, client_auth=client_auth)
        try:
            running = EmbeddedRegistry(
                bootstrap_servers,
                host=host,
                port=port,
                users=parse_users(users),
                tls=tls,
                read_only=read_only,
                elect=True,
                compatibility_level=compatibility,
                properties=given,
                progress=_Progress(),
            )
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        with running:
            click.echo(f"{URL_LINE}{running.url}")
            while not stop.asked:
                threading.Event().wait(_WAIT_S)  # a signal ends it
    if stop.asked:
        click.echo("% Stopped.", err=True)


class _Progress:
    """Prints how far the topic is read, at every tenth of it."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done: int, of: int) -> None:
        tenths = done * 10 // of if of else 10
        if tenths > self._tenths and of >= _SHOWN_FROM:
            self._tenths = tenths
            click.echo(f"% read {done} of {of} records", err=True)


_SHOWN_FROM: Final = 10_000

"""`kafkaraw broker`: the embedded broker, alone, in the foreground."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="0 takes a free port.  [default: 9092]")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the topics in this folder; without it they live in memory and are gone at the end.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kafka's server.properties, or one like it; what is given by -X stands before it.",
)
@click.option("-X", "properties", multiple=True, metavar="PROPERTY=VALUE", help="A setting, by Kafka's own name.")
@click.option("--user", "users", multiple=True, metavar="NAME:PASSWORD", help="Who may log in; clients must, then.")
@click.option("--nodes", type=click.IntRange(1, 99), default=1, show_default=True, help="Brokers, in one process.")
def broker(
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    config_file: Path | None,
    properties: tuple[str, ...],
    users: tuple[str, ...],
    nodes: int,
) -> None:
    """Run a broker for development and tests, or a cluster of several.

    The first line it prints is bootstrap.servers=HOST:PORT, with commas when there are more. The nodes of a cluster
    have the ports from PORT on. Stop it with Ctrl-C or SIGTERM.
    """
    from kafkaraw.broker import run_broker
    from kafkaraw.core.java_properties import parse_java_properties

    given = {} if config_file is None else parse_java_properties(config_file.read_text(encoding="utf-8"))
    given.update(parse_properties(properties))
    try:
        run_broker(given, data_dir, host, port, users=parse_users(users), nodes=nodes)
    except OSError as error:
        raise click.ClickException(f"--data-dir {data_dir}: {error}") from error


def parse_users(texts: tuple[str, ...]) -> dict[str, str]:
    """`NAME:PASSWORD` pairs as a mapping.

    Raises:
        click.BadParameter: one has no colon, or no name; the message does not show the password.
    """
    users = {}
    for text in texts:
        name, colon, password = text.partition(":")
        if not colon or not name or not password:
            raise click.BadParameter("a user is given as NAME:PASSWORD", param_hint="--user")
        users[name] = password
    return users


def parse_properties(texts: tuple[str, ...]) -> dict[str, str]:
    """`name=value` pairs as a mapping.

    Raises:
        click.BadParameter: one has no `=`, or no name.
    """
    parsed = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not of the form property=value", param_hint="-X")
        parsed[name.strip()] = value.strip()
    return parsed

"""`kafkaraw broker`: the embedded broker in the foreground; `kafkaraw broker nodes`: commands to a running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

ANSWER_TIMEOUT_S: Final = 60.0
PORT_MAX: Final = 65_535


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Parse numbers separated by commas."""
    if value is None:
        return None
    try:
        return tuple(int(number) for number in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 1,2,3", ctx, parameter) from None


def _address(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Parse [HOST:]PORT."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise click.BadParameter(f"{value!r} is not PORT or HOST:PORT", ctx, parameter)
    return host.strip("[]") or "127.0.0.1", int(port)


@click.group(invoke_without_command=True)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 for a free port.  [default: 9092]")
@click.option(
    "--data-dir",
    "data_dirs",
    multiple=True,
    metavar="DIRECTORY",
    help="Store the logs in this folder, or in several (repeat it, or separate them by commas); without it they are in "
    "memory, and lost at the end.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Serve --data-dir without changing a byte of it; every change is refused. For copies and backups.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties file of Kafka; -X overrides it.",
)
@click.option("-X", "properties", multiple=True, metavar="PROPERTY=VALUE", help="A broker property, with Kafka's name.")
@click.option(
    "--user", "users", multiple=True, metavar="NAME:PASSWORD", help="A user for SASL; clients must then authenticate."
)
@click.option("--nodes", type=click.IntRange(1, 99), help="Number of brokers, all in one process.  [default: 1]")
@click.option("--node-ids", callback=_numbers, metavar="ID,...", help="Node ids of the brokers.  [default: 0,1,2,...]")
@click.option("--ports", callback=_numbers, metavar="PORT,...", help="Port of each broker, instead of --port.")
@click.option("--port-step", type=click.IntRange(1), help="Difference between the ports of two brokers.  [default: 1]")
@click.option(
    "--control-socket",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Socket for the commands of `nodes`.  [default: a path that `nodes` finds]",
)
@click.option(
    "--metrics",
    callback=_address,
    metavar="[HOST:]PORT",
    help="Serve the metrics that clients push (KIP-714), and those of share groups, at http://HOST:PORT/metrics, for "
    "Prometheus; port 0 is a free one.  [default HOST: 127.0.0.1]",
)
@click.option(
    "--console",
    "console_address",
    callback=_address,
    metavar="[HOST:]PORT",
    help="Show the cluster in a web console at http://HOST:PORT/; port 0 is a free one. HOST is of this machine only.",
)
@click.option("--allow-writes", is_flag=True, help="Allow changes in the console.")
@click.pass_context
def broker(  # noqa: PLR0913  # one for each option
    context: click.Context,
    host: str | None,
    port: int | None,
    data_dirs: tuple[str, ...],
    read_only: bool,
    config_file: Path | None,
    properties: tuple[str, ...],
    users: tuple[str, ...],
    nodes: int | None,
    node_ids: tuple[int, ...] | None,
    ports: tuple[int, ...] | None,
    port_step: int | None,
    control_socket: Path | None,
    metrics: tuple[str, int] | None,
    console_address: tuple[str, int] | None,
    allow_writes: bool,
) -> None:
    """Run a broker, or a cluster of several, for development and tests.

    The first line printed is bootstrap.servers=HOST:PORT[,HOST:PORT...]. The brokers of a cluster have consecutive
    ports from --port on; `kafkaraw broker nodes` stops, kills and starts them. Ctrl-C or SIGTERM stops the command.
    """
    if context.invoked_subcommand is not None:
        _check_no_options(context)
        return
    from kafkaraw.broker import run_broker

    given = {} if config_file is None else read_properties(config_file)
    given.update(parse_properties(properties))
    if read_only:
        if not data_dirs:
            raise click.UsageError("--read-only serves a directory: name it with --data-dir")
        if nodes not in (None, 1) or node_ids is not None:
            raise click.UsageError("--read-only serves the directory of one node: leave out --nodes and --node-ids")
        given["read.only"] = "true"
    if port_step is not None:
        if ports is not None:
            raise click.UsageError("--ports and --port-step exclude each other: --ports names the port of each node")
        port, ports = None, _stepped(port, port_step, len(node_ids) if node_ids else nodes or 1)
    if allow_writes and console_address is None:
        raise click.UsageError("--allow-writes is about the console: give --console PORT, too")
    console = None
    if console_address is not None:
        from kafkaraw.cli.console_server import ConsoleOfBroker

        console = ConsoleOfBroker(*console_address, parse_users(users), allow_writes=allow_writes)
    try:
        run_broker(
            given,
            ",".join(data_dirs) or None,
            host,
            port,
            users=parse_users(users),
            nodes=nodes,
            node_ids=node_ids,
            ports=ports,
            control_socket=control_socket,
            metrics=metrics,
            on_started=console,
            faults=None if console is None else console.faults,
        )
    except OSError as error:
        raise click.ClickException(f"--data-dir {','.join(data_dirs)}: {error}") from error


def _check_no_options(context: click.Context) -> None:
    given = [
        option.opts[0]
        for option in context.command.params
        if context.get_parameter_source(str(option.name)) not in (click.core.ParameterSource.DEFAULT, None)
    ]
    if given:
        raise click.UsageError(
            f"{', '.join(given)}: not allowed before `nodes`, which does not change a cluster; --control-socket goes "
            "after it"
        )


def _stepped(port: int | None, step: int, nodes: int) -> tuple[int, ...]:
    from kafkaraw.broker.configs.arguments import DEFAULT_PORT

    first = DEFAULT_PORT if port is None else port
    ports = tuple(range(first, first + nodes * step, step)) if first else (0,) * nodes
    if ports[-1] > PORT_MAX:
        raise click.UsageError(f"--port-step: the last of {nodes} nodes would have port {ports[-1]}")
    return ports


@broker.group()
@click.option(
    "--control-socket",
    type=click.Path(path_type=Path),
    help="The control.socket printed by the cluster; needed if several clusters run.  [default: the only one]",
)
@click.pass_context
def nodes(context: click.Context, control_socket: Path | None) -> None:
    """List, stop, kill and start the nodes of a running cluster.

    The cluster is one started by the same user on this machine, with `kafkaraw broker --nodes` or `--node-ids`.
    """
    context.obj = control_socket


@nodes.command("list")
@click.pass_obj
def list_nodes(control_socket: Path | None) -> None:
    """Print the id, state and address of each node."""
    for node in _asked(control_socket, {"command": "list"}):
        words = [str(node["node"]), node["state"], node["address"]] + ["controller"] * bool(node["controller"])
        click.echo("\t".join(words))


@nodes.command()
@click.argument("node", type=click.IntRange(0))
@click.pass_obj
def stop(control_socket: Path | None, node: int) -> None:
    """Stop a node gracefully, as on SIGTERM: leaders move to other nodes first, and logs are synced."""
    _asked(control_socket, {"command": "stop", "node": node})


@nodes.command()
@click.argument("node", type=click.IntRange(0))
@click.pass_obj
def kill(control_socket: Path | None, node: int) -> None:
    """Kill a node, as with SIGKILL: connections break, nothing is synced, and new leaders are elected afterwards."""
    _asked(control_socket, {"command": "kill", "node": node})


@nodes.command()
@click.argument("node", type=click.IntRange(0))
@click.pass_obj
def start(control_socket: Path | None, node: int) -> None:
    """Start a stopped or killed node again, at the same address; its replicas catch up."""
    _asked(control_socket, {"command": "start", "node": node})


def _asked(control_socket: Path | None, request: dict[str, object]) -> list[dict[str, Any]]:
    """Send a command to the cluster, and return its nodes."""
    from kafkaraw.net.control_socket import ask

    answer = ask(control_socket or _only_socket(), request, ANSWER_TIMEOUT_S)
    if "error" in answer:
        raise click.ClickException(answer["error"])
    found = answer["nodes"]
    assert isinstance(found, list)
    return found


def _only_socket() -> Path:
    from kafkaraw.net.control_socket import default_folder, found_by_default

    found = found_by_default()
    if not found:
        raise click.ClickException(
            f"no running cluster of this user was found in {default_folder()}: start one with "
            "`kafkaraw broker --nodes 3`, or give its --control-socket"
        )
    if len(found) > 1:
        listed = ", ".join(str(path) for path in found)
        raise click.ClickException(f"several clusters are running: give the --control-socket of one of them: {listed}")
    return found[0]


def parse_users(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `NAME:PASSWORD` pairs as a mapping.

    Raises:
        click.BadParameter: one has no colon, or no name; the message does not show the password.
    """
    users = {}
    for text in texts:
        name, colon, password = text.partition(":")
        if not colon or not name or not password:
            raise click.BadParameter("must be NAME:PASSWORD", param_hint="--user")
        users[name] = password
    return users


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file: UTF-8, or ISO 8859-1 as Java reads it, which every other file can be."""
    from kafkaraw.core.java_properties import parse_java_properties

    data = path.read_bytes()
    try:
        return parse_java_properties(data.decode("utf-8"))
    except UnicodeDecodeError:
        return parse_java_properties(data.decode("iso-8859-1"))


def parse_properties(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `name=value` pairs as a mapping.

    Raises:
        click.BadParameter: one has no `=`, or no name.
    """
    parsed = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} must be PROPERTY=VALUE", param_hint="-X")
        parsed[name.strip()] = value.strip()
    return parsed

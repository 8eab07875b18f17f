"""`kafkaraw broker`: the embedded broker in the foreground; `kafkaraw broker nodes`: commands to a running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

ANSWER_TIMEOUT_S: Final = 60.0
PORT_MAX: Final = 65_535


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Numbers separated by commas."""
    if value is None:
        return None
    try:
        return tuple(int(number) for number in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 1,2,3", ctx, parameter) from None


@click.group(invoke_without_command=True)
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
@click.option("--nodes", type=click.IntRange(1, 99), help="Brokers, in one process.  [default: 1]")
@click.option("--node-ids", callback=_numbers, metavar="ID,...", help="Their ids.  [default: 0,1,2 and so on]")
@click.option("--ports", callback=_numbers, metavar="PORT,...", help="The port of each, instead of --port.")
@click.option("--port-step", type=click.IntRange(1), help="From the port of a node to that of the next.  [default: 1]")
@click.option(
    "--control-socket",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where a cluster takes the commands of `nodes`.  [default: a place that `nodes` finds]",
)
@click.pass_context
def broker(  # noqa: PLR0913  # one for each option
    context: click.Context,
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    config_file: Path | None,
    properties: tuple[str, ...],
    users: tuple[str, ...],
    nodes: int | None,
    node_ids: tuple[int, ...] | None,
    ports: tuple[int, ...] | None,
    port_step: int | None,
    control_socket: Path | None,
) -> None:
    """Run a broker for development and tests, or a cluster of several.

    The first line it prints is bootstrap.servers=HOST:PORT, with commas when there are more. The nodes of a cluster
    have the ports from PORT on, and `kafkaraw broker nodes` stops, kills and starts them. Stop it with Ctrl-C or
    SIGTERM.
    """
    if context.invoked_subcommand is not None:
        _check_no_options(context)
        return
    from kafkaraw.broker import run_broker
    from kafkaraw.core.java_properties import parse_java_properties

    given = {} if config_file is None else parse_java_properties(config_file.read_text(encoding="utf-8"))
    given.update(parse_properties(properties))
    if port_step is not None:
        if ports is not None:
            raise click.UsageError("--ports names the port of each node: --port-step says nothing more")
        port, ports = None, _stepped(port, port_step, len(node_ids) if node_ids else nodes or 1)
    try:
        run_broker(
            given,
            data_dir,
            host,
            port,
            users=parse_users(users),
            nodes=nodes,
            node_ids=node_ids,
            ports=ports,
            control_socket=control_socket,
        )
    except OSError as error:
        raise click.ClickException(f"--data-dir {data_dir}: {error}") from error


def _check_no_options(context: click.Context) -> None:
    given = [
        name for name in context.params if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    ]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(
            f"{options}: options of `kafkaraw broker`, not of `nodes`; give them after it or leave out"
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
    help="Of which cluster, if several run: what it printed as control.socket.  [default: the one that runs]",
)
@click.pass_context
def nodes(context: click.Context, control_socket: Path | None) -> None:
    """List, stop, kill and start the nodes of a cluster that runs.

    The cluster is one that `kafkaraw broker --nodes` or `--node-ids` runs, of the same user on the same machine.
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
    """Stop a node as Kafka stops on SIGTERM: other nodes become leaders first, and its logs are synced."""
    _asked(control_socket, {"command": "stop", "node": node})


@nodes.command()
@click.argument("node", type=click.IntRange(0))
@click.pass_obj
def kill(control_socket: Path | None, node: int) -> None:
    """Stop a node as a process ends on SIGKILL: connections break, nothing is synced, others are elected afterwards."""
    _asked(control_socket, {"command": "kill", "node": node})


@nodes.command()
@click.argument("node", type=click.IntRange(0))
@click.pass_obj
def start(control_socket: Path | None, node: int) -> None:
    """Start a node that was stopped or killed, on the address that it had; its replicas catch up."""
    _asked(control_socket, {"command": "start", "node": node})


def _asked(control_socket: Path | None, request: dict[str, object]) -> list[dict[str, Any]]:
    """Ask the cluster for its nodes, and return its answer."""
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
            f"no cluster of this user runs (looked in {default_folder()}): start one by `kafkaraw broker --nodes 3`, "
            "or name its --control-socket"
        )
    if len(found) > 1:
        listed = ", ".join(str(path) for path in found)
        raise click.ClickException(f"several clusters run: name the --control-socket of one of them: {listed}")
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
            raise click.BadParameter("a user is given as NAME:PASSWORD", param_hint="--user")
        users[name] = password
    return users


def parse_properties(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `name=value` pairs as a mapping.

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

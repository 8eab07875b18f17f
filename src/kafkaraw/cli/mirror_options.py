"""The options of commands about a mirror: its configuration, and which of its flows.

`mirror_option` adds `-m` to a command, `flow_option` also `--flow`. With `unread_flow_option`, the command calls
`read_flow` itself. Nothing is read before it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from kafkaraw.mirror.clients import FlowClients
    from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings

FILES: Final = ("mirror.properties", "mirror.yml", "mirror.yaml", "mm2.properties")
_COMPLETED_S: Final = 1.0

_MIRROR: Final = click.option(
    "-m",
    "--mirror",
    "mirror_file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="KAFKARAW_MIRROR",
    show_envvar=True,
    metavar="FILE",
    help="Configuration of the mirror.  [default: mirror.properties or mirror.yml of this folder]",
)


def read_mirror(mirror_file: Path | None) -> MirrorSettings:
    """Return the configuration of a mirror.

    Args:
        mirror_file: the value of `-m`.

    Raises:
        click.UsageError: there is none, or it is not valid.
    """
    from kafkaraw.mirror.settings import read_mirror_settings

    path = mirror_file or next((Path(name) for name in FILES if Path(name).is_file()), None)
    if path is None:
        raise click.UsageError(
            "no mirror given: use -m FILE, the environment variable KAFKARAW_MIRROR, or a folder with mirror.properties"
        )
    try:
        return read_mirror_settings(path)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def clients_of(flow: MirrorFlow) -> FlowClients:
    """Return the clients of a flow."""
    from kafkaraw.mirror.clients import FlowClients

    return FlowClients(flow.copy)


def mirror_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add `-m` to a command; it gets a `MirrorSettings` as `mirror`."""

    @functools.wraps(command)
    def with_mirror(*arguments: object, mirror_file: Path | None, **others: object) -> object:
        return command(*arguments, mirror=read_mirror(mirror_file), **others)

    return _MIRROR(with_mirror)


def read_flow(mirror_file: Path | None, flow_name: str | None) -> tuple[MirrorSettings, MirrorFlow]:
    """Return the configuration of a mirror, and one of its flows.

    Args:
        mirror_file: the value of `-m`.
        flow_name: the value of `--flow`.

    Raises:
        click.UsageError: there is none, or it is not valid.
    """
    mirror = read_mirror(mirror_file)
    try:
        return mirror, mirror.flow(flow_name)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def flow_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add `-m` and `--flow` to a command; it gets a `MirrorFlow` as `flow`, and the configuration as `mirror`."""

    @functools.wraps(command)
    def with_flow(*arguments: object, mirror_file: Path | None, flow_name: str | None, **others: object) -> object:
        mirror, flow = read_flow(mirror_file, flow_name)
        return command(*arguments, mirror=mirror, flow=flow, **others)

    return unread_flow_option(with_flow)


def unread_flow_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add `-m` and `--flow` to a command that may work without a mirror; it gets `mirror_file` and `flow_name`."""
    option = click.option(
        "--flow",
        "flow_name",
        metavar="SOURCE->TARGET",
        shell_complete=_complete_flows,
        help="The flow, if the configuration has several.",
    )
    return _MIRROR(option(command))


def _complete_flows(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        flows = read_mirror(ctx.params.get("mirror_file")).flows
    except (KafkaError, click.ClickException, OSError):
        return []
    return [flow.name for flow in flows if flow.name.startswith(incomplete)]


def complete_groups_of(*, back: bool) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion of groups of the cluster that a command moves groups from.

    Args:
        back: from the target.
    """

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        import asyncio

        async def names() -> list[str]:
            flow = read_mirror(ctx.params.get("mirror_file")).flow(ctx.params.get("flow_name"))
            async with asyncio.timeout(_COMPLETED_S), clients_of(flow).admin(of_source=not back) as admin:
                return [group.group_id for group in await admin.list_groups()]

        try:
            return [name for name in asyncio.run(names()) if name.startswith(incomplete)]
        except (KafkaError, click.ClickException, OSError, TimeoutError):
            return []

    return complete

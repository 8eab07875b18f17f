"""`kafkaraw console`: look into clusters with a browser."""

from __future__ import annotations

import ipaddress
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.console_mirrors import ConfiguredMirror, found_mirrors
from kafkaraw.cli.console_pipelines import pipelines_in
from kafkaraw.cli.console_server import console_of, share_states
from kafkaraw.cli.registries import registry_option

if TYPE_CHECKING:
    from kafkaraw.console.serving import Console
    from kafkaraw.console.settings import Check, ClusterSettings, ConsoleSettings, OidcSettings
    from kafkaraw.inspect import Tap

URL_LINE: Final = "url="
USERS_VARIABLE: Final = "KAFKARAW_CONSOLE_USERS"
SECRET_VARIABLE: Final = "KAFKARAW_CONSOLE_OIDC_SECRET"
TAP_ADDRESS: Final = "127.0.0.1:19092"
_DEFAULT_PORT: Final = 8088

EPILOG: Final = """\b
Examples:
  kafkaraw console -b localhost:9092
  kafkaraw console --cluster staging --cluster production:red      profiles, each with its color
  kafkaraw console -b localhost:9092 --allow-writes --audit-file console.log
  kafkaraw console -b localhost:9092 --tap
  KAFKARAW_CONSOLE_USERS=ada:secret kafkaraw console -b kafka:9092 --host 0.0.0.0
  kafkaraw console -b kafka:9092 --host 0.0.0.0 --user-header X-Forwarded-User --proxy 10.0.0.7
\b
The console listens on 127.0.0.1 and changes nothing, unless options say otherwise. On other addresses it demands a
login.
"""


class ConsoleOptions(TypedDict):
    """The command's options, by click's names."""

    registry_url: str | None
    cluster_names: tuple[str, ...]
    pipelines: tuple[Path, ...]
    mirrors: tuple[Path, ...]
    tap: str | None
    host: str
    port: int
    users: tuple[str, ...]
    user_header: str | None
    proxies: tuple[str, ...]
    oidc_issuer: str | None
    oidc_client: str
    oidc_users: tuple[str, ...]
    oidc_groups: tuple[str, ...]
    oidc_user_claim: str
    oidc_groups_claim: str
    oidc_scopes: tuple[str, ...]
    public_url: str
    allowed_hosts: tuple[str, ...]
    allow_writes: bool
    masks: tuple[str, ...]
    audit_file: Path | None


@click.command(epilog=EPILOG)
@cluster_options
@registry_option
@click.option(
    "--cluster",
    "cluster_names",
    multiple=True,
    metavar="PROFILE[:COLOR]",
    help="A cluster of this profile; repeatable. Colors: blue, green, purple, orange, teal, pink, brown, red.",
)
@click.option(
    "--pipeline",
    "pipelines",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A pipeline's folder or specification, or a folder with such folders; for the first cluster; repeatable.",
)
@click.option(
    "--mirror",
    "mirrors",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration of a mirror, whose flows are shown with the first cluster; repeatable.",
)
@click.option(
    "--tap",
    is_flag=False,
    flag_value=TAP_ADDRESS,
    metavar="[HOST:PORT]",
    help=f"Start a tap in front of the first cluster, and show what passes it.  [default address: {TAP_ADDRESS}]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need a login.")
@click.option(
    "--port", default=_DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 for a free port."
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help=f"A user for basic authentication. Other users of this machine can see options: {USERS_VARIABLE} with "
    "NAME:PASSWORD,... is not seen.",
)
@click.option("--user-header", metavar="NAME", help="The request header in which a proxy names the user.")
@click.option("--proxy", "proxies", multiple=True, metavar="ADDRESS[/BITS]", help="The address of this proxy.")
@click.option(
    "--oidc-issuer",
    metavar="URL",
    help=f"Log users in with this OpenID Connect provider. {SECRET_VARIABLE} has the client's secret.",
)
@click.option("--oidc-client", default="", metavar="ID", help="The console's client id there.")
@click.option("--oidc-user", "oidc_users", multiple=True, metavar="NAME", help="Who may use the console; * for all.")
@click.option("--oidc-group", "oidc_groups", multiple=True, metavar="NAME", help="Whose members may use the console.")
@click.option("--oidc-user-claim", default="preferred_username", show_default=True, help="The claim with the user.")
@click.option("--oidc-groups-claim", default="groups", show_default=True, help="The claim with the user's groups.")
@click.option("--oidc-scope", "oidc_scopes", multiple=True, metavar="SCOPE", help="Ask for this scope, too.")
@click.option(
    "--public-url", default="", metavar="URL", help="Where browsers reach the console, such as a proxy's URL."
)
@click.option("--allowed-host", "allowed_hosts", multiple=True, metavar="NAME", help="Answer to this name, too.")
@click.option("--allow-writes", is_flag=True, help="Allow changes; those that destroy ask for the name.")
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="NAME",
    help="Do not show fields of values and headers of this name, at any depth; repeatable. SQL is off then.",
)
@click.option(
    "--audit-file", type=click.Path(dir_okay=False, path_type=Path), help="Append each change to this file, as JSON."
)
def console(cluster: Cluster, **options: Unpack[ConsoleOptions]) -> None:
    """Look into clusters with a browser: topics, messages, groups, transactions, schemas, permissions, SQL.

    The first line printed is url=http://HOST:PORT/. Ctrl-C or SIGTERM stops the command.
    """
    import asyncio
    import os

    from kafkaraw.records.memory import return_freed_memory

    return_freed_memory()
    # Arrow's own allocator keeps 40 MB for the threads of a search that need 1 MB; it is chosen when Arrow is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    asyncio.run(_run(console_of(settings_of(cluster, options))))
    click.echo("% Stopped.", err=True)


async def _run(console: Console) -> None:
    """Run a console until a signal comes; a second one ends the process."""
    import asyncio

    loop = asyncio.get_running_loop()

    def stop() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        console.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await console.run(lambda: click.echo(f"{URL_LINE}{console.url}"))


def settings_of(cluster: Cluster, options: ConsoleOptions) -> ConsoleSettings:
    """Return what the options say.

    Raises:
        click.UsageError: an option is invalid, or none names a cluster.
    """
    from kafkaraw.cli.broker import parse_users
    from kafkaraw.console.settings import ConsoleSettings
    from kafkaraw.errors import ConfigError

    given = [each for each in os.environ.get(USERS_VARIABLE, "").split(",") if each]
    try:
        return ConsoleSettings(
            clusters=_clusters(cluster, options),
            host=options["host"],
            port=options["port"],
            users=parse_users((*given, *options["users"])),
            user_header=options["user_header"],
            proxies=[_network(each) for each in options["proxies"]],
            oidc=_oidc(options),
            public_url=options["public_url"],
            allowed_hosts=options["allowed_hosts"],
            allow_writes=options["allow_writes"],
            masks=frozenset(each.lower() for each in options["masks"]),
            audit_file=options["audit_file"],
        )
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _oidc(options: ConsoleOptions) -> OidcSettings | None:
    from kafkaraw.console.settings import OIDC_SCOPES, OidcSettings

    if options["oidc_issuer"] is None:
        return None
    return OidcSettings(
        options["oidc_issuer"],
        options["oidc_client"],
        os.environ.get(SECRET_VARIABLE, ""),
        users=frozenset(options["oidc_users"]),
        groups=frozenset(options["oidc_groups"]),
        user_claim=options["oidc_user_claim"],
        groups_claim=options["oidc_groups_claim"],
        scopes=(*OIDC_SCOPES, *options["oidc_scopes"]),
    )


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--proxy") from error


def _clusters(cluster: Cluster, options: ConsoleOptions) -> list[ClusterSettings]:
    from kafkaraw.console.settings import COLORS

    chosen: list[tuple[str, str, Cluster]] = []
    for each in options["cluster_names"]:
        name, _, color = each.partition(":")
        chosen.append((name, color, Cluster(None, None, cluster.given, name)))
    if not chosen or cluster.servers or cluster.config_file or cluster.profile:
        chosen.insert(0, (cluster.profile or "cluster", "", cluster))
    found = []
    for index, (name, color, each_cluster) in enumerate(chosen):
        color = color or COLORS[index % (len(COLORS) - 1)]  # not red, which is chosen by the user
        made = cluster_settings(each_cluster, name, color, options["registry_url"])
        found.append(made if index else _with_providers(made, each_cluster, options))
    return found


def _with_providers(settings: ClusterSettings, cluster: Cluster, options: ConsoleOptions) -> ClusterSettings:
    """Return the settings of the first cluster, with what options name besides clusters."""
    return replace(
        settings,
        pipelines=pipelines_in(options["pipelines"]),
        mirrors={str(each): ConfiguredMirror(each) for each in options["mirrors"]},
        tap=lambda: _tap_of(cluster, options["tap"]),
        starts_tap=options["tap"] is not None,
    )


def _tap_of(cluster: Cluster, address: str | None = None) -> Tap:
    """Return a tap in front of a cluster."""
    from kafkaraw.cli.wire_tap import bootstrap_of, tls_of_brokers
    from kafkaraw.console.wire import KEPT_BYTES
    from kafkaraw.inspect import Tap

    listen = address or "127.0.0.1:0"
    return Tap(bootstrap_of(cluster), listen=listen, tls=tls_of_brokers(cluster), kept_bytes=KEPT_BYTES)


def cluster_settings(cluster: Cluster, name: str, color: str, registry_url: str | None) -> ClusterSettings:
    """Return the settings of one cluster of a console."""
    from kafkaraw.client.config import AdminConfig, ConsumerConfig
    from kafkaraw.console.settings import ClusterSettings

    address = cluster.registry(registry_url)
    registry: dict[str, object] | None = None
    if address.is_given:
        registry = dict(address.properties)
        if address.url is not None:
            registry.pop("schema.registry.url", None)
            registry["url"] = address.url
    if cluster.profile:
        option = f"--profile {cluster.profile}"
    else:
        option = f"-F {cluster.config_file}" if cluster.config_file else f"-b {cluster.servers or ''}"
    return ClusterSettings(
        name=name,
        client=cluster.settings(AdminConfig),
        consumer=cluster.settings(ConsumerConfig),
        color=color,
        option=option,
        registry=registry,
        diagnose=_Diagnosis(cluster).checks,
        found_mirrors=found_mirrors,
        tap=lambda: _tap_of(cluster),
        share_states=share_states,
    )


class _Diagnosis:
    """Does what `kafkaraw doctor` does, for a page."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def checks(self) -> list[Check]:
        from kafkaraw.client.config import AdminConfig, parse
        from kafkaraw.client.network.diagnosis import diagnose
        from kafkaraw.console.settings import Check

        found = await diagnose(parse(AdminConfig, self._cluster.settings(AdminConfig)), timeout=_CHECK_TIMEOUT_S)
        return [
            Check(
                f"{visit.who} {visit.address}",
                visit.failed is None,
                visit.found if visit.failed is None else f"{visit.failed}: {visit.why}. Try: {visit.remedy}",
            )
            for visit in found.visits
        ]


_CHECK_TIMEOUT_S: Final = 3.0

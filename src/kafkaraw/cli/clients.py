"""The options of all commands that connect to a cluster: the cluster, and the settings of its clients.

`cluster_options` adds `-b`, `--config`, `-X` and `--profile` to a command, which receives one `Cluster`;
`to_cluster_options` adds those of a second one. A setting of
`-X` overrides the file of `--config`, which overrides the profile; `-b` overrides all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kafkaraw.cli.broker import parse_properties
from kafkaraw.cli.registries import RegistryAddress, is_of_registry, of_registry
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from kafkaraw.client.blocking.admin import Admin
    from kafkaraw.client.config import ClientConfig

_OPTIONS = (
    click.option(
        "-b",
        "--bootstrap-server",
        "servers",
        metavar="HOST:PORT[,...]",
        envvar="KAFKARAW_BOOTSTRAP_SERVER",
        show_envvar=True,
        help="Bootstrap servers.",
    ),
    click.option(
        "-F",
        "--config",
        "--command-config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False),
        envvar="KAFKARAW_CONFIG",
        show_envvar=True,
        help="A .properties file with the names of the Java client or of librdkafka.",
    ),
    click.option(
        "-X",
        "--command-property",
        "properties",
        multiple=True,
        metavar="PROPERTY=VALUE",
        help="A client setting, with the name of kafkaraw, the Java client or librdkafka; overrides the file.",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        envvar="KAFKARAW_PROFILE",
        show_envvar=True,
        help="Settings of this name in ~/.config/kafkaraw/profiles.toml.",
    ),
)


@dataclass(frozen=True)
class Cluster:
    """A cluster, and the settings of its clients; nothing is read before it is needed.

    Attributes:
        servers: the value of `-b`.
        config_file: the value of `--config`.
        given: the values of `-X`.
        profile: the value of `--profile`.
    """

    servers: str | None
    config_file: str | None
    given: tuple[str, ...]
    profile: str | None = None

    @functools.cached_property
    def properties(self) -> dict[str, str]:
        """Return names and values of the Kafka client, as the user wrote them.

        Raises:
            click.UsageError: the file cannot be read, or no option names the cluster.
        """
        found = {name: value for name, value in self._every_property.items() if not is_of_registry(name)}
        if not self.is_named:
            raise click.UsageError(
                "no cluster given: use -b HOST:PORT, --profile NAME, bootstrap.servers in the file of --config, or the "
                "environment variable KAFKARAW_BOOTSTRAP_SERVER"
            )
        return found

    @property
    def is_named(self) -> bool:
        """Whether an option, a file or the environment names a cluster."""
        return any(self._every_property.get(name) for name in ("bootstrap.servers", "bootstrap_servers"))

    def registry(self, url: str | None) -> RegistryAddress:
        """Return the schema registry that `-r` or properties name.

        Args:
            url: the value of `-r`.
        """
        return RegistryAddress(url, of_registry(self._every_property))

    @functools.cached_property
    def _every_property(self) -> dict[str, str]:
        from kafkaraw.client.java_names import read_properties
        from kafkaraw.client.librdkafka_names import in_our_names

        given = parse_properties(self.given)
        try:
            found = in_our_names(self._of_profile())
            found |= in_our_names(read_properties(self.config_file) if self.config_file else {})
            found |= in_our_names({name.replace("-", "_"): value for name, value in given.items()})
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        if self.servers is not None:
            found["bootstrap.servers"] = self.servers
        return found

    def _of_profile(self) -> dict[str, str]:
        if self.profile is None:
            return {}
        from kafkaraw.cli.profiles import read_profile

        return read_profile(self.profile)

    def admin(self, **settings: object) -> Admin:
        """Return an admin client.

        Args:
            settings: override those of the user.

        Raises:
            click.UsageError: as `settings` does.
        """
        from kafkaraw.client.blocking.admin import Admin
        from kafkaraw.client.config import AdminConfig

        return Admin(runtime=None, **self.settings(AdminConfig, **settings))

    def settings(self, kind: type[ClientConfig], **more: object) -> dict[str, Any]:
        """Return the settings for a client's constructor.

        Args:
            kind: the client's configuration class.
            more: settings that the user's override, unless None.

        Raises:
            click.UsageError: a name or a value is not accepted, or there is no server.
        """
        from kafkaraw.client.config import parse
        from kafkaraw.client.java_names import settings_from_properties
        from kafkaraw.client.java_spelling import named_as_given

        try:
            settings = settings_from_properties(kind, self.properties)
            settings |= {name: value for name, value in more.items() if value is not None}
            with named_as_given(self.properties, own=[name for name in more if more[name] is not None]):
                parse(kind, settings)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        return settings

    def has(self, setting: str) -> bool:
        """Return whether the user has set one of our settings."""
        return any(name.replace(".", "_") == setting for name in self.properties)


def cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add `-b`, `--config`, `-X` and `--profile` to a command; it gets them as `cluster`."""

    @functools.wraps(command)
    def with_cluster(
        *arguments: object,
        servers: str | None,
        config_file: str | None,
        properties: tuple[str, ...],
        profile: str | None,
        **others: object,
    ) -> object:
        return command(*arguments, cluster=Cluster(servers, config_file, properties, profile), **others)

    for option in reversed(_OPTIONS):
        with_cluster = option(with_cluster)
    return with_cluster


_TO_OPTIONS = (
    click.option("--to-bootstrap-server", metavar="HOST:PORT[,...]", help="Bootstrap servers of the copy's cluster."),
    click.option(
        "--to-config",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="As --config, for the copy's cluster.",
    ),
    click.option(
        "--to-property", "to_properties", multiple=True, metavar="PROPERTY=VALUE", help="As -X, for the copy's cluster."
    ),
)


def to_cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options of a second cluster; the command gets it as `to_cluster`, None if no option is given."""

    @functools.wraps(command)
    def with_cluster(
        *arguments: object,
        to_bootstrap_server: str | None,
        to_config: str | None,
        to_properties: tuple[str, ...],
        **others: object,
    ) -> object:
        is_given = to_bootstrap_server or to_config or to_properties
        to_cluster = Cluster(to_bootstrap_server, to_config, to_properties) if is_given else None
        return command(*arguments, to_cluster=to_cluster, **others)

    for option in reversed(_TO_OPTIONS):
        with_cluster = option(with_cluster)
    return with_cluster

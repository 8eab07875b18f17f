"""The options of commands that ask a schema registry: its URL, and the settings of its client.

`registry_options` adds `-r`, `--config` and `-X` to a command, which receives one `RegistryAddress`. Commands that
connect to a cluster, too, have `--config` and `-X` already: `registry_option` adds `-r` only, and `Cluster` separates
the properties. Start at `RegistryAddress.connect`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import click

from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from kafkaraw.schemas.blocking import Registry

_PREFIXES: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")
_OF_SERIALIZERS: Final = frozenset(
    {
        "auto.register.schemas", "avro.reflection.allow.null", "avro.remove.java.properties", "auto.register",
        "json.fail.invalid.schema", "key.subject.name.strategy", "latest.compatibility.strict", "normalize.schemas",
        "specific.avro.reader", "use.latest.version", "value.subject.name.strategy",
    }
)  # fmt: skip
"""Settings of Java's serializers that stand in the same file, and do not concern the commands."""

Command = TypeVar("Command", bound=Callable[..., object] | click.Command)

registry_option: Final[Callable[[Command], Command]] = click.option(
    "-r",
    "--registry",
    "registry_url",
    metavar="URL[,...]",
    envvar="KAFKARAW_SCHEMA_REGISTRY_URL",
    show_envvar=True,
    help="URL of the schema registry, or several of one registry.",
)
_OPTIONS: Final = (
    registry_option,
    click.option(
        "-F",
        "--config",
        "--command-config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False),
        envvar="KAFKARAW_CONFIG",
        show_envvar=True,
        help="A .properties file with schema.registry.url, basic.auth.user.info and so on; others are ignored.",
    ),
    click.option(
        "-X",
        "--command-property",
        "properties",
        multiple=True,
        metavar="PROPERTY=VALUE",
        help="A setting of the registry client, with the name of kafkaraw, confluent-kafka or the Java client; "
        "overrides the file.",
    ),
)


@dataclass(frozen=True)
class RegistryAddress:
    """A registry, and the settings of its client; nothing is read before it is needed.

    Attributes:
        url: the value of `-r`; None if it is not given.
        properties: names and values, as the user wrote them.
    """

    url: str | None
    properties: Mapping[str, str]

    @property
    def is_given(self) -> bool:
        """Whether the user has named a registry."""
        return self.url is not None or any(name in self.properties for name in ("schema.registry.url", "url"))

    def connect(self) -> Registry:
        """Return a client.

        Raises:
            click.UsageError: no registry is given, or a setting is wrong.
        """
        from kafkaraw.schemas.blocking import Registry

        given = dict(self.properties)
        if self.url is not None:
            given.pop("schema.registry.url", None)
            given["url"] = self.url
        if "url" not in given and "schema.registry.url" not in given:
            raise click.UsageError(
                "no registry given: use -r URL, schema.registry.url in the file of --config, or the environment "
                "variable KAFKARAW_SCHEMA_REGISTRY_URL"
            )
        try:
            return Registry.from_config({"retries": "2", **given})
        except ConfigError as error:
            raise click.UsageError(str(error)) from error


def is_of_registry(name: str) -> bool:
    """Whether a property is one of the registry client or of serializers, rather than of a Kafka client."""
    return name.startswith(_PREFIXES) or name in _OF_SERIALIZERS


def of_registry(properties: Mapping[str, str]) -> dict[str, str]:
    """Return those properties that configure the registry client."""
    return {name: value for name, value in properties.items() if name.startswith(_PREFIXES)}


def registry_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add `-r`, `--config` and `-X` to a command; it gets them as `address`."""

    @functools.wraps(command)
    def with_registry(
        registry_url: str | None, config_file: str | None, properties: tuple[str, ...], **others: object
    ) -> object:
        from kafkaraw.cli.broker import parse_properties
        from kafkaraw.client.java_names import read_properties

        try:
            found = of_registry(read_properties(config_file)) if config_file else {}
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        return command(address=RegistryAddress(registry_url, found | parse_properties(properties)), **others)

    for option in reversed(_OPTIONS):
        with_registry = option(with_registry)
    return with_registry

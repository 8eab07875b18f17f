"""Profiles: named connection settings in one file. `kafkaraw profiles` shows them; `--profile NAME` uses one.

The file is profiles.toml in the folder kafkaraw of the user's configuration (`$XDG_CONFIG_HOME`, or else `~/.config`),
or the one that `KAFKARAW_PROFILES` names. A profile is a TOML table with settings as in `-X`:

    [staging]
    bootstrap.servers = "kafka.example.org:9093"
    security.protocol = "SASL_SSL"

Start at `read_profile`. This module must not print values of secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from kafkaraw.cli.rendering import Row, output_option, show

FILE_VARIABLE: Final = "KAFKARAW_PROFILES"
_SECRETS: Final = ("password", "secret", "jaas", "basic.auth", "token", "key.pem", "user.info", "keystore.key")


def profiles_file() -> Path:
    """Return the path of the file, whether or not it exists."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "kafkaraw" / "profiles.toml"


def read_profile(name: str) -> dict[str, str]:
    """Return the settings of a profile, by the names that its author used.

    Raises:
        click.UsageError: there is no such file or profile, or it is not valid.
    """
    path = profiles_file()
    if not path.is_file():
        raise click.UsageError(f"--profile {name}: there is no file {path}; create it, with a table [{name}]")
    found = read_profiles()
    if name not in found:
        known = ", ".join(found) or "none"
        raise click.UsageError(f"--profile {name}: {path} has no table [{name}]; its profiles are: {known}")
    return found[name]


def read_profiles() -> dict[str, dict[str, str]]:
    """Return the settings of all profiles by name; none if there is no file.

    Raises:
        click.UsageError: the file cannot be read, or is not valid.
    """
    import tomllib

    path = profiles_file()
    if not path.is_file():
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"profiles in {path}: {error}") from error
    found = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise click.UsageError(f"profiles in {path}: {name!r} is no table; write settings below a line [NAME]")
        found[name] = dict(_flat(table, "", f"profile [{name}] in {path}"))
    return found


def _flat(table: Mapping[str, object], prefix: str, where: str) -> Iterator[tuple[str, str]]:
    """Return settings with their whole names: to TOML, `bootstrap.servers` is a table in a table."""
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.", where)
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int | float):
            yield name, str(value)
        elif isinstance(value, list) and all(isinstance(each, str | int) for each in value):
            yield name, ",".join(map(str, value))
        else:
            raise click.UsageError(
                f"{where}: {name} has a value that is neither text, a number, true, false nor a list"
            )


@click.group()
def profiles() -> None:
    """Named connection settings in a file, for --profile NAME and KAFKARAW_PROFILE.

    The file is ~/.config/kafkaraw/profiles.toml, or the one that KAFKARAW_PROFILES names. Each table in it is a profile
    with settings as in -X.
    """


@profiles.command("list")
@output_option
def list_profiles(output: str) -> None:
    """List the profiles, and print the path of their file."""
    rows: list[Row] = [
        {
            "PROFILE": name,
            "BOOTSTRAP-SERVERS": settings.get("bootstrap.servers") or settings.get("bootstrap_servers"),
            "SECURITY-PROTOCOL": settings.get("security.protocol") or settings.get("security_protocol"),
        }
        for name, settings in read_profiles().items()
    ]
    show(rows, output)
    path = profiles_file()
    click.echo(f"Profiles are read from {path}{'' if path.is_file() else ', which does not exist'}.", err=True)


@profiles.command("describe")
@click.argument("name", metavar="PROFILE")
@output_option
def describe_profile(name: str, output: str) -> None:
    """Print the settings of a profile; secrets are masked."""
    settings = read_profile(name)
    rows: list[Row] = [{"NAME": key, "VALUE": _masked(key, value)} for key, value in settings.items()]
    show(rows, output)


def _masked(name: str, value: str) -> str:
    dotted = name.lower().replace("_", ".")
    return "[hidden]" if any(word in dotted for word in _SECRETS) else value

"""`kafkaraw users`: list, set and remove SCRAM credentials of users."""

from __future__ import annotations

import sys
from typing import Final

import click

from kafkaraw.cli.changes import Change, at_terminal, change_options, count_of, destructive_options
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.rendering import Row, output_option, show

_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 16_384
_MECHANISMS: Final = click.Choice(["SCRAM-SHA-256", "SCRAM-SHA-512"], case_sensitive=False)

EPILOG: Final = """\b
Examples:
  kafkaraw users set -b localhost:9092 ada                     asks for the password
  kafkaraw users set -b localhost:9092 ada --password-stdin < password.txt
  kafkaraw users remove -b localhost:9092 ada --mechanism SCRAM-SHA-256
"""


@click.group(epilog=EPILOG)
def users() -> None:
    """SCRAM credentials of users: list, set, remove."""


@users.command("list")
@click.argument("names", nargs=-1, metavar="[USER]...")
@cluster_options
@output_option
def list_users(cluster: Cluster, names: tuple[str, ...], output: str) -> None:
    """List users with SCRAM credentials, and the hash iterations by mechanism. Passwords cannot be read."""
    with cluster.admin() as admin:
        found = admin.describe_user_scram_credentials(names or None)
    rows: list[Row] = [
        {"USER": user, "MECHANISM": mechanism, "ITERATIONS": iterations}
        for user, credentials in sorted(found.items())
        for mechanism, iterations in sorted(credentials.items())
    ]
    show(rows, output)


@users.command("set")
@click.argument("name", metavar="USER")
@cluster_options
@click.option("--mechanism", type=_MECHANISMS, default="SCRAM-SHA-512", show_default=True, help="Hash function.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input, up to the end of a line.")
@click.option(
    "--iterations",
    type=click.IntRange(_ITERATIONS_MIN, _ITERATIONS_MAX),
    default=_ITERATIONS_MIN,
    show_default=True,
    metavar="N",
    help="Hash iterations.",
)
@change_options
@output_option
def set_user(
    cluster: Cluster,
    name: str,
    mechanism: str,
    password_stdin: bool,
    iterations: int,
    change: Change,
    output: str,
) -> None:
    """Create a user, or change the password. The password is hashed here and never sent.

    At a terminal, the command asks for the password; it is no option, since other users could see it.
    """
    from kafkaraw.client.admin.users import ScramPassword
    from kafkaraw.errors import UsageError

    password = _password(name, from_stdin=password_stdin)
    if not password:
        raise UsageError(f"users set {name}: the password is empty")
    with cluster.admin() as admin:
        before = admin.describe_user_scram_credentials().get(name, {})
        if not change.dry_run:
            admin.alter_user_scram_credentials([ScramPassword(name, mechanism, password, iterations)])
    what = "replaced" if mechanism in before else "new"
    show([{"USER": name, "MECHANISM": mechanism, "ITERATIONS": iterations, "CHANGE": what}], output)
    change.allows("Set the password?")


@users.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="USER...")
@cluster_options
@click.option("--mechanism", type=_MECHANISMS, help="Only the credential of this mechanism.  [default: all]")
@destructive_options
@output_option
def remove_users(cluster: Cluster, names: tuple[str, ...], mechanism: str | None, change: Change, output: str) -> None:
    """Remove the SCRAM credentials of users. Connections that are open stay authenticated."""
    from kafkaraw.client.admin.users import ScramRemoval
    from kafkaraw.errors import UsageError

    with cluster.admin() as admin:
        found = admin.describe_user_scram_credentials(names)
        removals = [
            ScramRemoval(user, each)
            for user, credentials in sorted(found.items())
            for each in sorted(credentials)
            if mechanism in (None, each)
        ]
        show([{"USER": each.user, "MECHANISM": each.mechanism} for each in removals], output)
        if not removals:
            raise UsageError(f"{', '.join(names)}: no credential for {mechanism}; see: kafkaraw users list")
        if change.allows(f"Remove {count_of(len(removals), 'credential')}?"):
            for kind in dict.fromkeys(each.mechanism for each in removals):  # brokers accept one change for each user
                admin.alter_user_scram_credentials([each for each in removals if each.mechanism == kind])
            click.echo(f"Removed {count_of(len(removals), 'credential')}.", err=True)


def _password(user: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not at_terminal():
        raise click.UsageError("no password given: use --password-stdin, or run the command at a terminal")
    answer = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True)
    return str(answer)

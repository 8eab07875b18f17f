"""Completion of names from the cluster, and `kafkaraw completion SHELL`.

A completion must be quick and silent: it asks the cluster that the options name for at most a second, and completes
nothing if there is no answer. Start at `complete_topics`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.errors import KafkaError

if TYPE_CHECKING:
    from kafkaraw.client.blocking.admin import Admin

_TIMEOUT_S: Final = 1.0
_TIMEOUT_MS: Final = round(_TIMEOUT_S * 1000)
_VARIABLE: Final = "_KAFKARAW_COMPLETE"

EPILOG: Final = """\b
Set it up:
  bash   eval "$(kafkaraw completion bash)"            in ~/.bashrc
  zsh    eval "$(kafkaraw completion zsh)"             in ~/.zshrc
  fish   kafkaraw completion fish > ~/.config/fish/completions/kafkaraw.fish
"""


def complete_topics(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics of the cluster whose names begin with the text."""
    return _names(ctx, incomplete, lambda admin: [topic.name for topic in admin.list_topics(timeout=_TIMEOUT_S)])


def complete_groups(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups of the cluster whose names begin with the text."""
    return _names(ctx, incomplete, lambda admin: [group.group_id for group in admin.list_groups(timeout=_TIMEOUT_S)])


def _names(ctx: click.Context, incomplete: str, list_them: Callable[[Admin], list[str]]) -> list[str]:
    given = ctx.params
    with contextlib.suppress(KafkaError, click.ClickException, OSError):
        cluster = Cluster(
            given.get("servers"), given.get("config_file"), given.get("properties") or (), given.get("profile")
        )
        with cluster.admin(default_api_timeout_ms=_TIMEOUT_MS, request_timeout_ms=_TIMEOUT_MS) as admin:
            return [name for name in list_them(admin) if name.startswith(incomplete)]
    return []


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, topics and groups in a shell.

    Names of topics and groups are those of the cluster that -b, --profile or the environment names. If it does not
    answer within a second, names are not completed.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click has these three
    root = ctx.find_root()
    click.echo(kind(root.command, {}, "kafkaraw", _VARIABLE).source())

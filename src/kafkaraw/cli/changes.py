"""Changes to a cluster that a user confirms: the plan is shown, then made, unless `--dry-run` is given.

`change_options` adds `--dry-run` to a command, `destructive_options` also `--yes`; the command gets one `Change`.
Nothing here talks to a cluster.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Check and show the change, without making it.")
_YES: Final = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


@dataclass(frozen=True)
class Change:
    """What the user allows.

    Attributes:
        dry_run: the change is only shown.
        yes: the change needs no confirmation.
    """

    dry_run: bool
    yes: bool

    def allows(self, question: str) -> bool:
        """Return whether to make the change; at a terminal, ask if need be.

        Args:
            question: what the change does, such as "Delete 2 topics with all their records?".

        Raises:
            click.UsageError: the change needs a confirmation, and standard input is no terminal.
            click.Abort: the user answers no.
        """
        if self.dry_run:
            click.echo("Nothing was changed (--dry-run).", err=True)
            return False
        if not self.yes:
            if not at_terminal():
                raise click.UsageError(f"{question} Give --yes to confirm, or --dry-run to see the change only.")
            click.confirm(question, abort=True, err=True)
        return True


def at_terminal() -> bool:
    """Return whether a user can answer a question."""
    return sys.stdin.isatty()


def change_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add `--dry-run` to a command that needs no confirmation; it gets a `Change` as `change`."""

    @functools.wraps(command)
    def with_change(*arguments: object, dry_run: bool, **others: object) -> object:
        return command(*arguments, change=Change(dry_run, yes=True), **others)

    return _DRY_RUN(with_change)


def destructive_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add `--yes` and `--dry-run` to a command that destroys something; it gets a `Change` as `change`."""

    @functools.wraps(command)
    def with_change(*arguments: object, dry_run: bool, yes: bool, **others: object) -> object:
        return command(*arguments, change=Change(dry_run, yes), **others)

    return _YES(_DRY_RUN(with_change))


def count_of(number: int, noun: str) -> str:
    """Return text such as "1 topic" or "2 topics"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""What the commands that copy topics to files share: the cluster that is read, functions of users, progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from kafkaraw.mirror.backups.store import BackupStore
    from kafkaraw.mirror.cluster_facts import Source
    from kafkaraw.mirror.slices import Progress


def source_of(cluster: Cluster) -> Source:
    """Return the cluster that the options name, to be read."""
    from kafkaraw.client.admin.client import AsyncAdmin
    from kafkaraw.client.config import AdminConfig, ConsumerConfig
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.mirror.cluster_facts import Source

    more: dict[str, object] = {
        "group_id": None,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
    }
    of_consumer, of_admin = cluster.settings(ConsumerConfig, **more), cluster.settings(AdminConfig)
    return Source(lambda: AsyncConsumer(runtime=None, **of_consumer), lambda: AsyncAdmin(runtime=None, **of_admin))


def function_of(text: str, option: str) -> Callable[..., Any]:
    """Import a function of the user.

    Args:
        text: MODULE:FUNCTION; modules in the current directory are found, too.
        option: its name, for errors.

    Raises:
        click.UsageError: the text has another form.
        UsageError: there is no such function, or its module cannot be imported.
    """
    module, colon, name = text.partition(":")
    if not module or not colon or not name:
        raise click.UsageError(f"{option} {text}: must be MODULE:FUNCTION, such as masks:digest")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        raise UsageError(f"{option} {text}: cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise UsageError(f"{option} {text}: is no function")
    function: Callable[..., Any] = found
    return function


@contextmanager
def progress_bar(what: str, *, quiet: bool) -> Iterator[Progress]:
    """Show on a terminal how many offsets of all were copied, and the remaining time."""
    from kafkaraw.mirror.slices import Progress

    if quiet or not sys.stderr.isatty():
        yield Progress()
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn(what),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        class Bar(Progress):
            is_shown = True

            def begin(self, offsets_count: int) -> None:
                bar.update(task, total=offsets_count)

            def advance(self, offsets_count: int) -> None:
                bar.advance(task, offsets_count)

        yield Bar()


def open_store(location: str) -> BackupStore:
    """Open the location of a backup.

    Raises:
        UsageError: fsspec is not installed, or cannot open it.
    """
    from kafkaraw.mirror.backups.store import BackupStore

    return BackupStore(location)

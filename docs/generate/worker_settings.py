"""The page of the worker's settings, from `worker/settings.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from docs.generate.client_settings import described
from docs.generate.tables import notice, table
from kafkaraw.client.settings import settings_of
from kafkaraw.worker.settings import WorkerSettings

PAGE: Final = "worker-settings.md"
_ABOUT: Final = """\
Settings of a `kafkaraw.worker.Worker`, as keyword arguments, beside [those of its consumer and
producer](client-settings.md); see [Run a worker](../how-to/run-a-worker.md).
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def _lines() -> Iterator[str]:
    yield from (notice("src/kafkaraw/worker/settings.py"), "", "# Worker settings", "", _ABOUT)
    yield from table(
        ("setting", "type and limits", "default", "meaning"),
        (described(WorkerSettings, name, about) for name, about in settings_of(WorkerSettings).items()),
    )

"""The live screen of `kafkaraw top`: a thread asks the cluster, this one draws and reads keys.

So keys work while the cluster does not answer, and Ctrl-C ends the command at once. A snapshot that takes long makes
the next one wait three times as long, so that the cluster is asked for at most a quarter of the time. Start at `run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.cli.stopping import Stop
from kafkaraw.cli.top_print import admin_settings
from kafkaraw.cli.top_screen import Screen, Shown
from kafkaraw.cli.top_terminal import Terminal
from kafkaraw.errors import AuthenticationError, KafkaError, UnsupportedVersionError, UsageError
from kafkaraw.monitoring import ALL_PARTS, ClusterStatus, Monitor, Part

if TYPE_CHECKING:
    from kafkaraw.cli.clients import Cluster

log: logging.Logger = logging.getLogger(__name__)

PAUSE_FACTOR: Final = 3.0
"""A pause takes at least three times as long as the snapshot before it."""
CHEAP_S: Final = 0.2
"""A part that the view does not need is asked for, too, if it took less than this: other views are current then."""
REFRESH_S: Final = 1.0
"""How often the screen is drawn while nothing happens: it counts seconds."""
AGAIN_S: Final = 2.0
"""The pause after a failure; it doubles with each one."""
AGAIN_MAX_S: Final = 30.0
CLOSE_S: Final = 1.0
"""How long the end may take; the terminal is restored before."""
_FATAL: Final = (AuthenticationError, UsageError, UnsupportedVersionError)


def pause_after(took_s: float, interval_s: float) -> float:
    """Return the pause after a snapshot, in seconds: the rest of the interval, or a multiple of what it took."""
    return max(interval_s - took_s, PAUSE_FACTOR * took_s)


def pause_after_failures(count: int) -> float:
    """Return the pause after `count` failures in a row, in seconds."""
    return float(min(AGAIN_MAX_S, AGAIN_S * 2 ** min(count - 1, 10)))


class Feed:
    """Asks a cluster again and again, on a thread of its own.

    Args:
        settings: of the admin client.
        topics: patterns of topics; empty for all.
        groups: patterns of groups; empty for all.
        interval_s: between the beginnings of two snapshots.
        changed: called on the thread when there is something new.

    Attributes:
        status: the last snapshot with all that follows from it; None before the first one.
        error: why the last attempt failed; None if it did not.
        fatal: why there will be no other attempt; None if there will be. A `KafkaError`, unless kafkaraw has a fault.
        took_s: how long the last snapshot took.
        answered_at_s: when the last snapshot was complete, on the monotonic clock; at first, when the feed began.
        next_at_s: when the next attempt begins; None while one runs.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        *,
        topics: Sequence[str],
        groups: Sequence[str],
        interval_s: float,
        changed: Callable[[], None],
    ) -> None:
        self.status: ClusterStatus | None = None
        self.error: KafkaError | None = None
        self.fatal: Exception | None = None
        self.took_s: float = 0.0
        self.answered_at_s: float = time.monotonic()
        self.next_at_s: float | None = None
        self._settings, self._topics, self._groups = settings, topics, groups
        self._changed = changed
        self._interval_s = interval_s
        self._parts: frozenset[Part] = ALL_PARTS
        self._focus: tuple[str, ...] = ()
        self._is_paused = False
        self._failures = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="kafkaraw-top", daemon=True)
        self._thread.start()

    def want(self, parts: frozenset[Part], focus: tuple[str, ...], interval_s: float, *, is_paused: bool) -> None:
        """Say what the screen shows; a view that needs other parts gets them at once."""
        is_new = focus != self._focus or is_paused != self._is_paused or interval_s != self._interval_s
        is_new = is_new or self._has_not(parts)
        self._parts, self._focus, self._interval_s, self._is_paused = parts, focus, interval_s, is_paused
        loop, asked = self._loop, self._asked
        if is_new and loop is not None and asked is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(asked.set)

    def _has_not(self, parts: frozenset[Part]) -> bool:
        """Return whether the last snapshot was made without one of these parts."""
        if self.status is None:
            return False
        snapshot = self.status.snapshot
        oldest_ms = snapshot.at_ms - 1000 * (self._interval_s + self.took_s)
        return any(snapshot.part_times_ms.get(part, 0) < oldest_ms for part in parts)

    def close(self) -> None:
        """End the thread; connections that take long to close are left to the end of the process."""
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._feed())
        except asyncio.CancelledError:
            pass  # of `close`
        except Exception as error:  # noqa: BLE001 - the screen's thread raises it, after it has restored the terminal
            self.fatal = error
            self._changed()

    async def _feed(self) -> None:
        from kafkaraw.client.admin import AsyncAdmin

        self._asked = asyncio.Event()
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        async with AsyncAdmin(runtime=None, **self._settings) as admin:
            monitor = Monitor(admin, topics=self._topics, groups=self._groups)
            while self.fatal is None:
                pause_s = await self._refresh(monitor)
                self.next_at_s = time.monotonic() + pause_s
                self._changed()
                await self._wait(pause_s)
                self.next_at_s = None

    async def _refresh(self, monitor: Monitor) -> float:
        """Make a snapshot; return the pause after it, in seconds."""
        began_s = time.monotonic()
        try:
            self.status = await monitor.refresh(self._parts | self._cheap(), focus=self._focus)
        except KafkaError as error:
            log.info("no snapshot: %s", error)
            self.error = error
            self.fatal = error if self.status is None and isinstance(error, _FATAL) else None
            self._failures += 1
            return pause_after_failures(self._failures)
        self.error, self._failures = None, 0
        self.answered_at_s = time.monotonic()
        self.took_s = self.answered_at_s - began_s
        return pause_after(self.took_s, self._interval_s)

    def _cheap(self) -> frozenset[Part]:
        if self.status is None:
            return ALL_PARTS
        took_s = self.status.snapshot.took_s
        return frozenset(part for part in Part if took_s.get(part, 0.0) < CHEAP_S)

    async def _wait(self, pause_s: float) -> None:
        """Wait until the next attempt; what the user does shortens that, but not below what the cluster is spared."""
        assert self._asked is not None
        least_s = min(pause_s, PAUSE_FACTOR * self.took_s)
        await asyncio.sleep(least_s)
        pause_s -= least_s
        while True:
            try:
                async with asyncio.timeout(None if self._is_paused else pause_s):
                    await self._asked.wait()
            except TimeoutError:
                return
            self._asked.clear()
            if not self._is_paused:
                return


def run(
    cluster: Cluster,
    screen: Screen,
    *,
    topics: Sequence[str],
    groups: Sequence[str],
) -> int:
    """Show the screen until the user quits; return the exit code.

    Raises:
        KafkaError: the cluster refuses the client at the start, or the terminal cannot be controlled.
    """
    settings = admin_settings(cluster)
    servers = str(cluster.properties.get("bootstrap.servers") or cluster.properties["bootstrap_servers"])
    with Stop() as stop, _quiet_logs():
        terminal = Terminal()
        feed = Feed(settings, topics=topics, groups=groups, interval_s=screen.interval_s, changed=terminal.wake)
        try:
            terminal.open()
            _loop(terminal, feed, screen, servers)
        finally:
            with stop.noted():
                terminal.close()
                feed.close()
        if feed.fatal is not None:
            raise feed.fatal
    return stop.exit_code


def _loop(terminal: Terminal, feed: Feed, screen: Screen, servers: str) -> None:
    while not screen.is_done and feed.fatal is None:
        width, height = terminal.size
        terminal.draw(screen.lines(_shown(feed, servers), width, height))
        try:
            keys = terminal.keys(REFRESH_S)
        except (EOFError, OSError):  # the terminal was closed
            return
        for key in keys:
            if key == "\x0c":
                terminal.redraw()
            screen.press(key)
        feed.want(screen.parts, screen.focus, screen.interval_s, is_paused=screen.is_paused)


def _shown(feed: Feed, servers: str) -> Shown:
    now_s, status, next_at_s = time.monotonic(), feed.status, feed.next_at_s
    at_s = status.snapshot.at_ms / 1000 if status is not None else 0.0
    return Shown(
        status=status,
        error=None if feed.error is None else str(feed.error),
        failed_for_s=now_s - feed.answered_at_s,
        next_in_s=None if next_at_s is None else max(0.0, next_at_s - now_s),
        took_s=feed.took_s,
        servers=servers,
        clock=time.strftime("%H:%M:%S", time.localtime(at_s)),
    )


@contextlib.contextmanager
def _quiet_logs() -> Any:  # noqa: ANN401 - an iterator that the decorator turns into a context
    """Keep the log of the clients off the screen: without handlers, Python would write warnings to it."""
    quiet = logging.NullHandler()
    logger = logging.getLogger("kafkaraw")
    logger.addHandler(quiet)
    try:
        yield
    finally:
        logger.removeHandler(quiet)

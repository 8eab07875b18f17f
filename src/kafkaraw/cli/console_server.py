"""Makes consoles for `kafkaraw console` and for `kafkaraw broker --console`, whose broker is in the same process.

Start at `console_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from kafkaraw.broker import Faults
    from kafkaraw.broker.shares.state import ShareState
    from kafkaraw.console.serving import Console
    from kafkaraw.console.settings import ConsoleSettings

CONSOLE_LINE: Final = "console="
_START_S: Final = 10.0


def console_of(settings: ConsoleSettings) -> Console:
    """Return a console that listens.

    Raises:
        click.UsageError: a package is missing.
    """
    try:
        from kafkaraw.console.serving import Console
    except ImportError as error:
        raise click.UsageError(
            f"the console needs {error.name}, which is not installed: pip install 'kafkaraw[console]'"
        ) from error
    return Console(settings)


def share_states(records: Iterable[tuple[bytes, bytes | None]]) -> dict[tuple[str, str, int], ShareState]:
    """Return the states that records of `__share_group_state` store, by group, topic id and partition."""
    from kafkaraw.broker.shares.state import ShareUpdate, decode_record

    found: dict[tuple[str, str, int], ShareState] = {}
    for key, value in records:
        record = decode_record(key, value)
        if record is None:
            continue
        place = (record.key.group_id, str(record.key.topic_id), record.key.partition)
        if record.value is None:
            found.pop(place, None)
        elif not isinstance(record.value, ShareUpdate):
            found[place] = record.value
        elif place in found:
            found[place] = found[place].updated(record.value)
    return found


class ConsoleOfBroker:
    """The console of a broker in the same process, for `run_broker`: called when the broker has started.

    Args:
        host: to listen on.
        port: to listen on.
        users: of the broker; the console authenticates as the first one.
        allow_writes: whether it changes anything.

    Attributes:
        faults: for the broker; the console switches them on and off.

    Raises:
        click.UsageError: other machines could use it, or a package is missing.
    """

    def __init__(self, host: str, port: int, users: Mapping[str, str], *, allow_writes: bool) -> None:
        from kafkaraw.broker import Faults as NewFaults
        from kafkaraw.cli.console_mirrors import found_mirrors
        from kafkaraw.console.settings import CLIENT_ID, ClusterSettings, ConsoleSettings
        from kafkaraw.errors import ConfigError

        self._users = users
        try:
            self._settings = ConsoleSettings(
                [ClusterSettings("broker", {}, {}, found_mirrors=found_mirrors, share_states=share_states)],
                host=host,
                port=port,
                allow_writes=allow_writes,
            )
        except ConfigError as error:
            text = f"--console {host}: only addresses of this machine; `kafkaraw console` has logins for others"
            raise click.UsageError(text) from error
        if find_spec("starlette") is None or find_spec("jinja2") is None:
            raise click.UsageError("--console needs packages that are not installed: pip install 'kafkaraw[console]'")

        self.faults: Faults = NewFaults()
        self.faults.spare(CLIENT_ID)

    def __call__(self, servers: str) -> Callable[[], None]:
        """Start the console; return what stops it."""
        import asyncio
        import threading

        from kafkaraw.console.wire import KEPT_BYTES
        from kafkaraw.inspect import Tap

        client: dict[str, object] = {"bootstrap_servers": servers}
        if self._users:
            name, password = next(iter(self._users.items()))
            client |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
            client |= {"sasl_username": name, "sasl_password": password}
        cluster = replace(
            self._settings.clusters[0],
            client=client,
            consumer=client,
            option=f"-b {servers}",
            tap=lambda: Tap(servers, kept_bytes=KEPT_BYTES),
            faults=self.faults,
        )
        made = console_of(replace(self._settings, clusters=[cluster]))
        is_started = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(made.run(is_started.set)), name="console", daemon=True)
        thread.start()
        is_started.wait(_START_S)
        click.echo(f"{CONSOLE_LINE}{made.url}")

        def stop() -> None:
            made.stop()
            thread.join(_START_S)

        return stop

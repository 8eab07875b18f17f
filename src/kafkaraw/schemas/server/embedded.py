"""`EmbeddedRegistry`: a schema registry for tests and development, started in one line, on a thread of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import replace
from kafkaraw.net import LoopThread
from kafkaraw.schemas.model import CompatibilityLevel
from kafkaraw.schemas.server.instance import RegistryInstance
from kafkaraw.schemas.server.settings import RegistrySettings, TlsSettings

_START_MARGIN_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0


class EmbeddedRegistry:
    """A schema registry on this machine, with the REST API of Confluent's.

        with EmbeddedRegistry() as registry:
            client = Registry(registry.url)

    Args:
        bootstrap_servers: the Kafka cluster with the topic `_schemas`; None keeps the schemas in memory.
        host: address to listen on.
        port: port to listen on; 0 selects a free one.
        users: passwords by user name; requests must then authenticate (HTTP basic authentication).
        tls: TLS, a `TlsSettings`; None speaks plain HTTP.
        read_only: refuse every change.
        elect: elect the primary with other instances, as `kafkaraw registry` does, which takes some seconds. Leave it
            out for the only registry of a cluster.
        compatibility_level: the level where no configuration sets one.
        properties: further properties under the names of Confluent's registry, such as
            `{"kafkastore.topic": "_schemas2", "schema.registry.group.id": "second"}`.
        progress: called with the number of records that were read and that there are, while the topic is read.

    Raises:
        ConfigError: a property is unknown or has an invalid value.
    """

    def __init__(  # noqa: PLR0913  # one for each way of starting it
        self,
        bootstrap_servers: str | list[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, str] | None = None,
        tls: TlsSettings | None = None,
        read_only: bool = False,
        elect: bool = False,
        compatibility_level: CompatibilityLevel | str = CompatibilityLevel.BACKWARD,
        properties: Mapping[str, object] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        client: dict[str, Any] | None = None
        if bootstrap_servers is not None:
            client = {"bootstrap_servers": bootstrap_servers, "client_id": "kafkaraw-registry"}
        settings = RegistrySettings(
            client=client,
            host=host,
            port=port,
            read_only=read_only,
            elect=elect,
            users=dict(users or {}),
            tls=tls,
        ).with_properties({"schema.compatibility.level": str(compatibility_level), **(properties or {})})
        self._settings = settings
        self._progress = progress
        self._owner_process_id = os.getpid()
        self._instance: RegistryInstance | None = None
        self._loop_thread: LoopThread | None = None

    @property
    def settings(self) -> RegistrySettings:
        """The settings, with the properties."""
        return self._settings

    @property
    def url(self) -> str:
        """The URL for clients.

        Raises:
            UsageError: the registry is not running.
        """
        if self._instance is None:
            raise UsageError("the registry is not running: use it in a `with` statement, or call start()")
        return self._instance.url

    def start(self) -> EmbeddedRegistry:
        """Start the registry. Clients can use it as soon as this returns.

        Raises:
            UsageError: it is already running.
            NetworkError: the port is already in use.
            ConfigError: the topic is not compacted, or has more than one partition.
            KafkaError: Kafka cannot be reached in time.
        """
        if self._instance is not None:
            raise UsageError("the registry is running already")
        loop_thread = LoopThread("kafkaraw-registry")
        limit_s = self._settings.topic.start_timeout_s + self._settings.election.start_timeout_s + _START_MARGIN_S
        instance = RegistryInstance(self._settings, self._progress)
        try:
            loop_thread.run(instance.start(), limit_s)
        except BaseException:
            loop_thread.stop()
            raise
        self._instance, self._loop_thread = instance, loop_thread
        if self._settings.port == 0:  # a restart keeps the address
            port = int(instance.url.rpartition(":")[2])
            self._settings = replace(self._settings, port=port)
        return self

    def stop(self) -> None:
        """Stop the registry; requests under way get some seconds. A second call has no effect."""
        instance, self._instance = self._instance, None
        loop_thread, self._loop_thread = self._loop_thread, None
        if instance is None or loop_thread is None or os.getpid() != self._owner_process_id:
            return
        try:
            loop_thread.run(instance.close(), STOP_TIMEOUT_S)
        finally:
            loop_thread.stop()

    def __enter__(self) -> EmbeddedRegistry:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> EmbeddedRegistry:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

"""One running registry: the log, the election, the service and the HTTP server, started and stopped in order.

Everything runs on one event loop. Start at `RegistryInstance.start`.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from kafkaraw.light_classes import replace
from kafkaraw.net import SystemClock
from kafkaraw.net.tls import client_context, server_context
from kafkaraw.schemas.server.app import AppSettings, create_app
from kafkaraw.schemas.server.election import Identity
from kafkaraw.schemas.server.elector import Elector
from kafkaraw.schemas.server.forwarding import Forwarder
from kafkaraw.schemas.server.languages import StandardLanguages
from kafkaraw.schemas.server.log import MemoryLog, SchemaLog
from kafkaraw.schemas.server.service import Leadership, RegistryService
from kafkaraw.schemas.server.settings import RegistrySettings
from kafkaraw.schemas.server.state import State
from kafkaraw.schemas.server.topic import TopicLog
from kafkaraw.web_server import HttpServer

log: logging.Logger = logging.getLogger(__name__)

_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})


class RegistryInstance:
    """A registry that can be started once.

    Args:
        settings: its settings.
        progress: called with the number of records that were read and that there are, while the topic is read.
    """

    def __init__(self, settings: RegistrySettings, progress: Callable[[int, int], None] | None = None) -> None:
        self._settings = settings
        self._progress = progress
        self._languages = StandardLanguages()
        self._topic: TopicLog | None = None
        self._elector: Elector | None = None
        self._forwarder: Forwarder | None = None
        self._service: RegistryService | None = None
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        """Where clients reach it; it must be started."""
        host = self._settings.host
        return self._identity(self._settings.advertised_host or ("localhost" if host in _ANY_HOST else host), None).url

    def _identity(self, host: str, port: int | None) -> Identity:
        assert self._server is not None
        scheme = "http" if self._settings.tls is None else "https"
        return Identity(scheme, host, port or self._server.port, self._settings.eligible)

    async def start(self) -> None:
        """Listen, read the topic, join the group, and answer requests.

        Raises:
            NetworkError: the address is in use, or is none of this machine.
            ConfigError: the topic or a setting is wrong.
            KafkaError: Kafka cannot be reached in time.
        """
        try:
            context = self._listening_context()
            self._server = HttpServer("registry", self._settings.host, self._settings.port)
            schema_log, leadership = await self._start_log()
            settings = self._settings
            self._service = RegistryService(
                schema_log,
                self._languages,
                leadership=leadership,
                read_only=settings.read_only,
                mode_changes=settings.mode_changes,
            )
            await self._server.start(create_app(self._service, self._app_settings(), self._forwarder), context)
        except BaseException:
            await self.close()
            raise

    def _app_settings(self) -> AppSettings:
        settings = self._settings
        cluster_id = None if self._topic is None else self._topic.cluster_id
        return AppSettings(
            users=settings.users,
            body_bytes_max=settings.body_bytes_max,
            cluster_id=cluster_id,
            group=settings.election.group,
        )

    async def _start_log(self) -> tuple[SchemaLog, Leadership | None]:
        settings = self._settings
        state = State(self._languages.guid_of, settings.compatibility_level)
        if settings.client is None:
            return MemoryLog(state, SystemClock()), None
        topic = replace(settings.topic, read_only=settings.read_only)
        self._topic = TopicLog(state, settings.client, topic, self._progress)
        await self._topic.start()
        if settings.read_only or not settings.elect:
            return self._topic, None
        host = settings.advertised_host or (socket.gethostname() if settings.host in _ANY_HOST else settings.host)
        identity = self._identity(host, settings.advertised_port)
        self._elector = Elector(identity, settings.client, settings.election, self._topic.forget_position)
        self._forwarder = Forwarder(self._topic.wait_for, verify=self._forwarding_context())
        await self._elector.start()
        return self._topic, self._elector

    def _forwarding_context(self) -> ssl.SSLContext | None:
        tls = self._settings.tls
        if tls is None:
            return None
        return client_context(trusted=tls.trusted, certificate=tls.certificate, key=tls.key, password=tls.password)

    def _listening_context(self) -> ssl.SSLContext | None:
        tls = self._settings.tls
        if tls is None:
            return None
        return server_context(
            certificate=tls.certificate,
            key=tls.key,
            password=tls.password,
            trusted=tls.trusted,
            client_auth=tls.client_auth,
        )

    async def close(self) -> None:
        """Stop answering, leave the group, and close the clients. Requests under way get some seconds."""
        if self._server is not None:
            await self._server.stop()
        if self._elector is not None:
            await self._elector.close()
        if self._forwarder is not None:
            await self._forwarder.close()
        if self._topic is not None:
            await self._topic.close()
        if self._service is not None:
            self._service.close()

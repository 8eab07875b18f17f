"""Find out why a cluster cannot be used from here: what `kafkaraw doctor` asks, without its output.

The client's own settings are used to connect to every bootstrap server, then to every broker at the address that the
cluster advertises for it, because clients go there next, and most fail there. Each is a `Visit` with the stages it
passed, the stage at which it failed, why, and what to change. Nothing is retried and nothing is raised. Start at
`diagnose`.

`probe_address` finds out what an address speaks that does not respond as the settings say: TLS or not, HTTP, SASL. Each
guess is a connection of its own; all are tried at the same time, send no secret, and use no setting of the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kafkaraw.client.config import Address, AdminConfig
from kafkaraw.client.metrics.client_metrics import BOOTSTRAP
from kafkaraw.client.network.bootstrap import stage_of
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.pool import ConnectionPool
from kafkaraw.client.network.security import network_for
from kafkaraw.client.runtime import Runtime, system_runtime
from kafkaraw.errors import AuthenticationError, KafkaError, NetworkError, ProtocolError, Stage
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net import AsyncioNetwork, Link
from kafkaraw.net.tls import handshake_context
from kafkaraw.protocol.error_codes import error_for
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest

HEALTHY: Final = 0
EXIT_CODES: Final[dict[Stage, int]] = {
    Stage.RESOLVE: 10,
    Stage.CONNECT: 11,
    Stage.TLS: 12,
    Stage.SASL: 13,
    Stage.API_VERSIONS: 14,
    Stage.METADATA: 15,
    Stage.REQUEST: 15,
}
ADVERTISED_EXIT_CODES_FROM: Final = 10
"""Added to the stage's code when a broker fails at the address that the cluster advertises for it."""

_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1", "0.0.0.0")

_REMEDIES: Final[dict[Stage, str]] = {
    Stage.RESOLVE: "check the spelling of the host, this machine's DNS and /etc/hosts; in a container, use a name that "
    "its network knows",
    Stage.CONNECT: "check that the broker runs, that its listeners include this address and port, and that no firewall "
    "is in between",
    Stage.TLS: "check that this port speaks TLS, that the CA is the one that signed the broker's certificate, and that "
    "the certificate names this host",
    Stage.SASL: "check the mechanism, user and password, and what the broker has in sasl.enabled.mechanisms",
    Stage.API_VERSIONS: "check that this is the port of a Kafka listener, and that security_protocol is the one of "
    "that listener (listener.security.protocol.map)",
    Stage.METADATA: "look into the broker's log: it answers, but does not know its cluster (yet)",
    Stage.REQUEST: "look into the broker's log: it answers, but not to this",
}


@dataclass(slots=True)
class Visit:
    """One address that was dialled.

    Attributes:
        who: what is there, as "bootstrap server" or "broker 1".
        address: host and port.
        advertised: whether the address came from the cluster instead of the user.
        passed: the stages that went well, in order.
        failed: the stage at which it stopped; None when all went well.
        why: what happened there.
        remedy: what to change.
        found: what was learned.
        seconds: how long it took.
    """

    who: str
    address: str
    advertised: bool = False
    passed: list[Stage] = field(default_factory=list)
    failed: Stage | None = None
    why: str = ""
    remedy: str = ""
    found: str = ""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """What the command ends with on account of this visit."""
        if self.failed is None:
            return HEALTHY
        return EXIT_CODES[self.failed] + (ADVERTISED_EXIT_CODES_FROM if self.advertised else 0)


@dataclass(slots=True)
class Diagnosis:
    """All visits, in order, and the cluster that they led to.

    Attributes:
        cluster_id: None when none answered, or it has none.
    """

    visits: list[Visit]
    cluster_id: str | None = None

    @property
    def exit_code(self) -> int:
        """That of the first visit that failed."""
        return next((visit.exit_code for visit in self.visits if visit.exit_code), HEALTHY)


async def diagnose(config: AdminConfig, *, timeout: float, runtime: Runtime | None = None) -> Diagnosis:
    """Visit every bootstrap server and every broker.

    Args:
        config: the settings of the client that has trouble.
        timeout: for each connection, and for each answer on it, in seconds.
        runtime: network and rng; the real ones when None.

    Raises:
        ConfigError: a certificate or key cannot be used, or a package that the login needs is missing.
    """
    real, simulated = system_runtime(), runtime is not None
    runtime = runtime or Runtime(network_for(config), real.clock, real.rng)
    pool = ConnectionPool(config, runtime)
    visitor = _Visitor(pool, timeout, stages_of(config), looks_twice=not simulated)
    try:
        answers = await asyncio.gather(*(visitor.bootstrap(address) for address in config.bootstrap_servers))
        diagnosis = Diagnosis([visit for visit, _ in answers])
        metadata = next((response for _, response in answers if response is not None), None)
        if metadata is not None:
            diagnosis.cluster_id = metadata.cluster_id
            for visit, response in answers:
                _check_cluster(visit, response, metadata)
            brokers = sorted(metadata.brokers, key=lambda broker: broker.node_id)
            servers = config.bootstrap_servers
            diagnosis.visits += await asyncio.gather(*(visitor.broker(b, metadata, servers) for b in brokers))
    finally:
        await pool.close()
    return diagnosis


def stages_of(config: AdminConfig) -> list[Stage]:
    """The stages that a connection with these settings goes through before it can be used."""
    protocol = str(getattr(config, "security_protocol", "PLAINTEXT")).upper()
    absent = {Stage.METADATA, Stage.REQUEST}
    absent |= set() if protocol.endswith("SSL") else {Stage.TLS}
    absent |= set() if protocol.startswith("SASL") else {Stage.SASL}
    return [stage for stage in Stage if stage not in absent]


class _Visitor:
    """Dials and asks, and writes down how far that went."""

    def __init__(self, pool: ConnectionPool, timeout: float, stages: Sequence[Stage], *, looks_twice: bool) -> None:
        self._pool = pool
        self._timeout = timeout
        self._stages = stages
        self._looks_twice = looks_twice

    async def bootstrap(self, address: Address) -> tuple[Visit, MetadataResponse | None]:
        visit = Visit("bootstrap server", str(address))
        response = await self._visit(visit, address)
        if response is not None:
            names = ", ".join(f"{broker.node_id} at {_address(broker)}" for broker in response.brokers)
            visit.found += f"; cluster {response.cluster_id or 'without id'}, brokers: {names}"
        return visit, response

    async def broker(
        self, broker: MetadataResponseBroker, metadata: MetadataResponse, servers: Sequence[Address]
    ) -> Visit:
        address = _address(broker)
        visit = Visit(f"broker {broker.node_id}", str(address), advertised=True)
        response = await self._visit(visit, address)
        if visit.failed is not None:
            visit.remedy = _advertised_remedy(visit, broker, servers)
        _check_cluster(visit, response, metadata)
        return visit

    async def _visit(self, visit: Visit, address: Address) -> MetadataResponse | None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        connection: Connection | None = None
        try:
            connection = await self._pool.dial(address.host, address.port, BOOTSTRAP, self._timeout)
            visit.passed += self._stages
            visit.found = f"offers {len(connection.api_versions.offered)} APIs"
            response = await self._ask(connection)
            visit.passed.append(Stage.METADATA)
            return response
        except KafkaError as error:
            self._note_failure(visit, error, stood=connection is not None)
            await self._probe(visit, address)
            return None
        finally:
            visit.seconds = loop.time() - began
            if connection is not None:
                connection.abort()

    async def _probe(self, visit: Visit, address: Address) -> None:
        """Where something answers, but not as the settings expect, find out what it is."""
        if self._looks_twice and visit.failed in (Stage.TLS, Stage.API_VERSIONS, Stage.METADATA):
            tls = Stage.TLS in self._stages
            visit.remedy = await probe_address(address, tls=tls, timeout=self._timeout) or visit.remedy

    async def _ask(self, connection: Connection) -> MetadataResponse:
        response = await connection.request(MetadataRequest(topics=[]), timeout=self._timeout)
        if response.error_code:
            raise error_for(response.error_code, f"metadata from {connection.peer}")
        if not response.brokers:
            raise NetworkError(f"{connection.peer} knows no brokers (yet); is it starting up?", stage=Stage.METADATA)
        return response

    def _note_failure(self, visit: Visit, error: KafkaError, *, stood: bool) -> None:
        stage = Stage.METADATA if stood else Stage.SASL if isinstance(error, AuthenticationError) else stage_of(error)
        visit.failed, visit.why, visit.remedy = stage, str(error), _REMEDIES[stage]
        order = list(Stage)
        if not stood:
            visit.passed += [passed for passed in self._stages if order.index(passed) < order.index(stage)]


def _address(broker: MetadataResponseBroker) -> Address:
    return Address(broker.host, broker.port)


def _check_cluster(visit: Visit, response: MetadataResponse | None, expected: MetadataResponse) -> None:
    """Take note when a broker of another cluster answers; brokers before 0.10.1 do not say."""
    if response is None or None in (response.cluster_id, expected.cluster_id):
        return
    if response.cluster_id != expected.cluster_id:
        visit.passed.remove(Stage.METADATA)
        visit.failed = Stage.METADATA
        visit.why = f"this broker belongs to cluster {response.cluster_id}, the first one to {expected.cluster_id}"
        visit.remedy = (
            "set advertised.listeners of the cluster's broker to its own address: this one is another cluster's"
            if visit.advertised
            else "give servers of one cluster only"
        )


def _advertised_remedy(visit: Visit, broker: MetadataResponseBroker, servers: Sequence[Address]) -> str:
    """What to change when the address that the cluster names does not work from here."""
    assert visit.failed is not None
    if visit.failed not in (Stage.RESOLVE, Stage.CONNECT):
        return visit.remedy
    text = (
        f"the cluster advertises {visit.address} for broker {broker.node_id}, which cannot be reached from "
        f"this machine: set advertised.listeners of that broker to an address that its clients can reach"
    )
    if broker.host in _LOCAL_HOSTS and not any(server.host in _LOCAL_HOSTS for server in servers):
        text += f" ({broker.host} means this machine to a client, not the broker's)"
    return f"{text}; or have {broker.host!r} resolve and be routed to it here"


TIMEOUT_S: Final = 2.0
FRAME_SIZE_MAX_AT_FIRST: Final = 1 << 20
_WEB_REQUEST: Final = b"HEAD / HTTP/1.0\r\n\r\n"
_HANDSHAKE_VERSION: Final = 1


async def probe_address(address: Address, *, tls: bool, timeout: float) -> str:
    """What to change, as far as the address shows it; an empty string if it does not.

    Args:
        address: where it did not work.
        tls: whether the client tried it with TLS.
        timeout: for all guesses together, in seconds, and no more than `TIMEOUT_S`.
    """
    timeout = min(timeout, TIMEOUT_S)
    guesses = [_kafka(address, timeout, tls=tls), _web_server(address, timeout)]
    if not tls:
        guesses.append(_tls(address, timeout))
    found = await asyncio.gather(*guesses)
    return next((text for text in found if text), "")


async def _kafka(address: Address, timeout: float, *, tls: bool) -> str:
    """Whether it speaks Kafka without TLS, and by which mechanisms it wants a login."""
    try:
        connection = await Connection.open(
            AsyncioNetwork(), address.host, address.port, client_id=None, connect_timeout=timeout
        )
    except KafkaError:
        return ""
    try:
        answer = await connection.request(
            SaslHandshakeRequest(mechanism=""), version=_HANDSHAKE_VERSION, timeout=timeout
        )
    except KafkaError:
        answer = None
    finally:
        connection.abort()
    if answer is not None and answer.mechanisms:
        ways = ", ".join(answer.mechanisms)
        advice = f"set security_protocol=SASL_PLAINTEXT and sasl_mechanism ({ways})"
        return f"this listener requires authentication, without TLS: {advice}"
    return (
        "this listener speaks Kafka without TLS and without authentication: set security_protocol=PLAINTEXT"
        if tls
        else ""
    )


async def _tls(address: Address, timeout: float) -> str:
    try:
        network = AsyncioNetwork(dial_tls=handshake_context())
        link = await network.dial(
            address.host, address.port, _Listener(), timeout=timeout, frame_size_max=FRAME_SIZE_MAX_AT_FIRST
        )
    except KafkaError:
        return ""
    link.abort()
    return "this port speaks TLS: set security_protocol=SSL, or SASL_SSL if it requires authentication, and ssl_cafile"


async def _web_server(address: Address, timeout: float) -> str:
    listener = _Listener()
    try:
        link = await AsyncioNetwork().dial(
            address.host, address.port, listener, timeout=timeout, frame_size_max=FRAME_SIZE_MAX_AT_FIRST
        )
    except KafkaError:
        return ""
    link.send_raw(_WEB_REQUEST)
    await asyncio.wait([listener.lost], timeout=timeout)
    link.abort()
    error = listener.lost.result() if listener.lost.done() else None
    is_web = isinstance(error, ProtocolError) and "HTTP" in str(error)
    return "a web server (HTTP) listens there: give the port of a Kafka listener" if is_web else ""


class _Listener:
    """Waits for the end of a link."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

    def link_made(self, link: Link) -> None:
        """Called when the connection is established."""

    def frame_received(self, frame: memoryview) -> None:
        """One whole frame has come, without its size. It has a buffer of its own: keep slices as long as you like."""

    def link_lost(self, error: KafkaError | None) -> None:
        """The connection is gone."""
        if not self.lost.done():
            self.lost.set_result(error)

    def writing_paused(self, paused: bool) -> None:
        """The link's `write_paused` has changed."""

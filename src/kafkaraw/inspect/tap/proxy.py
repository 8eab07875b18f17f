"""`Tap`: a proxy in front of a cluster that shows what clients and brokers say to each other.

    async with Tap("broker.example:9092") as tap:
        print("give your client bootstrap.servers =", tap.bootstrap_servers)
        async for exchange in tap:
            print(exchange.client_id, exchange.name, exchange.latency_s, exchange.errors)

Theory of operation. The tap listens on one port for the bootstrap servers. Answers name the brokers of the cluster
(`addresses`); each broker that is named for the first time gets a port of its own, and clients are told that port. So a
client that begins at the tap stays behind it, also when brokers come, go, or move. The host that a client is told is
the one at which it has reached the tap, unless another one is set. Each accepted connection is a `Passage`.

Exchanges that have ended wait in a queue of bounded size for those who want to see them. The queue is worked off in
pieces of milliseconds between the events of connections; what does not fit is dropped and counted. Start at
`Tap.start`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from kafkaraw.client.config import Address, parse_addresses
from kafkaraw.errors import NetworkError, UsageError
from kafkaraw.inspect.exchanges import PENDING_MAX, Connection, Exchange, TopicNames
from kafkaraw.inspect.tap.addresses import Node, Role
from kafkaraw.inspect.tap.passage import KEPT_HELD_BYTES, Passage
from kafkaraw.inspect.tap.ports import Gate, PortRange
from kafkaraw.inspect.tap.recording import RECORDED_MAX, Recording
from kafkaraw.inspect.tap.stream import Buffers
from kafkaraw.net import LoopThread
from kafkaraw.net.dial import connect_socket, tls_failed
from kafkaraw.net.listener import TLS_HANDSHAKE_TIMEOUT_S, stop_accepting
from kafkaraw.net.os_errors import host_port

if TYPE_CHECKING:
    import ssl

    from kafkaraw.broker.faults import Faults
    from kafkaraw.inspect.tap.certificates import FailedHandshakes
    from kafkaraw.inspect.tap.saving import Saving

log: logging.Logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 5.0
KEPT_BYTES: Final = 1 << 16
QUEUED_MAX: Final = 20_000
QUEUED_BYTES_MAX: Final = 64 << 20
PENDING_TOTAL_MAX: Final = 100_000
"""Requests without an answer, of all connections together; each has an equal share of at least `PENDING_MIN`."""
PENDING_MIN: Final = 50
PENDING_BYTES_MAX: Final = 64 << 20
"""So much of requests without an answer is kept. Beyond that, `KEPT_BYTES_MIN` of each."""
KEPT_BYTES_MIN: Final = 1 << 9
DRAIN_EVERY_S: Final = 0.02
DRAIN_FOR_S: Final = 0.002
NOTES_MAX: Final = 1000


class Tap:
    """A proxy in front of every broker of a cluster.

    Use it as an async context manager, on the running loop, or as a plain one: then it runs on a thread of its own.

    Args:
        bootstrap_servers: of the cluster, "host:port[,host:port...]".
        listen: address of the tap: "host:port" or "host:port-last". The first port stands for the bootstrap servers;
            each broker gets one of those behind it, by default of the next 100. Port 0 takes free ports.
        advertised_host: host that clients are told; None is the address at which each client has reached the tap.
        tls: how to speak TLS with the brokers; None for plain TCP.
        listen_tls: how to speak TLS with the clients; None for plain TCP.
        faults: faults to inject; None makes an empty plan, see `faults`.
        kept_bytes: how much of each frame an `Exchange` keeps.
        kept_record_bytes: the same of large frames with records. With less, large frames cost less CPU time.

    Attributes:
        topic_names: names of topics by id, as answers have said them so far.
        buffers: memory that the connections share.
        dropped: number of exchanges that no observer has seen, since observers are slower than the traffic.

    Raises:
        UsageError: `listen` or `bootstrap_servers` is no address.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        listen: str = "127.0.0.1:0",
        advertised_host: str | None = None,
        tls: ssl.SSLContext | None = None,
        listen_tls: ssl.SSLContext | None = None,
        faults: Faults | None = None,
        kept_bytes: int = KEPT_BYTES,
        kept_record_bytes: int = KEPT_BYTES,
    ) -> None:
        self._servers = list(parse_addresses(bootstrap_servers))
        self._ports = PortRange.parse(listen)
        self._advertised_host = advertised_host
        self._tls = tls
        self._listen_tls = listen_tls
        self._faults = faults
        self._kept_bytes = kept_bytes
        self._kept_record_bytes = kept_record_bytes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._bootstrap: Gate | None = None
        self._gates: dict[tuple[Role, int], Gate] = {}
        self._failed_handshakes: FailedHandshakes | None = None
        self._passages: set[Passage] = set()
        self.buffers: Buffers = Buffers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0
        self.topic_names: TopicNames = TopicNames()
        self._observers: list[Callable[[Exchange], None]] = []
        self._note_observers: list[Callable[[str], None]] = []
        self._savings: list[Saving] = []
        self._notes: dict[str, int] = {}
        self._queue: deque[tuple[Exchange, int]] = deque()
        self._queued_bytes = 0
        self._pending: dict[Exchange, int] = {}  # requests without an answer, and the memory that each one takes
        self._pending_bytes = 0
        self._drain_timer: asyncio.Handle | None = None
        self._stopped = asyncio.Event()
        self._one_closed = asyncio.Event()
        self.dropped: int = 0

    # -- what a user asks ------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The address for the clients' option `bootstrap_servers`.

        Raises:
            UsageError: the tap is not running.
        """
        if self._bootstrap is None:
            raise UsageError("the tap is not running: use it in a `with` or `async with` statement")
        return host_port(self._advertised_host or self._ports.reachable_host, self._bootstrap.port)

    @property
    def faults(self) -> Faults:
        """The faults to inject, as of an embedded broker: `tap.faults.on(api="Produce").close()`."""
        if self._faults is None:
            from kafkaraw.broker.faults import Faults  # most taps inject none

            self._faults = Faults()
        return self._faults

    @property
    def brokers(self) -> Mapping[int, tuple[str, int]]:
        """Brokers that answers have named so far: the broker's own address and the tap's port, by node id."""
        return {
            node_id: (host_port(*gate.targets[0]), gate.port)
            for (role, node_id), gate in self._gates.items()
            if role is Role.BROKER
        }

    @property
    def notes(self) -> list[str]:
        """What is worth knowing besides exchanges: connections that fail, other protocols, brokers without a port."""
        return [text if count == 1 else f"{text} ({count} times)" for text, count in self._notes.items()]

    def record(self, exchanges_max: int = RECORDED_MAX) -> Recording:
        """Keep the exchanges that end from now on.

        Args:
            exchanges_max: how many of the newest ones are kept.
        """
        recording = Recording(exchanges_max)
        self.observe(recording.add)
        return recording

    def save_to(self, saving: Saving) -> None:
        """Have what passes from now on written to a capture file."""
        self._savings.append(saving)

    def observe(self, observer: Callable[[Exchange], None]) -> None:
        """Have a function called with each exchange that ends, on the tap's loop; it must not block."""
        self._observers.append(observer)

    def observe_notes(self, observer: Callable[[str], None]) -> None:
        """Have a function called with each of the `notes` when it comes up, on the tap's loop."""
        self._note_observers.append(observer)

    async def __aiter__(self) -> AsyncIterator[Exchange]:
        """Return the exchanges that end from now on, until the tap is stopped."""
        found: deque[Exchange] = deque(maxlen=QUEUED_MAX)
        came = asyncio.Event()

        def add(exchange: Exchange) -> None:
            self.dropped += len(found) == QUEUED_MAX
            found.append(exchange)
            came.set()

        self._observers.append(add)
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while found or not self._stopped.is_set():
                while found:
                    yield found.popleft()
                came.clear()
                next_one = asyncio.ensure_future(came.wait())
                await asyncio.wait({next_one, stopped}, return_when=asyncio.FIRST_COMPLETED)
                next_one.cancel()
        finally:
            stopped.cancel()
            self._observers.remove(add)

    # -- start and stop --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen. Clients can connect as soon as this returns.

        Raises:
            UsageError: the tap is running already.
            NetworkError: the port is taken, or the address is not this machine's.
        """
        if self._bootstrap is not None:
            raise UsageError("the tap is running already")
        self._loop = asyncio.get_running_loop()
        self._stopped.clear()
        sock, port = self._ports.open_first()
        self._bootstrap = Gate("bootstrap servers", port, self._servers, None, sock)
        if self._listen_tls is not None:
            from kafkaraw.inspect.tap.certificates import FailedHandshakes  # most taps need none of it

            self._failed_handshakes = FailedHandshakes(self._listen_tls, self.note)
        await self._serve(self._bootstrap)

    async def stop(self) -> None:
        """Close all ports and connections, and show observers what has ended. A second call has no effect."""
        bootstrap, self._bootstrap = self._bootstrap, None
        if bootstrap is None:
            return
        gates = [bootstrap, *self._gates.values()]
        await stop_accepting([gate.sock.fileno() for gate in gates])
        for gate in gates:
            if gate.server is not None:
                gate.server.close()
            gate.sock.close()
        for task in list(self._tasks):
            task.cancel()
        for passage in list(self._passages):
            passage.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await asyncio.gather(*self._tasks, return_exceptions=True)
                while self._passages:
                    self._one_closed.clear()
                    await self._one_closed.wait()
        self._gates.clear()
        if self._failed_handshakes is not None:
            self._failed_handshakes.stop()
        while self._queue:
            self._show(*self._queue.popleft())
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
        self._stopped.set()

    def __enter__(self) -> Tap:
        thread = LoopThread("kafkaraw-tap")
        try:
            thread.run(self.start(), STOP_TIMEOUT_S)
        except BaseException:
            thread.stop()
            raise
        self._thread = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self.stop(), 2 * STOP_TIMEOUT_S)
            finally:
                thread.stop()

    async def __aenter__(self) -> Tap:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # -- listening and connecting ----------------------------------------------------------------------------------

    async def _serve(self, gate: Gate) -> None:
        assert self._loop is not None
        gate.server = await self._loop.create_server(
            lambda: Passage(self, gate).client,
            sock=gate.sock,
            ssl=self._listen_tls,
            ssl_handshake_timeout=None if self._listen_tls is None else TLS_HANDSHAKE_TIMEOUT_S,
        )

    def _spawn(self, coroutine: Coroutine[object, None, None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, passage: Passage) -> None:
        """Connect a passage to the first target that accepts; refuse the client if none does."""
        self._connections = number = self._connections + 1
        gate, client = passage.gate, host_port(*passage.client.address("peername"))
        failures = []
        for host, port in list(gate.targets):
            try:
                await self._dial(passage, host, port)
            except NetworkError as error:
                failures.append(str(error))
                continue
            address = host_port(*passage.broker.address("peername"))
            passage.begin(Connection(number, client, host_port(host, port), gate.node_id, address))
            return
        reason = f"{gate.name}: {'; '.join(failures)}"
        passage.refuse(reason)
        self.note(f"{reason}; the client's connection is closed")

    async def _dial(self, passage: Passage, host: str, port: int) -> None:
        assert self._loop is not None
        sock = await connect_socket(host, port, timeout=CONNECT_TIMEOUT_S)
        try:
            if self._tls is None:
                await self._loop.create_connection(lambda: passage.broker, sock=sock)
            else:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await self._loop.create_connection(
                        lambda: passage.broker, sock=sock, ssl=self._tls, server_hostname=host
                    )
        except (OSError, TimeoutError) as error:
            sock.close()
            raise tls_failed(error, host, port) from error
        except BaseException:
            sock.close()
            raise

    def advertised(self, node: Node, local_host: str) -> tuple[str, int]:
        """Return where clients reach a node; its own address if there is no port for it."""
        key = (node.role, node.node_id)
        gate = self._gates.get(key)
        address = Address(node.host, node.port)
        if gate is None:
            gate = self._open_gate(node)
            if gate is None:
                return node.host, node.port
            self._gates[key] = gate
        elif gate.targets[0] != address:
            self.note(f"{gate.name} has moved from {host_port(*gate.targets[0])} to {host_port(*address)}")
            gate.targets[0] = address
        return self._advertised_host or local_host or self._ports.reachable_host, gate.port

    def _open_gate(self, node: Node) -> Gate | None:
        name = f"{node.role.value} {node.node_id}"
        try:
            sock, port = self._ports.open_next()
        except NetworkError as error:
            self.note(f"{name} ({host_port(node.host, node.port)}) has no port: {error}; clients go to it past the tap")
            return None
        gate = Gate(name, port, [Address(node.host, node.port)], node.node_id, sock)
        self._spawn(self._serve(gate))
        log.info("port %d stands for %s at %s", port, name, host_port(node.host, node.port))
        return gate

    # -- what passages ask and report ------------------------------------------------------------------------------

    @property
    def faults_if_set(self) -> Faults | None:
        """Faults to inject now; None without."""
        return self._faults if self._faults is not None and self._faults.are_set else None

    @property
    def kept_whole_bytes(self) -> int:
        """How much of a long frame is kept as it passes: what a capture file needs, or what an exchange keeps."""
        return KEPT_HELD_BYTES if self._savings else self._kept_bytes

    @property
    def is_saving(self) -> bool:
        """Whether what passes is written to a file."""
        return bool(self._savings)

    @property
    def kept_record_bytes(self) -> int:
        """How much of a large frame with records is kept beside its outline as it passes."""
        return KEPT_HELD_BYTES if self._savings else self._kept_record_bytes

    @property
    def pending_max(self) -> int:
        """How many requests of a connection may wait for an answer before the oldest is given up."""
        return min(max(PENDING_TOTAL_MAX // max(len(self._passages), 1), PENDING_MIN), PENDING_MAX)

    def accepted(self, passage: Passage) -> None:
        """Connect the broker's side of a client that has connected; passages call this."""
        self._passages.add(passage)
        self.buffers.share_among(len(self._passages))
        self._spawn(self._connect(passage))

    def asked(self, exchange: Exchange) -> None:
        """Take a request that has come; passages call this."""
        for saving in self._savings:
            saving.asked(exchange)
        if self._faults is not None:  # which are set after that still see the whole request
            exchange.trim(exchange.request_bytes)
        elif self._pending_bytes > PENDING_BYTES_MAX:
            exchange.shorten(min(self._kept_bytes, KEPT_BYTES_MIN))
        else:
            exchange.trim(self._kept_bytes, self._kept_record_bytes)
        self._pending[exchange] = size = exchange.memory_bytes
        self._pending_bytes += size

    def ended(self, exchange: Exchange) -> None:
        """Queue an exchange for the observers; passages call this."""
        self._pending_bytes -= self._pending.pop(exchange, 0)
        for saving in self._savings:
            saving.answered(exchange)
        exchange.trim(self._kept_bytes, self._kept_record_bytes)
        if not self._observers:
            return
        size = exchange.memory_bytes
        if len(self._queue) >= QUEUED_MAX or self._queued_bytes + size > QUEUED_BYTES_MAX:
            self.dropped += 1
            return
        self._queue.append((exchange, size))
        self._queued_bytes += size
        if self._drain_timer is None and self._loop is not None:
            self._drain_timer = self._loop.call_later(DRAIN_EVERY_S, self._drain)

    def note(self, text: str) -> None:
        """Add a note; passages call this."""
        if text in self._notes:
            self._notes[text] += 1
        elif len(self._notes) < NOTES_MAX:
            self._notes[text] = 1
            for observer in self._note_observers:
                observer(text)

    def closed(self, passage: Passage) -> None:
        """Forget a connection that has ended; passages call this."""
        self._passages.discard(passage)
        self.buffers.share_among(len(self._passages))
        for saving in self._savings:
            saving.closed(passage.connection, time.time())
        self._one_closed.set()

    def _drain(self) -> None:
        """Show exchanges for a few milliseconds; connections have a turn before the next ones."""
        self._drain_timer = None
        until = time.monotonic() + DRAIN_FOR_S
        while self._queue:
            self._show(*self._queue.popleft())
            if time.monotonic() > until:
                break
        if self._queue and self._loop is not None:
            self._drain_timer = self._loop.call_soon(self._drain)

    def _show(self, exchange: Exchange, size: int) -> None:
        self._queued_bytes -= size
        self.topic_names.learn(exchange)
        for observer in list(self._observers):
            try:
                observer(exchange)
            except Exception:  # an observer must not end the traffic
                log.exception("an observer of the tap failed with %r", exchange)

"""Replay a captured conversation against a broker and compare the answers; `kafkaraw wire export` writes such tests.

Each connection of the capture becomes a connection to the broker. Requests are sent and answers awaited in the order of
the capture. A broker assigns ids (members, producers, topics, fetch sessions, generations), so an id of the capture is
replaced in later requests by the one that this broker has assigned. Compared are all fields of answers, except those in
`OF_THE_CLUSTER` (addresses, times, ids) and those of answers in `PARTIAL`; the records that consumers got are compared
at the end. Start at `replay`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError, Stage
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol import RequestHeader, ResponseHeader, decode_request, decode_response, encode_request
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.declare import spec_of
from kafkaraw.records.batch import Batch, batches_of
from kafkaraw.records.header import stamp_producer

TIMEOUT_S: Final = 30.0
SIZE_PREFIX: Final = 4
DIFFERENCES_MAX: Final = 20

ASSIGNED: Final = frozenset(
    {
        "member_id",
        "leader",
        "producer_id",
        "producer_epoch",
        "topic_id",
        "session_id",
        "generation_id",
        "member_epoch",
        "client_instance_id",
    }
)
"""Fields with values that a broker assigns."""
OF_THE_CLUSTER: Final = ASSIGNED | {
    "acquisition_lock_timeout_ms",
    "assignment",
    "base_offset",
    "broker_id",
    "cluster_id",
    "controller_id",
    "current_leader",
    "eligible_leader_replicas",
    "error_message",
    "heartbeat_interval_ms",
    "host",
    "isr_nodes",
    "last_known_elr",
    "last_stable_offset",
    "leader_epoch",
    "leader_id",
    "log_append_time_ms",
    "log_start_offset",
    "metadata",
    "node_endpoints",
    "node_id",
    "offline_replicas",
    "port",
    "rack",
    "replica_nodes",
    "throttle_time_ms",
}
"""Fields that describe a cluster, what its logs had before, or the moment."""
PARTIAL: Final = {"ApiVersions": {"error_code"}, "Fetch": {"error_code"}, "ShareFetch": {"error_code"}}
"""Of these answers some fields are compared: brokers offer their own versions, and records arrive in any portions."""


class Turn(NamedTuple):
    """One frame of the capture.

    Attributes:
        connection: number of the connection.
        from_client: whether it is a request.
        frame: the frame without its size prefix, in hex; white space does not count.
    """

    connection: int
    from_client: bool
    frame: str


def replay(turns: Sequence[Turn], bootstrap_servers: str, *, timeout: float = TIMEOUT_S) -> None:
    """Send the requests of a conversation to a broker, and compare its answers with those of the capture.

    Args:
        turns: in the order of the capture.
        bootstrap_servers: one address; all connections go there.
        timeout: how long an answer may take, in seconds.

    Raises:
        AssertionError: answers differ; it names the fields.
        KafkaTimeoutError: an answer did not come within `timeout`.
        NetworkError: the broker cannot be reached, or closed a connection.
    """
    host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
    with ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection((host.strip("[]"), int(port)), timeout))

        conversation = _Replay(connect)
        for turn in turns:
            conversation.take(turn)
    differences = [*conversation.differences, *conversation.record_differences()]
    if differences:
        more = f"\nand {len(differences) - DIFFERENCES_MAX} more" if len(differences) > DIFFERENCES_MAX else ""
        raise AssertionError("the broker answers differently:\n" + "\n".join(differences[:DIFFERENCES_MAX]) + more)


@dataclass(slots=True, eq=False)
class _Pending:
    api_key: int
    version: int


@dataclass(slots=True, eq=False)
class _Replay:
    connect: Callable[[], socket.socket]
    differences: list[str] = field(default_factory=list)
    _sockets: dict[int, socket.socket] = field(default_factory=dict)
    _pending: dict[tuple[int, int], _Pending] = field(default_factory=dict)
    _assigned: dict[tuple[str, object], object] = field(default_factory=dict)
    _recorded_records: set[tuple[object, ...]] = field(default_factory=set)
    _records: set[tuple[object, ...]] = field(default_factory=set)

    def take(self, turn: Turn) -> None:
        """Send a request, or await an answer and compare it."""
        frame = bytes.fromhex(turn.frame)
        if turn.connection not in self._sockets:
            self._sockets[turn.connection] = self.connect()
        if turn.from_client:
            self._send(turn.connection, frame)
        else:
            self._await(turn.connection, frame)

    def record_differences(self) -> Iterator[str]:
        """Yield the records that only one of the conversations delivered."""
        for words, found in (
            ("was delivered in the capture only", self._recorded_records - self._records),
            ("was not delivered in the capture", self._records - self._recorded_records),
        ):
            for partition, offset, *_ in sorted(found, key=repr):
                yield f"Fetch: the record at offset {offset} of partition {partition} {words}, or differs"

    def _send(self, connection: int, frame: bytes) -> None:
        header, body = decode_request(frame)
        self._pending[connection, header.correlation_id] = _Pending(header.api_key, header.api_version)
        self._replace_assigned(body)
        self._write(connection, header, body)

    def _write(self, connection: int, header: RequestHeader, body: Any) -> None:  # noqa: ANN401 - any request
        data = encode_request(header, body)
        try:
            self._sockets[connection].sendall(len(data).to_bytes(SIZE_PREFIX) + data)
        except OSError as error:
            raise NetworkError(
                f"connection {connection}: the broker does not take the request: {error}", stage=Stage.REQUEST
            ) from error

    def _replace_assigned(self, message: Any) -> None:  # noqa: ANN401 - any structure
        for spec in spec_of(type(message)).fields:
            value = getattr(message, spec.name)
            if isinstance(value, list):
                for one in value:
                    if hasattr(type(one), "__dataclass_fields__") or _is_structure(one):
                        self._replace_assigned(one)
            elif _is_structure(value):
                self._replace_assigned(value)
            elif spec.name == "records" and value is not None:
                setattr(message, spec.name, self._restamped(value))
            elif spec.name in ASSIGNED and (spec.name, value) in self._assigned:
                setattr(message, spec.name, self._assigned[spec.name, value])

    def _restamped(self, records: Any) -> bytes:  # noqa: ANN401 - any buffer
        """Return batches with the producer ids and epochs that this broker has assigned."""
        out = []
        for header, wire in batches_of(memoryview(records)):
            batch = bytearray(wire)
            if header.producer_id >= 0:
                known = self._assigned.get(("producer_id", header.producer_id), header.producer_id)
                epoch = self._assigned.get(("producer_epoch", header.producer_epoch), header.producer_epoch)
                assert isinstance(known, int) and isinstance(epoch, int)
                stamp_producer(batch, known, epoch, header.base_sequence, header.is_transactional)
            out.append(bytes(batch))
        return b"".join(out)

    def _await(self, connection: int, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[:4], signed=True)
        pending = self._pending.pop((connection, correlation_id), None)
        if pending is None:
            return
        api = API_BY_KEY[pending.api_key]
        _, expected = decode_response(frame, pending.api_key, pending.version)
        header, actual = decode_response(self._read(connection, api.name), pending.api_key, pending.version)
        assert isinstance(header, ResponseHeader)
        if api.name == "Fetch":
            self._recorded_records |= set(_records_in(expected))
            self._records |= set(_records_in(actual))
        self._learn(expected, actual)
        only = PARTIAL.get(api.name)
        for path, one, other in _differences(expected, actual, "", only):
            words = f"{one!r} in the capture, {other!r} now"
            self.differences.append(f"{api.name} v{pending.version}, connection {connection}: {path}: {words}")

    def _read(self, connection: int, name: str) -> bytes:
        stream = self._sockets[connection]
        data = bytearray()
        wanted = SIZE_PREFIX
        try:
            while len(data) < wanted:
                piece = stream.recv(min(wanted - len(data), 1 << 20))
                if not piece:
                    raise NetworkError(
                        f"connection {connection}: the broker closed it instead of answering {name}",
                        stage=Stage.REQUEST,
                    )
                data += piece
                if len(data) == SIZE_PREFIX == wanted:
                    wanted += int.from_bytes(data)
        except TimeoutError:
            words = f"connection {connection}: no answer to {name} within {stream.gettimeout():g} s"
            raise KafkaTimeoutError(words) from None
        except OSError as error:
            raise NetworkError(f"connection {connection}: no answer to {name}: {error}", stage=Stage.REQUEST) from error
        return bytes(data[SIZE_PREFIX:])

    def _learn(self, expected: Any, actual: Any) -> None:  # noqa: ANN401 - structures of the same class
        for spec in spec_of(type(expected)).fields:
            one, other = getattr(expected, spec.name), getattr(actual, spec.name)
            if isinstance(one, list):
                for first, second in zip(*_paired(one, other), strict=False):
                    if _is_structure(first):
                        self._learn(first, second)
            elif _is_structure(one) and _is_structure(other):
                self._learn(one, other)
            elif spec.name in ASSIGNED and isinstance(one, str | bytes | int):
                self._assigned[spec.name, one] = other
                if spec.name == "leader":
                    self._assigned["member_id", one] = other


def _is_structure(value: object) -> bool:
    return not isinstance(value, bytes | bytearray | memoryview | str | int | float | list | None)


def _paired(one: list[Any], other: list[Any] | None) -> tuple[list[Any], list[Any]]:
    """Order both lists by the names of their elements; brokers list topics in any order."""
    sides = (one, other or [])
    if all(hasattr(element, "name") for side in sides for element in side):
        one, other = (sorted(side, key=lambda element: str(element.name)) for side in sides)
        return one, other
    return sides


def _differences(
    expected: Any,  # noqa: ANN401 - structures of the same class
    actual: Any,  # noqa: ANN401
    path: str,
    only: set[str] | None = None,
) -> Iterator[tuple[str, object, object]]:
    for spec in spec_of(type(expected)).fields:
        if spec.name in OF_THE_CLUSTER or (only is not None and spec.name not in only):
            continue
        one, other = getattr(expected, spec.name), getattr(actual, spec.name)
        here = f"{path}.{spec.name}".lstrip(".")
        if isinstance(one, list) and isinstance(other, list) and any(map(_is_structure, [*one, *other])):
            if len(one) != len(other) and spec.name != "brokers":
                yield f"{here}, number of elements", len(one), len(other)
            for number, (first, second) in enumerate(zip(*_paired(one, other), strict=False)):
                yield from _differences(first, second, f"{here}[{number}]")
        elif _is_structure(one) and _is_structure(other):
            yield from _differences(one, other, here)
        elif one != other:
            yield here, one, other


def _records_in(answer: Any) -> Iterator[tuple[object, ...]]:  # noqa: ANN401 - FetchResponse
    for topic in answer.responses:
        for part in topic.partitions:
            if not part.records:
                continue
            try:
                for record in Batch("", part.partition_index, part.records, start_offset=0):
                    headers = tuple(record.headers)
                    yield part.partition_index, record.offset, record.key, record.value, headers
            except KafkaError:
                continue  # a part of a batch, which the next answer has whole

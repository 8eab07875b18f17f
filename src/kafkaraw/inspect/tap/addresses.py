"""Addresses of brokers in answers, replaced by those of the tap. Pure.

Six APIs carry addresses that clients connect to: Metadata, FindCoordinator and DescribeCluster always; Produce, Fetch,
ShareFetch and ShareAcknowledge only together with a new leader (KIP-951), as their last field. `treatment_of` says how
much of an answer must be there before the first byte of it may be passed on:

- nothing of the answers of other APIs and of versions without addresses: they are passed on as they come.
- all of an answer that always has addresses, and of those that are small.
- the end of answers to Fetch and ShareFetch. Their beginning, with the size, is passed on before the addresses come, so
  the end that replaces theirs is as long as it was: padded with a tagged field that no client knows. If the tap's
  addresses are longer than the brokers', the end has none. Clients then find the leader's address in the Metadata that
  they have. The alternative is to hold 50 MB of records back because of 40 bytes.

Of Metadata only the brokers are decoded, since a cluster may have 100,000 partitions. Start at `Addresses.rewrite`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from kafkaraw.errors import KafkaError
from kafkaraw.inspect.exchanges import Bytes
from kafkaraw.protocol import decode_response, encode_message, encode_response
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.compile import compile_part_decoder
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.frames import DECODE_FAILURES, response_header_version
from kafkaraw.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from kafkaraw.protocol.types import decode_uvarint, encode_uvarint

METADATA_KEY, FIND_COORDINATOR_KEY, DESCRIBE_CLUSTER_KEY = 3, 10, 60
PRODUCE_KEY, FETCH_KEY, SHARE_FETCH_KEY, SHARE_ACKNOWLEDGE_KEY = 0, 1, 78, 79
_ENDPOINTS_SINCE: Final = {PRODUCE_KEY: 10, FETCH_KEY: 16, SHARE_FETCH_KEY: 0, SHARE_ACKNOWLEDGE_KEY: 0}
_ALWAYS: Final = frozenset({METADATA_KEY, FIND_COORDINATOR_KEY, DESCRIBE_CLUSTER_KEY})
_CONTROLLERS: Final = 2
HELD_TAIL_BYTES: Final = 1 << 14
"""Of an answer with records so much is held back until its end is there: the addresses of about 300 brokers."""
_NO_ENDPOINTS: Final = b"\1\0"  # an empty compact array, and no tags
_BARE_ENDS: Final = {FETCH_KEY: b"\0", SHARE_FETCH_KEY: _NO_ENDPOINTS}
"""What is behind the topics of an answer without addresses. Fetch has them in a tagged field."""
UNKNOWN_TAG: Final = 0x7F
"""A tag that Kafka does not use. It is written in one byte."""


class Role(Enum):
    """What a node is reached as: a node that is both has an address for each."""

    BROKER = "broker"
    CONTROLLER = "controller"


class Node(NamedTuple):
    """A node as the cluster advertises it."""

    role: Role
    node_id: int
    host: str
    port: int


Advertise: TypeAlias = Callable[[Node], tuple[str, int]]
"""Returns the host and the port at which clients reach a node."""


class NewEnd(NamedTuple):
    """The end of an answer, as long as the one that it replaces.

    Attributes:
        data: its bytes.
        is_hidden: whether it has no addresses, since those of the tap do not fit.
    """

    data: bytes
    is_hidden: bool


class Treatment(Enum):
    """How much of an answer is held back until its end is there."""

    PASS = "nothing"
    HOLD_TAIL = "its end"
    HOLD = "all of it"


@lru_cache(maxsize=1024)  # bounded, because peers choose the arguments
def treatment_of(api_key: int, version: int) -> Treatment:
    """Return how answers of that API and version are passed on."""
    api = API_BY_KEY.get(api_key)
    if api is None or not api.versions.includes(version):
        return Treatment.PASS
    if api_key in _ALWAYS:
        return Treatment.HOLD
    since = _ENDPOINTS_SINCE.get(api_key)
    if since is None or version < since:
        return Treatment.PASS
    return Treatment.HOLD_TAIL if api_key in _BARE_ENDS else Treatment.HOLD


def has_unknown_addresses(api_key: int, version: int) -> bool:
    """Return whether answers of that version have addresses that are not found, since the version is not known here."""
    api = API_BY_KEY.get(api_key)
    return api is not None and version > api.versions.max and (api_key in _ALWAYS or api_key in _ENDPOINTS_SINCE)


def ends_without_addresses(frame: Bytes, api_key: int) -> bool:
    """Return whether the last bytes of an answer show that it has no addresses."""
    return api_key in (SHARE_FETCH_KEY, SHARE_ACKNOWLEDGE_KEY) and frame[-2:] == _NO_ENDPOINTS


class Addresses:
    """Replaces the addresses in answers.

    Args:
        advertise: returns where clients reach a node.
    """

    def __init__(self, advertise: Advertise) -> None:
        self._advertise = advertise

    def rewrite(
        self,
        frame: bytes | memoryview,
        api_key: int,
        version: int,
        unchanged: Callable[[Response], None] = lambda _: None,
    ) -> bytes | None:
        """Return a whole answer with the tap's addresses; None if it is passed on unchanged.

        Args:
            frame: the answer without its size prefix.
            api_key: of the request.
            version: of the request.
            unchanged: takes the message of an answer that had to be decoded, and has no addresses.

        Raises:
            KafkaError: the answer cannot be decoded.
        """
        if api_key == METADATA_KEY:
            return self._metadata(frame, version)
        if ends_without_addresses(frame, api_key):
            return None
        header, message = decode_response(frame, api_key, version, allow_trailing_bytes=True)
        if not self._replace(message, api_key):
            unchanged(message)
            return None
        return encode_response(header, message, version)

    def rewrite_end(self, frame: Bytes, api_key: int, version: int) -> NewEnd | None:
        """Return the end of an answer to Fetch or ShareFetch that replaces its own; None if it has no addresses.

        Args:
            frame: the whole answer without its size prefix, or its outline, which ends as the answer does.
            api_key: of the request.
            version: of the request.

        Raises:
            KafkaError: the answer cannot be decoded, or has bytes behind the message.
        """
        _, decoded = decode_response(frame, api_key, version)
        message: Any = decoded
        if not message.node_endpoints:
            return None
        message.responses = []
        own_end = _end_of(message, api_key, version)
        if frame[len(frame) - len(own_end) :] != own_end:
            raise KafkaError("the end of the message is encoded in an unusual way")
        if not self._replace(message, api_key):
            return None
        missing = len(own_end) - len(_end_of(message, api_key, version))
        if missing == 1 or missing < 0 or message.unknown_tagged_fields:
            message.node_endpoints = []
            missing = len(own_end) - len(_BARE_ENDS[api_key])
        message.unknown_tagged_fields = _padding(missing)
        return NewEnd(_end_of(message, api_key, version), is_hidden=not message.node_endpoints)

    def _replace(self, message: Any, api_key: int) -> bool:  # noqa: ANN401 - of the class of the API
        """Replace the addresses in a message; return whether there are any."""
        if api_key == FIND_COORDINATOR_KEY:
            return self._replace_in([message, *message.coordinators], "node_id", Role.BROKER)
        if api_key == DESCRIBE_CLUSTER_KEY:
            role = Role.CONTROLLER if message.endpoint_type == _CONTROLLERS else Role.BROKER
            return self._replace_in(message.brokers, "broker_id", role)
        return self._replace_in(message.node_endpoints, "node_id", Role.BROKER)

    def _replace_in(self, nodes: list[Any], id_name: str, role: Role) -> bool:
        there = [node for node in nodes if node.host and node.port > 0]  # an answer without coordinator has none
        for node in there:
            node.host, node.port = self._advertise(Node(role, getattr(node, id_name), node.host, node.port))
        return bool(there)

    def _metadata(self, frame: bytes | memoryview, version: int) -> bytes:
        """Replace the brokers, which are the first field but one, and copy the bytes behind them."""
        try:
            start, brokers, end = _brokers_of(frame, version)
        except DECODE_FAILURES:
            _, _ = decode_response(frame, METADATA_KEY, version)  # raises an error that says where and why
            raise KafkaError(f"Metadata v{version}: the brokers cannot be read") from None
        self._replace_in(brokers, "node_id", Role.BROKER)
        encoded = encode_message(MetadataResponse(brokers=brokers, topics=[]), version)
        begin, _, stop = _brokers_of(encoded, version, header=False)
        return b"".join((frame[:start], encoded[begin:stop], frame[end:]))


def _brokers_of(
    data: bytes | memoryview, version: int, *, header: bool = True
) -> tuple[int, list[MetadataResponseBroker], int]:
    """Return where the brokers of a Metadata response begin, the brokers, and where they end."""
    at = 0
    if header:
        at = 4
        if response_header_version(METADATA_KEY, version) == 1:
            tags, at = decode_uvarint(data, at)
            if tags:
                raise ValueError("the header has tagged fields")
    start = at = at + (4 if version >= 3 else 0)  # the throttle time
    if API_BY_KEY[METADATA_KEY].is_flexible(version):
        count, at = decode_uvarint(data, at)
        count -= 1
    else:
        count, at = int.from_bytes(data[at : at + 4], signed=True), at + 4
    decode = compile_part_decoder(MetadataResponseBroker, MetadataResponse, version)
    brokers = []
    for _ in range(count):
        broker, at = decode(data, at)
        brokers.append(broker)
    return start, brokers, at


def _end_of(message: Any, api_key: int, version: int) -> bytes:  # noqa: ANN401 - of the class of the API
    """Return the encoded fields behind the topics, of a message without topics."""
    bare = copy.copy(message)
    bare.node_endpoints, bare.unknown_tagged_fields = [], None
    start = len(encode_message(bare, version)) - len(_BARE_ENDS[api_key])
    return encode_message(message, version)[start:]


def _padding(size: int) -> dict[int, bytes]:
    """Return tagged fields whose encoding has `size` bytes: 0, or at least 2."""
    if size == 0:
        return {}
    for length_bytes in range(1, 4):
        value_bytes = size - 1 - length_bytes
        if value_bytes >= 0 and len(encode_uvarint(value_bytes)) == length_bytes:
            return {UNKNOWN_TAG: bytes(value_bytes)}
    return {UNKNOWN_TAG - 1: b""} | _padding(size - 2)

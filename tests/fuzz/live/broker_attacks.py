"""What hostile clients do to a broker: one function for one step of each attack, and the table `ATTACKS`.

A step does as much as takes some milliseconds, and may end with any OSError: the session goes on with the next one.
Whatever is open at the end of the attack is closed by the `Arena`. A new attack is one function and one line.
"""

from __future__ import annotations

import random
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import decode_response
from kafkaraw.protocol.apis import API_BY_NAME, API_TABLE, Api
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkaraw.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkaraw.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.end_txn import EndTxnRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest
from kafkaraw.protocol.types import encode_uvarint
from kafkaraw.records import encode_batch
from tests.fuzz.live.honest import GROUP, QUIET_GROUP, TOPIC
from tests.fuzz.live.hostile_values import FORGED, ODD_STRINGS, REGEXES, Hostile, Names, encoded
from tests.fuzz.live.target import EVIL_PASSWORD, EVIL_USER, HOSTILE_HOST, Target
from tests.fuzz.live.wire import SIZE, Peer, framed, request_bytes

ANSWER_TIMEOUT_S = 0.3
MESSAGE_SIZE_MAX = 4 << 20
MUTATED_SIZE_MAX = 1 << 18
GREETINGS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x15\x03\x01\x00\x02\x02\x50",
    b"\x00" * 64,
    b"\xff" * 64,
)
TRIED = [api for api in API_TABLE if api.name != "UpdateFeatures"]


@dataclass
class Arena:
    """What an attack has: addresses, randomness, messages, and the connections that it keeps open."""

    target: Target
    rng: random.Random
    names: Names = field(default_factory=Names)
    kept: list[Peer] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    made: int = 0  # connections so far
    made_in_tls: int = 0  # those to the listener with TLS

    def __post_init__(self) -> None:
        self.hostile = Hostile(
            self.rng, self.names, size_max_bytes=MUTATED_SIZE_MAX, spares_internal_topics=self.target.kind == "open"
        )
        self._tls = ssl.create_default_context(cadata=self.target.authority)

    def peer(self, listener: str = "plain", *, timeout_s: float = ANSWER_TIMEOUT_S, **options: Any) -> Peer:
        """A new connection, closed by the caller; on `logins` it is logged in as the hostile user."""
        address = {"plain": self.target.plain, "logins": self.target.logins, "tls": self.target.tls}[listener]
        tls = self._tls if listener == "tls" else None
        self.made += 1
        self.made_in_tls += listener == "tls"
        peer = Peer(address, timeout_s=max(timeout_s, 2.0), source=HOSTILE_HOST, tls=tls, **options)
        try:
            if listener == "logins":
                peer.log_in(EVIL_USER, EVIL_PASSWORD)
        except BaseException:
            peer.close()
            raise
        peer.socket.settimeout(timeout_s)
        return peer

    def bare(self, listener: str = "plain", **options: Any) -> Peer:
        """A connection that has said nothing yet, whatever its listener expects; kept open to the end."""
        address = {"plain": self.target.plain, "logins": self.target.logins, "tls": self.target.tls}[listener]
        self.made += 1
        self.made_in_tls += listener == "tls"
        return self.keep(Peer(address, timeout_s=2.0, source=HOSTILE_HOST, **options))

    def keep(self, peer: Peer) -> Peer:
        """Keep a connection open to the end of the attack."""
        self.kept.append(peer)
        return peer

    def lasting(self, listener: str = "plain") -> Peer:
        """The connection that the steps of an attack share; a new one when the last was lost."""
        peer = self.state.get(listener)
        if peer is None:
            peer = self.state[listener] = self.keep(self.peer(listener))
        return peer

    def lost(self, listener: str = "plain") -> None:
        """Forget the shared connection."""
        peer = self.state.pop(listener, None)
        if peer is not None:
            self.kept.remove(peer)
            peer.close()

    def ask(self, message: object, version: int, listener: str = "plain") -> Any:
        """Ask on the shared connection; None when there is no answer."""
        try:
            return self.lasting(listener).ask(message, version)
        except (OSError, ValueError):
            self.lost(listener)
            return None

    def close(self) -> None:
        for peer in self.kept:
            peer.close()
        self.kept.clear()


def raw_bytes(arena: Arena) -> None:
    """Bytes that are no Kafka, on every listener; now and then with a reset instead of an end."""
    rng = arena.rng
    peer = arena.bare(rng.choice(("plain", "logins", "tls")))
    with suppress(OSError):
        peer.send(rng.choice((*GREETINGS, rng.randbytes(rng.choice((1, 3, 100, 10_000))))))
        if rng.random() < 0.5:
            peer.send(rng.randbytes(50))
    if rng.random() < 0.7:
        if rng.random() < 0.5:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        arena.kept.remove(peer)
        peer.close()


def frame_sizes(arena: Arena) -> None:
    """Frames whose size is zero, negative, tiny, or larger than anything."""
    size = arena.rng.choice((0, 1, 3, 7, -1, -(2**31), 2**31 - 1, 100 << 20, 104_857_600, 1 << 19))
    peer = arena.bare(arena.rng.choice(("plain", "logins")))
    peer.send(SIZE.pack(size) + arena.rng.randbytes(arena.rng.choice((0, 1, 10, 100_000))))


def long_poll(arena: Arena, topic: str = "evil-0") -> bytes:
    """A Fetch that waits for a minute."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    fetch = FetchRequest(replica_id=-1, max_wait_ms=60_000, min_bytes=1 << 30, max_bytes=1 << 30, topics=topics)
    return framed(request_bytes(fetch, 11))


def empty_frames_behind_a_long_poll(arena: Arena) -> None:
    """Frames of no or few bytes, behind a request that waits: 4 MB of them, or as many as are taken."""
    size = arena.rng.choice((0, 0, 1, 4, 8))
    frames = (SIZE.pack(size) + bytes(size)) * 20_000
    peer = arena.keep(arena.peer())
    peer.send(long_poll(arena))
    peer.socket.settimeout(1.0)
    for _ in range(50):
        peer.send(frames)


def half_frames(arena: Arena) -> None:
    """A frame that never ends, of up to 100 MB by its size and a few KB by what comes."""
    peer = arena.bare(arena.rng.choice(("plain", "plain", "logins")))
    size = arena.rng.choice((100, 500_000, 100_000_000))
    peer.send(SIZE.pack(size) + bytes(min(size - 1, arena.rng.choice((0, 10, 60_000)))))


def slow_writers(arena: Arena) -> None:
    """Good requests that come byte by byte, on many connections at a time."""
    writers: list[tuple[Peer, bytes]] = arena.state.setdefault("writers", [])
    if len(writers) < 50:
        whole = framed(request_bytes(MetadataRequest(topics=None), 8))
        writers.append((arena.bare(), whole))
    for at, (peer, rest) in enumerate(writers):
        if rest:
            peer.send(rest[:1])
            writers[at] = (peer, rest[1:])


def slow_readers(arena: Arena) -> None:
    """Fetches of much, with the same partition named many times, whose answers are not read."""
    if arena.step == 0:
        for partition in range(2):
            for _ in range(3):
                wire = encode_batch([(1, None, bytes(900_000), None)])
                _produce(arena, "evil-0", partition, wire, timeout_s=3.0)
    rng = arena.rng
    first = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    partitions = [first] * rng.choice((1, 5, 60, 400))
    topics = [FetchTopic(topic="evil-0", partitions=partitions)]
    fetch = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 30, topics=topics)
    peer = arena.bare(receive_buffer=4_096)
    for _ in range(rng.choice((1, 3))):
        peer.send(framed(request_bytes(fetch, rng.choice((4, 7, 11)))))


def many_connections(arena: Arena) -> None:
    """Fifty connections more, with nothing said, half a size, or the beginning of a login."""
    for _ in range(50):
        listener = arena.rng.choice(("plain", "logins", "tls"))
        peer = arena.bare(listener)
        said = arena.rng.choice((b"", b"\0\0", framed(request_bytes(SaslHandshakeRequest(mechanism="PLAIN"), 1))))
        with suppress(OSError):
            peer.send(said)


def connections_come_and_go(arena: Arena) -> None:
    """Fifty connections that are closed or reset at once."""
    for _ in range(50):
        with arena.peer() as peer:
            if arena.rng.random() < 0.5:
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if arena.rng.random() < 0.3:
                peer.send(framed(request_bytes(MetadataRequest(topics=None), 8)))


def _learn(arena: Arena, answer: Any) -> None:
    """Take ids from an answer into later requests; of topics that are not honest clients', which any id opens."""
    names = arena.names
    for attribute, known in (("member_id", names.members), ("producer_id", names.producer_ids)):
        value = getattr(answer, attribute, None)
        if value and value not in known:
            known.append(value)
            del known[1:-5]
    for topic in getattr(answer, "topics", None) or ():
        topic_id = getattr(topic, "topic_id", None)
        is_evil = (getattr(topic, "name", None) or "").startswith("evil")
        if is_evil and topic_id and topic_id not in names.topic_ids:
            names.topic_ids.append(topic_id)
            del names.topic_ids[:-5]


def _an_api(arena: Arena) -> tuple[Api, int]:
    """The next API and version: all of them in turn, in an order of the seed's."""
    deck = arena.state.get("deck")
    if not deck:
        deck = [(api, version) for api in TRIED for version in range(api.versions.min, api.versions.max + 1)]
        arena.rng.shuffle(deck)
        arena.state["deck"] = deck
    return deck.pop()


def _mutated_requests(arena: Arena, listener: str) -> None:
    for _ in range(8):
        api, version = _an_api(arena)
        if not api.supported.includes(version) and arena.rng.random() < 0.9:
            continue
        message = arena.hostile.message(api.request, version)
        body = encoded(message, lambda one, version=version: request_bytes(one, version))  # type: ignore[misc]
        if body is None:
            continue
        spoiled = arena.rng.random() < 0.15
        if spoiled:
            body = arena.hostile.spoiled(body)
        try:
            peer = arena.lasting(listener)
            peer.send(framed(body))
            if api.name == "Produce" and message.acks == 0:
                continue
            frame = peer.frame()
            if not spoiled:  # else it may be the answer to another API or version
                _learn(arena, _decoded(frame, api, version))
        except (OSError, ValueError):
            arena.lost(listener)


def _decoded(frame: bytes, api: Api, version: int) -> Any:
    try:
        return decode_response(frame, api.key, version)[1]
    except ProtocolError as error:
        if api.supported.includes(version):
            raise AssertionError(f"the answer to {api.name} version {version} cannot be decoded: {error}") from error
        return None


def mutated_requests(arena: Arena) -> None:
    """Every API in every version, with hostile values, by a client that need not log in."""
    _mutated_requests(arena, "plain")


def mutated_requests_after_login(arena: Arena) -> None:
    """The same by one who has logged in."""
    _mutated_requests(arena, "logins")


def mutated_requests_in_tls(arena: Arena) -> None:
    """The same inside TLS."""
    _mutated_requests(arena, "tls")


def before_login(arena: Arena) -> None:
    """Requests and logins that are not what a login asks for, or never end."""
    rng, hostile = arena.rng, arena.hostile
    peer = arena.bare("logins")
    way = rng.randrange(6)
    if way == 0:
        api, version = _an_api(arena)
        body = encoded(hostile.message(api.request, version), lambda one: request_bytes(one, version))
        peer.send(framed(body or b""))
        return
    mechanism = rng.choice(("PLAIN", "SCRAM-SHA-256", "GSSAPI", f"x\n{FORGED}", "a" * 30_000))
    peer.ask(SaslHandshakeRequest(mechanism=mechanism), rng.choice((0, 1)))
    tokens = (
        b"",
        b"\0" * 1_000,
        b"\0ada\0" + rng.randbytes(5),
        f"\0x\n{FORGED}\0y".encode(),
        b"n,,n=eve,r=" + b"r" * rng.choice((1, 400_000)),
        b"n,,n=,r=",
        b"n,a=admin,n=eve,r=abc",
        b"c=biws,r=abc,p=AAAA",
        b"n,,\x01" + b"auth=bearer x\x01" * 2_000,
        rng.randbytes(200),
    )
    for _ in range(rng.choice((1, 2, 3))):
        peer.send(framed(request_bytes(SaslAuthenticateRequest(auth_bytes=rng.choice(tokens)), rng.choice((0, 1, 2)))))
        if way < 4:
            peer.socket.settimeout(ANSWER_TIMEOUT_S)
            peer.frame()


def rich_messages(arena: Arena) -> None:
    """Messages of as many elements as fit into 4 MB, or before a login into half of one."""
    rng = arena.rng
    listener = rng.choice(("plain", "logins"))
    size = MESSAGE_SIZE_MAX if listener == "plain" else 500_000
    count = size // 3
    kinds: list[tuple[str, int, Callable[[], bytes]]] = [
        ("Metadata", 9, lambda: _count(size // 2) + b"\1\0" * (size // 2) + b"\1\0\0\0"),
        ("Metadata", 1, lambda: struct.pack(">i", size // 2) + b"\0\0" * (size // 2)),
        ("FindCoordinator", 4, lambda: b"\0" + _count(size) + b"\1" * size + b"\0"),
        ("Produce", 9, lambda: b"\0" + struct.pack(">hi", 1, 1) + _count(count) + b"\1\1\0" * count + b"\0"),
        ("DescribeGroups", 0, lambda: struct.pack(">i", size // 2) + b"\0\0" * (size // 2)),
        ("ApiVersions", 3, lambda: b"\1\1" + encode_uvarint(count // 8) + _tags(count // 8)),
    ]
    name, version, make = rng.choice(kinds)
    api, body = API_BY_NAME[name], make()
    head = struct.pack(">hhih", api.key, version, 1, -1) + (b"\0" if api.is_flexible(version) else b"")
    peer = arena.bare(listener)
    peer.send(framed(head + body))
    peer.socket.settimeout(1.0)
    with suppress(OSError, ValueError):
        peer.frame()


def _count(count: int) -> bytes:
    return encode_uvarint(count + 1)


def _tags(count: int) -> bytes:
    return b"".join(encode_uvarint(tag + 100) + b"\0" for tag in range(count))


def _join(group: str, member: str, metadata: bytes, instance: str | None = None) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=1_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=protocols,
    )


def group_members(arena: Arena) -> None:
    """Members of classic groups: many, with long or odd names, that are told to come back and do not, or never sync."""
    rng = arena.rng
    group = rng.choice(("evil-group", f"evil-{rng.randrange(20)}", f"evil\n{FORGED} {rng.random()}", "evil\x1b[31m"))
    metadata = rng.choice((b"", rng.randbytes(50), bytes(200_000)))
    for _ in range(5):
        answer = arena.ask(_join(group, "", metadata, rng.choice((None, None, "i" * 1_000, f"i{rng.random()}"))), 5)
        if answer is not None and answer.member_id and rng.random() < 0.3:
            peer = arena.keep(arena.peer())
            peer.request(_join(group, answer.member_id, metadata), 5)
            if rng.random() < 0.3:
                sync = SyncGroupRequest(group_id=group, generation_id=1, member_id=answer.member_id, assignments=[])
                peer.request(sync, 3)


def regexes(arena: Arena) -> None:
    """Subscriptions by regular expressions that backtrack, or cannot be compiled, or are long."""
    rng = arena.rng
    if arena.step == 0:
        names = ["flights-delays-by-hour-and-by-airport", "evil-" + "a" * 60, "evil-" + "x" * 200]
        topics = [MetadataRequestTopic(name=name) for name in names]
        arena.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 8)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=f"evil-regex-{rng.randrange(5)}",
        member_id=f"m{rng.random()}",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_regex=rng.choice(REGEXES),
        topic_partitions=[],
    )
    arena.ask(heartbeat, 1)


def fetch_sessions(arena: Arena) -> None:
    """Sessions that name tens of thousands of partitions, each by a client that hangs up."""
    partitions = [FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1) for at in range(40_000)]
    whole = arena.state.get("whole")
    if whole is None:
        topics = [FetchTopic(topic="evil-0", partitions=partitions)]
        fetch = FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1_000, session_id=0, session_epoch=0, topics=topics
        )
        whole = arena.state["whole"] = framed(request_bytes(fetch, 11))
    with arena.peer(timeout_s=5.0) as peer:
        peer.send(whole)
        peer.frame()


def transactions(arena: Arena) -> None:
    """Transactions that nobody ends, that are ended twice, with epochs and ids of others."""
    rng = arena.rng
    transactional_id = rng.choice(("evil-id", f"evil-{rng.randrange(50)}", f"evil\n{FORGED}"))
    answer = arena.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 4)
    if answer is None or answer.error_code:
        return
    ids: dict[str, Any] = {
        "transactional_id": transactional_id,
        "producer_id": rng.choice((answer.producer_id, answer.producer_id, rng.choice(arena.names.producer_ids))),
        "producer_epoch": rng.choice((answer.producer_epoch, answer.producer_epoch, 0, 32_767, -1)),
    }
    _learn(arena, answer)
    topics = [AddPartitionsToTxnTopic(name=rng.choice(("evil-0", TOPIC)), partitions=[0, 0, rng.choice((1, 99, -1))])]
    arena.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ids["transactional_id"],
            v3_and_below_producer_id=ids["producer_id"],
            v3_and_below_producer_epoch=ids["producer_epoch"],
            v3_and_below_topics=topics,
        ),
        3,
    )
    wire = encode_batch(
        [(1, None, b"x", None)],
        producer_id=ids["producer_id"],
        producer_epoch=ids["producer_epoch"],
        base_sequence=rng.choice((0, 1, -1, 2**31 - 1)),
        transactional=True,
        control=rng.random() < 0.1,
    )
    _produce(arena, "evil-0", 0, wire, transactional_id=transactional_id)
    arena.ask(AddOffsetsToTxnRequest(**ids, group_id=rng.choice(("evil-group", GROUP))), 3)
    for _ in range(rng.choice((0, 1, 2))):
        arena.ask(EndTxnRequest(**ids, committed=rng.random() < 0.5), 3)


def _produce(
    arena: Arena, topic: str, partition: int, wire: bytes, transactional_id: str | None = None, timeout_s: float = 1.0
) -> Any:
    data = [PartitionProduceData(index=partition, records=wire)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=topics)
    try:
        peer = arena.lasting()
        peer.socket.settimeout(timeout_s)
        return peer.ask(request, 8)
    except (OSError, ValueError):
        arena.lost()
        return None


def produced_batches(arena: Arena) -> None:
    """Batches that are damaged, claim too much, or decompress to very much, to topics of every setting."""
    hostile, rng = arena.hostile, arena.rng
    topic = rng.choice(("evil-0", "evil-compact", "evil-gzip", "evil-stamped"))
    way = rng.randrange(10)
    if way < 6:
        wire = hostile.damaged_batch()
    elif way < 8:
        wire = hostile.claims()
    else:
        wire = hostile.bomb(rng.choice((1 << 20, 32 << 20)))
    _produce(arena, topic, rng.randrange(2), wire)


def auto_creation(arena: Arena) -> None:
    """One request with up to 2,000 topics that do not exist; names that collide, and odd ones."""
    rng = arena.rng
    count = rng.choice((10, 300, 1_000, 2_000)) if arena.step else 1_500
    # Bounded for the clean-up's sake.
    made = arena.state["made"] = arena.state.get("made", 0) + count
    if made > 3_000:
        return
    names = [f"evil-auto.{arena.step}_{at}" for at in range(count)]
    names += [f"evil_auto.{arena.step}.{at}" for at in range(0, count, 7)] + list(ODD_STRINGS)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True
    )
    arena.ask(request, 8)


def internal_topics(arena: Arena) -> None:
    """Records for the coordinators' own topics: a forged offset of another group, and bytes that are no record."""
    rng = arena.rng
    topic = rng.choice(("__consumer_offsets", "__transaction_state"))
    key = struct.pack(">h", 1) + _text(rng.choice((GROUP, QUIET_GROUP))) + _text(TOPIC) + struct.pack(">i", 0)
    forged = struct.pack(">hqi", 3, 3, -1) + _text("forged") + struct.pack(">q", 1 << 40)
    records = [
        (key, forged),
        (key, None),
        (b"\0\1\x7f\xff", b"\0\1garbage"),
        (struct.pack(">h", rng.randrange(-2, 5)) + rng.randbytes(5), rng.randbytes(9)),
    ]
    key, value = rng.choice(records)
    for partition in range(4):
        answer = _produce(arena, topic, partition, encode_batch([(1, key, value, None)]))
        if answer is not None:
            code = answer.responses[0].partition_responses[0].error_code
            assert code, f"a record for {topic}-{partition} by an ordinary client was taken"


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def odd_names(arena: Arena) -> None:
    """Names with line breaks, escapes and the rest, wherever a name is taken."""
    rng = arena.rng
    name = rng.choice(ODD_STRINGS)
    commit = OffsetCommitRequest(
        group_id=rng.choice((name, f"evil{name}")),
        topics=[OffsetCommitRequestTopic(name=rng.choice(("evil-0", name)), partitions=[_a_commit()])],
    )
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=f"evil{name}",
        member_id=name or "m",
        member_epoch=0,
        rebalance_timeout_ms=500,
        instance_id=rng.choice((None, name or None)),
        subscribed_topic_names=[name],
        topic_partitions=[],
    )
    created = [CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])]
    for message, version in (
        (commit, 7),
        (heartbeat, 1),
        (CreateTopicsRequest(topics=created, timeout_ms=100), 4),
        (FindCoordinatorRequest(key_type=rng.choice((0, 1)), coordinator_keys=[name, f"evil{name}"]), 4),
        (InitProducerIdRequest(transactional_id=f"evil{name}", transaction_timeout_ms=1_000), 2),
        (_join(f"evil{name}", "", b"", rng.choice((None, name or None))), 5),
    ):
        arena.ask(message, version)
    with arena.peer() as peer:
        peer.send(framed(request_bytes(MetadataRequest(topics=[]), 1, client_id=name)))
        peer.send(framed(struct.pack(">hhi", 3, 99, 1) + _text(f"x\n{FORGED}")))


def _a_commit() -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=f"m\n{FORGED}")


def deletion_while_reading(arena: Arena) -> None:
    """A topic is deleted while Fetches of it wait and records for it come; then it is there again."""
    topic = f"evil-gone-{arena.rng.randrange(5)}"
    created = [CreatableTopic(name=topic, num_partitions=2, replication_factor=1, assignments=[], configs=[])]
    arena.ask(CreateTopicsRequest(topics=created, timeout_ms=1_000), 4)
    waiting = arena.keep(arena.peer())
    waiting.send(long_poll(arena, topic))
    _produce(arena, topic, 0, arena.hostile.batch())
    other = arena.keep(arena.peer())
    other.request(DeleteTopicsRequest(topic_names=[topic], timeout_ms=500), 4)
    _produce(arena, topic, 0, arena.hostile.batch())
    if arena.rng.random() < 0.5:
        waiting.close()


def tls_handshakes_that_stop(arena: Arena) -> None:
    """TLS handshakes that stop after any of their bytes, or go on with others."""
    outgoing = ssl.MemoryBIO()
    handshake = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    hello = outgoing.read()
    for _ in range(10):
        peer = arena.bare("tls")
        cut = hello[: arena.rng.randrange(len(hello) + 1)]
        peer.send(cut if arena.rng.random() < 0.5 else arena.hostile.spoiled(cut))


def too_many_partitions(arena: Arena) -> None:
    """Topics of more partitions than there are descriptors, or of as many as an int can say."""
    count = arena.rng.choice((6_000, 10_000, 1 << 20, 2**31 - 1))
    created = [
        CreatableTopic(
            name=f"evil-big-{arena.step}", num_partitions=count, replication_factor=1, assignments=[], configs=[]
        )
    ]
    with arena.peer(timeout_s=8.0) as peer:
        peer.ask(CreateTopicsRequest(topics=created, timeout_ms=5_000), 4)


def pipelined_requests(arena: Arena) -> None:
    """Thousands of good requests at once, whose answers are not read."""
    peer = arena.bare()
    one = framed(request_bytes(MetadataRequest(topics=None), 8))
    peer.socket.settimeout(0.5)
    for _ in range(20):
        peer.send(one * 500)


def very_long_arrays(arena: Arena) -> None:
    """Requests that name 100,000 groups or topics, or ask 5,000 times for settings, whose answer tells of each."""
    groups = DescribeGroupsRequest(groups=["evil-group"] * 100_000)
    topics = [OffsetFetchRequestTopics(name="evil-0", partition_indexes=[0])] * 100_000
    offsets = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="evil-group", topics=topics)])
    topic = DescribeConfigsResource(resource_type=2, resource_name="evil-0", configuration_keys=["retention.ms"])
    configs = DescribeConfigsRequest(resources=[topic] * 5_000)
    message, version = arena.rng.choice(((groups, 3), (offsets, 8), (configs, 4)))
    with arena.peer(timeout_s=5.0) as peer:
        peer.ask(message, version)


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        step: what is done, again and again.
        steps: how many times at most.
        held: its connections stay open afterwards, and the broker must get rid of them by itself.
        kinds: the kinds of broker it is for.
        kept_mb: how much larger the heap may stay than after other attacks; it is used again.
    """

    step: Callable[[Arena], None]
    steps: int
    held: bool = False
    kinds: tuple[str, ...] = ("memory", "disk", "open")
    kept_mb: int = 0


CLOSED = ("memory", "disk")
"""Attacks that a broker without an authorizer lets do harm: honest clients' data is everybody's there."""
ATTACKS: dict[str, Attack] = {
    "raw-bytes": Attack(raw_bytes, 150),
    "frame-sizes": Attack(frame_sizes, 120),
    "empty-frames": Attack(empty_frames_behind_a_long_poll, 4),
    "half-frames": Attack(half_frames, 200),
    "slow-writers": Attack(slow_writers, 60),
    "slow-readers": Attack(slow_readers, 12, held=True),
    "many-connections": Attack(many_connections, 26),
    "connections-come-and-go": Attack(connections_come_and_go, 20),
    "mutated-requests": Attack(mutated_requests, 60),
    "mutated-after-login": Attack(mutated_requests_after_login, 60),
    "mutated-in-tls": Attack(mutated_requests_in_tls, 30),
    "before-login": Attack(before_login, 80),
    "rich-messages": Attack(rich_messages, 8),
    "group-members": Attack(group_members, 60),
    "regexes": Attack(regexes, 30),
    "fetch-sessions": Attack(fetch_sessions, 8),
    "transactions": Attack(transactions, 50),
    "produced-batches": Attack(produced_batches, 150),
    "auto-creation": Attack(auto_creation, 4),
    "internal-topics": Attack(internal_topics, 30, kinds=CLOSED),
    "odd-names": Attack(odd_names, 40),
    "deletion-while-reading": Attack(deletion_while_reading, 30),
    "tls-handshakes": Attack(tls_handshakes_that_stop, 15),
    "too-many-partitions": Attack(too_many_partitions, 1, kinds=("memory", "open"), kept_mb=12),
    "pipelined-requests": Attack(pipelined_requests, 4),
    # Four topics of 10,000 partitions, made and deleted one after the other, leave the heap as large as the first does.
    "too-many-partitions-on-disk": Attack(too_many_partitions, 2, kinds=("disk",), kept_mb=12),
    "very-long-arrays": Attack(very_long_arrays, 2),
}

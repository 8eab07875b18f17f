"""What the pages of conversations say in prose: titles, introductions, a sentence for each step. Start at `STORIES`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Part:
    """A capture on a page.

    Attributes:
        capture: name of the file, without its suffix.
        title: heading above it.
        text: what happens in it.
        client_ids: the clients that are shown; all if empty.
    """

    capture: str
    title: str
    text: str
    client_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Story:
    """A page.

    Attributes:
        name: name of the page, without its suffix.
        title: its heading.
        text: its introduction.
        parts: its captures.
        steps: a sentence about each API, shown at its first request.
        errors: a sentence about each error, shown where it occurs.
    """

    name: str
    title: str
    text: str
    parts: tuple[Part, ...]
    steps: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)


BOOTSTRAP: Final = {
    "ApiVersions": "Each connection begins with it: the broker says which versions of which APIs it has. The "
    "client uses the highest version that both have.",
    "Metadata": "The client asks for the brokers, and for the topics that it needs, with their partitions and "
    "leaders. From now on it connects to the brokers at the addresses of this answer, not at the one that it was "
    "given.",
    "FindCoordinator": "Each group and each transactional id has one broker that keeps its state, its "
    "coordinator. Any broker says which one that is.",
}

JOIN: Final = Story(
    "join",
    "What happens when a consumer joins a group",
    "Two consumers of confluent-kafka join the group `billing`, which reads a topic with two partitions of "
    "Apache Kafka 4.3. The first one gets both partitions. When the second one joins, the group rebalances, and "
    "each gets one. Then the first one leaves.",
    (
        Part(
            "join",
            "The conversation",
            "Requests that repeat without news are left out: fetches that find nothing, and heartbeats.",
            frozenset({"billing-1", "billing-2"}),
        ),
    ),
    BOOTSTRAP
    | {
        "JoinGroup": "The member asks to join, with the topics that it subscribes to and the assignors that it "
        "knows. A new member has no id yet: the coordinator gives it one, and wants it to ask again (KIP-394). "
        "The second answer comes when all members have joined. One of them is the leader, and gets the "
        "subscriptions of all.",
        "SyncGroup": "The leader has computed who gets which partitions, and sends the assignment of each "
        "member. The others send none. Each member gets its own in the answer, and the group is stable.",
        "Heartbeat": "Members say that they are alive. When another member has joined or left, the answer is "
        "REBALANCE_IN_PROGRESS, and they join again.",
        "OffsetFetch": "Where has the group stopped reading? The coordinator has the committed offsets.",
        "ListOffsets": "Nothing is committed yet, so `auto.offset.reset` decides. Here the client asks for the "
        "first offset of its partitions.",
        "Fetch": "The consumer reads from the leaders of its partitions. The broker answers when there are "
        "records, or after `max_wait_ms`.",
        "OffsetCommit": "The offset behind the last record that was processed, so that another member can go on there.",
        "LeaveGroup": "The member leaves. The coordinator does not have to wait for its session to time out.",
    },
    {
        "MEMBER_ID_REQUIRED": "No failure: the answer has the member id, and the member joins again with it.",
        "REBALANCE_IN_PROGRESS": "No failure: the other member has joined or left, so this one joins again.",
    },
)

TRANSACTION: Final = Story(
    "transaction",
    "What a transaction looks like",
    "A producer of confluent-kafka with the transactional id `orders-tx` writes to Apache Kafka 4.3: a "
    "transaction that is committed, and one that is aborted. Then a second producer with the same transactional "
    "id begins, as a restarted application does, and the first one is fenced.",
    (Part("transaction", "The conversation", "", frozenset({"shop", "shop-restarted"})),),
    BOOTSTRAP
    | {
        "InitProducerId": "The coordinator gives the producer an id and an epoch. It ends a transaction that an "
        "earlier producer with this transactional id has left open. A later one with the same transactional id "
        "gets a higher epoch, and that fences this producer.",
        "AddPartitionsToTxn": "Before the first record to a partition, the coordinator notes that the partition "
        "belongs to the transaction, so that it can end it there.",
        "Produce": "The records have the producer's id, epoch and sequence number in the head of their batch. "
        "They are in the log at once; consumers with `isolation.level=read_committed` see them when the "
        "transaction is committed.",
        "EndTxn": "Commit or abort. The coordinator writes its decision to its log, and then a marker to "
        "each partition of the transaction.",
    },
    {
        "PRODUCER_FENCED": "Another producer with this transactional id has begun, so this one may not write any more.",
        "INVALID_PRODUCER_EPOCH": "Another producer with this transactional id has a higher epoch: this one is fenced.",
        "CONCURRENT_TRANSACTIONS": "The transaction before is still being ended; the client asks again.",
    },
)

CONNECT: Final = Story(
    "connect",
    "Why does my client not connect",
    "Three clients of confluent-kafka that reach a broker, and yet do not work. The first bytes show why.",
    (
        Part(
            "unreachable",
            "The broker advertises an address that the client cannot reach",
            "The client connects to its bootstrap server, and the answers come. Metadata says that the broker is "
            "at `kafka:9092`: that is the broker's `advertised.listeners`, and this machine does not know the "
            "name `kafka`. From here on the client tries that address and no other. The capture has no "
            "connection to it, and the client's log says “Failed to resolve 'kafka:9092'”. Set "
            "`advertised.listeners` to an address that clients can reach, one listener for each network.",
        ),
        Part(
            "no-sasl",
            "The broker wants SASL, and the client has none",
            "ApiVersions is answered before authentication. At any other request a broker that wants SASL closes the "
            "connection, and says nothing to the client, whose log has “Disconnected: connection closed by peer”. The "
            "broker's log has the reason. Set `security.protocol=SASL_PLAINTEXT` or `SASL_SSL`.",
        ),
        Part(
            "wrong-password",
            "The password is wrong",
            "SaslHandshake chooses the mechanism, SaslAuthenticate carries its tokens (here overwritten). The "
            "broker answers with an error that says so, and closes the connection.",
        ),
    ),
    BOOTSTRAP
    | {
        "SaslHandshake": "The client names the mechanism that it wants; the answer lists those that the broker has.",
        "SaslAuthenticate": "A token of the mechanism. With PLAIN it has user and password, so use it with TLS only.",
    },
    {
        "SASL_AUTHENTICATION_FAILED": "User or password are wrong, or the user is not known. The broker does not "
        "say which.",
    },
)

STORIES: Final = (JOIN, TRANSACTION, CONNECT)

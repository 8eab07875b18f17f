"""Record the captures: real clients and brokers through a tap, saved as pcapng.

The tap keeps the frames with their times, so a capture has one segment for each piece of a frame, with the addresses of
the connection. Start at `record_all`.
"""

from __future__ import annotations

import contextlib
import io
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import confluent_kafka
from confluent_kafka.admin import AdminClient

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.inspect import Exchange, Tap
from kafkaraw.inspect.tap.masking import masked_frames
from tests.inspect.packet_writing import ACK, FIN, SYN, Packet, pcapng
from tests.interop.apache_kafka import ApacheKafka, free_ports

Untyped: TypeAlias = Any
"""confluent-kafka has no types."""
SEGMENT_SIZE: Final = 1448
SETTLE_S: Final = 2.0
ATTEMPTS_SHOWN: Final = 6


def record_all(folder: Path) -> None:
    """Record every conversation into a folder."""
    with ApacheKafka() as kafka:
        _record(kafka.bootstrap_servers, folder / "join.pcapng", _join)
        _record(kafka.bootstrap_servers, folder / "transaction.pcapng", _transaction)
    (port,) = free_ports(1)
    with EmbeddedBroker(port=port, properties={"advertised.listeners": "PLAINTEXT://kafka:9092"}):
        _record(f"127.0.0.1:{port}", folder / "unreachable.pcapng", _list_topics, rewrite=False)
    with EmbeddedBroker(users={"alice": "secret"}) as broker:
        _record(broker.bootstrap_servers, folder / "wrong-password.pcapng", _wrong_password)
        _record(broker.bootstrap_servers, folder / "no-sasl.pcapng", _list_topics)


def _record(servers: str, path: Path, talk: Callable[[str], None], *, rewrite: bool = True) -> None:
    """Let clients talk through a tap, and save what they said."""
    with Tap(servers, listen="127.0.0.1:0") as tap:
        if not rewrite:
            tap.advertised = lambda node, local_host: (node.host, node.port)  # type: ignore[method-assign]
        recording = tap.record()
        talk(tap.bootstrap_servers)
        time.sleep(SETTLE_S)
    exchanges = sorted(recording.exchanges(), key=lambda exchange: exchange.began_s)
    if talk not in (_join, _transaction):
        exchanges = exchanges[:ATTEMPTS_SHOWN]  # clients that cannot connect try it again and again
    path.write_bytes(pcapng(packets_of_exchanges(exchanges)))
    print(f"{path.name}: {len(exchanges)} exchanges")


def packets_of_exchanges(exchanges: list[Exchange]) -> list[Packet]:
    """Return the packets of exchanges, with secrets overwritten, in the order of their times."""
    turns: list[tuple[float, Exchange, bool, bytes]] = []
    for exchange in exchanges:
        request, answer = masked_frames(exchange)
        for from_client, frame, data in ((True, exchange.request, request), (False, exchange.response, answer)):
            if frame is not None and data is not None:
                turns.append((frame.ended_s, exchange, from_client, len(data).to_bytes(4) + data))
    packets: list[Packet] = []
    sequences: dict[tuple[int, bool], int] = {}
    for at_s, exchange, from_client, data in sorted(turns, key=lambda turn: turn[0]):
        number = exchange.connection.number
        ends = {"client": _address(exchange.connection.client), "server": _address(exchange.connection.broker)}
        if (number, True) not in sequences:
            begin = exchange.began_s - 0.0001
            packets.append(Packet(begin, True, 1000, 0, SYN, **ends))
            packets.append(Packet(begin, False, 2000, 1001, SYN | ACK, **ends))
            sequences |= {(number, True): 1001, (number, False): 2001}
        for start in range(0, len(data), SEGMENT_SIZE):
            piece = data[start : start + SEGMENT_SIZE]
            sequence, other = sequences[number, from_client], sequences[number, not from_client]
            packets.append(Packet(at_s, from_client, sequence, other, ACK, piece, **ends))
            sequences[number, from_client] += len(piece)
    closed = {exchange.connection.number: exchange for exchange in exchanges if exchange.ended}
    for number, exchange in closed.items():
        ends = {"client": _address(exchange.connection.client), "server": _address(exchange.connection.broker)}
        at_s = max(packet.time for packet in packets if packet.client == ends["client"]) + 0.001
        packets += [
            Packet(at_s, side, sequences[number, side], sequences[number, not side], ACK | FIN, **ends)
            for side in (False, True)
        ]
    return sorted(packets, key=lambda packet: packet.time)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _poll(consumer: Untyped, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        consumer.poll(0.1)


def _consumer(servers: str, client_id: str, **more: Untyped) -> Untyped:
    settings = {"bootstrap.servers": servers, "group.id": "billing", "client.id": client_id, **more}
    return confluent_kafka.Consumer({"auto.offset.reset": "earliest", "enable.metrics.push": False, **settings})


def _join(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "client.id": "setup"})
    admin.create_topics([confluent_kafka.admin.NewTopic("orders", 2)])["orders"].result()
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "client.id": "setup"})
    producer.produce("orders", b"first")
    producer.flush()
    first = _consumer(servers, "billing-1")
    first.subscribe(["orders"])
    _poll(first, 5)
    second = _consumer(servers, "billing-2")
    second.subscribe(["orders"])
    end = time.monotonic() + 7
    while time.monotonic() < end:
        first.poll(0.1)
        second.poll(0.1)
    first.close()
    _poll(second, 4)
    second.close()


def _transaction(servers: str) -> None:
    settings = {"bootstrap.servers": servers, "transactional.id": "orders-tx", "client.id": "shop"}
    producer = confluent_kafka.Producer({"enable.metrics.push": False, **settings})
    producer.init_transactions()
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("orders", b"order 1", key=b"alice")
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    second = confluent_kafka.Producer({"enable.metrics.push": False, **settings, "client.id": "shop-restarted"})
    second.init_transactions()
    with contextlib.suppress(confluent_kafka.KafkaException):
        producer.begin_transaction()
        producer.produce("orders", b"order 2")
        producer.commit_transaction()


def _wrong_password(servers: str) -> None:
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    _list_topics(servers, **sasl, **{"sasl.password": "wrong"})


def _list_topics(servers: str, **more: Untyped) -> None:
    settings = {"bootstrap.servers": servers, "client.id": "app", "logger": _silent(), "error_cb": lambda error: None}
    with contextlib.suppress(confluent_kafka.KafkaException):
        AdminClient({**settings, **more}).list_topics(timeout=3)


def _silent() -> Untyped:
    logger = logging.getLogger("docs.conversations")
    logger.propagate = False
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    return logger

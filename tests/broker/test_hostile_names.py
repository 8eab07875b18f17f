"""Names that clients choose, with line breaks and terminal escapes in them: no log line can be forged with one.

The scan of the sources finds log calls that show such a name as it is; the conversation makes the broker log many.
"""

from __future__ import annotations

import ast
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkaraw
from kafkaraw.broker import BrokerConfig, BrokerNode
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import KafkaError
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import batch

HOST, PORT = "127.0.0.1", 9092
FORGED = "\n2026-01-01 ERROR broker is on fire \x1b[31m\r"
SOURCES = Path(kafkaraw.__file__).parent

CHOSEN_BY_OTHERS = {
    "client_id", "cluster_id", "group_id", "group_instance_id", "host", "instance_id", "leader", "leader_id",
    "mechanism", "member_id", "message", "principal", "transactional_id", "user", "user_name",
}  # fmt: skip
"""Attributes and variables that hold what the other end of the wire has said."""


def log_calls() -> Iterator[tuple[Path, ast.Call]]:
    for layer in ("broker", "client", "core", "net"):
        for path in sorted((SOURCES / layer).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id in ("log", "_log", "_logger")
                    and node.func.attr in ("debug", "info", "warning", "error", "exception", "log")
                ):
                    yield path, node


def shown_as_they_are(call: ast.Call) -> list[str]:
    """Names in the arguments of `%s` whose value comes from the other end."""
    arguments = call.args[1:] if isinstance(call.func, ast.Attribute) and call.func.attr == "log" else call.args
    if not arguments or not isinstance(arguments[0], ast.Constant) or not isinstance(arguments[0].value, str):
        return []
    directives = [piece[:1] for piece in arguments[0].value.replace("%%", "").split("%")[1:]]
    values: list[ast.expr] = []
    for argument in arguments[1:]:
        starred = isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple)
        values += argument.value.elts if starred else [argument]  # type: ignore[union-attr]
    found = []
    for directive, value in zip(directives, values, strict=False):
        name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
        if directive == "s" and name in CHOSEN_BY_OTHERS:
            found.append(name)
    return found


def test_log_calls_show_names_from_the_wire_with_repr():
    calls = list(log_calls())
    assert len(calls) > 100
    bad = [
        f"{path.relative_to(SOURCES)}:{call.lineno}: {name}" for path, call in calls for name in shown_as_they_are(call)
    ]
    assert not bad, "use %r, or printable() for a text that quotes such names"


def test_no_log_line_of_the_broker_can_be_forged(caplog: pytest.LogCaptureFixture):
    async def main(simulation: Simulation) -> None:
        node = BrokerNode(
            BrokerConfig.parse({"listeners": f"PLAINTEXT://{HOST}:{PORT}", "group.initial.rebalance.delay.ms": 0}),
            network=simulation.network,
            storage=MemoryStorage(),
            clock=simulation.clock,
            rng=random.Random(1),
        )
        async with node:
            await converse(simulation)

    with caplog.at_level(logging.DEBUG, "kafkaraw.broker"):
        run_virtual(main, 1)
    lines = [record.getMessage() for record in caplog.records]
    quoting = [line for line in lines if "on fire" in line]
    assert len(quoting) >= 8, lines
    assert [line for line in lines if not line.isprintable()] == []


async def converse(simulation: Simulation) -> None:
    """Name things in every way that makes the broker log them."""

    async def ask(request: Any) -> Any:
        try:
            return await connection.request(request, timeout=60)
        except KafkaError:
            return None

    connection = await Connection.open(simulation.network, HOST, PORT, client_id="c" + FORGED, connect_timeout=5)
    await ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g" + FORGED]))
    await ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t" + FORGED]))
    for group, metadata in (("g" + FORGED, b"\xff\xff"), ("h" + FORGED, b"")):
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range" + FORGED, metadata=metadata)],
            reason="because" + FORGED,
        )
        told = await ask(request)
        request.member_id = told.member_id
        joined = await ask(request)
        await ask(
            LeaveGroupRequest(
                group_id=group, members=[MemberIdentity(member_id=joined.member_id, reason="bye" + FORGED)]
            )
        )
    await ask(
        ConsumerGroupHeartbeatRequest(
            group_id="k" + FORGED,
            member_id="m" + FORGED,
            member_epoch=0,
            instance_id="i" + FORGED,
            rebalance_timeout_ms=6_000,
            subscribed_topic_names=["t" + FORGED],
            topic_partitions=[],
        )
    )
    await ask(InitProducerIdRequest(transactional_id="t" + FORGED, transaction_timeout_ms=1_000))
    await ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name="x" + FORGED, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            ]
        )
    )
    await ask(MetadataRequest(topics=[MetadataRequestTopic(name="y" + FORGED)]))
    data = TopicProduceData(name="z" + FORGED, partition_data=[PartitionProduceData(index=0, records=batch(b"v"))])
    await ask(ProduceRequest(transactional_id=None, acks=0, timeout_ms=1_000, topic_data=[data]))
    await connection.close()

"""Whatever a client sends, the broker answers or closes that one connection; it never fails in an unforeseen way."""

from __future__ import annotations

import logging
import random

import pytest

from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.broker.connection import BrokerConnection
from kafkaraw.broker.handlers.registration import load_handlers
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.protocol import RequestHeader, encode_request
from kafkaraw.protocol.apis import API_BY_KEY, Api
from kafkaraw.protocol.messages.create_topics import CreateTopicsRequest
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import LISTENER, make_state
from tests.broker.test_connection import RecordingLink
from tests.examples import examples
from tests.protocol.message_values import random_message

APIS = [API_BY_KEY[key] for key in sorted(load_handlers())]
ROUNDS = examples(40)


def hit(frames: list[bytes], *, seed: int, **properties: str) -> list[RecordingLink]:
    """Send each frame on a connection of its own to one broker; gives the links."""
    links = []

    async def main(_: Simulation) -> None:
        state = make_state(seed=seed, connections_max_idle_ms=-1, **properties)
        for name in ("a", "topic-1"):
            state.create_topic(plan_topic(TopicSpec(name, partitions=2), state.catalog, state.config))
        for frame in frames:
            link = RecordingLink()
            connection = BrokerConnection(state, LISTENER, lambda _: None)
            connection.link_made(link)
            connection.frame_received(memoryview(bytearray(frame)))
            connection.link_lost(None)
            links.append(link)

    run_virtual(main, seed)
    return links


def request(api: Api, version: int, rng: random.Random) -> bytes:
    message = random_message(api.request, version, rng)
    if isinstance(message, CreateTopicsRequest):
        for topic in message.topics:
            topic.num_partitions = min(topic.num_partitions, 3)  # ten thousand are allowed, and slow
    return encode_request(RequestHeader(api.key, version, 1, "fuzz"), message)


def random_requests(api: Api, rng: random.Random) -> list[bytes]:
    versions = range(api.supported.min, api.supported.max + 1)
    return [request(api, version, rng) for version in versions for _ in range(ROUNDS)]


def of_broker(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("kafkaraw.broker")]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_any_well_formed_request_is_answered_or_closes_its_connection(api: Api, caplog: pytest.LogCaptureFixture):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    with caplog.at_level(logging.ERROR, "kafkaraw.broker"):
        links = hit(random_requests(api, random.Random(seed)), seed=seed)
    assert not of_broker(caplog), f"seed {seed}: {caplog.text}"
    if api.name not in ("Produce", "Fetch"):  # acks=0 and long polling are silent
        assert all(link.sent or "close" in link.log for link in links), f"seed {seed}"


@pytest.mark.parametrize("allow_everyone", ["true", "false"])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_hostile_requests_get_a_response_with_an_authorizer_too(
    api: Api, allow_everyone: str, caplog: pytest.LogCaptureFixture
):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    properties = {
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "allow_everyone_if_no_acl_found": allow_everyone,
    }
    with caplog.at_level(logging.ERROR, "kafkaraw.broker"):
        links = hit(random_requests(api, random.Random(seed)), seed=seed, **properties)
    assert not of_broker(caplog), f"seed {seed}: {caplog.text}"
    if api.name not in ("Produce", "Fetch"):
        assert all(link.sent or "close" in link.log for link in links), f"seed {seed}"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_request_with_damaged_bytes_affects_no_other_connection(api: Api, caplog: pytest.LogCaptureFixture):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    frames = []
    for frame in random_requests(api, rng):
        damaged = bytearray(frame)
        for _ in range(rng.choice((1, 1, 2, 8))):
            damaged[rng.randrange(8, len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        frames.append(bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged) + 1)))]))
    with caplog.at_level(logging.ERROR, "kafkaraw.broker"):
        hit(frames, seed=seed)
    assert not of_broker(caplog), f"seed {seed}: {caplog.text}"

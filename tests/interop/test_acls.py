"""Access control compared with Apache Kafka's own: the same entries, users and requests, and the same error codes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.apis import API_BY_NAME, Api, api_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.create_topics import CreateTopicsRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest
from tests.interop import acl_matrix
from tests.interop.acl_matrix import QUESTIONS, USERS, Question
from tests.interop.apache_kafka import ApacheKafka, free_ports, why_missing
from tests.interop.raw_client import Closed, RawClient

PASSWORD = "opensesame-4711"
WARM_UP_SECONDS = 60.0
CREATE_TOPICS_VERSION = 7
METADATA_VERSION = 13
QUESTIONS_MIN = 120
AUTHORIZATION = {code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    """The login listener of an Apache Kafka with StandardAuthorizer."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    names = ("PLAINTEXT", "CONTROLLER", "LOGIN")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports['PLAINTEXT']},LOGIN://127.0.0.1:{ports['LOGIN']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root;User:ANONYMOUS",
    }
    with ApacheKafka(properties=properties, ports=(ports["PLAINTEXT"], ports["CONTROLLER"])):
        yield f"127.0.0.1:{ports['LOGIN']}"


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """The same, ours."""
    properties = {
        "node.id": 1,
        "sasl.enabled.mechanisms": "PLAIN",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root",
    }
    with EmbeddedBroker(properties=properties, users=dict.fromkeys(USERS, PASSWORD)) as broker:
        yield broker.bootstrap_servers


@dataclass
class Side:
    """One of the two brokers."""

    servers: str
    versions: dict[int, tuple[int, int]]
    root: RawClient

    @classmethod
    def of(cls, servers: str) -> Side:
        root = RawClient(servers, "root", PASSWORD)
        offered = root.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
        side = cls(servers, {row.api_key: (row.min_version, row.max_version) for row in offered.api_keys}, root)
        side.warm_up()
        return side

    def warm_up(self) -> None:
        """Wait until there are coordinators: Apache Kafka makes their topics when they are first asked for."""
        deadline = time.monotonic() + WARM_UP_SECONDS
        while time.monotonic() < deadline:
            group = self.root.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
            self.root.ask(FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1), 4)
            ids = self.root.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 5)
            if group.error_code == ids.error_code == 0:
                return
            time.sleep(0.2)  # another process: there is nothing to wait on
        raise TimeoutError("no coordinators")

    def make_topics(self, *names: str) -> None:
        topics = [acl_matrix.creatable(name) for name in names]
        self.root.ask(CreateTopicsRequest(topics=topics), CREATE_TOPICS_VERSION)

    def delete_topics(self, *names: str) -> None:
        asked = [acl_matrix.DeleteTopicState(name=name) for name in names]
        self.root.ask(acl_matrix.DeleteTopicsRequest(topics=asked, timeout_ms=10_000), 6)

    def ids(self) -> dict[str, Uuid]:
        topics = self.root.ask(MetadataRequest(topics=None), METADATA_VERSION).topics
        return {topic.name: topic.topic_id for topic in topics}


@pytest.fixture(scope="module")
def sides(kafka: str, ours: str) -> Iterator[tuple[Side, Side]]:
    """Both brokers, with the same topics and entries."""
    both = Side.of(kafka), Side.of(ours)
    for side in both:
        side.make_topics(*acl_matrix.TOPICS)
        results = side.root.ask(acl_matrix.create_entries(), 3).results
        assert {result.error_code for result in results} == {0}
    yield both
    for side in both:
        side.root.close()


def answers(side: Side, user: str) -> dict[tuple[str, int], dict[str, int] | str]:
    """What a user is answered to every question, by question and version."""
    side.delete_topics("new-1", "new-4", "other")
    side.make_topics(*acl_matrix.DOOMED, "doomed-old")
    found: dict[tuple[str, int], dict[str, int] | str] = {}
    for question in QUESTIONS:
        ids = side.ids()
        names = {bytes(topic_id): name for name, topic_id in ids.items()}
        request = question.make(ids)
        for version in versions(question, api_of(request), side):
            found[question.name, version] = answer(side, user, question, request, version, names)
    return found


def versions(question: Question, api: Api, side: Side) -> list[int]:
    if api.key not in side.versions:
        return []
    low, high = side.versions[api.key]
    low, high = max(low, api.supported.min), min(high, api.supported.max)
    return [version for version in range(low, high + 1) if question.versions is None or version in question.versions]


def answer(
    side: Side, user: str, question: Question, request: Any, version: int, names: dict[bytes, str]
) -> dict[str, int] | str:
    with RawClient(side.servers, user, PASSWORD) as client:
        try:
            found = acl_matrix.shape(client.ask(request, version), names)
        except Closed:
            return "closed"
    if question.refusals_only:
        return {where: code for where, code in found.items() if code in AUTHORIZATION}
    return found


def differences(theirs: dict[str, int] | str, own: dict[str, int] | str) -> str:
    if isinstance(theirs, str) or isinstance(own, str):
        return f"Apache Kafka {theirs}, ours {own}"
    where = sorted(place for place in theirs.keys() | own.keys() if theirs.get(place) != own.get(place))
    return "; ".join(f"{place}: Apache Kafka {theirs.get(place)}, ours {own.get(place)}" for place in where)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("user", USERS)
def test_every_answer_has_the_error_codes_of_apache_kafka(sides: tuple[Side, Side], user: str) -> None:
    apache, ours = sides
    theirs, own = answers(apache, user), answers(ours, user)
    different = [key for key in theirs.keys() & own.keys() if theirs[key] != own[key]]
    lines = [
        f"{name} version {version}: {differences(theirs[name, version], own[name, version])}"
        for name, version in sorted(different)
    ]
    assert not lines, "\n".join(lines)
    refused = {code for found in theirs.values() if isinstance(found, dict) for code in found.values()} & AUTHORIZATION
    assert bool(refused) == (user != "root"), "the questions tell users apart"
    assert len(own) > QUESTIONS_MIN


def test_acks_0_is_answered_by_closing(sides: tuple[Side, Side]) -> None:
    for side in sides:
        request = acl_matrix.produce(side.ids())
        request.acks = 0
        with RawClient(side.servers, "ada", PASSWORD) as client, pytest.raises(Closed):
            client.ask(request, 12)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"resource_type": 1}, {ErrorCode.UNKNOWN_SERVER_ERROR}),
        ({"resource_pattern_type": 2}, {ErrorCode.UNKNOWN_SERVER_ERROR}),
        ({"operation": 1}, {ErrorCode.UNKNOWN_SERVER_ERROR}),
        ({"permission_type": 1}, {ErrorCode.UNKNOWN_SERVER_ERROR}),
        ({"resource_type": 99}, {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}),
        ({"resource_pattern_type": 99}, {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}),
        ({"operation": 99}, {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}),
        ({"permission_type": 99}, {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}),
        ({"resource_type": 0}, "closed"),
        ({"operation": 0}, "closed"),
    ],
)
def test_entries_that_are_filters_or_nonsense_are_refused_alike(
    sides: tuple[Side, Side], changed: dict[str, int], told: object
) -> None:
    for side in sides:
        request = acl_matrix.create_entries()
        request.creations[1] = dataclasses.replace(request.creations[1], **changed)
        with RawClient(side.servers, "root", PASSWORD) as client:
            try:
                found: object = {result.error_code for result in client.ask(request, 3).results}
            except Closed:
                found = "closed"
        assert found == told, side.servers


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"resource_type_filter": 99}, {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}),
        ({"operation": 99}, {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}),
        ({"pattern_type_filter": 2}, {ErrorCode.NONE}),
        ({"permission_type": 0}, "closed"),
    ],
)
def test_filters_with_nonsense_are_refused_alike(
    sides: tuple[Side, Side], changed: dict[str, int], told: object
) -> None:
    for side in sides:
        request = acl_matrix.delete_acls({})
        request.filters[0] = dataclasses.replace(request.filters[0], **changed)
        with RawClient(side.servers, "root", PASSWORD) as client:
            try:
                found: object = {result.error_code for result in client.ask(request, 3).filter_results}
            except Closed:
                found = "closed"
        assert found == told, side.servers


def test_every_api_that_both_have_is_compared(sides: tuple[Side, Side]) -> None:
    """But for those that are open to everybody."""
    _, ours = sides
    ids = dict.fromkeys(acl_matrix.DOOMED, acl_matrix.UNKNOWN_ID)
    asked = {api_of(question.make(ids)).key for question in QUESTIONS}
    open_to_all = {API_BY_NAME[name].key for name in ("ApiVersions", "SaslHandshake", "SaslAuthenticate")}
    assert ours.versions.keys() <= asked | open_to_all

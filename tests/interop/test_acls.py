"""Access control compared with Apache Kafka's own: the same entries, users and requests, and the same error codes."""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from kafkaraw import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    BrokerError,
    ClusterAuthorizationError,
    Consumer,
    PatternType,
    Producer,
    ResourcePattern,
    ResourceType,
    TopicAuthorizationError,
    TopicPartition,
    TransactionalIdAuthorizationError,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import CLUSTER_NAME
from kafkaraw.protocol.apis import API_BY_NAME, Api, api_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.create_acls import CreateAclsRequest
from kafkaraw.protocol.messages.create_topics import CreateTopicsRequest
from kafkaraw.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkaraw.protocol.messages.describe_acls import DescribeAclsRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest
from tests.interop import acl_answers, acl_entries, acl_questions, acl_share_questions
from tests.interop.acl_entries import USERS
from tests.interop.acl_questions import QUESTIONS, Question
from tests.interop.apache_kafka import ApacheKafka, free_ports, why_missing
from tests.interop.java_tools import ACLS, run_tool
from tests.interop.raw_client import Closed, RawClient
from tests.kafka_python import closing_client

PASSWORD = "opensesame-4711"
WARM_UP_SECONDS = 60.0
CREATE_TOPICS_VERSION = 7
METADATA_VERSION = 13
QUESTIONS_MIN = 120
FILTERS_THAT_FIND_MIN = 80
RANDOM_ROUNDS = 25
OF_BOTH = {"log.initial.task.delay.ms": "3600000", **acl_share_questions.LONG_SESSIONS}
"""Properties. The records of the questions are old: retention would remove them when the machine is slow."""
ACLS_VERSION = 3
OPEN_TO_ALL = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
"""What clients ask before they are authenticated, or to be: there is nothing to compare."""
EVERY_ENTRY = acl_entries.every_entry(DescribeAclsRequest)
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
        **OF_BOTH,
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
        **OF_BOTH,
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
        topics = [acl_questions.creatable(name) for name in names]
        self.root.ask(CreateTopicsRequest(topics=topics), CREATE_TOPICS_VERSION)

    def delete_topics(self, *names: str) -> None:
        asked = [DeleteTopicState(name=name) for name in names]
        self.root.ask(DeleteTopicsRequest(topics=asked, timeout_ms=10_000), 6)

    def create_acls(self, request: CreateAclsRequest) -> None:
        """Make entries, and wait until the broker acts on them: Apache Kafka's controller answers before it does."""
        before = len(self.entries(EVERY_ENTRY))
        results = self.root.ask(request, ACLS_VERSION).results
        assert {result.error_code for result in results} == {0}
        self.wait_for_entries(before + len(request.creations))

    def delete_acls(self, principal: str) -> None:
        wanted = dataclasses.replace(acl_entries.every_entry(DeleteAclsFilter), principal_filter=principal)
        before = len(self.entries(EVERY_ENTRY))
        (result,) = self.root.ask(DeleteAclsRequest(filters=[wanted]), ACLS_VERSION).filter_results
        self.wait_for_entries(before - len(result.matching_acls))

    def wait_for_entries(self, count: int) -> None:
        deadline = time.monotonic() + WARM_UP_SECONDS
        while len(self.entries(EVERY_ENTRY)) != count:
            assert time.monotonic() < deadline, f"{len(self.entries(EVERY_ENTRY))} entries, not {count}"
            time.sleep(0.01)  # another process: there is nothing to wait on

    def entries(self, wanted: DescribeAclsRequest) -> set[tuple[object, ...]]:
        answer = self.root.ask(wanted, ACLS_VERSION)
        return {
            (
                one.resource_type,
                one.resource_name,
                one.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for one in answer.resources
            for acl in one.acls
        }

    def ids(self) -> dict[str, Uuid]:
        topics = self.root.ask(MetadataRequest(topics=None), METADATA_VERSION).topics
        return {topic.name: topic.topic_id for topic in topics}


def ready(servers: str) -> Iterator[Side]:
    """A broker with the topics and entries of the comparison."""
    side = Side.of(servers)
    side.make_topics(*acl_questions.TOPICS)
    side.create_acls(acl_entries.create_entries())
    acl_share_questions.make_groups(side.root)
    yield side
    side.root.close()


@pytest.fixture(scope="module")
def apache_side(kafka: str) -> Iterator[Side]:
    yield from ready(kafka)


@pytest.fixture(scope="module")
def our_side(ours: str) -> Iterator[Side]:
    yield from ready(ours)


@pytest.fixture(scope="module")
def sides(apache_side: Side, our_side: Side) -> tuple[Side, Side]:
    """Both brokers."""
    return apache_side, our_side


def answers(side: Side, user: str) -> dict[tuple[str, int], dict[str, int] | str]:
    """What a user is answered to every question, by question and version."""
    side.delete_topics("new-1", "new-4", "other")
    side.make_topics(*acl_questions.DOOMED, "doomed-old")
    found: dict[tuple[str, int], dict[str, int] | str] = {}
    with Connection(side.servers, user) as connection:
        for question in QUESTIONS:
            ids = side.ids()
            names = {bytes(topic_id): name for name, topic_id in ids.items()}
            request = question.make(ids)
            for version in versions(question, api_of(request), side):
                found[question.name, version] = answer(connection, question, request, version, names)
    return found


class Connection:
    """A connection of a user, which logs in again when the broker has closed it in place of an answer."""

    def __init__(self, servers: str, user: str) -> None:
        self._servers, self._user = servers, user
        self._client = RawClient(servers, user, PASSWORD)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, request: Any, version: int) -> Any:
        try:
            return self._client.ask(request, version)
        except Closed:
            self._client.close()
            self._client = RawClient(self._servers, self._user, PASSWORD)
            raise


def versions(question: Question, api: Api, side: Side) -> list[int]:
    if api.key not in side.versions:
        return []
    low, high = side.versions[api.key]
    low, high = max(low, api.supported.min), min(high, api.supported.max)
    return [version for version in range(low, high + 1) if question.versions is None or version in question.versions]


def answer(
    connection: Connection, question: Question, request: Any, version: int, names: dict[bytes, str]
) -> dict[str, int] | str:
    try:
        found = acl_answers.shape(connection.ask(request, version), names)
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
        request = acl_questions.produce(side.ids())
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
        request = acl_entries.create_entries()
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
        request = acl_questions.delete_acls({})
        request.filters[0] = dataclasses.replace(request.filters[0], **changed)
        with RawClient(side.servers, "root", PASSWORD) as client:
            try:
                found: object = {result.error_code for result in client.ask(request, 3).filter_results}
            except Closed:
                found = "closed"
        assert found == told, side.servers


def test_every_api_that_both_have_is_compared(sides: tuple[Side, Side]) -> None:
    _, ours = sides
    ids = dict.fromkeys((*acl_questions.DOOMED, *acl_questions.TOPICS), acl_questions.UNKNOWN_ID)
    asked = {api_of(question.make(ids)).key for question in QUESTIONS}
    assert ours.versions.keys() <= asked | {API_BY_NAME[name].key for name in OPEN_TO_ALL}


def test_every_filter_finds_the_same_entries(sides: tuple[Side, Side]) -> None:
    apache, ours = sides
    names = (None, "flights", "fl", "*", "g", "planes", "public", CLUSTER_NAME)
    choices = itertools.product(
        (ResourceType.ANY, ResourceType.TOPIC, ResourceType.GROUP),
        names,
        (PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED),
        (None, "User:cid", "User:*"),
        (AclOperation.ANY, AclOperation.WRITE, AclOperation.ALL),
    )
    found = 0
    for kind, name, pattern, principal, operation in choices:
        wanted = dataclasses.replace(
            EVERY_ENTRY,
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            operation=operation,
        )
        theirs, own = apache.entries(wanted), ours.entries(wanted)
        assert theirs == own, wanted
        found += bool(own)
    assert found > FILTERS_THAT_FIND_MIN


@pytest.mark.timeout(300)
def test_random_entries_allow_and_deny_the_same(sides: tuple[Side, Side]) -> None:
    """What a user may do to many topics, groups and the cluster, and whether it may write anything at all."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    user = "eve"
    for _ in range(RANDOM_ROUNDS):
        request = acl_entries.random_entries(rng, user)
        told = []
        for side in sides:
            side.create_acls(request)
            with RawClient(side.servers, user, PASSWORD) as client:
                told.append(acl_answers.what_one_may_do(client.ask))
            side.delete_acls(f"User:{user}")
        assert told[0] == told[1], f"seed {seed}: {request}"


# -- our clients at Apache Kafka -----------------------------------------------------------------------------------


def as_user(servers: str, user: str) -> dict[str, object]:
    return {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": PASSWORD,
    }


def described(admin: Admin, matching: AclBindingFilter, *, count: int) -> list[AclBinding]:
    """The entries, once there are so many: Apache Kafka's controller answers before its broker acts on a change."""
    deadline = time.monotonic() + WARM_UP_SECONDS
    while len(found := admin.describe_acls(matching)) != count and time.monotonic() < deadline:
        time.sleep(0.01)  # another process: there is nothing to wait on
    return found


def test_our_admin_manages_apache_kafkas_entries(kafka: str) -> None:
    pattern = ResourcePattern(ResourceType.TOPIC, "ours-", PatternType.PREFIXED)
    reading = AclBinding(pattern, "User:zoe", AclOperation.READ)
    denied = AclBinding(
        ResourcePattern(ResourceType.USER, "zoe"),
        "User:*",
        AclOperation.CREATE_TOKENS,
        AclPermissionType.DENY,
        "10.0.0.1",
    )
    about_ours = AclBindingFilter(resource_name="ours-1", pattern_type=PatternType.MATCH, principal="User:zoe")
    with Admin(**as_user(kafka, "root")) as admin:
        admin.create_acls([reading, denied])
        assert described(admin, about_ours, count=1) == [reading]
        assert described(admin, AclBindingFilter(resource_type=ResourceType.USER), count=1) == [denied]
        with pytest.raises(BrokerError, match="Could not parse principal"):
            admin.create_acls([AclBinding(pattern, "zoe", AclOperation.READ)])
        users = AclBindingFilter(resource_type=ResourceType.USER)
        assert admin.delete_acls([about_ours, users]) == {about_ours: [reading], users: [denied]}
        assert described(admin, about_ours, count=0) == []
    with Admin(**as_user(kafka, "eve")) as admin:
        with pytest.raises(ClusterAuthorizationError, match="ALTER on cluster 'kafka-cluster'; asked as User:eve"):
            admin.create_acls([reading])
        with pytest.raises(ClusterAuthorizationError, match="DESCRIBE on cluster"):
            admin.describe_acls()


@pytest.mark.parametrize("broker", ["kafka", "ours"])
def test_our_clients_say_what_is_missing(sides: tuple[Side, Side], broker: str, request: pytest.FixtureRequest) -> None:
    servers = request.getfixturevalue(broker)
    with Producer(**as_user(servers, "cid")) as producer:
        refused, written = producer.send("planes", b"x"), producer.send("flights", b"x")
        with pytest.raises(TopicAuthorizationError, match="WRITE on topic 'planes'; asked as User:cid"):
            refused.result(20)
        assert written.result(20).offset >= 0
    with Consumer(auto_offset_reset="earliest", **as_user(servers, "bob")) as consumer:
        consumer.assign([TopicPartition("flights", 0)])
        with pytest.raises(TopicAuthorizationError, match="READ on topic 'flights'; asked as User:bob"):
            while True:
                consumer.poll(20)
    with Producer(**as_user(servers, "jan")) as producer, pytest.raises(ClusterAuthorizationError, match="IDEMPOTENT"):
        producer.send("flights", b"x").result(20)
    refusal = pytest.raises(TransactionalIdAuthorizationError, match="on transactional id 'tx'; asked as User:bob")
    with Producer(transactional_id="tx", **as_user(servers, "bob")) as producer, refusal:
        producer.init_transactions()


# -- other clients at our broker -----------------------------------------------------------------------------------


def test_librdkafka_manages_our_entries_and_is_told_what_is_forbidden(our_side: Side) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka import Producer as TheirProducer
    from confluent_kafka.admin import (
        AclBinding as TheirBinding,
    )
    from confluent_kafka.admin import (
        AclBindingFilter as TheirFilter,
    )
    from confluent_kafka.admin import (
        AclOperation as Operation,
    )
    from confluent_kafka.admin import (
        AclPermissionType as Permission,
    )
    from confluent_kafka.admin import (
        AdminClient,
        ResourcePatternType,
    )
    from confluent_kafka.admin import (
        ResourceType as Resource,
    )

    def settings(user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": our_side.servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }

    admin = AdminClient(settings("root"))
    entry = TheirBinding(
        Resource.TOPIC, "theirs-", ResourcePatternType.PREFIXED, "User:zoe", "*", Operation.READ, Permission.ALLOW
    )
    for done in admin.create_acls([entry]).values():
        done.result(20)
    matching = TheirFilter(
        Resource.TOPIC, "theirs-1", ResourcePatternType.MATCH, "User:zoe", None, Operation.ANY, Permission.ANY
    )
    assert admin.describe_acls(matching).result(20) == [entry]
    (deleted,) = admin.delete_acls([matching]).values()
    assert deleted.result(20) == [entry]
    stranger = AdminClient(settings("eve"))
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        next(iter(stranger.create_acls([entry]).values())).result(20)

    errors: list[str] = []
    producer = TheirProducer(settings("cid"))
    producer.produce("planes", b"x", on_delivery=lambda error, _: errors.append(error.name() if error else "none"))
    producer.produce("flights", b"x", on_delivery=lambda error, _: errors.append(error.name() if error else "none"))
    producer.flush(20)
    assert sorted(errors) == ["TOPIC_AUTHORIZATION_FAILED", "none"]


def test_kafka_python_manages_our_entries_and_is_told_what_is_forbidden(our_side: Side) -> None:
    from kafka import KafkaProducer
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
    )
    from kafka.admin import ResourcePattern as TheirPattern
    from kafka.admin import ResourcePatternFilter as TheirPatternFilter
    from kafka.admin import ResourceType as Resource
    from kafka.errors import TopicAuthorizationFailedError

    def settings(user: str) -> dict[str, object]:
        return {
            "bootstrap_servers": our_side.servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": user,
            "sasl_plain_password": PASSWORD,
        }

    entry = ACL(
        "User:yan",
        "*",
        ACLOperation.READ,
        ACLPermissionType.ALLOW,
        TheirPattern(Resource.TOPIC, "py-", ACLResourcePatternType.PREFIXED),
    )
    wanted = ACLFilter(
        "User:yan",
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        TheirPatternFilter(Resource.TOPIC, "py-1", ACLResourcePatternType.MATCH),
    )
    with closing_client(KafkaAdminClient(**settings("root"))) as admin:
        admin.create_acls([entry])
        found, _ = admin.describe_acls(wanted)
        assert [acl.resource_pattern.resource_name for acl in found] == ["py-"]
        admin.delete_acls([wanted])
        assert admin.describe_acls(wanted)[0] == []
    with closing_client(KafkaProducer(enable_idempotence=False, **settings("cid"))) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("planes", b"x").get(20)
        assert producer.send("flights", b"x").get(20).offset >= 0


def test_kafka_acls_manages_our_entries(our_side: Side, tmp_path: Path) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    settings = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="root" password="{PASSWORD}";\n'
    )
    reach = ("--bootstrap-server", our_side.servers, "--command-config", str(settings))
    on_topic = ("--topic", "java-", "--resource-pattern-type", "prefixed")
    run_tool(ACLS, *reach, "--add", "--allow-principal", "User:jim", "--producer", *on_topic)
    run_tool(
        ACLS,
        *reach,
        "--add",
        "--deny-principal",
        "User:jim",
        "--deny-host",
        "10.0.0.1",
        "--operation",
        "Read",
        *on_topic,
    )
    listed = run_tool(ACLS, *reach, "--list", "--topic", "java-7", "--resource-pattern-type", "match")
    assert "resourceType=TOPIC, name=java-, patternType=PREFIXED" in listed
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:jim, host=*, operation={operation}, permissionType=ALLOW)" in listed
    assert "(principal=User:jim, host=10.0.0.1, operation=READ, permissionType=DENY)" in listed
    run_tool(ACLS, *reach, "--remove", "--force", *on_topic)
    assert "User:jim" not in run_tool(ACLS, *reach, "--list")

"""SCRAM credentials and client quotas across implementations.

The same requests go to Apache Kafka and to our broker, and the answers are compared; our admin client works on Apache
Kafka, librdkafka and Apache Kafka's own tool on our broker.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, NewTopic, Producer, QuotaEntity, QuotaName, ScramPassword, ScramRemoval
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import BrokerError
from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkaraw.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafkaraw.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import encode_batch
from tests.broker.quotas.test_table import ANY, EXACT, IS_DEFAULT, client, entry
from tests.broker.security.test_sasl_authenticator import Peer
from tests.broker.security.test_scram_credentials import SHA_512, delete, upsert
from tests.interop.apache_kafka import ApacheKafka, free_ports, why_missing
from tests.interop.java_tools import CONFIGS, run_tool
from tests.waiting import wait_until

TOLD_S = 20.0
"""How long Apache Kafka may take from a change to its being told, on a machine that is busy."""

APPLIED_S = 0.1
"""How long it may take from there to its being applied; it has no call to wait for that."""

REAUTH_MS = 1500


def scram(*changes: object) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )


def users(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)


def quotas(*entries, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def matching(*parts: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    components = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in parts]
    return DescribeClientQuotasRequest(components=components, strict=strict)


def twice_in_one(entity: dict[str, str | None]):
    doubled = entry(entity, producer_byte_rate=3)
    doubled.ops *= 2
    return doubled


REQUESTS = [
    scram(upsert("ada")),
    scram(upsert("bob", iterations=16_384), upsert("ada", mechanism=SHA_512)),
    users(),
    users("ada"),
    users("eve", "bob", "bob"),
    *(scram(upsert("ada", iterations=count)) for count in (0, 4095, 16_385)),
    scram(upsert("")),
    scram(delete("")),
    *(scram(upsert("x", mechanism=number)) for number in (0, 3)),
    scram(delete("ada", 9)),
    scram(delete("nobody"), upsert("nobody"), delete("ada"), upsert("ada")),
    scram(upsert("c"), upsert("c", mechanism=SHA_512), delete("bob")),
    scram(delete("ada"), delete("ada", SHA_512)),
    users(),
    quotas(entry(client("ada"), producer_byte_rate=1024, request_percentage=12.5)),
    quotas(entry(client("ada", "app"), consumer_byte_rate=10), entry(client(None), controller_mutation_rate=1.5)),
    quotas(entry(client(None, None), producer_byte_rate=5), entry(client(client_id=None), producer_byte_rate=9)),
    quotas(
        entry(client(ip="10.0.0.1"), connection_creation_rate=3), entry(client(ip=None), connection_creation_rate=4)
    ),
    matching(),
    matching(strict=True),
    matching(("user", EXACT, "ada")),
    matching(("user", EXACT, "ada"), strict=True),
    matching(("user", IS_DEFAULT, None)),
    matching(("user", ANY, None)),
    matching(("ip", ANY, None)),
    matching(("user", ANY, None), ("client-id", ANY, None), strict=True),
    matching(("", EXACT, "x")),
    matching(("user", EXACT, "a"), ("user", ANY, None)),
    matching(("group", ANY, None)),
    matching(("user", EXACT, None)),
    matching(("user", ANY, "x")),
    matching(("user", IS_DEFAULT, "x")),
    matching(("user", 3, None)),
    matching(("user", ANY, None), ("ip", ANY, None)),
    quotas(entry({}, producer_byte_rate=1)),
    quotas(entry({"group": "g"}, producer_byte_rate=1)),
    quotas(entry({"user": ""}, producer_byte_rate=1)),
    quotas(entry(client("ada"), speed=1)),
    quotas(entry(client("ada"), connection_creation_rate=1)),
    quotas(entry(client(ip="10.0.0.1"), producer_byte_rate=1)),
    *(quotas(entry(client("ada"), producer_byte_rate=rate)) for rate in (0, -5, 1.5, 1e19)),
    quotas(entry(client(ip="10.0.0.1"), connection_creation_rate=1e10)),
    quotas(entry(client("ada", ip="10.0.0.1"), connection_creation_rate=1)),
    quotas(entry(client(ip="nowhere!"), connection_creation_rate=1)),
    quotas(entry(client("z"), producer_byte_rate=1), entry(client("z"), producer_byte_rate=2)),
    quotas(twice_in_one(client(None))),
    quotas(twice_in_one(client("ada", "app"))),
    quotas(entry(client("ada"), producer_byte_rate=None, consumer_byte_rate=None, nonsense=None)),
    quotas(entry(client("q"), producer_byte_rate=1), validate_only=True),
    matching(),
]
"""In this order; each may need what the ones before it did."""


def said(answer: object) -> object:
    """An answer without what two brokers may order differently."""
    match answer:
        case AlterUserScramCredentialsResponse():
            return sorted((one.user, one.error_code, one.error_message) for one in answer.results)
        case DescribeUserScramCredentialsResponse():
            found = [
                (
                    one.user,
                    one.error_code,
                    one.error_message,
                    sorted((i.mechanism, i.iterations) for i in one.credential_infos),
                )
                for one in answer.results
            ]
            return answer.error_code, answer.error_message, sorted(found)
        case AlterClientQuotasResponse():
            return sorted((one.error_code, one.error_message or "", names(one.entity)) for one in answer.entries)
        case DescribeClientQuotasResponse():
            entries = answer.entries
            listed = entries and sorted((names(e.entity), [(v.key, v.value) for v in e.values]) for e in entries)
            return answer.error_code, answer.error_message, listed
    raise AssertionError(f"no answer: {answer}")


def names(entity) -> list[tuple[str, str]]:
    return sorted((part.entity_type, "<default>" if part.entity_name is None else part.entity_name) for part in entity)


@pytest.mark.timeout(120)
def test_our_broker_says_what_apache_kafka_says() -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with (
        ApacheKafka() as theirs,
        EmbeddedBroker() as ours,
        Peer(theirs.bootstrap_servers) as kafka,
        Peer(ours.bootstrap_servers) as broker,
    ):
        for number, request in enumerate(REQUESTS):
            version = api_of(request).supported.max
            ours, theirs = said(broker.ask(request, version)), said(kafka.ask(request, version))
            if isinstance(request, DescribeUserScramCredentialsRequest | DescribeClientQuotasRequest):
                deadline = time.monotonic() + 10
                while theirs != ours and time.monotonic() < deadline:
                    time.sleep(0.01)  # Apache Kafka answers a change before it describes it
                    theirs = said(kafka.ask(request, version))
            assert ours == theirs, (number, request)


RATE = 10_000


def wait_for_quotas(admin: Admin, matching: QuotaEntity, count: int) -> None:
    """Wait until a broker describes `count` entities with quotas."""
    assert wait_until(lambda: len(admin.describe_client_quotas(matching)) == count, TOLD_S)


def until_throttled(servers: str, client_id: str, message: object, version: int) -> list[tuple[int, bool]]:
    """Ask the same again and again until the broker throttles: its throttle times, and whether it gave anything."""
    told: list[tuple[int, bool]] = []
    key = api_of(message).key
    with Peer(servers) as peer:
        while len(told) < 20 and not (told and told[-1][0]):
            peer.send_frame(encode_request(RequestHeader(key, version, 1, client_id), message))
            answer = decode_response(peer.frame(), key, version)[1]
            told.append((answer.throttle_time_ms, bool(answer.responses)))
    return told


@pytest.mark.timeout(120)
def test_our_broker_throttles_when_apache_kafka_does_and_for_as_long(apache_kafka: ApacheKafka) -> None:
    records = encode_batch([(int(time.time() * 1000), None, bytes(30_000), [])])
    produce = ProduceRequest(
        acks=1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name="bounded", partition_data=[PartitionProduceData(index=0, records=records)])],
    )
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=len(records))
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="bounded", partitions=[part])])
    told = []
    with EmbeddedBroker() as ours:
        for servers in (apache_kafka.bootstrap_servers, ours.bootstrap_servers):
            with Admin(bootstrap_servers=servers) as admin:
                admin.create_topics([NewTopic("bounded", 1)])
                bounds = {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}
                admin.alter_client_quotas({QuotaEntity(client_id="bounded"): bounds})
                wait_for_quotas(admin, QuotaEntity(client_id="bounded"), 1)
                time.sleep(APPLIED_S)
            told.append(
                [until_throttled(servers, "bounded", produce, 9), until_throttled(servers, "bounded", fetch, 11)]
            )
    theirs, mine = told
    for their_times, our_times in zip(theirs, mine, strict=True):
        assert [gave for _, gave in our_times] == [gave for _, gave in their_times]
        assert [bool(ms) for ms, _ in our_times] == [bool(ms) for ms, _ in their_times]
        assert our_times[-1][0] == pytest.approx(their_times[-1][0], rel=0.1)
    assert not mine[1][-1][1], "a throttled Fetch brings nothing"


# -- our admin client at Apache Kafka ------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_our_admin_manages_apache_kafkas_users_and_quotas(apache_kafka: ApacheKafka) -> None:
    ada, default = QuotaEntity(user="our-ada"), QuotaEntity(user="our-ada", client_id=QuotaName.DEFAULT)
    with Admin(bootstrap_servers=apache_kafka.bootstrap_servers) as admin:
        admin.alter_user_scram_credentials([ScramPassword("our-ada", "SCRAM-SHA-512", "opensesame", 5000)])
        assert wait_until(lambda: "our-ada" in admin.describe_user_scram_credentials(), TOLD_S)
        assert admin.describe_user_scram_credentials(["our-ada"]) == {"our-ada": {"SCRAM-SHA-512": 5000}}
        admin.alter_user_scram_credentials([ScramRemoval("our-ada", "SCRAM-SHA-512")])
        with pytest.raises(BrokerError, match="does not exist"):
            admin.alter_user_scram_credentials([ScramRemoval("our-ada", "SCRAM-SHA-512")])
        admin.alter_client_quotas({ada: {"producer_byte_rate": 1024}, default: {"request_percentage": 50}})
        wait_for_quotas(admin, QuotaEntity(user="our-ada"), 2)
        found = admin.describe_client_quotas(QuotaEntity(user="our-ada"))
        assert found == {ada: {"producer_byte_rate": 1024.0}, default: {"request_percentage": 50.0}}
        admin.alter_client_quotas({ada: {"producer_byte_rate": None}, default: {"request_percentage": None}})


# -- other clients at our broker -----------------------------------------------------------------------------------


@pytest.fixture
def broker() -> Iterator[dict[str, str]]:
    """The address of each listener of our broker."""
    ports = dict(zip(("OPEN", "LOGIN"), free_ports(2), strict=True))
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "connections.max.reauth.ms": REAUTH_MS,
    }
    with EmbeddedBroker(properties=properties, users={"root": "toor"}):
        yield {name: f"127.0.0.1:{port}" for name, port in ports.items()}


def librdkafka_login(mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def librdkafka_can_log_in(servers: str, **login: str) -> bool:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[KafkaError] = []
    settings = {"bootstrap.servers": servers, **librdkafka_login(**login), "log_level": 0, "error_cb": errors.append}
    admin = AdminClient(settings)
    deadline = time.monotonic() + 20
    while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
        assert time.monotonic() < deadline, f"neither logged in nor refused: {errors}"
        with contextlib.suppress(KafkaException):
            return bool(admin.list_topics(timeout=0.2).brokers)
        admin.poll(0)  # calls error_cb
    return False


def test_librdkafka_sets_and_describes_credentials_and_logs_in_with_them(broker: dict[str, str]) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": broker["OPEN"]})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    done = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(name, info, b"opensesame") for name in ("ada", "bob")]
    )
    assert [future.result(10) for future in done.values()] == [None, None]
    described = admin.describe_user_scram_credentials(["ada"])["ada"].result(10)
    assert [(one.mechanism, one.iterations) for one in described.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    login = {"mechanism": "SCRAM-SHA-256", "user": "ada"}
    assert librdkafka_can_log_in(broker["LOGIN"], password="opensesame", **login)
    assert not librdkafka_can_log_in(broker["LOGIN"], password="wrong", **login)
    removal = UserScramCredentialDeletion("ada", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([removal])["ada"].result(10)
    assert not librdkafka_can_log_in(broker["LOGIN"], password="opensesame", **login)


def test_librdkafka_renews_its_login_on_the_same_connection(
    broker: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka import Producer as RdkafkaProducer

    settings = librdkafka_login("SCRAM-SHA-512", "root", "toor")
    producer = RdkafkaProducer({"bootstrap.servers": broker["LOGIN"], **settings})
    delivered: list[object] = []
    until = time.monotonic() + 2 * REAUTH_MS / 1000
    while time.monotonic() < until:
        producer.produce("renewed", b"x", on_delivery=lambda error, message: delivered.append(error))
        producer.poll(0.2)
    assert producer.flush(10) == 0
    assert set(delivered) == {None}
    assert "closing the connection" not in caplog.text, "a login that nobody renewed costs its connection"


@pytest.mark.timeout(120)
def test_kafka_configs_sets_credentials_and_quotas(broker: dict[str, str]) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    ada = ("--bootstrap-server", broker["OPEN"], "--entity-type", "users", "--entity-name", "ada")
    run_tool(CONFIGS, *ada, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=opensesame]")
    run_tool(CONFIGS, *ada, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    shown = run_tool(CONFIGS, *ada, "--describe")
    assert "SCRAM credential configs for user-principal 'ada' are SCRAM-SHA-256=iterations=8192" in shown
    assert "producer_byte_rate=1024.0" in shown and "request_percentage=12.5" in shown
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "ada"}
    with Producer(bootstrap_servers=broker["LOGIN"], sasl_password="opensesame", **login) as producer:
        assert producer.send("t", b"x").result(10).offset == 0
    run_tool(CONFIGS, *ada, "--alter", "--delete-config", "producer_byte_rate,request_percentage")
    with Admin(bootstrap_servers=broker["OPEN"]) as admin:
        assert admin.describe_client_quotas() == {}
        address = ("--entity-type", "ips", "--entity-default")
        run_tool(CONFIGS, *ada[:2], *address, "--alter", "--add-config", "connection_creation_rate=100")
        default = QuotaEntity(ip=QuotaName.DEFAULT)
        assert admin.describe_client_quotas() == {default: {"connection_creation_rate": 100.0}}

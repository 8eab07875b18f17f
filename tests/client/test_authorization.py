"""What an ACL forbids is raised at once, by the class of its resource, and names resource, operation and principal."""

from __future__ import annotations

import contextlib
import copy
import pickle
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from kafkaraw import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    AuthorizationError,
    BrokerError,
    ClusterAuthorizationError,
    ConfigResource,
    Consumer,
    GroupAuthorizationError,
    NewTopic,
    PatternType,
    Producer,
    ResourcePattern,
    ResourceType,
    TopicAuthorizationError,
    TopicPartition,
    UsageError,
)
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.client.config import ConsumerConfig, parse
from kafkaraw.client.network.security import principal_of
from kafkaraw.protocol.error_codes import ErrorCode, error_for

PASSWORD = "opensesame-4711"
FLIGHTS = ResourcePattern(ResourceType.TOPIC, "flights")
READ = AclBinding(FLIGHTS, "User:ada", AclOperation.READ)
WRITE = AclBinding(FLIGHTS, "User:ada", AclOperation.WRITE)
EVERYTHING = AclBindingFilter()


SECURED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
AT_ONCE = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}


def pem(*blobs: trustme.Blob) -> str:
    return "".join(blob.bytes().decode() for blob in blobs)


def login(user: str) -> dict[str, object]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": PASSWORD,
    }


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=SECURED | AT_ONCE, users={"root": PASSWORD, "ada": PASSWORD}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers, **login("root")) as admin:
            admin.create_topics(["flights", "planes"])
        yield broker


@pytest.fixture
def root(broker: EmbeddedBroker) -> Iterator[Admin]:
    """An admin who may everything; what entries it makes are gone after the test."""
    with Admin(bootstrap_servers=broker.bootstrap_servers, **login("root")) as admin:
        yield admin
        admin.delete_acls([EVERYTHING])


@pytest.fixture
def ada(broker: EmbeddedBroker, root: Admin) -> dict[str, object]:
    """Settings of a user without rights."""
    return {"bootstrap_servers": broker.bootstrap_servers, **login("ada")}


# -- the producer --------------------------------------------------------------------------------------------------


def test_a_ticket_fails_with_what_is_missing_and_other_topics_go_on(root: Admin, ada: dict[str, object]) -> None:
    root.create_acls([WRITE, AclBinding(ResourcePattern(ResourceType.TOPIC, "planes"), "User:ada", AclOperation.READ)])
    with Producer(**ada) as producer:
        refused, written = producer.send("planes", b"x"), producer.send("flights", b"x")
        with pytest.raises(TopicAuthorizationError) as raised:
            refused.result(10)
        assert written.result(10).offset >= 0
    assert (raised.value.resource_type, raised.value.resource_name) == ("topic", "planes")
    assert (raised.value.operation, raised.value.principal) == ("WRITE", "User:ada")
    assert "it takes WRITE on topic 'planes'" in str(raised.value)
    assert "asked as User:ada" in str(raised.value)


def test_sending_to_a_topic_that_one_may_not_see_fails_at_once(ada: dict[str, object]) -> None:
    with Producer(**ada) as producer, pytest.raises(TopicAuthorizationError, match="DESCRIBE on topic 'flights'"):
        producer.send("flights", b"x")


def test_a_right_that_is_taken_away_fails_the_next_batch_only(root: Admin, ada: dict[str, object]) -> None:
    root.create_acls([WRITE])
    with Producer(**ada) as producer:
        assert producer.send("flights", b"1").result(10).offset >= 0
        root.delete_acls([AclBindingFilter(operation=AclOperation.WRITE)])
        with pytest.raises(TopicAuthorizationError):
            producer.send("flights", b"2").result(10)
        root.create_acls([WRITE])
        assert producer.send("flights", b"3").result(10).offset >= 0


def test_a_topic_that_may_not_be_seen_any_more_is_not_asked_for_again_and_again(
    broker: EmbeddedBroker, root: Admin, ada: dict[str, object]
) -> None:
    root.create_acls([WRITE])
    with Producer(**ada) as producer:
        assert producer.send("flights", b"1").result(10).offset >= 0
        root.delete_acls([EVERYTHING])
        broker.faults.on("Produce").answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        with pytest.raises(TopicAuthorizationError, match="DESCRIBE on topic 'flights'; asked as User:ada"):
            producer.send("flights", b"2").result(10)
        broker.faults.clear()


def test_a_producer_without_idempotent_write_permission_gets_an_error(root: Admin, ada: dict[str, object]) -> None:
    """DENY on every name takes away what KIP-679 gives to those who may write anything."""
    everything = ResourcePattern(ResourceType.TOPIC, "*")
    root.create_acls(
        [
            AclBinding(everything, "User:ada", AclOperation.DESCRIBE),
            AclBinding(everything, "User:ada", AclOperation.WRITE, AclPermissionType.DENY),
        ]
    )
    with Producer(**ada) as producer:
        with pytest.raises(ClusterAuthorizationError, match="IDEMPOTENT_WRITE on cluster 'kafka-cluster'") as raised:
            producer.send("flights", b"x").result(10)
        assert raised.value.principal == "User:ada"


# -- the consumer --------------------------------------------------------------------------------------------------


def test_poll_raises_what_is_missing(root: Admin, ada: dict[str, object]) -> None:
    root.create_acls([AclBinding(FLIGHTS, "User:ada", AclOperation.DESCRIBE)])
    with Consumer(auto_offset_reset="earliest", **ada) as consumer:
        consumer.assign([TopicPartition("flights", 0)])
        with pytest.raises(TopicAuthorizationError) as raised:
            while True:
                consumer.poll(10)
        assert (raised.value.resource_name, raised.value.operation) == ("flights", "READ")
        assert raised.value.principal == "User:ada"


def test_poll_raises_for_a_topic_that_one_may_not_see(ada: dict[str, object]) -> None:
    with Consumer(auto_offset_reset="earliest", **ada) as consumer:
        consumer.assign([TopicPartition("flights", 0)])
        with pytest.raises(TopicAuthorizationError, match="DESCRIBE on topic 'flights'"):
            consumer.poll(10)


CREWS = ResourcePattern(ResourceType.GROUP, "crew", PatternType.PREFIXED)
IN_GROUP = AclBinding(CREWS, "User:ada", AclOperation.READ)
PROTOCOLS: dict[str, dict[str, object]] = {
    "classic": {"heartbeat_interval_ms": 100},
    "KIP-848": {"group_protocol": "consumer"},
}
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def crew(ada: dict[str, object], protocol: str) -> Consumer:
    """A member of a group of its own: who has lost its right cannot even leave."""
    return Consumer(group_id=f"crew-{uuid.uuid4().hex}", auto_offset_reset="earliest", **PROTOCOLS[protocol], **ada)


@contextlib.contextmanager
def assigned_member(root: Admin, ada: dict[str, object], protocol: str) -> Iterator[Consumer]:
    """A member that may read topic and group, and has its partitions."""
    root.create_acls([READ, IN_GROUP])
    with crew(ada, protocol) as consumer:
        consumer.subscribe(["flights"])
        until_assigned(consumer)
        yield consumer


def until_assigned(consumer: Consumer) -> None:
    deadline = time.monotonic() + 30
    while not consumer.assignment() or consumer.group_metadata().generation_id < 0:
        assert time.monotonic() < deadline
        with contextlib.suppress(GroupAuthorizationError):
            consumer.poll(0.1)


@both_protocols
def test_a_member_without_permission_gets_an_error_with_the_principal_and_rejoins_later(
    protocol: str, root: Admin, ada: dict[str, object]
) -> None:
    with assigned_member(root, ada, protocol) as consumer:
        root.delete_acls([AclBindingFilter(resource_type=ResourceType.GROUP)])
        with pytest.raises(GroupAuthorizationError, match=r"on group 'crew-.*'; asked as User:ada"):
            while True:
                consumer.poll(1)
        root.create_acls([IN_GROUP])
        until_assigned(consumer)


@both_protocols
def test_a_commit_that_is_refused_names_the_topic_and_does_not_end_the_membership(
    protocol: str, root: Admin, ada: dict[str, object]
) -> None:
    with assigned_member(root, ada, protocol) as consumer:
        joined_as, planes = consumer.group_metadata().member_id, TopicPartition("planes", 0)
        with pytest.raises(TopicAuthorizationError, match="1 of 2 positions, those of planes-0") as raised:
            consumer.commit({TopicPartition("flights", 0): 3, planes: 4})
        assert (raised.value.resource_name, raised.value.operation) == ("planes", "READ")
        consumer.poll(0.1)
        assert consumer.group_metadata().member_id == joined_as
        stored = consumer.committed([TopicPartition("flights", 0)])[TopicPartition("flights", 0)]
        assert stored is not None
        assert stored.offset == 3


@both_protocols
def test_a_subscription_to_a_topic_that_one_may_not_see_is_refused_and_not_waited_for(
    protocol: str, root: Admin, ada: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    root.create_acls([READ, IN_GROUP])
    with crew(ada, protocol) as consumer:
        consumer.subscribe(["flights", "planes"])
        with pytest.raises(TopicAuthorizationError, match=r"planes.*DESCRIBE"):
            while True:
                consumer.poll(1)
    assert "does not exist" not in caplog.text


def test_offsets_of_a_topic_that_one_may_not_see_are_refused(ada: dict[str, object]) -> None:
    with Consumer(**ada) as consumer, pytest.raises(TopicAuthorizationError, match="DESCRIBE"):
        consumer.end_offsets([TopicPartition("flights", 0)])


# -- the admin -----------------------------------------------------------------------------------------------------


def test_creating_and_deleting_topics_say_what_they_take(ada: dict[str, object]) -> None:
    with Admin(**ada) as admin:
        with pytest.raises(TopicAuthorizationError, match="CREATE on topic 'new'"):
            admin.create_topics(["new"])
        with pytest.raises(TopicAuthorizationError, match="DELETE on topic 'flights'"):
            admin.delete_topics(["flights"])
        with pytest.raises(TopicAuthorizationError, match="DESCRIBE on topic 'flights'"):
            admin.describe_topics(["flights"])
        assert admin.list_topics() == []


def test_changing_topics_says_what_it_takes(root: Admin, ada: dict[str, object]) -> None:
    flights = TopicPartition("flights", 0)
    with Admin(**ada) as admin:
        with pytest.raises(TopicAuthorizationError, match="ALTER on topic 'flights'; asked as User:ada"):
            admin.create_partitions({"flights": 5})
        with pytest.raises(TopicAuthorizationError, match="DESCRIBE on topic 'flights'"):
            admin.delete_records({flights: 0})
        root.create_acls([READ])
        with pytest.raises(TopicAuthorizationError, match="DELETE on topic 'flights'"):
            admin.delete_records({flights: 0})
        with pytest.raises(TopicAuthorizationError, match="DESCRIBE_CONFIGS on topic 'flights'"):
            admin.describe_configs([ConfigResource.topic("flights")])


def test_several_refusals_are_one_error_that_names_each(ada: dict[str, object]) -> None:
    with Admin(**ada) as admin, pytest.raises(TopicAuthorizationError) as raised:
        admin.create_topics(["new", "newer"])
    assert "'new'" in str(raised.value) and "'newer'" in str(raised.value)
    assert (raised.value.operation, raised.value.principal) == ("CREATE", "User:ada")


def test_changing_acls_takes_rights_to_the_cluster(ada: dict[str, object]) -> None:
    with Admin(**ada) as admin:
        with pytest.raises(ClusterAuthorizationError, match="ALTER on cluster 'kafka-cluster'"):
            admin.create_acls([READ])
        with pytest.raises(ClusterAuthorizationError, match="DESCRIBE on cluster"):
            admin.describe_acls()
        with pytest.raises(ClusterAuthorizationError, match="ALTER on cluster"):
            admin.delete_acls([EVERYTHING])


def test_entries_are_created_listed_and_deleted(root: Admin) -> None:
    prefixed = AclBinding(
        ResourcePattern(ResourceType.GROUP, "g-", PatternType.PREFIXED),
        "User:*",
        AclOperation.ALL,
        AclPermissionType.DENY,
        "10.0.0.1",
    )
    root.create_acls([WRITE, READ, prefixed])
    root.create_acls([READ])
    assert root.describe_acls() == [READ, WRITE, prefixed]
    assert root.describe_acls(AclBindingFilter(permission_type=AclPermissionType.DENY)) == [prefixed]
    assert root.describe_acls(AclBindingFilter(resource_name="g-7", pattern_type=PatternType.MATCH)) == [prefixed]
    reading, nobody = AclBindingFilter(operation=AclOperation.READ), AclBindingFilter(principal="User:nobody")
    assert root.delete_acls([reading, nobody]) == {reading: [READ], nobody: []}
    assert root.describe_acls() == [WRITE, prefixed]


@pytest.mark.parametrize(
    "wrong",
    [
        AclBinding(ResourcePattern(ResourceType.ANY, "x"), "User:ada", AclOperation.READ),
        AclBinding(ResourcePattern(ResourceType.TOPIC, "x", PatternType.MATCH), "User:ada", AclOperation.READ),
        AclBinding(FLIGHTS, "User:ada", AclOperation.ANY),
        AclBinding(FLIGHTS, "User:ada", AclOperation.READ, AclPermissionType.UNKNOWN),
    ],
)
def test_an_entry_that_says_any_is_a_mistake_of_the_caller(root: Admin, wrong: AclBinding) -> None:
    with pytest.raises(UsageError, match="cannot be in an ACL, give a specific value"):
        root.create_acls([wrong])
    with pytest.raises(UsageError, match="is not an AclBinding"):
        root.create_acls([EVERYTHING])  # type: ignore[list-item]


def test_a_bad_entry_is_named_and_the_others_are_created(root: Admin) -> None:
    nameless = AclBinding(FLIGHTS, "ada", AclOperation.READ)
    with pytest.raises(BrokerError, match="Could not parse principal from `ada`") as raised:
        root.create_acls([nameless, READ])
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert root.describe_acls() == [READ]


def test_a_broker_without_an_authorizer_says_so() -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        with pytest.raises(BrokerError, match="SECURITY_DISABLED"):
            admin.describe_acls()
        with pytest.raises(BrokerError, match="No Authorizer is configured"):
            admin.create_acls([READ])


# -- several nodes, and certificates -------------------------------------------------------------------------------


def test_entries_count_on_every_node_of_a_cluster_and_after_a_restart(tmp_path: Path) -> None:
    users = {"root": PASSWORD, "ada": PASSWORD}

    def write_everywhere(cluster: EmbeddedCluster) -> int:
        servers = cluster.bootstrap_servers
        with Producer(bootstrap_servers=servers, **login("ada")) as producer:
            tickets = [producer.send("flights", b"x", partition=number) for number in range(3)]
            assert [ticket.result(10).partition for ticket in tickets] == [0, 1, 2]
        return len({cluster.leader_of("flights", number) for number in range(3)})

    with EmbeddedCluster(3, data_dir=tmp_path, properties=SECURED, users=users) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers, **login("root")) as admin:
            admin.create_topics([NewTopic("flights", 3)])
            admin.create_acls([WRITE])
        assert write_everywhere(cluster) == 3
    with EmbeddedCluster(3, data_dir=tmp_path, properties=SECURED, users=users) as cluster:
        write_everywhere(cluster)
        with Admin(bootstrap_servers=cluster.bootstrap_servers, **login("root")) as admin:
            admin.delete_acls([EVERYTHING])
        refusal = pytest.raises(TopicAuthorizationError)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, **login("ada")) as producer, refusal:
            producer.send("flights", b"x").result(10)


def test_a_certificate_is_a_principal_that_entries_can_name() -> None:
    authority = trustme.CA()
    server, mine = authority.issue_cert("127.0.0.1"), authority.issue_cert("ada@example.org", common_name="ada")
    properties = SECURED | {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.certificate.chain": pem(*server.cert_chain_pems),
        "ssl.keystore.key": pem(server.private_key_pem),
        "ssl.truststore.certificates": pem(authority.cert_pem),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
        "super.users": "User:ada",
    }
    settings = {
        "security_protocol": "SSL",
        "ssl_cadata": pem(authority.cert_pem),
        "ssl_certfile": pem(*mine.cert_chain_pems),
        "ssl_keyfile": pem(mine.private_key_pem),
    }
    with EmbeddedBroker(properties=properties) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers, **settings) as admin:
            admin.create_acls([READ])
        other = authority.issue_cert("bob@example.org", common_name="bob")
        settings |= {"ssl_certfile": pem(*other.cert_chain_pems), "ssl_keyfile": pem(other.private_key_pem)}
        refusal = pytest.raises(ClusterAuthorizationError, match="asked as the subject of the client's certificate")
        with Admin(bootstrap_servers=broker.bootstrap_servers, **settings) as admin, refusal:
            admin.create_acls([READ])


# -- the errors themselves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")])
def test_every_code_of_authorization_has_a_class_of_its_own_and_is_final(code: ErrorCode) -> None:
    error = error_for(code, "reading", resource="x", operation="READ")
    assert isinstance(error, AuthorizationError) and type(error) is not AuthorizationError
    assert (error.code, error.retriable, error.operation) == (code, False, "READ")
    assert error.resource_name == ("kafka-cluster" if isinstance(error, ClusterAuthorizationError) else "x")


def test_an_error_stays_the_same_when_it_is_copied_or_pickled() -> None:
    error = error_for(ErrorCode.GROUP_AUTHORIZATION_FAILED, resource="g", operation="READ")
    assert isinstance(error, GroupAuthorizationError)
    for same in (copy.copy(error.asked_by("User:ada")), pickle.loads(pickle.dumps(error.asked_by("User:ada")))):
        assert (same.resource_name, same.operation, same.principal) == ("g", "READ", "User:ada")
        assert str(same) == str(error) + "; asked as User:ada"


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        (login("ada"), "User:ada"),
        ({"security_protocol": "SSL", "ssl_certfile": "mine.pem"}, "the subject of the client's certificate"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": lambda: "token",
            },
            "the user of the OAUTHBEARER login",
        ),
    ],
)
def test_the_principal_is_named_if_the_settings_contain_it(settings: dict[str, object], principal: str) -> None:
    config = parse(ConsumerConfig, {"bootstrap_servers": "localhost:9092", **settings})
    assert principal_of(config) == principal

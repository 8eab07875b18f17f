"""The exactly-once sink with the authorizer on: the rights that it takes, and what it says without one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkaraw import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    Admin,
    NewTopic,
    PatternType,
    ResourcePattern,
    ResourceType,
    TransactionalIdAuthorizationError,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.writing.exactly_once import Slot, Written, commit_batch, write_slot
from kafkaraw.spark.writing.task import WriteSettings, write_settings
from tests.spark.spark_types import struct
from tests.spark.writing.query import TASKS, TOPIC, forget_clients

PASSWORD = "opensesame-4711"
SECURED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="{PASSWORD}";'


def may(operation: AclOperation, kind: ResourceType, name: str) -> AclBinding:
    prefixed = PatternType.PREFIXED if name.endswith("-") else PatternType.LITERAL
    return AclBinding(ResourcePattern(kind, name, prefixed), "User:ada", operation)


TO_ROWS = may(AclOperation.WRITE, ResourceType.TOPIC, "out")
TO_DECISIONS = [
    may(operation, ResourceType.TOPIC, TOPIC)
    for operation in (AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE)
]
TO_IDS = may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "kafkaraw-spark-")
TO_SLOTS = [may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, f"kafkaraw-spark-q-{n}") for n in range(TASKS)]


@pytest.fixture(params=[0, 2])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    users = {"root": PASSWORD, "ada": PASSWORD}
    properties = SECURED | {"transaction.version": request.param}
    with EmbeddedBroker(properties=properties, users=users) as broker:
        yield broker
        forget_clients()


@pytest.fixture
def root(broker: EmbeddedBroker) -> Iterator[Admin]:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "root", "sasl_password": PASSWORD}
    with Admin(bootstrap_servers=broker.bootstrap_servers, security_protocol="SASL_PLAINTEXT", **login) as admin:
        admin.create_topics([NewTopic("out", TASKS)])
        yield admin


@pytest.fixture
def settings(broker: EmbeddedBroker) -> WriteSettings:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": "out",
        "exactlyOnce": "true",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": LOGIN,
    }
    return write_settings(parse_options(given), struct("value string"))


def tasks(settings: WriteSettings, batch_id: int, count: int = TASKS) -> list[Written]:
    rows = pa.RecordBatch.from_pydict({"value": ["a"]})
    return [write_slot([rows], settings, Slot("q", batch_id, number)) for number in range(count)]


def open_transactions(root: Admin) -> list[str]:
    return [each.transactional_id for each in root.list_transactions(states=["Ongoing"])]


def test_the_acls_of_the_guide_suffice(root: Admin, settings: WriteSettings, caplog: pytest.LogCaptureFixture) -> None:
    root.create_acls([TO_ROWS, *TO_DECISIONS, TO_IDS])
    commit_batch(tasks(settings, 0), settings)
    assert caplog.text == ""
    tasks(settings, 1, count=TASKS + 2)
    assert len(open_transactions(root)) == TASKS + 2
    forget_clients()
    commit_batch(tasks(settings, 1), settings)
    assert open_transactions(root) == []
    assert "its settings cannot be checked: TOPIC_AUTHORIZATION_FAILED" in caplog.text


def test_without_the_acl_of_the_drivers_id_no_transaction_is_left_open(root: Admin, settings: WriteSettings) -> None:
    root.create_acls([TO_ROWS, *TO_DECISIONS, *TO_SLOTS])
    with pytest.raises(TransactionalIdAuthorizationError, match="kafkaraw-spark-q-driver"):
        commit_batch(tasks(settings, 0), settings)
    assert open_transactions(root) == []
    root.create_acls([TO_IDS])
    commit_batch(tasks(settings, 0), settings)


def test_open_transactions_that_may_not_be_aborted_are_a_warning(
    root: Admin, settings: WriteSettings, caplog: pytest.LogCaptureFixture
) -> None:
    root.create_acls([TO_ROWS, *TO_DECISIONS, TO_IDS])
    tasks(settings, 0, count=TASKS + 1)
    root.delete_acls([AclBindingFilter(resource_type=ResourceType.TRANSACTIONAL_ID)])
    describe = may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "kafkaraw-spark-")
    driver = may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "kafkaraw-spark-q-driver")
    root.create_acls([*TO_SLOTS, describe, driver])
    forget_clients()
    commit_batch(tasks(settings, 0), settings)
    assert open_transactions(root) == [f"kafkaraw-spark-q-{TASKS}"]
    assert "transactions of query q were not aborted" in caplog.text

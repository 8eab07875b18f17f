"""Use many parts of the Python clients once each, so that there is traffic to record. Nothing here judges.

Every function takes the ports of a broker's plain and SASL listeners.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

CLIENT_ID = "golden"
WAIT_SECONDS = 15


def attempt(call: Callable[[], Any]) -> Any:
    """Call; what the broker or the client refuses is traffic too, and is shown."""
    try:
        result = call()
        if isinstance(result, dict):
            for value in result.values():
                if isinstance(value, Future):
                    value.result(WAIT_SECONDS)
        return result.result(WAIT_SECONDS) if isinstance(result, Future) else result
    except Exception as error:  # noqa: BLE001 -- clients raise all sorts of errors
        print(f"  {type(error).__name__}: {str(error)[:150]}")
        return None


def confluent(plain_port: int, sasl_port: int) -> None:
    """confluent-kafka: producer, both group protocols, transactions, administration."""
    from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, ElectionType, Producer, TopicPartition
    from confluent_kafka import admin as ck

    base: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{plain_port}", "client.id": CLIENT_ID}
    admin = ck.AdminClient(base)
    attempt(lambda: admin.create_topics([ck.NewTopic("golden-ck", 2, 1)]))
    for codec in ("none", "gzip", "lz4"):
        producer = Producer({**base, "compression.type": codec, "enable.idempotence": codec == "gzip"})
        for i in range(5):
            producer.produce("golden-ck", f"value {i} {codec}", key=f"key {i}", headers=[("h", b"x")])
        producer.flush(WAIT_SECONDS)
    for protocol in ("classic", "consumer"):
        group = {**base, "group.id": f"golden-ck-{protocol}", "group.protocol": protocol}
        consumer = Consumer({**group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe(["golden-ck"])
        deadline = time.monotonic() + WAIT_SECONDS
        messages = []
        while len(messages) < 15 and time.monotonic() < deadline:
            messages += consumer.consume(100, timeout=0.5)
        attempt(lambda: consumer.commit(asynchronous=False))  # noqa: B023 -- called at once
        attempt(lambda: consumer.committed([TopicPartition("golden-ck", 0)]))  # noqa: B023
        attempt(lambda: consumer.offsets_for_times([TopicPartition("golden-ck", 0, 1)]))  # noqa: B023
        attempt(lambda: consumer.get_watermark_offsets(TopicPartition("golden-ck", 0)))  # noqa: B023
        if protocol == "classic":
            transactional = Producer({**base, "transactional.id": "golden-ck-tx"})
            transactional.init_transactions(WAIT_SECONDS)
            transactional.begin_transaction()
            transactional.produce("golden-ck", "in a transaction")
            offsets = consumer.position(consumer.assignment())
            attempt(lambda: transactional.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata()))  # noqa: B023
            transactional.commit_transaction(WAIT_SECONDS)
            transactional.begin_transaction()
            transactional.abort_transaction(WAIT_SECONDS)
        consumer.close()
    topic = ck.ConfigResource(ck.ConfigResource.Type.TOPIC, "golden-ck")
    change = ck.ConfigResource(
        ck.ConfigResource.Type.TOPIC,
        "golden-ck",
        incremental_configs=[ck.ConfigEntry("retention.ms", "1000000", incremental_operation=ck.AlterConfigOpType.SET)],
    )
    from confluent_kafka import TopicCollection

    acl = ck.AclBinding(
        ck.ResourceType.TOPIC,
        "golden-ck",
        ck.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        ck.AclOperation.READ,
        ck.AclPermissionType.ALLOW,
    )
    acls = ck.AclBindingFilter(
        ck.ResourceType.ANY,
        None,
        ck.ResourcePatternType.ANY,
        None,
        None,
        ck.AclOperation.ANY,
        ck.AclPermissionType.ANY,
    )
    scram = ck.UserScramCredentialUpsertion(
        "alice", ck.ScramCredentialInfo(ck.ScramMechanism.SCRAM_SHA_256, 4096), b"not-a-secret", b"salt"
    )
    group_offsets = ConsumerGroupTopicPartitions("golden-ck-classic", [TopicPartition("golden-ck", 0)])
    moved = ConsumerGroupTopicPartitions("golden-ck-classic", [TopicPartition("golden-ck", 0, 1)])
    for call in (
        lambda: admin.list_topics(timeout=WAIT_SECONDS),
        lambda: admin.describe_cluster(include_authorized_operations=True),
        lambda: admin.describe_topics(TopicCollection(["golden-ck"])),
        lambda: admin.create_partitions([ck.NewPartitions("golden-ck", 3)]),
        lambda: admin.describe_configs([topic]),
        lambda: admin.incremental_alter_configs([change]),
        lambda: admin.alter_configs([ck.ConfigResource(ck.ConfigResource.Type.TOPIC, "golden-ck")]),
        lambda: admin.create_acls([acl]),
        lambda: admin.describe_acls(acls),
        lambda: admin.delete_acls([acls]),
        lambda: admin.alter_user_scram_credentials([scram]),
        lambda: admin.describe_user_scram_credentials(["alice"]),
        lambda: admin.list_groups(),
        lambda: admin.list_consumer_groups(),
        lambda: admin.describe_consumer_groups(["golden-ck-classic", "golden-ck-consumer"]),
        lambda: admin.list_consumer_group_offsets([group_offsets]),
        lambda: admin.alter_consumer_group_offsets([moved]),
        lambda: admin.list_offsets({TopicPartition("golden-ck", 0): ck.OffsetSpec.latest()}),
        lambda: admin.delete_records([TopicPartition("golden-ck", 0, 1)]),
        lambda: admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("golden-ck", 0)]),
        lambda: admin.delete_consumer_groups(["golden-ck-classic", "golden-ck-consumer"]),
        lambda: admin.delete_topics(["golden-ck"]),
    ):
        attempt(call)
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    there = {"bootstrap.servers": f"127.0.0.1:{sasl_port}", "sasl.password": "alice-secret"}
    attempt(lambda: ck.AdminClient({**base, **sasl, **there}).list_topics(timeout=WAIT_SECONDS))


def kafka_python(plain_port: int, sasl_port: int) -> None:
    """kafka-python: as new as it speaks, and as if the broker were a Kafka 2.1."""
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

    address = f"127.0.0.1:{plain_port}"
    for api_version in (None, (2, 1)):
        base: dict[str, Any] = {"bootstrap_servers": address, "client_id": CLIENT_ID, "api_version": api_version}
        topic = "golden-kp" if api_version is None else "golden-kp-old"
        admin = KafkaAdminClient(**base)
        attempt(lambda: admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}}))  # noqa: B023
        for codec in (None, "gzip"):
            producer = KafkaProducer(**base, compression_type=codec, enable_idempotence=codec is not None)
            for i in range(5):
                producer.send(topic, b"value", key=b"key %d" % i, headers=[("h", b"x")])
            producer.flush(WAIT_SECONDS)
            producer.close()
        group_settings = {"group_id": f"{topic}-group", "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(topic, **base, **group_settings, consumer_timeout_ms=1000 * WAIT_SECONDS)
        assert len(list(itertools.islice(consumer, 10))) == 10
        attempt(consumer.commit)
        partition = TopicPartition(topic, 0)
        attempt(lambda: consumer.committed(partition))  # noqa: B023
        attempt(lambda: consumer.offsets_for_times({partition: 1}))  # noqa: B023
        attempt(lambda: consumer.beginning_offsets([partition]))  # noqa: B023
        attempt(lambda: consumer.end_offsets([partition]))  # noqa: B023
        consumer.close()
        if api_version is None:
            attempt(lambda: _kafka_python_transaction(base, topic))  # noqa: B023
        group = f"{topic}-group"
        for call in (
            lambda: admin.list_topics(),  # noqa: B023
            lambda: admin.describe_topics([topic]),  # noqa: B023
            lambda: admin.describe_cluster(),  # noqa: B023
            lambda: admin.describe_topic_partitions([topic]),  # noqa: B023
            lambda: admin.describe_features(),  # noqa: B023
            lambda: admin.describe_metadata_quorum(),  # noqa: B023
            lambda: admin.list_groups(),  # noqa: B023
            lambda: admin.describe_groups([group]),  # noqa: B023
            lambda: admin.list_group_offsets(group),  # noqa: B023
            lambda: admin.list_transactions(),  # noqa: B023
            lambda: admin.describe_transactions(["golden-kp-tx"]),  # noqa: B023
            lambda: admin.describe_producers([partition]),  # noqa: B023
            lambda: admin.list_partition_reassignments(),  # noqa: B023
            lambda: admin.list_config_resources(),  # noqa: B023
            lambda: admin.create_partitions({topic: 3}),  # noqa: B023
            lambda: admin.delete_records({partition: 1}),  # noqa: B023
            lambda: admin.delete_groups([group]),  # noqa: B023
            lambda: admin.delete_topics([topic]),  # noqa: B023
        ):
            attempt(call)
        admin.close()
    attempt(
        lambda: KafkaAdminClient(
            bootstrap_servers=f"127.0.0.1:{sasl_port}",
            client_id=CLIENT_ID,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="alice-secret",
        ).list_topics()
    )


def _kafka_python_transaction(base: dict[str, Any], topic: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(**base, transactional_id="golden-kp-tx")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"in a transaction").get(WAIT_SECONDS)
    producer.commit_transaction()
    producer.close()


def aio_kafka(plain_port: int, sasl_port: int) -> None:
    """aiokafka: producer, group consumer, transaction."""
    asyncio.run(_aio_kafka(f"127.0.0.1:{plain_port}"))


async def _aio_kafka(address: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    base: dict[str, Any] = {"bootstrap_servers": address, "client_id": CLIENT_ID}
    admin = AIOKafkaAdminClient(**base)
    await admin.start()
    await admin.create_topics([NewTopic("golden-aio", 2, 1)])
    async with AIOKafkaProducer(**base, compression_type="gzip") as producer:
        for i in range(5):
            await producer.send_and_wait("golden-aio", b"value", key=b"key %d" % i, headers=[("h", b"x")])
    async with AIOKafkaProducer(**base, transactional_id="golden-aio-tx") as transactional, transactional.transaction():
        await transactional.send_and_wait("golden-aio", b"in a transaction")
    group = AIOKafkaConsumer("golden-aio", **base, group_id="golden-aio-group", auto_offset_reset="earliest")
    async with group as consumer:
        for _ in range(6):
            await asyncio.wait_for(consumer.getone(), WAIT_SECONDS)
        await consumer.commit()
    for call in (
        admin.list_topics,
        admin.describe_cluster,
        admin.list_consumer_groups,
        lambda: admin.describe_consumer_groups(["golden-aio-group"]),
        lambda: admin.list_consumer_group_offsets("golden-aio-group"),
        lambda: admin.delete_topics(["golden-aio"]),
    ):
        with contextlib.suppress(Exception):
            await asyncio.wait_for(call(), WAIT_SECONDS)
    await admin.close()

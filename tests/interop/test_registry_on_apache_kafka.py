"""Our registry on Apache Kafka: topic, election, forwarding and takeover are those of its group coordinator."""

from __future__ import annotations

from typing import Any

import httpx

from kafkaraw.schemas import EmbeddedRegistry
from tests.interop.apache_kafka import ApacheKafka


def test_instances_share_a_topic_of_apache_kafka(apache_kafka: ApacheKafka) -> None:
    properties = {
        "kafkastore.topic": "_schemas_of_ours",
        "schema.registry.group.id": "registries-of-ours",
        "kafkagroup.heartbeat.interval.ms": 200,
    }

    def made() -> EmbeddedRegistry:
        return EmbeddedRegistry(apache_kafka.bootstrap_servers, elect=True, properties=properties)

    with httpx.Client(trust_env=False, timeout=60) as client:

        def register(registry: EmbeddedRegistry, subject: str, text: str) -> Any:
            return client.post(f"{registry.url}/subjects/{subject}/versions", json={"schema": text}).json()

        with made() as first:
            assert register(first, "s", '"int"')["id"] == 1
            with made() as second:
                assert register(second, "t", '"string"')["id"] == 2
                assert client.get(f"{second.url}/subjects").json() == ["s", "t"]
                assert client.delete(f"{second.url}/subjects/s").json() == [1]
                first.stop()
                assert register(second, "u", '"long"')["id"] == 3
        with made() as third:
            found = client.get(f"{third.url}/subjects?deleted=true").json()
            assert found == ["s", "t", "u"]
            assert register(third, "v", '"float"')["id"] == 4

"""Mistakes that type checkers must find: where they find none, mypy --strict reports an unused `type: ignore`."""

from __future__ import annotations

from kafkaraw import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, ProducerSettings
from kafkaraw.schemas import Registry

Producer(bootstrap_servers="b:1", linger=5)  # type: ignore[call-arg]
Producer(bootstrap_servers="b:1", linger_ms="5")  # type: ignore[arg-type]
Producer(bootstrap_servers="b:1", compression_type="zip")  # type: ignore[arg-type]
Producer(bootstrap_servers="b:1", acks=2)  # type: ignore[arg-type]
Producer(bootstrap_servers="b:1", partitioner="murmur3")  # type: ignore[arg-type]
Producer(bootstrap_servers="b:1", interceptors=[object()])  # type: ignore[list-item]
Producer({"bootstrap.servers": "b:1"})  # type: ignore[arg-type]
Producer.from_properties({}, linger="5")  # type: ignore[call-arg]
AsyncProducer(bootstrap_servers="b:1", group_id="g")  # type: ignore[call-arg]
Consumer(bootstrap_servers="b:1", isolation_level="committed")  # type: ignore[arg-type]
Consumer(bootstrap_servers="b:1", partition_assignment_strategy=[1])  # type: ignore[list-item]
Consumer(bootstrap_servers=9092)  # type: ignore[arg-type]
AsyncConsumer.from_properties("client.properties", enable_auto_commit="no")  # type: ignore[arg-type]
Admin(bootstrap_servers="b:1", acks=1)  # type: ignore[call-arg]
Registry("http://localhost:8081", retries="5")  # type: ignore[arg-type]
settings: ProducerSettings = {"bootstrap_server": "b:1"}  # type: ignore[typeddict-unknown-key]

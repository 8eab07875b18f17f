"""Topics for Spark tests, written and read by the plain client."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.client.admin import NewTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.streaming import DataStreamReader

    from kafkaraw.records import Record


@dataclass
class Kafka:
    """A cluster and clients for it."""

    servers: str
    admin: Admin
    producer: Producer
    login: Mapping[str, str] = field(default_factory=dict)
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def new_topic(self, partitions: int = 1) -> str:
        name = f"topic-{next(self._names)}"
        self.admin.create_topics([NewTopic(name, partitions=partitions)])
        return name

    def remake_topic(self, name: str, partitions: int = 1) -> None:
        """Delete a topic and make it again, empty."""
        self.admin.delete_topics([name])
        self.admin.create_topics([NewTopic(name, partitions=partitions)])

    def produce(self, topic: str, values: Iterable[int], partition: int = 0) -> None:
        """Write numbers, as text, and wait for them to be there."""
        tickets = [self.producer.send(topic, b"%d" % value, partition=partition) for value in values]
        for ticket in tickets:
            ticket.result(30)

    def records(self, topic: str) -> list[Record]:
        """Everything that is committed in a topic, by partition and offset."""
        settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        with Consumer(bootstrap_servers=self.servers, **settings, **self.login) as consumer:
            missing = dict(consumer.end_offsets(consumer.partitions_for(topic)))
            found: list[Record] = []
            while missing := {tp: end for tp, end in missing.items() if end}:
                consumer.assign(list(missing))
                for batch in consumer.poll(0.02).values():
                    found.extend(batch)
                missing = {tp: end for tp, end in missing.items() if consumer.position(tp) < end}
            return sorted(found, key=lambda record: (record.partition, record.offset))

    def numbers(self, topic: str) -> list[int]:
        """The numbers in a topic, in order; as often as they are there."""
        return sorted(int(record.value or b"") for record in self.records(topic))

    def options(self, **given: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers} | given

    def batch(self, spark: SparkSession, **given: str) -> DataFrameReader:
        return spark.read.format("kafkaraw").options(**self.options(**given))

    def stream(self, spark: SparkSession, **given: str) -> DataStreamReader:
        return spark.readStream.format("kafkaraw").options(**self.options(**given))

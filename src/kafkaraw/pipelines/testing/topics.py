"""The topics of a test: in files, without Kafka, or in an embedded broker.

Both have the same methods. Everything that a pipeline reads from topics goes through them. Must not import pyspark or
pyarrow before they are used. Start at `TopicsInMemory`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import replace
from kafkaraw.pipelines.evaluation import Evaluation, Purpose
from kafkaraw.pipelines.model import Pipeline, TopicSource
from kafkaraw.pipelines.tables import file_name_of
from kafkaraw.pipelines.testing.given import Record, encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkaraw.pipelines.evaluation import ReadRecords

PARTITIONS: Final = 3  # of each topic in the broker
_TIMEOUT_S: Final = 30
_BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
RECORDS_DDL: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


class TopicsInMemory:
    """Topics in files.

    Args:
        folder: of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._topics: dict[str, _FilesOfTopic] = {}
        self.read_records: ReadRecords | None = self._read_records

    def of_pipeline(self, pipeline: Pipeline) -> Pipeline:
        """Return the pipeline as it is."""
        return pipeline

    def send(self, topic: str, records: Iterable[Record]) -> None:
        """Add records behind those that are there."""
        self._topic(topic).send(records)

    def read_topic(self, source: TopicSource, evaluation: Evaluation) -> DataFrame:
        """Return the rows of `topic()`."""
        from kafkaraw.pipelines.topics import read_topic

        return read_topic(source, evaluation)

    def close(self) -> None:
        """Do nothing."""

    def _read_records(self, source: TopicSource, evaluation: Evaluation, streaming: bool) -> DataFrame:
        return self._topic(source.name).read(evaluation.spark, streaming=streaming)

    def _topic(self, name: str) -> _FilesOfTopic:
        if name not in self._topics:
            self._topics[name] = _FilesOfTopic(self._folder / file_name_of(name), name)
        return self._topics[name]


class TopicsOfBroker:
    """Topics in an embedded broker, with `PARTITIONS` partitions each.

    Args:
        pipeline: has the name of the topic with replays, which every flow reads too.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        from kafkaraw.broker import EmbeddedBroker
        from kafkaraw.client.blocking.admin import Admin
        from kafkaraw.client.blocking.producer import Producer

        self.read_records: ReadRecords | None = None
        self._topics: set[str] = set()
        # A test names any time: no record is too old to be kept.
        self._broker = EmbeddedBroker(process=True, properties={"log.retention.ms": -1})
        self._broker.start()
        servers = self._broker.bootstrap_servers
        self._admin = Admin(bootstrap_servers=servers)
        self._producer = Producer(bootstrap_servers=servers, linger_ms=0)
        self._create(pipeline.settings.replay_topic)

    def of_pipeline(self, pipeline: Pipeline) -> Pipeline:
        """Return the pipeline with this broker, in place of the one of its specification."""
        kafka = {name: value for name, value in pipeline.settings.kafka.items() if not name.startswith("kafka.")}
        kafka[_BOOTSTRAP_SERVERS] = self._broker.bootstrap_servers
        return replace(pipeline, settings=replace(pipeline.settings, kafka=kafka))

    def send(self, topic: str, records: Iterable[Record]) -> None:
        """Send records; they are acknowledged when this returns.

        Raises:
            UsageError: a record names a partition that the topic does not have.
        """
        self._create(topic)
        for record in records:
            if not 0 <= record.partition < PARTITIONS:
                raise UsageError(f"partition {record.partition} of {topic!r}: topics of a test have {PARTITIONS}")
            time = record.timestamp if record.timestamp.tzinfo else record.timestamp.replace(tzinfo=UTC)
            self._producer.send(
                topic,
                encoded(record.value),
                encoded(record.key),
                partition=record.partition,
                headers=[(name, encoded(value)) for name, value in record.headers],
                timestamp_ms=round(time.timestamp() * 1000),
            )
        self._producer.flush(_TIMEOUT_S)

    def read_topic(self, source: TopicSource, evaluation: Evaluation) -> DataFrame:
        """Return the rows of `topic()`; the topic is created if no record was sent to it."""
        from kafkaraw.pipelines.topics import read_topic

        if evaluation.purpose is not Purpose.PLAN:
            self._create(source.name)
        return read_topic(source, evaluation)

    def close(self) -> None:
        """Stop the broker."""
        self._producer.close()
        self._admin.close()
        self._broker.stop()

    def _create(self, name: str) -> None:
        from kafkaraw.client.admin import NewTopic

        if name not in self._topics:
            self._admin.create_topics([NewTopic(name, PARTITIONS)], timeout=_TIMEOUT_S)
            self._topics.add(name)


class _FilesOfTopic:
    """The records of one topic.

    Args:
        folder: of its files.
        name: of the topic.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._offsets: dict[int, int] = {}
        self._files = 0
        folder.mkdir(parents=True)

    def send(self, records: Iterable[Record]) -> None:
        """Add records behind those that are there."""
        rows = [self._row(record) for record in records]
        if rows:
            self._write(rows)

    def read(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the records with the columns of format "kafkaraw"."""
        reader: Any = spark.readStream if streaming else spark.read
        frame: DataFrame = reader.schema(RECORDS_DDL).parquet(str(self._folder))
        return frame

    def _row(self, record: Record) -> dict[str, object]:
        offset = self._offsets.get(record.partition, 0)
        self._offsets[record.partition] = offset + 1
        time = record.timestamp
        return {
            "key": encoded(record.key),
            "value": encoded(record.value),
            "topic": self._name,
            "partition": record.partition,
            "offset": offset,
            "timestamp": time if time.tzinfo else time.replace(tzinfo=UTC),
            "timestampType": 0,
            "headers": [{"key": name, "value": encoded(value)} for name, value in record.headers] or None,
        }

    def _write(self, rows: list[dict[str, object]]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        schema = pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("us", "UTC")),
                ("timestampType", pa.int32()),
                ("headers", pa.list_(header)),
            ]
        )
        self._files += 1
        part = self._folder / f".{self._files}"
        parquet.write_table(pa.Table.from_pylist(rows, schema), part)
        part.rename(self._folder / f"{self._files:06}.parquet")

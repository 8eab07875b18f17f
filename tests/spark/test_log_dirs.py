"""Rows read from log directories are the rows read through a broker, with any options, for both brokers' files."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from tests.client.fetching.test_old_formats import put_old_segment
from tests.interop.apache_kafka import ApacheKafka, why_missing
from tests.logs.sample_directory import BATCHES, SEGMENTS, make_directory
from tests.logs.sample_directory import RECORDS as RECORDS_OF_BATCH
from tests.records.test_legacy import CODECS as OLD_CODECS
from tests.records.test_legacy import KINDS, vector
from tests.rotation import rotating
from tests.spark import log_contents
from tests.spark.s3_server import BUCKET, Handler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)  # the first one starts Spark and Apache Kafka
PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
RECORDS = SEGMENTS * BATCHES * RECORDS_OF_BATCH  # of the sample directory
QUICK = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    print_blob=True,
)


@dataclass(frozen=True)
class Written:
    """A broker, what it wrote, and its log directory."""

    servers: str
    topics: tuple[str, ...]
    log_dir: Path
    broker: ApacheKafka | EmbeddedBroker


@pytest.fixture(scope="module", params=rotating(["apache", "ours"], 1))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = tmp_path_factory.mktemp(request.param)
    with contextlib.ExitStack() as stack:
        if request.param == "apache":
            missing = why_missing()
            if missing is not None:
                pytest.skip(missing)
            apache = stack.enter_context(ApacheKafka(folder, log_contents.PROPERTIES))
            topics = log_contents.write(apache.bootstrap_servers, folder / "logs")
            yield Written(apache.bootstrap_servers, topics, folder / "logs", apache)
        else:
            ours = stack.enter_context(
                EmbeddedBroker(process=True, data_dir=folder, properties=log_contents.PROPERTIES)
            )
            topics = log_contents.write(ours.bootstrap_servers, folder)
            yield Written(ours.bootstrap_servers, topics, folder, ours)
        while log_contents.OPEN_PRODUCERS:
            log_contents.OPEN_PRODUCERS.pop().close(timeout=0)


def through_broker(spark: SparkSession, servers: str, **options: str) -> DataFrame:
    return spark.read.format("kafkaraw").options(**options, **{"kafka.bootstrap.servers": servers}).load()


def from_files(spark: SparkSession, log_dirs: Path | str, **options: str) -> DataFrame:
    return spark.read.format("kafkaraw").options(**options, logDirs=str(log_dirs)).load()


def rows(frame: DataFrame) -> list[object]:
    ordered = frame.collect()
    return sorted((tuple(row) for row in ordered), key=lambda row: repr(row[2:5]))


COMMITTED = {"kafka.isolation.level": "read_committed"}


@st.composite
def reads(draw: st.DrawFn) -> tuple[dict[str, str], str]:
    """Options and a filter."""
    topic, partitions, end = draw(
        st.sampled_from(
            [
                ("codecs", 5, 300),
                ("large", 1, 3000),
                ("txn", 2, 70),
                ("appended", 1, 50),
                ("empty", 2, 1),
                ("compacted", 1, 1500),
                ("deleted", 1, 20),
            ]
        )
    )
    chosen = draw(st.lists(st.integers(0, partitions - 1), min_size=1, unique=True))
    options = draw(
        st.sampled_from(
            [
                {"subscribe": topic},
                {"subscribe": f"{topic},appended"},
                {"subscribePattern": f"^{topic}$"},
                {"assign": json.dumps({topic: chosen})},
            ]
        )
    )
    numbers = range(partitions) if "assign" not in options else chosen
    if "appended," not in str(options) and ",appended" not in str(options):
        times = st.integers(log_contents.TIME_MS - 1000, log_contents.TIME_MS + 1000 * end)
        low = {str(number): draw(st.integers(0, end // 2)) for number in numbers}
        high = {str(number): draw(st.integers(end // 2, end)) for number in numbers}
        # Offsets beyond the end are an error of both: `failOnDataLoss=false` takes what is there.
        if topic != "empty":
            match draw(st.sampled_from(["all", "offsets", "times"])):
                case "offsets":
                    options |= {
                        "startingOffsets": json.dumps({topic: low}),
                        "endingOffsets": json.dumps({topic: high}),
                        "failOnDataLoss": "false",
                    }
                case "times":
                    options |= {"startingTimestamp": str(draw(times)), "startingOffsetsByTimestampStrategy": "latest"}
    for name, values in {"minPartitions": (2, 7), "maxRecordsPerPartition": (3, 400), "maxTasks": (1, 3)}.items():
        if draw(st.booleans()) and (name != "maxRecordsPerPartition" or topic != "large"):
            options[name] = str(draw(st.integers(max(values[0], end // 8 if "Records" in name else 0), values[1])))
    if draw(st.booleans()):
        options["includeHeaders"] = "true"
    if draw(st.booleans()):
        options |= COMMITTED
    condition = draw(st.sampled_from(["true", "partition = 0", "offset >= 20 AND offset < 200", "key IS NULL"]))
    return options, condition


@QUICK
@given(read=reads())
def test_rows_from_files_equal_rows_through_the_broker(spark, written, read):
    options, condition = read
    expected = rows(through_broker(spark, written.servers, **options).where(condition))
    assert rows(from_files(spark, written.log_dir, **options).where(condition)) == expected


@pytest.mark.parametrize("isolation", [{}, COMMITTED], ids=["uncommitted", "committed"])
def test_all_rows_of_all_topics_equal_those_through_the_broker(spark, written, isolation):
    options = {"subscribe": ",".join(written.topics), "includeHeaders": "true"} | isolation
    expected = rows(through_broker(spark, written.servers, **options))
    assert len(expected) > 4500
    assert rows(from_files(spark, written.log_dir, **options)) == expected
    of = Counter(row[2] for row in expected)
    assert of["deleted"] == 20 - log_contents.DELETED
    assert 60 <= of["compacted"] < log_contents.COMPACTED_RECORDS // 2


def test_rows_are_the_same_after_the_broker_was_killed(spark, written, tmp_path):
    """The last test that needs the broker."""
    options = {"subscribe": ",".join(written.topics), "includeHeaders": "true"}
    expected = {name: rows(through_broker(spark, written.servers, **options | isolation))
                for name, isolation in (("all", {}), ("committed", COMMITTED))}  # fmt: skip
    written.broker.kill()
    before = {path: path.read_bytes() for path in written.log_dir.rglob("*") if path.is_file()}
    assert rows(from_files(spark, written.log_dir, **options)) == expected["all"]
    assert rows(from_files(spark, written.log_dir, **options, **COMMITTED)) == expected["committed"]
    assert {path: path.read_bytes() for path in written.log_dir.rglob("*") if path.is_file()} == before
    torn = shutil.copytree(written.log_dir, tmp_path / "torn")
    with open(sorted((torn / "large-0").glob("*.log"))[-1], "ab") as log:
        log.write(b"\0" * 5000)
    for index in (torn / "codecs-0").glob("*index"):
        index.write_bytes(b"\1" * 77)
    for index in (torn / "txn-0").glob("*index"):
        index.unlink()
    assert rows(from_files(spark, torn, **options)) == expected["all"]
    assert rows(from_files(spark, torn, **options, **COMMITTED)) == expected["committed"]


def test_example_of_the_page_copies_a_topic_into_a_new_cluster(spark, kafka, tmp_path, capsys):
    make_directory(tmp_path)
    if "flights" in {topic.name for topic in kafka.admin.list_topics()}:  # an earlier test has named it
        kafka.admin.delete_topics(["flights"])
    kafka.admin.create_topics([NewTopic("flights", 1)])
    section = PAGE.read_text(encoding="utf-8").partition("## A broker is gone, the disks are there")[2]
    [code] = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    assert "/backup/broker-1,/backup/broker-2" in code
    code = code.replace("/backup/broker-1,/backup/broker-2", str(tmp_path)).replace("localhost:9092", kafka.servers)
    exec(compile(code, str(PAGE), "exec"), {"spark": spark})
    assert f"|        0|  {RECORDS}|" in capsys.readouterr().out
    assert [record.value for record in kafka.records("flights")] == [
        row.value for row in from_files(spark, tmp_path, subscribe="flights").orderBy("offset").collect()
    ]


def test_messages_of_old_formats_are_read(spark, tmp_path):
    names = [f"{kind}.{codec}" for kind in KINDS for codec in OLD_CODECS]
    with EmbeddedBroker(data_dir=tmp_path) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1) for name in names])
    for name in names:
        put_old_segment(tmp_path / f"{name}-0", vector(*name.split(".")))
    options = {"subscribe": ",".join(names)}
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        expected = rows(through_broker(spark, broker.bootstrap_servers, **options))
    assert len(expected) == 24 * len(names)
    assert rows(from_files(spark, tmp_path, **options)) == expected


@pytest.fixture
def s3_directory(tmp_path: Path) -> Iterator[str]:
    """A log directory behind an S3 endpoint."""
    make_directory(tmp_path / BUCKET / "backup" / "node-1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, tmp_path))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    port = server.server_address[1]
    yield f"s3://key:secret@{BUCKET}/backup/node-*?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_tasks_read_an_object_store(spark, tmp_path, s3_directory):
    options = {"subscribe": "flights", "includeHeaders": "true", "minPartitions": "3"}
    local = rows(from_files(spark, tmp_path / BUCKET / "backup" / "node-1", **options))
    assert len(local) == RECORDS
    assert rows(from_files(spark, s3_directory, **options)) == local


def test_directories_and_options_that_do_not_fit_are_refused(spark, tmp_path):
    make_directory(tmp_path)
    for options, message in {
        (("kafka.bootstrap.servers", "localhost:1"),): "kafka.bootstrap.servers cannot be combined with logDirs",
        (("kafka.security.protocol", "SSL"),): "kafka.security.protocol cannot be combined with logDirs",
        (("commitOffsets", "true"),): "commitOffsets cannot be combined with logDirs",
        (("subscribe", "trains"),): "topic 'trains' is not in",
        (("logDirs", str(tmp_path / "flights-0")),): "it looks like the folder of one partition",
        (("logDirs", str(tmp_path / "nowhere")),): "is no directory",
        (("logDirs", str(tmp_path / "no*")),): "matches no directory",
    }.items():
        given = {"logDirs": str(tmp_path), "subscribe": "flights"} | dict(options)
        with pytest.raises(PySparkException, match=message):
            spark.read.format("kafkaraw").options(**given).load().count()
    given = {"logDirs": str(tmp_path), "subscribe": "flights"}
    with pytest.raises(PySparkException, match="logDirs is for batch reads"):
        spark.readStream.format("kafkaraw").options(**given).load().writeStream.format("noop").start(
            checkpointLocation=str(tmp_path / "checkpoint")
        ).awaitTermination()
    with pytest.raises(PySparkException, match="logDirs is for reading"):
        spark.range(1).selectExpr("CAST(id AS STRING) AS value").write.format("kafkaraw").options(**given).mode(
            "append"
        ).save()


def test_filters_select_the_same_rows_with_and_without_pushdown(spark, tmp_path):
    """Spark up to 4.3 would let a pushed filter change the rows of other scans and later queries of a DataFrame."""
    make_directory(tmp_path)
    name = "spark.sql.python.filterPushdown.enabled"
    conditions = (
        "offset < 40",
        "offset >= 90 AND partition = 0",
        "timestamp > TIMESTAMP '2000-01-01'",
        "partition = 7",
    )
    found = []
    for enabled in ("false", "true"):
        before = spark.conf.get(name, "false")
        spark.conf.set(name, enabled)
        try:
            frame = from_files(spark, tmp_path, subscribe="flights")
            parts = [frame.where(condition) for condition in conditions]
            both = parts[0].union(parts[1])
            found.append([rows(each) for each in (*parts, both, frame)])
        finally:
            spark.conf.set(name, before)
    assert found[0] == found[1]
    assert len(found[0][-1]) == RECORDS
    assert len(found[0][-2]) == len(found[0][0]) + len(found[0][1]) > 40


def test_a_damaged_batch_fails_the_query_or_is_skipped(spark, tmp_path):
    log = sorted(make_directory(tmp_path).glob("*.log"))[1]
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    with pytest.raises(PySparkException, match=rf"{log.name}: byte 0: checksum of the batch at offset 38"):
        from_files(spark, tmp_path, subscribe="flights").count()
    kept = from_files(spark, tmp_path, subscribe="flights", failOnDataLoss="false").select("offset").collect()
    offsets = {row.offset for row in kept}
    assert len(kept) == len(offsets) == RECORDS - 3
    assert not offsets & {38, 39, 40}

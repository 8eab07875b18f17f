"""The same queries with Spark's own connector and with ours: the same rows, the same offsets, the same failures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from bench.spark import peers
from kafkaraw.records import TopicPartition
from tests.java_options import QUICK_JVM
from tests.spark import same_queries
from tests.spark.kafka import Kafka
from tests.spark.needs import needs_read_limits
from tests.spark.same_queries import BATCHES, CORE, FAILURES, LOSSES, READY, STREAMS, Asked

pytestmark = pytest.mark.timeout(1200)  # the first run fetches the other connector and its Spark


def core(queries: Iterable[str]) -> list[ParameterSet]:
    """All of them; those that are not the core are soak."""
    return [pytest.param(name, marks=() if name in CORE else pytest.mark.soak) for name in queries]


@pytest.fixture(scope="module")
def outcomes(request, spark, kafka, tmp_path_factory) -> tuple[dict, dict]:
    """Ours and theirs, of the queries whose tests are run."""
    chosen = [item.callspec.params["name"] for item in request.session.items if item.path == request.path]
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("Spark's own connector needs Java and Maven")
    try:
        python, jars = peers.python(), [str(jar) for jar in peers.jars()]
    except peers.FetchError as error:
        pytest.skip(f"Spark's own connector cannot be fetched: {error}")
    topics = {"T": kafka.new_topic(partitions=2), "U": kafka.new_topic()}
    fill(kafka, topics)
    lossy = {name: kafka.new_topic() for name in chosen if name in LOSSES}
    for topic in lossy.values():
        kafka.produce(topic, range(10))
    # Beside a topic that goes there must be one that stays.
    subscribed = {name: f"{topic},{kafka.new_topic()}" for name, topic in lossy.items()}

    def asked(form: str) -> dict:
        folder = tmp_path_factory.mktemp("checkpoints")
        common = {"names": chosen, "checkpoints": str(folder), "topics": topics | subscribed}
        return common | {"format": form, "jars": jars, "servers": kafka.servers}

    environ = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
    environ["SPARK_SUBMIT_OPTS"] = " ".join(QUICK_JVM)
    command = [str(python), same_queries.__file__, json.dumps(asked("kafka"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=environ, **pipes) as process:  # theirs starts while ours run
        queries = Asked(spark, asked("kafkaraw"))
        ours = queries.outcomes()
        queries.first_runs()
        assert READY in (line.strip() for line in process.stdout)
        for name, topic in lossy.items():
            befall(kafka, topic, LOSSES[name][0])
        said, _ = process.communicate("\n", timeout=600)
    assert process.returncode == 0, said
    return ours | {"losses": queries.second_runs()}, json.loads(said.splitlines()[-1])


def fill(kafka: Kafka, topics: dict[str, str]) -> None:
    for number in range(40):
        at = {"partition": number % 2, "timestamp_ms": 1_000_000 + 50 * number}
        kafka.producer.send(topics["T"], b"%d" % number, b"k" if number % 3 else None, **at)
    for number in range(5):
        headers = [("a", b"%d" % number), ("a", None)]
        kafka.producer.send(topics["U"], b"%d" % number if number else None, headers=headers, timestamp_ms=2_000_000)
    kafka.producer.flush(30)


def befall(kafka: Kafka, topic: str, what: str) -> None:
    """See `LOSSES`."""
    how, _, number = what.rpartition(" ")
    if how == "deleted":
        kafka.produce(topic, range(10, 20))
        kafka.admin.delete_records({TopicPartition(topic, 0): int(number)})
    elif how == "made anew":
        kafka.remake_topic(topic)
        kafka.produce(topic, range(int(number)))
    else:
        kafka.admin.delete_topics([topic])


@pytest.mark.parametrize("name", core(BATCHES))
def test_batch_reads_have_the_same_rows(outcomes, name):
    ours, theirs = (each["batches"][name] for each in outcomes)
    assert ours == theirs
    assert ours or "too late" in name


@needs_read_limits
@pytest.mark.parametrize("name", core(STREAMS))
def test_streams_have_the_same_rows_in_batches_that_end_at_the_same_offsets(outcomes, name):
    ours, theirs = (each["streams"][name] for each in outcomes)
    assert ours == theirs
    assert len(ours["ends"]) >= 3 or "batches" not in name


@pytest.mark.parametrize("name", core(FAILURES))
def test_what_fails_with_one_fails_with_the_other_and_names_the_same_option(outcomes, name):
    option, their_words = FAILURES[name][:2]
    ours, theirs = (each["failures"][name] for each in outcomes)
    assert option in ours
    assert their_words in theirs
    assert "Py4J" not in ours


@pytest.mark.parametrize("name", core(LOSSES))
def test_what_is_lost_between_two_runs_ends_both_streams_or_neither_and_they_go_on_with_the_same_rows(outcomes, name):
    ours, theirs = (each["losses"][name] for each in outcomes)
    assert ours["offsets"] == theirs["offsets"]
    gone = LOSSES[name][0] == "gone"
    if gone:  # ends theirs with Kafka's own error, whatever failOnDataLoss says
        assert "UnknownTopicOrPartitionException" in theirs["error"]
    for error in (ours["error"], *(() if gone else (theirs["error"],))):
        assert bool(error) == LOSSES[name][1], error
        assert "failOnDataLoss" in error or not error

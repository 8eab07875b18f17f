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
from tests.spark import same_queries
from tests.spark.same_queries import BATCHES, CORE, FAILURES, STREAMS, Asked

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
    two, one = kafka.new_topic(partitions=2), kafka.new_topic()
    for number in range(40):
        at = {"partition": number % 2, "timestamp_ms": 1_000_000 + 50 * number}
        kafka.producer.send(two, b"%d" % number, b"k" if number % 3 else None, **at)
    for number in range(5):
        headers = [("a", b"%d" % number), ("a", None)]
        kafka.producer.send(one, b"%d" % number if number else None, headers=headers, timestamp_ms=2_000_000)
    kafka.producer.flush(30)

    def asked(form: str) -> dict:
        folder = tmp_path_factory.mktemp("checkpoints")
        topics = {"T": two, "U": one}
        common = {"names": chosen, "checkpoints": str(folder)}
        return common | {"format": form, "jars": jars, "servers": kafka.servers, "topics": topics}

    environ = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
    command = [str(python), same_queries.__file__, json.dumps(asked("kafka"))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
    ) as process:  # theirs starts while ours run
        ours = Asked(spark, asked("kafkaraw")).outcomes()
        said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return ours, json.loads(said.splitlines()[-1])


@pytest.mark.parametrize("name", core(BATCHES))
def test_batch_reads_have_the_same_rows(outcomes, name):
    ours, theirs = (each["batches"][name] for each in outcomes)
    assert ours == theirs
    assert ours or "too late" in name


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

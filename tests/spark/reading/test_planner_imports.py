"""What a streaming query's process on the driver imports: each query starts one, and waits for its first answer."""

from __future__ import annotations

import json
import subprocess
import sys

MODULES_MAX = 190
"""kafkaraw's; 284 when the process imported the consumer and the admin client."""

UNUSED = (
    "kafkaraw.broker.",
    "kafkaraw.client.blocking.",
    "kafkaraw.client.consumer.",
    "kafkaraw.client.credentials.choice.",
    "kafkaraw.client.producer.",
    "kafkaraw.client.admin.client.",
    "kafkaraw.spark.reading.task.",
    "kafkaraw.spark.sink.",
    "kafkaraw.spark.writing.",
    "numpy.",
    "pandas.",
)

QUERY = """
import json, sys
from pyspark.sql.types import StructType
from kafkaraw.spark.source import KafkaDataSource
from kafkaraw.spark.data_source_api import ReadAllAvailable
from kafkaraw.spark.versions import features

servers, topic = sys.argv[1:]
source = KafkaDataSource({"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"})
reader = source.streamReader(StructType().add("value", "binary"))
start = reader.initialOffset()
asked = (start, ReadAllAvailable()) if features().read_limits else ()
assert reader.latestOffset(*asked) == start
reader.stop()
print(json.dumps(sorted(sys.modules)))
"""


def test_planning_a_query_imports_what_it_needs_only(kafka):
    command = [sys.executable, "-c", QUERY, kafka.servers, kafka.new_topic()]
    imported = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    ours = [name for name in imported if name.partition(".")[0] == "kafkaraw"]
    assert [name for name in imported if f"{name}.".startswith(UNUSED)] == []
    assert len(ours) <= MODULES_MAX

"""Columns of Protobuf are typed as Spark's from_protobuf types them, and have its values.

Maven has no spark-protobuf, so the jars are those of a build of its sources: KAFKARAW_SPARK_PROTOBUF_JARS is the folder
with them, and with protobuf-java and protobuf-java-util.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("KAFKARAW_SPARK_PROTOBUF_JARS", "")


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.skipif(not FOLDER, reason="KAFKARAW_SPARK_PROTOBUF_JARS is not set: Maven has no spark-protobuf")
def test_types_and_values_equal_those_of_from_protobuf() -> None:
    jars = ",".join(map(str, sorted(Path(FOLDER).glob("*.jar"))))
    command = [sys.executable, "-W", "ignore", "-m", "tests.interop.from_protobuf", jars, "0", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["seeds"] == 60
    assert found["differences"] == []

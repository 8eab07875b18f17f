"""Columns of Avro are typed as Spark's from_avro types them, and have its values."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ARTIFACT = "org.apache.spark:spark-avro_2.13:4.1.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkaraw" / "spark-avro-4.1.1"


@pytest.fixture(scope="module")
def spark_avro() -> Path:
    """The jar of spark-avro, fetched once per user. That of 4.1.1 works with Spark 4.1 to 4.3."""
    if not list(CACHE.glob("*.jar")):
        if shutil.which("mvn") is None:
            pytest.skip("spark-avro is fetched by Maven, and there is no `mvn` on the path")
        command = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={CACHE}"]
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if fetched.returncode:
            pytest.skip(f"{ARTIFACT} cannot be fetched: {fetched.stdout[-300:]}")
    return next(CACHE.glob("*.jar"))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_types_and_values_equal_those_of_from_avro(spark_avro: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.interop.from_avro", str(spark_avro), "0", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["seeds"] == 60
    assert found["differences"] == []

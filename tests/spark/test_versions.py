"""What each version of Spark offers, and the error for one that is too old."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark import versions


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.3.0", (4, 3)),
        ("4.0.2-amzn-0", (4, 0)),
        ("4.1.0.dev1", (4, 1)),
        ("5.0.0", (5, 0)),
        ("unknown", (4, 2)),
    ],
)
def test_a_version_is_major_and_minor(text, version):
    assert versions.parse_version(text) == version


def test_later_versions_have_the_features_of_earlier_ones():
    assert versions.features((4, 3)) == versions.features((5, 0)) == versions.features((4, 2))
    assert versions.features((4, 1)).stream_arrow_writer
    assert not versions.features((4, 1)).read_limits
    assert not versions.features((4, 0)).stream_arrow_writer


def test_a_version_that_is_too_old_is_named_with_the_one_that_is_needed():
    with pytest.raises(ConfigError, match=r"kafkaraw needs Spark 4\.0 or newer, this is 3\.5"):
        versions.features((3, 5))


def test_a_session_and_the_source_refuse_a_version_that_is_too_old():
    code = """
import sys, types
sys.modules["pyspark.version"] = types.SimpleNamespace(__version__="3.5.8")
import kafkaraw.spark
for ask in (kafkaraw.spark.session, kafkaraw.spark.recommended_conf, lambda: __import__("kafkaraw.spark.source")):
    try:
        ask()
    except Exception as error:
        print(type(error).__name__, str(error).partition(" (")[0])
import pyspark_kafkaraw
print(hasattr(pyspark_kafkaraw, "DefaultSource"))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    refused = "SparkVersionError kafkaraw needs Spark 4.0 or newer, this is 3.5.8\n"
    assert shown == refused * 3 + "False\n"

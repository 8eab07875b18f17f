"""What each version of Spark offers to a data source in Python; the one place that knows.

The table is `_SINCE`. `running()` is the version that this process uses, `features()` what it offers. The classes of
Spark that belong to it, or what stands in for them, are in `data_source_api.py`.

Must not import pyspark before it is asked for the running version.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

from kafkaraw.errors import ConfigError

SPARK_MIN: Final = (4, 0)
"""The oldest version that the format works with: the first with data sources in Python that are read as Arrow."""

_NEWEST: Final = (4, 2)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


class SparkVersionError(ConfigError, ImportError):
    """The running version of Spark is too old.

    An ImportError, too: `pyspark_kafkaraw`, which Spark imports to find data sources, passes over it.
    """


@dataclass(frozen=True)
class SparkFeatures:
    """What a version of Spark offers.

    Attributes:
        read_limits: Spark tells a streaming reader the start of the next micro-batch and a limit (`ReadLimit`), asks it
            for the latest offsets, and lets it end at a target (`SupportsTriggerAvailableNow`); SPARK-55304.
        stream_arrow_writer: Spark has `DataSourceStreamArrowWriter`.
        schema_takes_timezone: `to_arrow_schema` takes the name of a timezone; before, UTC goes without saying.
        checkpoint_package: the Java package of the checkpoint file managers.
        pipelines: Spark Declarative Pipelines work with this package.
    """

    read_limits: bool
    stream_arrow_writer: bool
    schema_takes_timezone: bool
    checkpoint_package: str
    pipelines: bool


_STREAMING: Final = "org.apache.spark.sql.execution.streaming"
_SINCE: Final = {
    (4, 2): SparkFeatures(True, True, True, f"{_STREAMING}.checkpointing", True),
    (4, 1): SparkFeatures(False, True, False, f"{_STREAMING}.checkpointing", False),
    (4, 0): SparkFeatures(False, False, False, _STREAMING, False),
}
"""From the newest to the oldest."""


def features(version: tuple[int, int] | None = None) -> SparkFeatures:
    """What a version of Spark offers.

    Args:
        version: major and minor version; the running one when None.

    Raises:
        SparkVersionError: the version is too old.
    """
    asked = running() if version is None else version
    for since, offered in _SINCE.items():
        if asked >= since:
            return offered
    raise too_old(".".join(map(str, asked)))


@functools.cache
def running() -> tuple[int, int]:
    """Major and minor version of the pyspark that is installed; the newest known one where there is none.

    Raises:
        SparkVersionError: the version is too old.
    """
    try:
        from pyspark.version import __version__ as text
    except ImportError:
        return _NEWEST
    version = parse_version(text)
    if version < SPARK_MIN:
        raise too_old(text)
    return version


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor version of a text such as "4.0.2-amzn-0"; the newest known one if the text has none."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else _NEWEST


def too_old(text: str) -> SparkVersionError:
    """The error for a version that is too old."""
    least = ".".join(map(str, SPARK_MIN))
    return SparkVersionError(
        f"kafkaraw needs Spark {least} or newer, this is {text} (older versions have no data sources in Python): "
        f'pip install "pyspark>={least}", or choose a newer runtime of your platform'
    )

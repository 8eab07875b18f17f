"""The features that each version of Spark has for Python data sources; no other module knows versions.

The table is `_SINCE`. `running()` returns the version that this process uses, `features()` its features. The classes of
Spark that belong to them, or their replacements, are in `data_source_api.py`.

Must not import pyspark before `running()` is called.
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

    It is an ImportError, too: `pyspark_kafkaraw`, which Spark imports to find data sources, ignores it.
    """


@dataclass(frozen=True)
class SparkFeatures:
    """The features of a version of Spark.

    Attributes:
        read_limits: Spark passes a streaming reader the start of the next micro-batch and a limit (`ReadLimit`), asks
            it for the latest offsets, and lets it end at a target (`SupportsTriggerAvailableNow`); SPARK-55304.
        stream_arrow_writer: Spark has `DataSourceStreamArrowWriter`.
        schema_takes_timezone: `to_arrow_schema` takes the name of a timezone; older versions always use UTC.
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
    """Return the features of a version of Spark.

    Args:
        version: major and minor version; None for the running one.

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
    """Return major and minor version of the installed pyspark; the newest known one if there is none.

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
    """Return major and minor version of a text such as "4.0.2-amzn-0"; the newest known one if the text has none."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else _NEWEST


def too_old(text: str) -> SparkVersionError:
    """Return the error for a version that is too old."""
    least = ".".join(map(str, SPARK_MIN))
    return SparkVersionError(
        f"kafkaraw needs Spark {least} or newer, this is {text} (older versions have no data sources in Python): "
        f'pip install "pyspark>={least}", or choose a newer runtime of your platform'
    )

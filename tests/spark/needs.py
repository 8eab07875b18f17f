"""Marks for tests of what not every supported version of Spark offers."""

from __future__ import annotations

import pytest

from kafkaraw.spark.versions import features, running

_VERSION = ".".join(map(str, running()))

needs_read_limits = pytest.mark.skipif(
    not features().read_limits,
    reason=f"Spark {_VERSION} asks a Python source for the latest offset without a start, a limit or the trigger",
)
needs_real_time_trigger = pytest.mark.skipif(running() < (4, 2), reason=f"Spark {_VERSION} has no realTime in Python")
needs_filters = pytest.mark.skipif(running() < (4, 1), reason=f"Spark {_VERSION} offers no filters to Python sources")
needs_partial_inserts = pytest.mark.skipif(
    running() < (4, 1), reason=f"Spark {_VERSION} wants all columns of a Python source in INSERT INTO"
)

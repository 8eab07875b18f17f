"""Pipelines: Spark Declarative Pipelines files, checked, run and supervised, with Kafka topics and expectations.

A pipeline is a folder with a `spark-pipeline.yml` and files that define datasets with Spark's own names
(`from pyspark import pipelines as dp`). `model.py` has the definitions as data, `evaluation.py` calls their functions.
Importing this package imports neither pyspark nor pyarrow. Start at `model.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.pipelines.envelopes import apply_debezium, debezium
    from kafkaraw.pipelines.expectations import (
        expect,
        expect_all,
        expect_all_or_drop,
        expect_all_or_fail,
        expect_all_or_quarantine,
        expect_or_drop,
        expect_or_fail,
        expect_or_quarantine,
        expect_unique,
        expect_unique_or_drop,
        expect_unique_or_fail,
    )
    from kafkaraw.pipelines.latest import latest_by_key
    from kafkaraw.pipelines.mapping import map_records
    from kafkaraw.pipelines.running.contents import read_tables
    from kafkaraw.pipelines.topics import create_topic, to_topic, topic

__all__ = [
    "apply_debezium",
    "create_topic",
    "debezium",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_all_or_quarantine",
    "expect_or_drop",
    "expect_or_fail",
    "expect_or_quarantine",
    "expect_unique",
    "expect_unique_or_drop",
    "expect_unique_or_fail",
    "latest_by_key",
    "map_records",
    "read_tables",
    "to_topic",
    "topic",
]

_HOMES = {name: "expectations" if name.startswith("expect") else "topics" for name in __all__} | {
    "apply_debezium": "envelopes",
    "debezium": "envelopes",
    "latest_by_key": "latest",
    "map_records": "mapping",
    "read_tables": "running.contents",
}


def __getattr__(name: str) -> object:
    """Import a name when it is used."""
    if name not in _HOMES:
        from kafkaraw.pipelines.model import did_you_mean

        hint = "" if name.startswith("_") else did_you_mean(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

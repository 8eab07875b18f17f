"""Tests of pipelines: given records and rows, expected rows, dead letters and counts.

Nothing needs Kafka, and event time is under control.
Start at `PipelineTest`. `yaml_tests.py` runs tests that are written in YAML (`kafkaraw pipelines test`).
"""

from __future__ import annotations

from kafkaraw.pipelines.testing.differences import Comparison, compare
from kafkaraw.pipelines.testing.flows import FlowFailedError
from kafkaraw.pipelines.testing.given import Record
from kafkaraw.pipelines.testing.pipeline_test import DeadLetter, PipelineTest, load, session

__all__ = ["Comparison", "DeadLetter", "FlowFailedError", "PipelineTest", "Record", "compare", "load", "session"]

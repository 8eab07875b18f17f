"""Pipelines: Spark Declarative Pipelines files, checked, run and supervised, with Kafka topics and expectations.

A pipeline is a folder with a `spark-pipeline.yml` and files that define datasets with Spark's own names
(`from pyspark import pipelines as dp`). `model.py` has the definitions as data, `evaluation.py` calls their functions.
Importing this package imports neither pyspark nor pyarrow. Start at `model.py`.
"""

from __future__ import annotations

"""Objects that Spark pickles to executors explain a missing or another kafkaraw there."""

from __future__ import annotations

import pickle
import socket
import sys

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkaraw.spark import shipping
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.sink import KafkaStreamWriter
from kafkaraw.spark.source import KafkaBatchReader, KafkaDataSource

SCHEMA = StructType([StructField("value", BinaryType())])
OPTIONS = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "topic": "t"}


def shipped() -> list[object]:
    parsed = parse_options(OPTIONS)
    return [KafkaDataSource(OPTIONS), KafkaBatchReader(parsed, SCHEMA), KafkaStreamWriter(parsed, SCHEMA)]


@pytest.mark.parametrize("pickled_by", [pickle, cloudpickle])
def test_objects_are_the_same_behind_the_pickle(pickled_by):
    for thing in shipped():
        again = pickle.loads(pickled_by.dumps(thing))
        assert type(again) is type(thing)
        assert repr(vars(again)) == repr(vars(thing))


def test_executor_without_kafkaraw_names_its_host_python_and_the_settings(monkeypatch):
    """The code that says so must travel in the pickle: the executor cannot import that, either."""
    pickled = cloudpickle.dumps(shipped()[1])
    for module in ("kafkaraw.spark.source", "kafkaraw.spark.shipping"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RuntimeError, match="kafkaraw cannot be used on the host ") as caught:
        pickle.loads(pickled)
    for text in (socket.gethostname(), sys.executable, "kafkaraw spark pack", "spark.archives", "PYSPARK_PYTHON"):
        assert text in str(caught.value)


def test_executor_with_another_version_of_kafkaraw_is_refused(monkeypatch):
    monkeypatch.setattr(shipping, "__version__", "99.1")
    pickled = cloudpickle.dumps(shipped()[1])
    with pytest.raises(RuntimeError, match=r"the driver has kafkaraw 99\.1, and the host .* has 0\..*must be equal"):
        pickle.loads(pickled)

"""Definitions that are wrong, as their authors write them: one message each, with file, line and remedy."""

from __future__ import annotations

import pytest

from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.model import PipelineError, PipelineErrors
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.specification import read_specification

HEAD = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from kafkaraw import pipelines as kp

@dp.temporary_view
def orders():
    return kp.topic("orders", value="json", schema="id LONG, customer STRING, amount DOUBLE, at TIMESTAMP")

"""
LINES = HEAD.count("\n")


@pytest.fixture
def message(write):
    """Return the only problem of a definition, with lines counted from the end of HEAD."""

    def message(text: str, spark=None) -> str:
        specification = read_specification(write({"transformations/a.py": HEAD + text}))
        with pytest.raises(PipelineError) as caught:
            pipeline = load_pipeline(specification, spark)
            planned(pipeline, spark)
        assert not isinstance(caught.value, PipelineErrors)
        assert caught.value.location.file == "transformations/a.py"
        name = "" if caught.value.dataset is None else f"{caught.value.dataset}: "
        return f"{caught.value.location.line - LINES}: {name}{caught.value.what}"

    return message


WITHOUT_SPARK = {
    "a file that raises": ("\nraise ValueError('no rates')", "2: the file raised ValueError: no rates"),
    "a name that does not exist": ("x = ordres", "1: the file raised NameError: name 'ordres' is not defined"),
    "a file that does not compile": ("def t(:", "1: SyntaxError: invalid syntax"),
    "an import that is missing": (
        "import no_such_module",
        "1: the file raised ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "an unknown argument of Spark's decorator": (
        "@dp.table(nmae='t')\ndef t(): ...",
        "1: the file raised TypeError: table() got an unexpected keyword argument 'nmae'",
    ),
    "an unknown argument of to_topic": (
        "@kp.to_topic('t', kye='id')\ndef t(): ...",
        "1: the file raised TypeError: to_topic() got an unexpected keyword argument 'kye'",
    ),
    "an unknown name of kafkaraw.pipelines": (
        "@kp.expect_or_quarantien('x', 'y')\ndef t(): ...",
        "1: the file raised AttributeError: module 'kafkaraw.pipelines' has no attribute 'expect_or_quarantien'; did "
        "you mean 'expect_or_quarantine'?",
    ),
    "an unknown output mode": (
        "@kp.to_topic('t', output_mode='upsert')\ndef t(): ...",
        "1: topic 't': output_mode='upsert' is not one of append, update, complete",
    ),
    "an unknown format": (
        "@kp.to_topic('t', value='jsn')\ndef t(): ...",
        "1: topic 't': value='jsn' is not one of bytes, string, json, avro, protobuf, json-schema; did you mean "
        "'json'?",
    ),
    "an expectation that is a Python value": (
        "@dp.table\n@kp.expect('x', 1 > 0)\ndef t(): ...",
        "2: expectation 'x': the condition is the Python value True, which does not depend on a row: give SQL, "
        '"amount > 0", or a Column, F.col("amount") > 0',
    ),
    "an expectation above the decorator of the table": (
        "@kp.expect('x', 'id > 0')\n@dp.table\ndef t(): ...",
        "1: the decorators of expectations were applied to NoneType, what a decorator of dp has returned: put them "
        "below it, directly above the function",
    ),
    "a sink that does not exist": (
        "dp.create_sink('loud', 'kafkaraw', {})\n@dp.append_flow(target='lod')\ndef f(): ...",
        "2: flow 'f' writes to 'lod', which no file defines; did you mean 'loud'? Define it with "
        'dp.create_streaming_table("lod"), dp.create_sink or kp.create_topic',
    ),
    "a topic that is read outside of a function": (
        "rows = kp.topic('orders')",
        "1: kafkaraw.pipelines reads topics only within the function of a dataset or flow, while `kafkaraw pipelines` "
        "evaluates it: move the call into a function under @dp.table, @dp.temporary_view, @dp.append_flow or "
        "@kp.to_topic, and run the pipeline with `kafkaraw pipelines run`",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WITHOUT_SPARK.values(), ids=WITHOUT_SPARK)
def test_file_that_is_wrong_is_an_error_of_one_line(message, text, expected):
    assert message(f"{text}\n") == expected


WITH_SPARK = {
    "an expectation that is not boolean": (
        "@dp.table\n@kp.expect_or_drop('amount', 'amount + 1')\ndef t(): return spark.readStream.table('orders')",
        "2: t: expectation 'amount'",
    ),
    "an expectation on a column that does not exist": (
        "@dp.table\n@kp.expect('amount', 'amunt > 0')\ndef t(): return spark.readStream.table('orders')",
        "2: t: expectation 'amount'",
    ),
    "a quarantine without the record": (
        "@dp.table\n@kp.expect_or_quarantine('x', 'id > 0')\n"
        "def t(): return spark.readStream.table('orders').select('id')",
        "2: t: expectation 'x'",
    ),
    "an input that does not exist": (
        "@dp.table\ndef t(): return spark.readStream.table('ordrs')",
        "2: t: reads 'ordrs', which neither the pipeline nor the catalog has; did you mean 'orders'?",
    ),
    "a view that reads itself": (
        "@dp.temporary_view\ndef a(): return spark.readStream.table('b')\n"
        "@dp.temporary_view\ndef b(): return spark.readStream.table('a')\n",
        "1: a: is part of a cycle: 'a' reads 'b' reads 'a'.",
    ),
    "a watermark that is missing": (
        "@kp.to_topic('counts', key='customer')\n"
        "def t(): return spark.readStream.table('orders').groupBy('customer').count()",
        "1: counts: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION]",
    ),
    "an option of a topic that does not exist": (
        "@dp.table\ndef t(): return kp.topic('a', options={'maxOffsetsPerTriger': '1'})",
        "2: t: topic 'a': unknown option 'maxOffsetsPerTriger' of format kafkaraw; did you mean maxOffsetsPerTrigger?",
    ),
    "an option of a target that does not exist": (
        "@kp.to_topic('t', options={'exactlyOnec': 'true'})\ndef t(): return spark.readStream.table('orders')",
        "1: t: topic 't': unknown option 'exactlyOnec' of format kafkaraw; did you mean exactlyOnce?",
    ),
    "JSON without columns": (
        "@dp.table\ndef t(): return kp.topic('a', value='json')",
        '2: t: topic \'a\': value="json" needs the columns: schema="id LONG, amount DOUBLE"',
    ),
    "columns that are none": (
        "@dp.table\ndef t(): return kp.topic('a', value='json', schema='id LNOG')",
        "2: t: topic 'a': schema='id LNOG':",
    ),
    "a stream that is read as a batch": (
        "@dp.materialized_view\ndef t(): return spark.read.table('orders').groupBy('id').count()",
        "2: t: view 'orders' is a stream and was read as a batch: read it with spark.readStream.table",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WITH_SPARK.values(), ids=WITH_SPARK)
def test_query_that_is_wrong_is_an_error_of_one_line(message, spark, text, expected):
    found = message(f"{text}\n", spark)
    assert found.startswith(expected), found
    assert "\n" not in found


def test_pipeline_without_brokers_names_the_setting(write, spark):
    specification = "name: sales\nstorage: storage\nlibraries: [{glob: {include: transformations/**}}]\n"
    text = f"{HEAD}@dp.table\ndef t(): return spark.readStream.table('orders')\n"
    pipeline = load_pipeline(read_specification(write({"transformations/a.py": text}, specification)), spark)
    with pytest.raises(PipelineError) as caught:
        planned(pipeline, spark)
    assert str(caught.value) == (
        "transformations/a.py:7: dataset 'orders': topic 'orders': no brokers are given: set "
        "`kafkaraw.kafka.bootstrap.servers: HOST:PORT` in the configuration of spark-pipeline.yml"
    )

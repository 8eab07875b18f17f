"""The options of tables in the catalog: what Spark adds is told apart, and what queries of the table take of them."""

from __future__ import annotations

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options import tables
from kafkaraw.spark.reading.arrow import schema_text, spark_schema
from kafkaraw.spark.source import KafkaDataSource
from tests.spark.options.parsed import BASE
from tests.spark.spark_types import struct

# As Spark passes `OPTIONS (kafka.bootstrap.servers, subscribe)` and `TBLPROPERTIES (owned.by)`.
OF_A_TABLE = {
    "provider": "kafkaraw",
    "owner": "me",
    "owned.by": "us",
    "subscribe": "t",
    "option.subscribe": "t",
    "kafka.bootstrap.servers": "localhost:9092",
    "option.kafka.bootstrap.servers": "localhost:9092",
}
GIVEN = BASE | {"subscribe": "t"}


def schema_of(options: dict[str, str]):
    return KafkaDataSource(options).schema()


def test_the_options_of_a_table_are_those_with_the_prefix():
    assert tables.given(OF_A_TABLE) == GIVEN
    assert tables.given({"provider": "kafkaraw", "Owner": "me"}) == {}
    assert tables.given(GIVEN) == GIVEN


def test_a_reader_gets_the_options_of_its_table_from_the_schema():
    schema = schema_of(OF_A_TABLE)
    assert tables.completed({}, schema) == GIVEN
    assert tables.completed({"Subscribe": "u", "minPartitions": "2"}, schema) == BASE | {
        "Subscribe": "u",
        "minPartitions": "2",
    }
    assert tables.completed(BASE | {"assign": "x"}, schema) == BASE | {"assign": "x"}
    assert tables.completed({"subscribe": "u"}, struct("value binary")) == {"subscribe": "u"}


def test_a_table_without_options_keeps_none():
    assert tables.completed({}, schema_of({"provider": "kafkaraw", "owner": "me"})) == {}


def test_a_table_may_leave_the_brokers_to_its_queries():
    schema = schema_of({"provider": "kafkaraw", "option.includeHeaders": "true", "includeheaders": "true"})
    assert schema.names[-1] == "headers"
    assert tables.completed({"subscribe": "t"}, schema) == {"subscribe": "t", "includeHeaders": "true"}


@pytest.mark.parametrize("options", [{"option.subscripe": "t"}, {"option.startingOffsets": "x"}])
def test_wrong_options_are_refused_when_the_table_is_created(options):
    with pytest.raises(ConfigError, match=r"unknown option 'subscripe'|startingOffsets"):
        schema_of({"provider": "kafkaraw"} | options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kafka.ssl.keystore.key", "-----BEGIN PRIVATE KEY-----"),
        ("kafka.ssl.truststore.password", "x"),
        ("kafka.sasl.jaas.config", 'PlainLoginModule required username="u" password="x";'),
        ("kafka.sasl.oauthbearer.client.credentials.client.secret", "x"),
    ],
)
def test_a_table_keeps_no_secrets(name, text):
    with pytest.raises(ConfigError, match=f"a table keeps no secrets: leave {name} out"):
        schema_of({"provider": "kafkaraw", f"option.{name}": text})


def test_the_schema_of_a_table_has_the_columns_that_the_text_names():
    for include_headers in (False, True):
        columns = ", ".join(
            f"{each.name} {each.dataType.simpleString()}" for each in spark_schema(include_headers=include_headers)
        )
        assert columns == schema_text(include_headers=include_headers)


def test_a_stream_whose_options_are_wrong_says_so_when_it_is_asked_for_offsets():
    reader = KafkaDataSource({"subscribe": "t"}).streamReader(struct("value binary"))
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        reader.initialOffset()

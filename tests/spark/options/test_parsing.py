"""Options are checked when the DataFrame is made, with messages that say what to write instead."""

from __future__ import annotations

import logging
import pickle
import ssl

import pytest
import trustme

from kafkaraw.client.network import security
from kafkaraw.errors import ConfigError
from kafkaraw.net.tls import client_context
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.offsets import EARLIEST, LATEST
from kafkaraw.spark.options.parsing import check_batch_read, check_read, check_stream_read, parse_options
from kafkaraw.spark.options.positions import TimestampPosition
from kafkaraw.spark.options.refusals import is_bare_table

BASE = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(**options: str):
    return parse_options(BASE | {name.replace("__", "."): value for name, value in options.items()})


def refusal(options: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as error:
        parse_options(BASE | options)
    return str(error.value)


def test_names_are_read_in_any_case():
    options = parse_options(
        {
            "KAFKA.bootstrap.SERVERS": "h:1",
            "SUBSCRIBE": "a, b,a",
            "startingoffsets": "earliest",
            "MaxOffsetsPerTrigger": "10",
            "minpartitions": "4",
            "includeHEADERS": "True",
            "failondataloss": "false",
            "kafkaconsumer.polltimeoutms": "1000",
        }
    )
    assert options.subscribe == ("a", "b")
    assert options.topics == ["a", "b"]
    assert options.starting is not None
    assert options.starting.everywhere == EARLIEST
    assert (options.rows_per_trigger_max, options.partitions_min, options.poll_timeout_ms) == (10, 4, 1000)
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert options.client == {"bootstrap_servers": "h:1"}


def test_partitions_can_be_assigned():
    options = parse(assign='{"b":[1,0],"a":[2]}')
    assert options.assign == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))
    assert options.topics == ["a", "b"]


def test_checked_options_travel_to_the_workers():
    options = parse(subscribe="t", startingOffsets='{"t":{"0":5}}', kafka__linger__ms="7")
    assert pickle.loads(pickle.dumps(options)) == options


def test_client_settings_are_named_as_in_java():
    options = parse(kafka__linger__ms="7", kafka__compression__type="zstd", kafka__fetch__max__bytes="1000000")
    assert (
        options.client.items() >= {"linger_ms": "7", "compression_type": "zstd", "fetch_max_bytes": "1000000"}.items()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribee": "t"}, "unknown option 'subscribee' of format kafkaraw; did you mean subscribe?"),
        ({"startingOffset": "t"}, "did you mean startingOffsets?"),
        ({"topics": "t"}, "did you mean topic?"),
        ({"bootstrap.servers": "t"}, "did you mean kafka.bootstrap.servers?"),
        ({"linger_ms": "5"}, "did you mean kafka.linger.ms?"),
        ({"kafka.linger_ms": "5"}, "did you mean kafka.linger.ms?"),
        ({"kafka.lingers.ms": "5"}, "the client has no setting of this name; did you mean kafka.linger.ms?"),
        ({"zzzzzz": "5"}, "unknown option 'zzzzzz' of format kafkaraw"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(options, message):
    assert message in refusal(options)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka.transactional.id", "use exactlyOnce=true"),
        ("kafka.auto.offset.reset", "use startingOffsets"),
        ("kafka.key.deserializer", "convert them in Spark"),
        ("kafka.enable.auto.commit", "Spark's checkpoint keeps the offsets"),
        ("path", "a topic is not a path"),
    ],
)
def test_what_spark_has_and_we_do_not_is_refused_with_what_to_use_instead(name, message):
    assert message in refusal({name: "x"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": " , "}, "subscribe=' , ' names no topic"),
        ({"assign": "t"}, "assign='t' is not JSON"),
        ({"assign": '{"t":0}'}, "must be JSON such as"),
        ({"assign": '{"t":["x"]}'}, "assign: 'x' is not a partition number"),
        ({"assign": "{}"}, "names no partition"),
        ({"includeHeaders": "yes"}, 'includeHeaders=\'yes\': must be "true" or "false"'),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger='0': must be a whole number from 1"),
        ({"minPartitions": "many"}, "minPartitions='many'"),
        ({"topic": ""}, "topic is empty"),
        ({"kafka.linger.ms": "soon"}, "kafka.linger.ms='"),
        ({"kafka.bootstrap.servers": "localhost"}, "kafka.bootstrap.servers='"),
        ({"kafka.request.timeout.ms": "5s"}, "kafka.request.timeout.ms='5s': must be a whole number"),
        ({"kafka.check.crcs": "yes"}, "kafka.check.crcs='yes': must be 'true' or 'false'"),
        ({"kafka.acks": "2"}, "kafka.acks='2': must be"),
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "subscribe and assign exclude each other"),
        ({"subscribe": "t", "subscribePattern": "t"}, "subscribe and subscribePattern exclude each other"),
        ({"subscribePattern": "["}, "subscribePattern='[': cannot be used as a regular expression: a class is not"),
        ({"startingTimestamp": "x"}, "startingTimestamp='x': must be a time in ms since 1970"),
        ({"startingOffsetsByTimestampStrategy": "x"}, 'Strategy=\'x\': must be "error" or "latest"'),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay='soon': must be a duration such as"),
        ({"maxTriggerDelay": "5 weeks"}, "maxTriggerDelay='5 weeks': must be a duration such as"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger=9 is more than"),
        ({"commitOffsets": "true"}, "commitOffsets=true needs the option kafka.group.id"),
        ({"decisionsTopic": "d"}, "decisionsTopic is only for exactlyOnce=true"),
        ({"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries='-1'"),
        ({"kafka.security.protocol": "TELNET"}, "must be one of 'PLAINTEXT', 'SSL'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_naming_the_option(options, message):
    said = refusal(options)
    assert message in said
    assert "not str" not in said


def test_the_brokers_must_be_named():
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        parse_options({"subscribe": "t"})


def test_options_that_spark_adds_to_streaming_writes_are_let_through():
    options = parse(topic="t", checkpointLocation="x", queryName="q", kafka__security__protocol="PLAINTEXT")
    assert options.topic == "t"


def test_a_read_needs_topics_and_the_writers_option_does_not_count():
    with pytest.raises(ConfigError, match='topic is for writing, to read use subscribe="t"'):
        check_read(parse(topic="t"))


def test_a_batch_read_covers_the_whole_topic_by_default():
    starting, ending = check_batch_read(parse(subscribe="t"))
    assert (starting.everywhere, ending.everywhere) == (EARLIEST, LATEST)


def test_a_stream_starts_at_latest_by_default():
    assert check_stream_read(parse(subscribe="t")).everywhere == LATEST


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets of a batch read cannot be latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets of a batch read cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets cannot be earliest"),
    ],
)
def test_a_batch_read_that_would_read_nothing_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        check_batch_read(parse(subscribe="t", **options))


def test_a_stream_has_no_ending_offsets():
    with pytest.raises(ConfigError, match="endingOffsets is for batch reads"):
        check_stream_read(parse(subscribe="t", endingOffsets="latest"))


def test_a_batch_read_ignores_the_limit_per_trigger_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        check_batch_read(parse(subscribe="t", maxOffsetsPerTrigger="5"))
    assert "maxOffsetsPerTrigger is ignored by a batch read" in caplog.text


def test_client_settings_go_by_the_names_of_java():
    options = parse_options(
        {
            "subscribe": "t",
            "kafka.bootstrap.servers": "a:1",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": 'x.ScramLoginModule required username="ada" password="s3cret";',
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.metrics.num.samples": "3",
        }
    )
    assert options.client == {
        "bootstrap_servers": "a:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "ada",
        "sasl_password": "s3cret",
        "ssl_check_hostname": "false",
    }


def test_half_a_login_and_java_classes_are_refused():
    servers = {"subscribe": "t", "kafka.bootstrap.servers": "a:1"}
    with pytest.raises(ConfigError, match=r"kafka.sasl.mechanism='PLAIN' needs username in kafka.sasl.jaas.config and"):
        parse_options(servers | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"})
    with pytest.raises(ConfigError, match=r"^kafka.partitioner.class is not accepted .* have a column `partition`"):
        parse_options(servers | {"kafka.partitioner.class": "com.example.Mine"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sasl.jaas.config": "x"}, "kafka.sasl.jaas.config: is not of the form"),
        (
            {"sasl.jaas.config": "x.ScramLoginModule required;", "sasl.mechanism": "PLAIN"},
            "kafka.sasl.jaas.config: ScramLoginModule is for SCRAM-SHA-256 and SCRAM-SHA-512, but kafka.sasl.mechanism",
        ),
        (
            {"sasl.jaas.config": 'x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="x";'},
            "kafka.sasl.jaas.config: tokens that nobody signed",
        ),
        ({"ssl.endpoint.identification.algorithm": "no"}, "kafka.ssl.endpoint.identification.algorithm='no': must be"),
        ({"ssl.truststore.location": "none.p12"}, "kafka.ssl.truststore.location: none.p12: No such file"),
        ({"ssl.keystore.key": "x"}, "kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key belong together"),
        ({"ssl.protocol": "SSLv3"}, "kafka.ssl.protocol is not accepted with this value: TLS is Python's own"),
        (
            {"sasl.login.callback.handler.class": "Mine"},
            "kafka.sasl.login.callback.handler.class is not accepted with this value: kafka.sasl.oauthbearer.token",
        ),
        (
            {"sasl.oauthbearer.assertion.file": "x"},
            "kafka.sasl.oauthbearer.assertion.file is not accepted: kafka.sasl.",
        ),
        (
            {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_SSL"},
            "kafka.sasl.mechanism='OAUTHBEARER' needs kafka.sasl.oauthbearer.token.endpoint.url",
        ),
    ],
)
def test_what_is_refused_of_javas_is_named_as_the_user_wrote_it_and_says_what_an_option_can_do(options, message):
    said = refusal({f"kafka.{name}": text for name, text in options.items()})
    assert said.startswith(message)
    assert "function" not in said
    assert "ssl_context" not in said


def test_tasks_get_what_is_in_a_store_and_not_its_place(tmp_path):
    authority = trustme.CA()
    trusted, mine = tmp_path / "ca.pem", tmp_path / "me.pem"
    trusted.write_bytes(authority.cert_pem.bytes())
    mine.write_bytes(authority.issue_cert("ada@example.org").private_key_and_cert_chain_pem.bytes())
    stores = {"kafka__ssl__truststore__location": str(trusted), "kafka__ssl__keystore__location": str(mine)}
    client = parse(subscribe="t", kafka__security__protocol="SSL", **stores).client
    assert (client["ssl_cadata"], client["ssl_certfile"]) == (trusted.read_text(), mine.read_text())
    assert not any(str(tmp_path) in text for text in client.values())


def test_certificates_are_loaded_once_for_all_kinds_of_clients(tmp_path, monkeypatch):
    store = tmp_path / "ca.pem"
    store.write_bytes(trustme.CA().cert_pem.bytes())
    loaded: list[object] = []

    def load(**given: object) -> ssl.SSLContext:
        loaded.append(given)
        return client_context(**given)  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr(security, "client_context", load)
    parse(subscribe="t", kafka__ssl__truststore__location=str(store), kafka__security__protocol="SSL")
    assert len(loaded) == 1


def test_settings_that_do_not_go_together_are_named_as_the_user_wrote_them(tmp_path):
    store = tmp_path / "ca.pem"
    store.write_text("-----BEGIN CERTIFICATE-----")
    with pytest.raises(
        ConfigError, match=r"^kafka.ssl.truststore.location: no effect with kafka.security.protocol='PLA"
    ):
        parse(subscribe="t", kafka__ssl__truststore__location=str(store))
    with pytest.raises(ConfigError, match=r"^kafka.ssl.truststore.location: the trusted certificates cannot be used: "):
        parse(subscribe="t", kafka__ssl__truststore__location=str(store), kafka__security__protocol="SSL")
    with pytest.raises(ConfigError, match=r"^kafka.retry.backoff.max.ms=1 must be at least kafka.retry.backoff.ms=100"):
        parse(subscribe="t", kafka__retry__backoff__max__ms="1")


def test_a_time_counts_before_times_by_partition_and_these_before_offsets():
    by_offset = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    by_partition = {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":6}}'}
    everywhere = {"startingTimestamp": "7", "endingTimestamp": "8"}

    def chosen(*given: dict[str, str]) -> list[str]:
        options = parse(subscribe="t", **{name: text for each in given for name, text in each.items()})
        assert options.starting is not None and options.ending is not None
        return [options.starting.option, options.ending.option]

    assert chosen(by_offset, by_partition, everywhere) == ["startingTimestamp", "endingTimestamp"]
    assert chosen(by_offset, by_partition) == ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"]
    assert chosen(by_offset) == ["startingOffsets", "endingOffsets"]


def test_a_partition_without_a_record_so_late_starts_as_the_strategy_says_and_ends_at_its_end():
    strategy = {"startingOffsetsByTimestampStrategy": "Latest"}
    lenient = parse(subscribe="t", startingTimestamp="5", endingTimestamp="6", **strategy)
    starting, ending = check_batch_read(lenient)
    assert starting == TimestampPosition("startingTimestamp", everywhere_ms=5, unmatched_is_latest=True)
    assert ending == TimestampPosition("endingTimestamp", everywhere_ms=6, unmatched_is_latest=True)
    assert check_stream_read(parse(subscribe="t", startingTimestamp="5")) == TimestampPosition(
        "startingTimestamp", everywhere_ms=5
    )


@pytest.mark.parametrize("name", ["endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end_by_time_either(name):
    text = "5" if name == "endingTimestamp" else '{"t":{"0":5}}'
    with pytest.raises(ConfigError, match=f"{name} is for batch reads"):
        check_stream_read(parse(subscribe="t", **{name: text}))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250", 250), ("250ms", 250), ("30s", 30_000), ("15m", 900_000), ("2min", 120_000), ("1H", 3_600_000)],
)
def test_a_delay_is_written_as_spark_writes_durations(text, milliseconds):
    assert parse(subscribe="t", maxTriggerDelay=text).trigger_delay_max_ms == milliseconds


@pytest.mark.parametrize("name", ["groupIdPrefix", "kafka.max.poll.records", "kafka.allow.auto.create.topics"])
def test_what_means_nothing_to_this_source_is_accepted_and_said_to_have_no_effect(name, caplog):
    with caplog.at_level(logging.WARNING):
        parse(subscribe="t", **{name: "true"})
    assert f"{name} has no effect" in caplog.text


def test_what_spark_knows_of_a_table_is_no_option():
    assert is_bare_table({"Owner": "me"})
    assert not is_bare_table({"owner": "me", "subscribe": "t"})
    assert not is_bare_table({})
    assert parse(subscribe="t", owner="me").subscribe == ("t",)

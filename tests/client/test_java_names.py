"""The names of Java's clients: mapped, ignored with one warning, or refused; and stores in the forms Java has."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kafkaraw import Admin, AsyncConsumer, AsyncProducer, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.config import AdminConfig, ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.java_names import settings_from_properties, translated
from kafkaraw.client.java_spelling import spelled
from kafkaraw.errors import ConfigError
from tests.broker.security.certificates import truststore

SERVERS = {"bootstrap.servers": "a:1,b:2"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "changeit-4711"
PEM = "-----BEGIN CERTIFICATE-----"
SERIALIZERS = "org.apache.kafka.common.serialization"


def test_mapped_names_become_typed_settings():
    given = SERVERS | {
        "acks": "1",
        "linger.ms": " 20 ",
        "enable.idempotence": "false",
        "compression.type": "zstd",
        "compression.zstd.level": "7",
        "compression.gzip.level": "1",
        "batch.size": "0",
        "key.serializer": f"{SERIALIZERS}.ByteArraySerializer",
    }
    assert settings_from_properties(ProducerConfig, given) == {
        "bootstrap_servers": (("a", 1), ("b", 2)),
        "acks": 1,
        "linger_ms": 20,
        "enable_idempotence": False,
        "compression_type": "zstd",
        "compression_level": 7,
        "batch_size": 1,
    }


@pytest.mark.parametrize(
    ("codec", "level", "ours"),
    [("lz4", "9", None), ("lz4", "8", 8), ("gzip", "9", 9), ("zstd", "9", 9), ("zstd", "", None)],
)
def test_a_level_means_what_it_means_in_java_where_lz4_9_is_the_default_and_fast(
    codec: str, level: str, ours: int | None
):
    given = SERVERS | {"compression.type": codec, f"compression.{codec}.level": level}
    assert settings_from_properties(ProducerConfig, given).get("compression_level") == ours


def test_a_mapping_may_hold_numbers_and_lists():
    given = {"bootstrap.servers": ["a:1"], "fetch.min.bytes": 5, "check.crcs": False}
    assert settings_from_properties(ConsumerConfig, given) == {
        "bootstrap_servers": (("a", 1),),
        "fetch_min_bytes": 5,
        "check_crcs": False,
    }


def test_names_without_effect_are_told_in_one_warning(caplog: pytest.LogCaptureFixture):
    given = SERVERS | {"metric.reporters": "x", "acks": "all", "client.dns.lookup": "use_all_dns_ips"}
    with caplog.at_level(logging.WARNING):
        assert translated(given, AdminConfig) == {"bootstrap_servers": "a:1,b:2"}
    (record,) = caplog.records
    assert record.getMessage() == "without effect on this client: acks, client.dns.lookup, metric.reporters"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("interceptor.classes", "com.example.Spy", "objects of your own"),
        ("partitioner.class", "com.example.Mine", "give the setting partitioner a function"),
        ("key.serializer", "io.confluent.kafka.serializers.KafkaAvroSerializer", "keys and values are bytes"),
        ("ssl.engine.factory.class", "com.example.E", "ssl_context"),
        ("ssl.enabled.protocols", "TLSv1.1", "ssl_context"),
        ("sasl.login.callback.handler.class", "com.example.H", "token_provider"),
        ("config.providers", "file", "taken as they stand"),
        ("transaction.two.phase.commit.enable", "true", "one step"),
        ("ssl.endpoint.identification.algorithm", "ldaps", "https"),
        ("liner.ms", "5", "did you mean 'linger.ms'"),
        ("nonsense", "5", "unknown property 'nonsense'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_what_to_use_instead(name: str, value: str, words: str):
    with pytest.raises(ConfigError, match=words):
        settings_from_properties(ProducerConfig, SERVERS | {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interceptor.classes", ""),
        ("partitioner.class", ""),
        ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
        ("ssl.protocol", "TLSv1.3"),
        ("value.serializer", f"{SERIALIZERS}.StringSerializer"),
    ],
)
def test_values_that_ask_for_nothing_else_are_taken(name: str, value: str):
    assert translated(SERVERS | {name: value}, ProducerConfig) == {"bootstrap_servers": "a:1,b:2"}


def test_all_faults_are_reported_together_without_secrets():
    given = SERVERS | {"security.providers": "g", "sasl.passwrd": "s3cret", "config.providers": "env"}
    with pytest.raises(ConfigError, match=r"security.providers.*sasl.passwrd.*config.providers") as refused:
        settings_from_properties(ConsumerConfig, given)
    assert "s3cret" not in str(refused.value)


def test_a_members_settings_are_taken_by_javas_names():
    given = {
        "group.id": "g",
        "group.instance.id": "one",
        "session.timeout.ms": "10000",
        "heartbeat.interval.ms": "1000",
        "max.poll.interval.ms": "60000",
        "enable.auto.commit": "false",
        "auto.commit.interval.ms": "1000",
        "group.protocol": "classic",
        "client.rack": "east",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range",
    }
    config = parse(ConsumerConfig, settings_from_properties(ConsumerConfig, SERVERS | given))
    assert (config.group_id, config.group_instance_id, config.client_rack) == ("g", "one", "east")
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (10_000, 1_000)
    assert (config.max_poll_interval_ms, config.auto_commit_interval_ms) == (60_000, 1_000)
    assert config.commits_itself is False
    assert config.partition_assignment_strategy == ("cooperative-sticky", "range")


def test_a_file_of_a_java_client_logs_in(tmp_path: Path):
    file = tmp_path / "client.properties"
    login = f'{PLAIN} required \\\n  username="ada" \\\n  password="{PASSWORD}";'
    with EmbeddedBroker(users={"ada": PASSWORD}) as broker:
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
        with pytest.raises(ConfigError, match=r"^bootstrap\.servers is missing"):
            Admin.from_properties(file)
        file.write_text(f"{file.read_text()}bootstrap.servers={broker.bootstrap_servers}\n")
        with Admin.from_properties(file) as admin:
            assert admin.list_topics() == []


def test_logins_as_java_writes_them():
    given = {
        "bootstrap.servers": "b-1.x.kafka.eu-west-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    assert translated(given, AdminConfig)["sasl_aws_msk_region"] == "eu-west-1"
    kerberos = SERVERS | {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "k"}
    assert translated(kerberos, AdminConfig)["sasl_mechanism"] == "GSSAPI"
    oauth = SERVERS | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        "sasl.oauthbearer.client.credentials.client.id": "new",
        "sasl.jaas.config": "OAuthBearerLoginModule required clientId='old' clientSecret='s';",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
    }
    settings = settings_from_properties(AdminConfig, oauth)
    assert settings["sasl_oauthbearer_client_id"] == "new"
    assert settings["sasl_oauthbearer_client_secret"] == "s"


@pytest.mark.parametrize(
    ("module", "mechanism", "refused"),
    [
        ("Plain", "PLAIN", ""),
        ("Scram", "SCRAM-SHA-256", ""),
        ("Scram", "SCRAM-SHA-512", ""),
        ("Scram", "PLAIN", "ScramLoginModule is for SCRAM-SHA-256 and SCRAM-SHA-512, but sasl.mechanism is PLAIN"),
        ("Plain", "SCRAM-SHA-512", "PlainLoginModule is for PLAIN, but sasl.mechanism is SCRAM-SHA-512"),
        ("OAuthBearer", "PLAIN", "OAuthBearerLoginModule is for OAUTHBEARER, but"),
        ("Plain", "", r"^sasl\.mechanism is missing; choose one of PLAIN"),
    ],
)
def test_a_login_module_must_be_one_for_the_mechanism(module: str, mechanism: str, refused: str):
    given = SERVERS | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": f'{module}LoginModule required username="ada" password="{PASSWORD}";',
    }
    with pytest.raises(ConfigError, match=refused) if refused else nullcontext() as told:
        Admin.from_properties(given | ({"sasl.mechanism": mechanism} if mechanism else {})).close()
    assert PASSWORD not in str(told)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ssl.truststore.certificates": PEM}, r"^ssl\.truststore\.certificates: no effect with security\.protocol='P"),
        (
            {"ssl.keystore.certificate.chain": PEM, "ssl.keystore.key": PEM},
            r"^ssl\.keystore\.certificate\.chain, ssl\.keystore\.key: no effect",
        ),
        ({"ssl_cafile": "ca.pem"}, "^ssl_cafile: no effect with"),
        ({"ssl.cafile": "ca.pem"}, r"^ssl\.cafile: no effect with"),
        ({"linger.ms": "soon"}, r"^linger\.ms='soon': must be"),
        ({"client.id": "acks", "acks": "2"}, r"^acks='2': must be 'all'"),
        ({"acks": "1", "enable.idempotence": "true"}, r"^acks=1 must be 'all' for enable\.idempotence=True"),
        ({"compression.type": "lz4", "compression.lz4.level": "40"}, r"^compression\.lz4\.level='40': must be at most"),
        ({"transactional.id": ""}, r"^transactional\.id='' must not be empty"),
        ({"ssl.keystore.certificate.chain": PEM}, r"ssl\.keystore\.key belong together: one is missing"),
        ({"ssl.keystore.key": PEM}, r"ssl\.keystore\.key belong together: one is missing"),
    ],
    ids=str,
)
def test_errors_name_settings_as_the_user_gave_them(given: dict[str, str], says: str):
    with pytest.raises(ConfigError, match=says):
        Producer.from_properties(SERVERS | given)


def test_what_is_given_besides_the_file_keeps_its_own_name():
    with pytest.raises(ConfigError, match=r"^ssl_cafile and ssl\.truststore\.certificates: give one of them"):
        Admin.from_properties(
            SERVERS | {"security.protocol": "SSL", "ssl.truststore.certificates": PEM}, ssl_cafile="ca.pem"
        )


# -- a file, all clients, and stores -----------------------------------------------------------------------------


def pem(*blobs: trustme.Blob) -> str:
    return "".join(blob.bytes().decode() for blob in blobs)


def as_one_value(text: str) -> str:
    """PEM as people write it into a properties file."""
    return text.replace("\n", "\\n\\\n")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def stores(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same identity and authority in every form."""
    folder = tmp_path_factory.mktemp("stores")
    mine = authority.issue_cert("client@example.org")
    key = load_pem_private_key(mine.private_key_pem.bytes(), None)
    certificate, *others = x509.load_pem_x509_certificates(pem(*mine.cert_chain_pems).encode())
    lock = BestAvailableEncryption(PASSWORD.encode())
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock).decode()
    (folder / "me.pem").write_text(encrypted + pem(*mine.cert_chain_pems))
    (folder / "me.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, others, lock))
    (folder / "trust.pem").write_text(pem(authority.cert_pem))
    (folder / "trust.p12").write_bytes(truststore(authority.cert_pem.bytes(), PASSWORD))
    (folder / "me.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (folder / "inline.properties").write_text(
        f"ssl.keystore.certificate.chain={as_one_value(pem(*mine.cert_chain_pems))}\n"
        f"ssl.keystore.key={as_one_value(encrypted)}\nssl.key.password={PASSWORD}\n"
        f"ssl.truststore.certificates={as_one_value(pem(authority.cert_pem))}\n"
    )
    return folder


@pytest.fixture(scope="module")
def broker(authority: trustme.CA):
    certificate = authority.issue_cert("127.0.0.1")
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
        "ssl.keystore.key": pem(certificate.private_key_pem),
        "ssl.truststore.certificates": pem(authority.cert_pem),
        "ssl.client.auth": "required",
    }
    with EmbeddedBroker(properties=properties) as broker:
        yield broker


FORMS = {
    "PEM": {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "me.pem",
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "trust.pem",
    },
    "PKCS12": {
        "ssl.keystore.location": "me.p12",
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": "trust.p12",
        "ssl.truststore.password": PASSWORD,
    },
    "inline": {},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_java_clients_file_serves_every_client(broker: EmbeddedBroker, stores: Path, tmp_path: Path, form: str):
    lines = [f"{name}={stores / value if name.endswith('location') else value}" for name, value in FORMS[form].items()]
    text = (stores / "inline.properties").read_text() if form == "inline" else "\n".join(lines)
    file = tmp_path / "client.properties"
    file.write_text(f"# mine\nbootstrap.servers={broker.bootstrap_servers}\nsecurity.protocol=SSL\n{text}\n")
    with Admin.from_properties(file) as admin:
        admin.create_topics([NewTopic(form, 1)])
    with Producer.from_properties(str(file), linger_ms=0) as producer:
        producer.send(form, b"hello").result(10)
    with Consumer.from_properties(file, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(form, 0)])
        assert next(iter(consumer)).value == b"hello"


def test_both_faces_are_made_of_their_own_class():
    assert type(AsyncProducer.from_properties(SERVERS)) is AsyncProducer
    assert type(AsyncConsumer.from_properties(SERVERS)) is AsyncConsumer


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"ssl.keystore.location": "me.jks"}, "keytool -importkeystore -srckeystore .*me.jks -destkeystore me.p12"),
        ({"ssl.truststore.location": "me.jks"}, "keytool"),
        ({"ssl.keystore.location": "none.p12"}, "No such file"),
        ({"ssl.keystore.location": "me.p12", "ssl.keystore.password": "wrong"}, "that this password opens"),
        ({"ssl.keystore.location": "me.p12"}, "^ssl.keystore.location: .*me.p12 is .* that opens without a password"),
        ({"ssl.keystore.location": "inline.properties"}, r"^ssl\.keystore\.location: .* cannot be used"),
        ({"ssl_cafile": "none.pem"}, "^ssl_cafile: the trusted certificates cannot be used: none.pem: No such file"),
    ],
)
def test_a_store_that_cannot_be_read_says_what_to_do(stores: Path, properties: dict[str, str], words: str):
    located = {n: str(stores / v) if n.endswith("location") else v for n, v in properties.items()}
    with pytest.raises(ConfigError, match=words) as refused:
        Admin.from_properties(SERVERS | {"security.protocol": "SSL"} | located)
    assert PASSWORD not in str(refused.value)


def test_a_pkcs12_store_needs_its_extra(stores: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(ConfigError, match=r"pip install 'kafkaraw\[pkcs12\]'.*openssl pkcs12 -in"):
        Admin(bootstrap_servers="a:1", security_protocol="SSL", ssl_certfile=str(stores / "me.p12"))


def test_our_own_settings_take_pkcs12_and_encrypted_pem(broker: EmbeddedBroker, stores: Path):
    for name in ("me.p12", "me.pem"):
        with Admin(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SSL",
            ssl_cafile=str(stores / "trust.pem"),
            ssl_certfile=str(stores / name),
            ssl_password=PASSWORD,
        ) as admin:
            admin.list_topics()


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"nowhere.properties cannot be read"):
        Producer.from_properties("nowhere.properties")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "set security_protocol=SSL, and ssl_cafile",
            "set kafka.security.protocol=SSL, and kafka.ssl.truststore.location",
        ),
        ("give the right sasl_mechanism.", "give the right kafka.sasl.mechanism."),
        ("sasl.jaas.config: no", "kafka.sasl.jaas.config: no"),
        ("ssl.truststore.password, ssl.key.password", "kafka.ssl.truststore.password, kafka.ssl.key.password"),
        ("ssl_cadata: cannot be used", "kafka.ssl.truststore.certificates: cannot be used"),
        ("kafka.sasl.mechanism and group.max.size", "kafka.sasl.mechanism and group.max.size"),
        ("acks='2' after all retries", "kafka.acks='2' after all retries"),
        ("topic 'group_id', group_id-0, etc/ssl.key.password", "topic 'group_id', group_id-0, etc/ssl.key.password"),
    ],
)
def test_names_in_a_message_become_those_that_the_user_writes_and_values_stay(said: str, told: str):
    given = {"ssl.truststore.certificates", "ssl.truststore.password"}
    assert spelled(said, given, prefix="kafka.") == told
    assert spelled(told, given, prefix="kafka.") == told

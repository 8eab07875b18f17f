"""Whatever a live Spark session shows of its queries, and the `repr` of what this package gives it, hide secrets."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.spark.options.parsing import parse_options, patient
from kafkaraw.spark.reading.lookup import consumer_settings
from kafkaraw.spark.reading.task import ReadSettings
from kafkaraw.spark.reading.typed_columns import decoding_for
from kafkaraw.spark.sink import KafkaStreamWriter
from kafkaraw.spark.source import KafkaBatchReader, KafkaDataSource
from kafkaraw.spark.writing.task import write_settings

PASSWORD, KEY_PASSWORD, CLIENT_SECRET = "Sesam-1-login", "Sesam-2-key", "Sesam-4-oauth"
URL_PASSWORD, REGISTRY_PASSWORD = "Sesam-5-url", "Sesam-6-registry"
STORE_KEY = "Sesam8storekey=="  # base64, as keys of Azure are
# The keys are null and the schema is given, so the registry is not asked.
TYPED = {
    "key.format": "avro",
    "key.schema": '"string"',
    "schema.registry.url": f"http://ada:{URL_PASSWORD}@127.0.0.1:1",
}
BASIC = {
    "schema.registry.url": "http://127.0.0.1:1",
    "schema.registry.basic.auth.credentials.source": "USER_INFO",
    "schema.registry.basic.auth.user.info": f"ada:{REGISTRY_PASSWORD}",
}
# The tables are local: their formats pass these settings on, and nothing uses them.
DELTA = {
    "storage.azure_storage_account_key": STORE_KEY,
    "storage.azure_storage_sas_key": f"se=2026-01-01&sig={STORE_KEY}",
    "storage.google_service_account_key": json.dumps({"private_key": STORE_KEY}),
}
ICEBERG = {
    "catalog.adls.account-key": STORE_KEY,
    "catalog.adls.connection-string": f"AccountName=a;AccountKey={STORE_KEY}",
    "catalog.gcs.oauth2.token": STORE_KEY,
    "catalog.s3.secret-access-key": STORE_KEY,
    "catalog.type": "sql",
}
_LOGIN = "org.apache.kafka.common.security"
JAAS = f'{_LOGIN}.plain.PlainLoginModule required username="ada" password="{PASSWORD}";'
OAUTH = f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required clientId="ada" clientSecret="{CLIENT_SECRET}";'
SCHEMA = StructType([StructField("value", BinaryType())])
AUTHORITY = trustme.CA()


def own_key() -> tuple[str, str]:
    """A certificate, and its private key under a password; both PEM."""
    issued = AUTHORITY.issue_cert("ada.example.com")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(KEY_PASSWORD.encode()))
    return issued.cert_chain_pems[0].bytes().decode(), locked.decode()


CERTIFICATE, PRIVATE_KEY = own_key()
SECRETS = (
    PASSWORD,
    KEY_PASSWORD,
    CLIENT_SECRET,
    PRIVATE_KEY.splitlines()[2],
    URL_PASSWORD,
    REGISTRY_PASSWORD,
    STORE_KEY,
)


def options(servers: str) -> dict[str, str]:
    """A login and a certificate."""
    return {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": AUTHORITY.cert_pem.bytes().decode(),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": CERTIFICATE,
        "kafka.ssl.keystore.key": PRIVATE_KEY,
        "kafka.ssl.key.password": KEY_PASSWORD,
    }


def broker_properties() -> dict[str, str]:
    certificate = AUTHORITY.issue_cert("127.0.0.1")
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate.cert_chain_pems[0].bytes().decode(),
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
    }


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> dict[str, str]:
    """What Spark shows, by name; the event log among it."""
    folder, lake = tmp_path_factory.mktemp("shown"), tmp_path_factory.mktemp("lake")
    catalog = {"catalog.uri": f"sqlite:///{lake}/catalog.db", "catalog.warehouse": lake.as_uri()}
    tables = {"kafkaraw.delta": DELTA, "kafkaraw.iceberg": ICEBERG | catalog}
    given = tmp_path_factory.mktemp("given") / "options.json"
    with EmbeddedBroker(properties=broker_properties(), users={"ada": PASSWORD}) as broker:
        servers = broker.bootstrap_servers
        login = parse_options(options(servers)).client
        del login["bootstrap_servers"]
        with Admin(bootstrap_servers=servers, **login) as admin:
            admin.create_topics([NewTopic("secret-in", 1), NewTopic("secret-out", 1)])
        with Producer(bootstrap_servers=servers, **login) as producer:
            for _ in range(3):
                producer.send("secret-in", b"1")
        given.write_text(json.dumps({"client": options(servers), "typed": TYPED | BASIC, "tables": tables}))
        command = [sys.executable, "-m", "tests.spark.shown_by_spark", str(folder), str(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    texts = {name: data.decode(errors="replace") for name, data in files.items()}
    return texts | {"standard output": done.stdout, "standard error": done.stderr}


@pytest.mark.timeout(300)
def test_spark_shows_no_secret(shown):
    """Explanations, lineage, user interface, REST API, progress, checkpoint, event log and what Spark prints."""
    assert {"explain.txt", "lineage.txt", "progress.txt", "page-0.txt"} <= shown.keys()
    events = "".join(text for name, text in shown.items() if "events_" in name)
    assert "SparkListenerSQLExecutionStart" in events
    assert "kafka.sasl.jaas.config -> *********(redacted)" in events, "the plan of the SQL view lists its options"
    leaks = {(name, secret) for name, text in shown.items() for secret in SECRETS if secret in text}
    assert not leaks


_OAUTH = {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.jaas.config": OAUTH,
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://h/token",
}


@pytest.mark.parametrize("login", [{}, _OAUTH], ids=["PLAIN", "OAUTHBEARER"])
def test_settings_show_no_secret(login):
    given = options("h:1") | login
    parsed = parse_options(given | {"subscribe": "t", "topic": "t", "exactlyOnce": "true"})
    schema = SCHEMA
    read = ReadSettings(consumer_settings(patient(parsed).client), True, 1)
    written = write_settings(parsed, schema)
    things = [
        parsed,
        read,
        written,
        pickle.loads(pickle.dumps(read)),
        pickle.loads(pickle.dumps(written)),
        parsed.client | {"a": "b"},
        {"a": "b"} | parsed.client,
        vars(KafkaBatchReader(parsed, schema)),
        vars(KafkaStreamWriter(parsed, schema)),
        KafkaDataSource(given | {"subscribe": "t"}),
    ]
    for thing in things:
        for text in (repr(thing), str(thing), f"{thing}"):
            assert not [secret for secret in SECRETS if secret in text], type(thing)
            assert "[hidden]" in text or isinstance(thing, KafkaDataSource)


@pytest.mark.parametrize("registry", [{}, BASIC], ids=["in the URL", "as settings"])
def test_settings_of_typed_columns_show_no_secret(registry):
    parsed = parse_options(options("h:1") | TYPED | registry | {"subscribe": "t"})
    schema = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    decoding = decoding_for(parsed, schema)
    read = ReadSettings(consumer_settings(parsed.client), True, 1, decoding)
    for thing in (parsed, decoding, read, pickle.loads(pickle.dumps(read)), vars(KafkaBatchReader(parsed, schema))):
        for text in (repr(thing), str(thing), f"{thing}"):
            assert not [secret for secret in SECRETS if secret in text], type(thing)
            assert "'schema.registry.url': '[hidden]'" in text

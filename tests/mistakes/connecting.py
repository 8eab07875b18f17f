"""Mistakes in reaching a cluster: no broker, the wrong port, TLS, logins."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow

from kafkaraw import AuthenticationError, KafkaTimeoutError, NetworkError, ProtocolError, UnsupportedVersionError
from tests.mistakes.mistake import LOGIN, PASSWORD, T0, Act, Desk, Mistake

REFUSED = ("cannot connect", "<closed>", "nothing listens there: check host and port")


def nobody(what: str, call: Callable[[Desk], object], error: type[BaseException] = NetworkError) -> Mistake:
    return Mistake(f"no broker: {what}", call, error, *REFUSED)


def patiently(what: str, call: Callable[[Desk], object]) -> Mistake:
    """A coordinator is looked for until the time is up; the message names why there is none."""
    return nobody(what, call, KafkaTimeoutError)


NO_BROKER = {"bootstrap_servers": "<closed>", "default_api_timeout_ms": 300}
NOBODY = (
    patiently("commit", lambda on: on.member(lambda c: c.commit({T0: 1}), **NO_BROKER)),
    patiently("committed", lambda on: on.member(lambda c: c.committed([T0]), **NO_BROKER)),
    patiently("init_transactions", lambda on: on.produce(lambda p: p.init_transactions(), transactional_id="x",
                                                         **NO_BROKER)),
    nobody("send", lambda on: on.produce(lambda p: p.send("t", b"v"), **NO_BROKER)),
    nobody("send_arrow", lambda on: on.produce(lambda p: p.send_arrow("t", pyarrow.table({"value": [b"1"]})),
                                               **NO_BROKER)),
    nobody("partitions_for", lambda on: on.produce(lambda p: p.partitions_for("t"), **NO_BROKER)),
    nobody("poll", lambda on: on.read(lambda c: c.poll(), **NO_BROKER)),
    nobody("poll of a member", lambda on: on.member(lambda c: on.steps(c.subscribe(["t"]), c.poll), **NO_BROKER)),
    nobody("end_offsets", lambda on: on.consume(lambda c: c.end_offsets([T0]), **NO_BROKER)),
    nobody("list_topics", lambda on: on.administer(lambda a: a.list_topics(), **NO_BROKER)),
    nobody("create_topics", lambda on: on.administer(lambda a: a.create_topics(["x"]), **NO_BROKER)),
    nobody("describe_groups", lambda on: on.administer(lambda a: a.describe_groups(["x"]), **NO_BROKER)),
    Mistake("no broker at two addresses", lambda on: on.administer(
                lambda a: a.list_topics(), bootstrap_servers="<closed>,127.0.0.1:2"),
            NetworkError, "none of the 2 bootstrap servers", "127.0.0.1:2 [connect]", "check host and port"),
)  # fmt: skip


def reach(
    what: str, at: str, settings: dict[str, object], error: type[BaseException], stage: str, value: str, remedy: str,
    act: Act = lambda admin: admin.list_topics(),
) -> Mistake:  # fmt: skip
    given = {"bootstrap_servers": at, "default_api_timeout_ms": 5_000, **settings}
    return Mistake(what, lambda on: on.administer(act, **given), error, stage, value, remedy)


TLS = {"security_protocol": "SSL", "ssl_cafile": "<authority>"}
SASL = {**LOGIN, "sasl_password": PASSWORD}
SASL_TLS = {**SASL, "security_protocol": "SASL_SSL", "ssl_cafile": "<authority>"}
HALF_WAY = "instead of answering ApiVersions"
TLS_REMEDY = "check that this port speaks TLS (see security_protocol)"
LOGIN_REMEDY = "check sasl_username and sasl_password"
PROTOCOLS = (
    reach("plaintext at a TLS port", "<tls>", {}, NetworkError, HALF_WAY, "<tls>",
          "it may require TLS or authentication (see security_protocol)"),
    reach("plaintext at a TLS port that says so", "<alert>", {}, ProtocolError, "is not a Kafka broker", "<alert>",
          "this port wants TLS (security_protocol SSL or SASL_SSL)"),
    Mistake("plaintext at a TLS port: send", lambda on: on.produce(
                lambda p: p.send("t", b"v"), bootstrap_servers="<tls>"),
            NetworkError, HALF_WAY, "<tls>", "see security_protocol"),
    Mistake("plaintext at a TLS port: poll", lambda on: on.read(lambda c: c.poll(), bootstrap_servers="<tls>"),
            NetworkError, HALF_WAY, "<tls>", "see security_protocol"),
    reach("plaintext where a login is wanted", "<sasl>", {}, NetworkError, "responded to no request", "<sasl>",
          "does it require authentication (see security_protocol)"),
    reach("plaintext where a login with TLS is wanted", "<sasl_tls>", {}, NetworkError, HALF_WAY, "<sasl_tls>",
          "see security_protocol"),
    reach("TLS at a plaintext port", "<plain>", TLS, NetworkError, "cannot agree on TLS", "<plain>", TLS_REMEDY),
    reach("TLS where a login without TLS is wanted", "<sasl>", TLS, NetworkError, "cannot agree on TLS", "<sasl>",
          TLS_REMEDY),
    reach("TLS where a login is wanted", "<sasl_tls>", TLS, NetworkError, "responded to no request", "<sasl_tls>",
          "does it require authentication (see security_protocol)"),
    reach("a login where none is wanted", "<plain>", SASL, AuthenticationError, "[SASL]: authentication failed",
          "<plain>", "use security_protocol PLAINTEXT or SSL"),
    reach("a login at a TLS port", "<tls>", SASL, NetworkError, HALF_WAY, "<tls>", "see security_protocol"),
    reach("a login with TLS where TLS is not spoken", "<sasl>", SASL_TLS, NetworkError, "cannot agree on TLS", "<sasl>",
          TLS_REMEDY),
    reach("a login with TLS where none is wanted", "<tls>", SASL_TLS, AuthenticationError,
          "[SASL]: authentication failed", "<tls>", "use security_protocol PLAINTEXT or SSL"),
    reach("a wrong password (SCRAM)", "<sasl>", {**SASL, "sasl_password": "x"}, AuthenticationError,
          "[SASL]: authentication failed", "SCRAM-SHA-512", LOGIN_REMEDY),
    reach("a wrong password (PLAIN)", "<sasl>", {**SASL, "sasl_mechanism": "PLAIN", "sasl_password": "x"},
          AuthenticationError, "[SASL]: authentication failed", "mechanism PLAIN", LOGIN_REMEDY),
    reach("a wrong password with TLS", "<sasl_tls>", {**SASL_TLS, "sasl_password": "x"}, AuthenticationError,
          "[SASL]: authentication failed", "<sasl_tls>", LOGIN_REMEDY),
    reach("a user that there is not", "<sasl>", {**SASL, "sasl_username": "eve"}, AuthenticationError,
          "[SASL]: authentication failed", "<sasl>", LOGIN_REMEDY),
    reach("a mechanism that is not offered", "<sasl>", {
              "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER",
              "sasl_oauth_token_provider": lambda: "x"},
          AuthenticationError, "[SASL]: authentication failed", "OAUTHBEARER, but PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
          "set sasl_mechanism to one of these"),
    reach("a certificate of another authority", "<tls>", {**TLS, "ssl_cafile": "<stranger>"}, NetworkError,
          "cannot agree on TLS", "CERTIFICATE_VERIFY_FAILED", "(ssl_cafile)"),
    reach("no authority given", "<tls>", {"security_protocol": "SSL"}, NetworkError, "cannot agree on TLS",
          "CERTIFICATE_VERIFY_FAILED", "(ssl_cafile)"),
    reach("a host name that the certificate does not have", "<other_name>", TLS, NetworkError, "cannot agree on TLS",
          "localhost", "dial a name that the certificate has"),
    reach("a web server's port", "<web>", {}, ProtocolError, "is not a Kafka broker", "<web>", "speaks HTTP, not"),
    reach("a server that says nothing", "<silent>", {"default_api_timeout_ms": 300}, KafkaTimeoutError,
          "did not answer within the 0.3 s", "<silent>", "is it a Kafka broker, and does a firewall let"),
    reach("a controller's port", "<controller>", {}, UnsupportedVersionError, "does not offer Metadata", "<controller>",
          "a controller's listener: give the port of a broker"),
    Mistake("a controller's port: send", lambda on: on.produce(
                lambda p: p.send("t", b"v"), bootstrap_servers="<controller>"),
            UnsupportedVersionError, "does not offer Metadata", "<controller>", "give the port of a broker"),
    Mistake("a controller's port: poll", lambda on: on.read(lambda c: c.poll(5), bootstrap_servers="<controller>"),
            UnsupportedVersionError, "does not offer Metadata", "<controller>", "give the port of a broker"),
)  # fmt: skip

MISTAKES = (*NOBODY, *PROTOCOLS)

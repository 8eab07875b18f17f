"""`kafkaraw doctor` against what goes wrong in life: every stage has its own exit code, reason and remedy."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import trustme
from click.testing import CliRunner, Result

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main

UNRESOLVABLE = "no-such-host.invalid"


def doctor(servers: str, *options: str) -> Result:
    result = CliRunner().invoke(main, ["doctor", "-b", servers, "--timeout", "5", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@contextlib.contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """Sends `answer` on each connection when asked something; None is silence."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.recv(100)
                if answer:
                    connection.sendall(answer)
                while connection.recv(100):
                    pass

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threads.append(threading.Thread(target=serve, args=listener.accept()[:1]))
                    threads[-1].start()

        threads: list[threading.Thread] = []
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *threads):
            thread.join()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_healthy_broker_passes_every_stage():
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
        result = doctor(address)
    assert result.exit_code == 0, result.output
    assert f"bootstrap server {address}" in result.output and f"broker 0 {address}" in result.output
    assert "resolve, connect, API versions, metadata" in result.output
    assert "as advertised" in result.output and "Everything works." in result.output
    assert "records " in result.output and "lz4 " in result.output and "kafkaraw " in result.output


def test_an_unresolvable_advertised_name_is_reported():
    with EmbeddedBroker(properties={"advertised.listeners": f"PLAINTEXT://{UNRESOLVABLE}:9092"}) as broker:
        result = doctor(f"127.0.0.1:{_port(broker)}")
    assert result.exit_code == 20, result.output
    assert f"FAIL  resolve: cannot resolve '{UNRESOLVABLE}'" in result.output
    assert f"{UNRESOLVABLE}:9092 for broker 0, which cannot be reached from this machine" in result.output
    assert "set advertised.listeners" in result.output


def test_a_closed_advertised_port_is_reported():
    with EmbeddedBroker(properties={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{closed_port()}"}) as broker:
        result = doctor(f"127.0.0.1:{_port(broker)}")
    assert result.exit_code == 21, result.output
    assert "FAIL  connect" in result.output and "set advertised.listeners" in result.output


def test_a_closed_port():
    result = doctor(f"127.0.0.1:{closed_port()}")
    assert result.exit_code == 11
    assert "FAIL  connect" in result.output and "ok    resolve" in result.output
    assert "check that the broker runs" in result.output
    assert "Traceback" not in result.output


def test_a_host_that_cannot_be_resolved():
    result = doctor(f"{UNRESOLVABLE}:9092")
    assert result.exit_code == 10
    assert "FAIL  resolve" in result.output and "spelling" in result.output


def test_a_web_server_is_recognised():
    with server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as address:
        result = doctor(address)
    assert result.exit_code == 14
    assert "HTTP" in result.output and "ok    resolve, connect" in result.output


def test_a_port_that_speaks_tls_is_recognised():
    with server(b"\x15\x03\x03\x00\x02\x02\x46") as address:
        result = doctor(address)
    assert result.exit_code == 14
    assert "TLS" in result.output and "security_protocol" in result.output


def tls_broker(authority: trustme.CA) -> EmbeddedBroker:
    certificate = authority.issue_cert("127.0.0.1")
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": b"".join(it.bytes() for it in certificate.cert_chain_pems).decode(),
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
    }
    return EmbeddedBroker(properties=properties)


def test_plaintext_at_a_tls_port_names_the_setting():
    """The broker closes without a word; a second look finds out that it shakes hands."""
    with tls_broker(trustme.CA()) as broker:
        result = doctor(broker.bootstrap_servers)
    assert result.exit_code == 14
    assert "this port speaks TLS: set security_protocol=SSL" in result.output


def test_tls_at_a_plaintext_port_names_the_setting():
    with EmbeddedBroker() as broker:
        result = doctor(broker.bootstrap_servers, "-X", "security.protocol=SSL")
    assert result.exit_code == 12
    assert "without TLS and without authentication: set security_protocol=PLAINTEXT" in result.output


def test_missing_authentication_names_the_mechanisms():
    with EmbeddedBroker(users={"ada": "opensesame"}) as broker:
        result = doctor(broker.bootstrap_servers)
    assert result.exit_code == 15
    assert "set security_protocol=SASL_PLAINTEXT and sasl_mechanism (PLAIN, SCRAM-SHA-256" in result.output


def test_a_wrong_password_is_reported_with_the_message_of_the_broker():
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ada"}
    options = [word for name, value in (login | {"sasl.password": "no"}).items() for word in ("-X", f"{name}={value}")]
    with EmbeddedBroker(users={"ada": "opensesame"}) as broker:
        result = doctor(broker.bootstrap_servers, *options)
    assert result.exit_code == 13
    assert "Invalid username or password" in result.output and "check the mechanism, user and password" in result.output


def test_an_untrusted_certificate_is_reported_with_the_reason():
    with tls_broker(trustme.CA()) as broker:
        result = doctor(broker.bootstrap_servers, "-X", "security.protocol=SSL")
    assert result.exit_code == 12
    assert "CERTIFICATE_VERIFY_FAILED, " in result.output and "issuer certificate" in result.output


def test_a_web_server_that_waits_for_a_line_is_recognised():
    """Ours is no line of text, so it waits; a request of its own kind it answers."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.01,))
        thread.start()
        result = doctor(f"127.0.0.1:{web.server_port}", "--timeout", "0.3")
        web.shutdown()
        thread.join()
    assert result.exit_code == 14
    assert "a web server (HTTP) listens there" in result.output


def test_a_server_that_does_not_respond_is_reported_within_the_timeout():
    with server(None) as address:
        result = doctor(address, "--timeout", "0.2")
    assert result.exit_code == 14
    assert "did not answer ApiVersions" in result.output


def test_each_server_is_checked_and_the_first_failure_sets_the_exit_code():
    with EmbeddedBroker() as broker:
        result = doctor(f"{broker.bootstrap_servers},127.0.0.1:{closed_port()}", "--json")
    findings = json.loads(result.output)
    assert result.exit_code == findings["exit_code"] == 11
    assert [(visit["who"], visit["failed"]) for visit in findings["visits"]] == [
        ("bootstrap server", None),
        ("bootstrap server", "connect"),
        ("broker 0", None),
    ]
    assert findings["cluster_id"]
    assert findings["versions"]["records"] in ("python", "native")


def test_an_advertised_address_of_another_cluster_is_reported():
    with EmbeddedBroker() as other:
        advertised = {"advertised.listeners": f"PLAINTEXT://{other.bootstrap_servers}"}
        with EmbeddedBroker(properties=advertised) as broker:
            result = doctor(f"127.0.0.1:{_port(broker)}")
    assert result.exit_code == 25, result.output
    assert "belongs to cluster" in result.output and "set advertised.listeners" in result.output


def test_bootstrap_servers_of_two_clusters_are_reported():
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        result = doctor(f"{one.bootstrap_servers},{two.bootstrap_servers}")
    assert result.exit_code == 15, result.output
    assert "one cluster only" in result.output


def test_invalid_options_are_usage_errors():
    result = doctor("127.0.0.1:1", "-X", "client.idd=x")
    assert result.exit_code == 2 and "client.id" in result.output
    assert doctor("127.0.0.1").exit_code == 2


def test_settings_are_accepted_with_dotted_names():
    with EmbeddedBroker() as broker:
        assert doctor(broker.bootstrap_servers, "-X", "client.id=me", "-X", "request_timeout_ms=5000").exit_code == 0


def test_tls_and_sasl_use_the_settings_of_the_client(tmp_path: Path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = authority.issue_cert("127.0.0.1")
    properties = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.certificate.chain": "".join(blob.bytes().decode() for blob in certificate.cert_chain_pems),
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
    }
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl_username": "ada",
        "sasl_password": "s3cret",
        "ssl_cafile": str(tmp_path / "ca.pem"),
    }
    with EmbeddedBroker(properties=properties, users={"ada": "s3cret"}) as broker:

        def result(**more: str) -> Result:
            options = [text for name, value in (settings | more).items() for text in ("-X", f"{name}={value}")]
            return doctor(broker.bootstrap_servers, *options)

        good = result()
        assert good.exit_code == 0, good.output
        assert "resolve, connect, TLS, SASL, API versions, metadata" in good.output
        refused = result(sasl_password="wrong")
        assert refused.exit_code == 13
        assert "ok    resolve, connect, TLS\n" in refused.output
        assert result(ssl_cafile=str(tmp_path / "none.pem")).exit_code == 2
        settings = {"security.protocol": "SASL_SSL", "ssl_cafile": settings["ssl_cafile"]}
        no_token = result(
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=f"https://localhost:{closed_port()}/",
            sasl_oauthbearer_client_id="me",
            sasl_oauthbearer_client_secret="s3cret",
        )
        assert no_token.exit_code == 13
        assert "no token from https://localhost" in no_token.output.replace("\n", " ")


def test_the_help_lists_the_exit_codes():
    assert "20-25" in CliRunner().invoke(main, ["doctor", "--help"]).output


def _port(broker: EmbeddedBroker) -> int:
    """The port that is listened on, whatever is advertised."""
    assert broker._node is not None
    return broker._node._listeners[0].port

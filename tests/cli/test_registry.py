"""`kafkaraw registry`: as a process that is stopped by a signal, and what its options refuse."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from kafkaraw.cli import main

TIMEOUT_S = 60


def started(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Start the command, and return it with its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkaraw", "registry", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("url=http"), (line, process.stderr and process.stderr.read())
    return process, line.removeprefix("url=").strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_answers_until_a_signal_ends_it(number: signal.Signals) -> None:
    process, url = started("--in-memory", "--compatibility", "full", "--user", "ada:secret")
    try:
        with httpx.Client(base_url=url, auth=("ada", "secret"), trust_env=False) as client:
            assert client.get("/config").json() == {"compatibilityLevel": "FULL"}
            assert client.post("/subjects/s/versions", json={"schema": '"int"'}).json()["id"] == 1
        assert httpx.get(url + "/config", trust_env=False).status_code == 401
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert (out, err, process.returncode) == ("", "% Stopped.\n", 0)


def test_the_schemas_are_in_kafka(servers: str, tmp_path: Path) -> None:
    config = tmp_path / "schema-registry.properties"
    config.write_text(
        f"kafkastore.bootstrap.servers=PLAINTEXT://{servers}\nkafkastore.topic=_cli\nhost.name=localhost\n"
    )
    for expected in ([], ["s"]):
        process, url = started("--config", str(config), "-X", "schema.registry.group.id=cli")
        try:
            with httpx.Client(base_url=url, trust_env=False) as client:
                assert client.get("/subjects").json() == expected
                assert client.post("/subjects/s/versions", json={"schema": '"int"'}).json()["id"] == 1
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
        assert process.returncode == 0, err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "give -b HOST:PORT"),
        (["--in-memory", "-b", "localhost:9092"], "not both"),
        (["--in-memory", "--compatibility", "sideways"], "must be one of none, backward"),
        (["--in-memory", "-X", "schema.compatability.level=full"], "did you mean schema.compatibility.level?"),
        (["--in-memory", "-X", "leader.eligibility=maybe"], "must be true or false"),
        (["--in-memory", "-X", "listeners=http://a:1,http://b:2"], "one listener"),
        (["--in-memory", "--tls-key", "key.pem"], "need --tls-cert"),
        (["--in-memory", "--tls-cert", "cert.pem", "--tls-client-auth"], "needs --tls-ca"),
        (["-b", "localhost:9092", "-X", "kafkastore.securty.protocol=SSL"], "security.protocol"),
        (["--in-memory", "--user", "ada"], "must be NAME:PASSWORD"),
    ],
)
def test_wrong_options_are_refused_with_what_to_do(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(main, ["registry", *arguments])
    assert result.exit_code == 2
    assert named in " ".join(result.output.split())


def test_a_port_in_use_and_a_missing_certificate_are_refused(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(main, ["registry", "--in-memory", "--port", port])
        assert result.exit_code == 1
        assert f"cannot listen on 127.0.0.1:{port}" in result.output
    missing = str(tmp_path / "missing.pem")
    result = CliRunner().invoke(main, ["registry", "--in-memory", "--port", "0", "--tls-cert", missing])
    assert result.exit_code == 1
    assert missing in result.output


def test_a_properties_file_may_be_in_the_encoding_of_java(tmp_path: Path) -> None:
    path = tmp_path / "schema-registry.properties"
    for encoding in ("iso-8859-1", "utf-8"):
        path.write_text("größe=1\n", encoding=encoding)
        result = CliRunner().invoke(main, ["registry", "--in-memory", "--config", str(path)])
        assert result.exit_code == 2
        assert "property größe is not one that this registry takes" in " ".join(result.output.split())

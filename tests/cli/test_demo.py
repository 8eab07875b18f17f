"""`kafkaraw demo flights` refuses bad input quickly and in one line; that it works is tested in tests/demo."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw.cli import main
from kafkaraw.demo.flights import data_folder
from kafkaraw.errors import UsageError


@pytest.fixture(autouse=True)
def flights_installed() -> None:
    try:
        data_folder()
    except UsageError as error:
        pytest.skip(str(error))


def flights(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["demo", "flights", "--limit", "10", *arguments])


def assert_one_line(result: Result, *words: str) -> None:
    assert result.exit_code == 1
    assert all(word in result.stderr for word in words)
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_host_that_does_not_resolve():
    assert_one_line(flights("--bootstrap-server", "no-such-host.invalid:9092"), "no-such-host.invalid:9092")


def test_a_closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    assert_one_line(flights("--bootstrap-server", address), address)


def test_a_port_where_something_else_answers():
    def answer() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{server.getsockname()[1]}"
    other = threading.Thread(target=answer)
    other.start()
    assert_one_line(flights("--bootstrap-server", address), address, "HTTP")
    other.join()


@pytest.mark.parametrize("address", ["localhost", "localhost:port", ""])
def test_an_invalid_address(address: str):
    assert_one_line(flights("--bootstrap-server", address), "bootstrap")


def test_a_folder_in_use_is_not_written_to(tmp_path: Path):
    (tmp_path / "precious").write_text("mine")
    assert_one_line(flights("--keep", str(tmp_path)), "--keep", "not empty")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(("option", "value"), [("--limit", "0"), ("--limit", "many"), ("--malformed", "-1")])
def test_numbers_out_of_range_are_usage_errors(option: str, value: str):
    result = CliRunner().invoke(main, ["demo", "flights", option, value])
    assert result.exit_code == 2
    assert option in result.stderr


@pytest.mark.parametrize(("balanced", "exit_code"), [(True, 0), (False, 1)])
def test_the_exit_code_says_whether_the_sheet_balances(balanced: bool, exit_code: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.demo.run.run_flights", lambda options: balanced)
    assert flights().exit_code == exit_code


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.demo.run.find_spec", lambda name: None)
    assert_one_line(flights(), "pyspark", "make setup")

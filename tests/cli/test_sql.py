"""`kafkaraw sql` against the embedded broker: statements, forms of results, records of rows, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main, querying
from kafkaraw.cli.querying import _Completer
from kafkaraw.datasets.sql import SqlSession
from tests.cli.running import fill, make_topic, read, run

BY_STATUS = "SELECT status, count(*) AS n FROM orders GROUP BY ALL ORDER BY ALL"


@pytest.fixture(scope="module")
def orders(servers: str) -> str:
    make_topic(servers, "orders")
    make_topic(servers, "orders-eu")
    states = ("new", "paid", "sent")
    fill(servers, "orders", [json.dumps({"id": n, "status": states[n % 3]}).encode() for n in range(30)], key=b"k")
    return servers


def test_a_result_is_a_table(orders: str):
    said = run(orders, "sql", BY_STATUS).output.splitlines()
    assert [line.split() for line in said] == [["status", "n"], ["new", "10"], ["paid", "10"], ["sent", "10"]]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("csv", '"status","n"\n"new",10\n"paid",10\n"sent",10\n'),
        ("json", '{"status": "new", "n": 10}\n{"status": "paid", "n": 10}\n{"status": "sent", "n": 10}\n'),
    ],
)
def test_a_result_is_written_as_text(orders: str, form: str, expected: str):
    assert run(orders, "sql", "-o", form, BY_STATUS).stdout == expected


def test_a_result_is_written_as_columns(orders: str, tmp_path: Path):
    file = tmp_path / "orders.parquet"
    run(orders, "sql", "-o", "parquet", "--output-file", str(file), 'SELECT "offset", status FROM orders')
    assert pq.read_table(file).num_rows == 30
    stream = run(orders, "sql", "-o", "arrow", BY_STATUS).stdout_bytes
    assert pa.ipc.open_stream(stream).read_all().to_pydict()["n"] == [10, 10, 10]


def test_csv_has_nested_columns_as_json(orders: str):
    said = run(orders, "sql", "-o", "csv", "SELECT [1, 2] AS list, {'a': 1} AS struct, 'x'::BLOB AS bytes").stdout
    assert said == '"list","struct","bytes"\n"[1, 2]","{""a"": 1}","x"\n'


def test_statements_of_the_standard_input_run_in_one_session(orders: str):
    given = b"CREATE TABLE t AS SELECT id FROM orders WHERE id < 3; SELECT sum(id) AS s FROM t;"
    assert run(orders, "sql", "-o", "csv", given=given).stdout.splitlines()[-2:] == ['"s"', "3"]


def test_explain_shows_offsets_and_columns_and_reads_nothing(orders: str):
    said = run(orders, "sql", "--explain", 'SELECT max(id) FROM orders WHERE "offset" >= 20').output
    assert said == "orders: 10 offsets, about 283 B, columns offset, id\n  orders-0: 20 to 30 (10 offsets)\n"
    assert run(orders, "sql", "--explain", "SELECT 1").output == "reads no topic\n"


def test_a_plan_of_duckdb_is_shown_in_its_lines(orders: str):
    said = run(orders, "sql", "EXPLAIN SELECT max(id) FROM orders").output
    assert len(said.splitlines()) > 3
    assert "\\n" not in said


def test_rows_become_records(orders: str):
    make_topic(orders, "totals")
    said = run(
        orders, "sql", "--to-topic", "totals", "SELECT status AS key, count(*) AS n FROM orders GROUP BY ALL"
    ).stderr
    assert "3 records written to totals" in said
    assert sorted(read(orders, "totals", "-K", ":").split(b"\n")) == [
        b"", b'new:{"n": 10}', b'paid:{"n": 10}', b'sent:{"n": 10}',
    ]  # fmt: skip


def test_a_table_that_is_cut_off_says_so(orders: str):
    assert "only the first 2 rows" in run(orders, "sql", "--rows", "2", "SELECT id FROM orders").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SELECT * FROM ordres"], "there is no topic and no table 'ordres'; did you mean orders"),
        (["SELECT id FRM orders"], "syntax error"),
        (["--to-topic", "orders", "SELECT value, id FROM orders"], "the columns id are no part of a record"),
        (["--value", "xml", "SELECT * FROM orders"], "value='xml' is none of auto"),
        (["--format", "orders=avro", "SELECT * FROM orders"], "needs registry="),
    ],
)
def test_an_error_says_what_is_wrong(orders: str, arguments: list[str], message: str):
    result = run(orders, "sql", *arguments, code=1)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_tab_completes_topics_and_columns_of_those_that_the_line_names(orders: str):
    with SqlSession(bootstrap_servers=orders) as session:
        completer = _Completer(session)
        assert completer._candidates("ord", "SELECT * FROM ord") == ["orders", '"orders-eu"', "ORDER BY"]
        assert completer._candidates("sta", "SELECT * FROM orders WHERE sta") == ["status"]
        assert completer._candidates("off", "SELECT * FROM orders WHERE off") == ['"offset"']
        assert completer._candidates("orders-e", 'SELECT * FROM "orders-e', '"') == ['orders-eu"']
        assert completer._candidates("orders-e", "SELECT * FROM orders-e") == ['"orders-eu"']
        assert completer._candidates("orders-", "SELECT * FROM topic('orders-", "'") == ["orders-eu'"]


def test_copy_to_topic_and_several_statements_in_one_argument(orders: str):
    make_topic(orders, "copied")
    given = (
        "CREATE TABLE t AS SELECT id FROM orders WHERE id < 2; COPY (FROM t) TO TOPIC 'copied'; SELECT count(*) FROM t"
    )
    said = run(orders, "sql", "-o", "csv", given)
    assert said.stdout.endswith('"count_star()"\n2\n')
    assert "2 records written to copied" in said.stderr
    assert read(orders, "copied") == b'{"id": 0}\n{"id": 1}\n'
    assert "create it first" in run(orders, "sql", "--to-topic", "nowhere", "SELECT 1 AS a", code=1).stderr


def test_a_query_that_reads_very_much_says_so_first(orders: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(querying, "_WARN_BYTES", 100)
    assert "% reading 30 offsets of orders, about 850 B; Ctrl-C stops" in run(orders, "sql", BY_STATUS).stderr
    assert "% reading" not in run(orders, "sql", "-q", BY_STATUS).stderr


def test_contents_of_records_do_not_reach_the_terminal_as_control_characters(orders: str):
    with Admin(bootstrap_servers=orders) as admin:
        admin.create_topics([NewTopic("hostile", configs={"message.timestamp.after.max.ms": str(2**63 - 1)})])
    value = json.dumps({"a\x1b[2J": "b\x1b]0;title\x07\u202e"}).encode()
    fill(orders, "hostile", [value, b"\x1b[31m"], key=b"\x1b[1m", timestamp_ms=2**53)
    for arguments in (["SELECT * FROM hostile"], ["--explain", "SELECT * FROM topic('hostile', value='json')"]):
        said = run(orders, "sql", *arguments).output
        assert not set(said) & {"\x1b", "\x07", "\u202e"}
        assert "x1b" in said
    for form in ("csv", "json"):
        assert run(orders, "sql", "-o", form, "SELECT timestamp FROM hostile").stdout.strip()


def test_json_has_numbers_for_decimals_and_null_for_what_is_no_number(orders: str):
    query = "SELECT sum(id) AS s, 1.25::DECIMAL(9, 2) AS d, 'nan'::DOUBLE AS n, INTERVAL 1 DAY AS i FROM orders"
    said = run(orders, "sql", "-o", "json", query).stdout
    assert json.loads(said) | {"i": None} == {"s": 435, "d": 1.25, "n": None, "i": None}


def test_log_directories_need_no_broker(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        make_topic(broker.bootstrap_servers, "filed")
        fill(broker.bootstrap_servers, "filed", [b"1", b"2"])
    result = CliRunner().invoke(
        main, ["sql", "--log-dir", str(tmp_path), "-o", "csv", "SELECT count(*) AS n FROM filed"]
    )
    assert result.stdout == '"n"\n2\n'
    copied = CliRunner().invoke(main, ["sql", "--log-dir", str(tmp_path), "COPY filed TO TOPIC 'x'"])
    assert "log directories are only read" in copied.stderr
    assert (
        "no log directory"
        in CliRunner().invoke(main, ["sql", "--log-dir", str(tmp_path / "filed-0"), "SELECT 1"]).stderr
    )

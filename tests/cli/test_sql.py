"""`kafkaraw sql` against the embedded broker: statements, forms of results, records of rows, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkaraw.cli.querying import _Completer
from kafkaraw.datasets.sql import SqlSession
from tests.cli.running import fill, make_topic, read, run

BY_STATUS = "SELECT status, count(*) AS n FROM orders GROUP BY ALL ORDER BY ALL"


@pytest.fixture(scope="module")
def orders(servers: str) -> str:
    make_topic(servers, "orders")
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
    assert said == "orders: 10 offsets, columns offset, id\n  orders-0: 20 to 30 (10 offsets)\n"
    assert run(orders, "sql", "--explain", "SELECT 1").output == "reads no topic\n"


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
        (["SELECT * FROM ordres"], "there is no topic and no table 'ordres'; did you mean orders?"),
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
        assert completer._candidates("ord", "SELECT * FROM ord") == ["orders", "ORDER BY"]
        assert completer._candidates("sta", "SELECT * FROM orders WHERE sta") == ["status"]

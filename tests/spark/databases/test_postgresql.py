"""What only a server does: it is restarted, it has no space, it is unreachable, its passwords stay hidden."""

from __future__ import annotations

import socket
import time
from dataclasses import replace

import pytest

from kafkaraw.errors import ConfigError
from kafkaraw.spark.databases.commits import commit_batch
from kafkaraw.spark.databases.postgresql import Postgresql, _connection_string
from kafkaraw.spark.errors import TableError
from kafkaraw.spark.lake.batches import BatchId
from kafkaraw.spark.lake.commits import Verdict
from kafkaraw.spark.options.databases import DatabaseOptions, parse_duckdb, parse_postgresql, parse_sqlite
from tests.spark.databases.test_commits import rows

PASSWORD = "Sesam 7'\\%"


def test_restarted_server_has_all_of_a_batch_or_nothing(server):
    server[0].query("CREATE SCHEMA own")
    place, postgres = server[0].named("own.restarted"), server[1]
    place.write(0, rows((1, "a")))

    class Restarting:
        """Restarts the server before a transaction is committed, once."""

        def __init__(self, session):
            self._session = session

        def __getattr__(self, name):
            return getattr(self._session, name)

        def commit(self):
            postgres.stop()
            postgres.start()
            self._session.commit()

    with pytest.raises(TableError, match=r"restarted: committing batch 1 of query q failed: .*unknown.*option url"):
        place.write(1, rows((2, "b")), wrapped=Restarting)
    assert place.rows() == [(1, "a")]
    assert place.write(1, rows((2, "b"))) is Verdict.COMMIT
    assert place.rows() == [(1, "a"), (2, "b")]
    assert place.staged() == []


def test_rows_lost_by_a_crash_after_staging_are_noticed(server):
    place, postgres = server[0].named("crashed"), server[1]
    target = place.prepare(rows((1, "a")).schema)
    batch = BatchId("q", 0, "run")
    staged = place.stage(batch, [rows((1, "a"))])
    postgres.stop()
    postgres.start()
    with pytest.raises(TableError, match=r"crashed: the tasks have staged 1 rows, and 0 are left"):
        commit_batch(lambda: place.database.connect(place.options), place.options, target, batch, staged)
    assert place.write(0, rows((1, "a"))) is Verdict.COMMIT
    assert place.rows() == [(1, "a")]


def test_unreachable_server_names_stage_table_and_option():
    with pytest.raises(TableError, match=r"^t: connecting failed: .*refused.*option url") as refused:
        Postgresql().connect(DatabaseOptions("postgresql://ada@127.0.0.1:1/x", "t", password=PASSWORD))
    assert PASSWORD not in str(refused.value)


def test_server_that_accepts_connections_and_never_answers_is_noticed():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"postgresql://ada@127.0.0.1:{port}/x?connect_timeout=2&sslmode=disable"
        began_s = time.monotonic()
        with pytest.raises(TableError, match=r"^t: connecting failed: .*timeout expired.*option url"):
            Postgresql().connect(DatabaseOptions(url, "t"))
        assert time.monotonic() - began_s >= 1, "it was refused, and not waited for"


def test_no_wait_for_a_server_is_endless():
    """The kernel notices a server that is gone; connecting has a limit of its own."""
    for url in ("postgresql://h/shop", "host=h dbname=shop"):
        found = _connection_string(DatabaseOptions(url, "t")).replace("'", "")
        for limit in ("connect_timeout=15", "tcp_user_timeout=60000", "keepalives_idle=30", "keepalives_count=3"):
            assert limit in found
    own = _connection_string(DatabaseOptions("postgresql://h/shop?connect_timeout=3", "t"))
    assert own.count("connect_timeout") == 1


@pytest.mark.parametrize(
    ("options", "limit"), [("", "1h"), ("-c statement_timeout=5min", "5min"), ("-c statement_timeout=50ms", "50ms")]
)
def test_statements_have_a_time_limit_unless_the_url_sets_one(server, options, limit):
    given = server[0].options
    url = f"{given.database} options='{options}'"
    session = Postgresql().connect(replace(given, database=url) if options else given)
    try:
        assert session.rows("SELECT current_setting('statement_timeout')") == [(limit,)]
        if limit == "50ms":
            limited = pytest.raises(TableError, match=r"waiting failed: .*statement timeout.*statement_timeout%3D2h")
            with limited, session.told("waiting"):
                session.rows("SELECT pg_sleep(20)::text")
    finally:
        session.rollback()
        session.close()


def test_password_is_hidden_and_refused_in_urls():
    options = parse_postgresql({"url": "postgresql://ada@h/shop", "table": "t", "password": PASSWORD})
    assert PASSWORD not in repr(options)
    for url in (
        f"postgresql://ada:{PASSWORD}@h/shop",
        "postgresql://ada:S7/x@h/shop",
        f"postgresql://h/x?password={PASSWORD}",
        "postgresql://h/x?sslpassword=S7",
        "host=h password=S7",
        "host=h oauth_client_secret = S7",
    ):
        with pytest.raises(ConfigError, match="contains a password") as refused:
            parse_postgresql({"url": url, "table": "t"})
        assert PASSWORD not in str(refused.value)
        assert "S7" not in str(refused.value)
    for url in ("postgresql://h:5432/shop?user=ada@server", "host=h passfile=/home/ada/.pgpass"):
        assert parse_postgresql({"url": url, "table": "t"}).database == url


@pytest.mark.parametrize(
    ("parse", "options", "message"),
    [
        (parse_postgresql, {"table": "t"}, "option url is missing"),
        (parse_postgresql, {"url": "mysql://h", "table": "t"}, "no URL of PostgreSQL"),
        (parse_postgresql, {"url": "postgresql://h", "table": "a.b.c"}, "TABLE or SCHEMA.TABLE"),
        (parse_sqlite, {"path": "x", "table": "a.b"}, "must be TABLE"),
        (parse_sqlite, {"path": ":memory:", "table": "t"}, "folder that driver and executors share"),
        (parse_duckdb, {"path": "x", "table": "t", "orderColumn": "o"}, "needs the option key"),
        (parse_duckdb, {"path": "x", "table": "t", "key": "o", "orderColumn": "o"}, "is a column of key"),
        (parse_duckdb, {"path": "x", "table": "t", "keys": "o"}, "did you mean key"),
    ],
)
def test_wrong_options_are_refused(parse, options, message):
    with pytest.raises(ConfigError, match=message):
        parse(options)

"""Whatever Spark shows of writes into a database that asks for a password: neither the right one nor a wrong one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT, WRONG = "Sesam-7 'right' %\\", "Sesam-8-wrong"
# As text, in JSON, in Spark's pages, in Python's `repr` and in a URL: all have this.
SECRETS = ("Sesam-7", "Sesam-8")


@pytest.fixture
def asking(server) -> str:
    """The connection string of a role that the server asks for its password."""
    place = server[0]
    place.query("CREATE SCHEMA shown")
    quoted = RIGHT.replace("'", "''")
    place.query(f"CREATE ROLE ada LOGIN PASSWORD '{quoted}'")
    place.query("GRANT CREATE, USAGE ON SCHEMA shown TO ada")
    found = re.search(r"host=(\S+)", place.options.database)
    assert found is not None
    access = Path(found[1], "data/pg_hba.conf")
    before = access.read_text()
    access.write_text(f"local all ada scram-sha-256\n{before}")
    place.query("SELECT pg_reload_conf()")
    yield place.options.database.replace("user=shop", "user=ada")
    access.write_text(before)
    place.query("SELECT pg_reload_conf()")


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_spark_shows_no_password_of_a_database(server, asking, tmp_path):
    """Explanations, user interface, REST API, progress, checkpoint, event log, errors, output, command lines."""
    folder, source, given = tmp_path / "shown", tmp_path / "in", tmp_path / "options.json"
    folder.mkdir()
    source.mkdir()
    (source / "1.json").write_text('{"id": 1, "name": "a"}')
    options = {"url": asking, "table": "shown.t", "password": RIGHT}
    given.write_text(json.dumps({"source": str(source), "options": options, "wrong": {"password": WRONG}}))
    command = [sys.executable, "-m", "tests.spark.databases.shown_writes", str(folder), str(given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert server[0].named("shown.t").rows() == [(1, "a"), (2, "b")]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shown = {name: data.decode(errors="replace") for name, data in files.items()}
    shown |= {"standard output": done.stdout, "standard error": done.stderr}
    assert "password authentication failed" in shown["error-wrong-password.txt"]
    assert "password authentication failed" in shown["error-stream.txt"]
    assert "no character NUL" in shown["error-task.txt"]
    assert "two rows of the key" in shown["error-commit.txt"]
    assert "did you mean password" in shown["error-unknown-option.txt"]
    assert "shown_writes" in shown["commands.txt"]
    assert any(name.startswith("checkpoint/offsets/") for name in shown)
    assert "SparkListenerSQLExecutionStart" in "".join(text for name, text in shown.items() if "events_" in name)
    assert {(name, secret) for name, text in shown.items() for secret in SECRETS if secret in text} == set()

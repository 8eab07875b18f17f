from __future__ import annotations

import itertools

import pytest

from examples.postgres import find_programs
from tests.spark.databases.places import KINDS, file_place, postgres_place

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server, and a place in it."""
    if find_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres_place() as found:
        yield found


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    """A table that does not exist yet, in each database."""
    if request.param == "postgresql":
        found = request.getfixturevalue("server")[0]
        schema = f"s{next(_numbers)}"  # what other tests have staged is in other schemas
        found.query(f"CREATE SCHEMA {schema}")
        return found.named(f"{schema}.t")
    return file_place(request.param, tmp_path)

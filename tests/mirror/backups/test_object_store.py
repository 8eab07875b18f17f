"""Backups in object stores of Amazon, Azure and Google: incremental, pruned, and restored; errors name the location."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from kafkaraw import Admin, NewTopic, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from tests.mirror.copies import FEW_PARTITIONS, compared, fill
from tests.spark.lake import cloud_stores
from tests.spark.lake.cloud_stores import FIRST_TIMEOUT_S, Credentials, Store
from tests.spark.lake.object_stores import (
    BUCKET,
    MissingError,
    packages_with_adlfs_and_gcsfs,
    packages_with_s3fs,
)

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

pytestmark = pytest.mark.timeout(FIRST_TIMEOUT_S)
PROGRAM = """
import sys
sys.path.append(sys.argv.pop(1))
from kafkaraw.cli import main
main(prog_name="kafkaraw")
"""
"""The command with more packages; they are behind those of this environment, which have no s3fs."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def amazon() -> Iterator[Store]:
    with cloud_stores.amazon() as store:
        yield store


@pytest.fixture(scope="module")
def azure() -> Iterator[Store]:
    with cloud_stores.azure() as store:
        yield store


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with cloud_stores.google(tmp_path_factory.mktemp("google")) as store:
        yield store


@pytest.fixture(params=["amazon", "azure", "google"])
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


def command(store: Store, credentials: Credentials = Credentials.VALID) -> Run:
    """Return a function that runs `kafkaraw` with this store."""
    try:
        packages = packages_with_s3fs() if store.url.startswith("s3:") else packages_with_adlfs_and_gcsfs()
    except MissingError as missing:
        pytest.skip(f"packages of fsspec are missing: {missing}")
    environment = os.environ | store.environment(credentials)

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", PROGRAM, packages, *arguments]
        done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=60)
        assert done.returncode == code, done.stderr
        assert not [secret for secret in store.secrets if secret in done.stdout + done.stderr]
        return done

    return run


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    properties = {"log.retention.ms": -1, **FEW_PARTITIONS}  # records are of 2020
    with EmbeddedBroker(properties=properties) as one, EmbeddedBroker(properties=properties) as other:
        yield one.bootstrap_servers, other.bootstrap_servers


@pytest.mark.parametrize("file_format", ["segments", "parquet"])
def test_a_backup_in_an_object_store_is_continued_pruned_and_restored(
    store: Store, clusters: tuple[str, str], file_format: str
) -> None:
    source, target = clusters
    run = command(store)
    topic = f"{store.url.partition(':')[0]}-{file_format}"
    location, readers = f"{store.url}/backups/{file_format}", f"readers-of-{topic}"
    create = ("backup", "create", topic, "-b", source, "--to", location, "--format", file_format, "-o", "json")
    with Admin(bootstrap_servers=source) as admin:
        admin.create_topics([NewTopic(topic, partitions=2)])
    fill(source, topic, range(20))
    (first,) = json.loads(run(*create).stdout)
    fill(source, topic, range(20, 26))
    with Admin(bootstrap_servers=source) as admin:
        admin.alter_group_offsets(readers, {TopicPartition(topic, 1): 11})
    (second,) = json.loads(run(*create).stdout)
    (third,) = json.loads(run(*create, "--full").stdout)
    assert [each["records"] for each in (first, second, third)] == [20, 6, 26]
    shown = run("backup", "prune", location, "--keep-last", "1")
    assert "nothing was changed" in shown.stderr
    (removed,) = json.loads(run("backup", "prune", location, "--keep-last", "1", "--yes", "-o", "json").stdout)
    assert removed == {"topic": topic, "files": 4, "bytes": first["bytes"] + second["bytes"], "records": 0}
    (listed,) = json.loads(run("backup", "list", location, "-o", "json").stdout)
    assert (listed["run"], listed["records"]) == (3, 26)
    fill(source, topic, range(26, 30))
    run(*create)
    assert "read 4 files with 30 records: 0 damaged" in run("backup", "verify", location).stderr
    run("restore", location, "-b", target)
    assert [(each.equal_count, each.is_equal) for each in compared(source, target, (topic, topic))] == [(15, True)] * 2
    with Admin(bootstrap_servers=target) as admin:
        offsets = admin.list_group_offsets([readers])[readers]
    assert offsets[TopicPartition(topic, 1)].offset == 11


@pytest.mark.parametrize("credentials", [Credentials.WRONG, Credentials.EXPIRED])
def test_refused_credentials_are_an_error_that_names_the_location(store: Store, credentials: Credentials) -> None:
    found = command(store, credentials)("backup", "list", f"{store.url}/backups", code=1)
    assert found.stderr.splitlines()[-1].startswith(f"Error: {store.url}/backups"), found.stderr
    assert "Traceback" not in found.stderr or "gcsfs" in found.stderr  # gcsfs logs its last attempt


def test_a_missing_bucket_is_an_error_that_names_the_location(store: Store, clusters: tuple[str, str]) -> None:
    location = f"{store.url.replace(BUCKET, 'absent', 1)}/backups"
    topic = f"{store.url.partition(':')[0]}-absent"
    with Admin(bootstrap_servers=clusters[0]) as admin:
        admin.create_topics([NewTopic(topic, partitions=1)])
    found = command(store)("backup", "create", topic, "-b", clusters[0], "--to", location, code=1)
    assert found.stderr.splitlines()[-1].startswith(f"Error: {location}"), found.stderr
    assert "Traceback" not in found.stderr

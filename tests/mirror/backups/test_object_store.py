"""A backup in an object store with S3's interface: incremental, pruned, and restored; errors name the location."""

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
from tests.spark.lake.object_stores import BUCKET, MissingError, packages_with_s3fs, running

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

PROGRAM = """
import sys
sys.path.append(sys.argv.pop(1))
from kafkaraw.cli import main
main(prog_name="kafkaraw")
"""
"""The command with more packages; they are behind those of this environment, which have no s3fs."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def packages() -> str:
    try:
        return packages_with_s3fs()
    except MissingError as missing:
        pytest.skip(f"moto is missing: {missing}")


def command(address: str, packages: str) -> Run:
    """Return a function that runs `kafkaraw` with this store."""
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    environment = {**os.environ, **keys, "AWS_ENDPOINT_URL": address, "AWS_EC2_METADATA_DISABLED": "true"}

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", PROGRAM, packages, *arguments]
        done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=60)
        assert done.returncode == code, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    properties = {"log.retention.ms": -1, **FEW_PARTITIONS}  # records are of 2020
    with EmbeddedBroker(properties=properties) as one, EmbeddedBroker(properties=properties) as other:
        yield one.bootstrap_servers, other.bootstrap_servers


@pytest.mark.parametrize("file_format", ["segments", "parquet"])
def test_a_backup_in_an_object_store_is_continued_pruned_and_restored(
    packages: str, clusters: tuple[str, str], file_format: str
) -> None:
    source, target = clusters
    topic, location = f"t-{file_format}", f"s3://{BUCKET}/backups/{file_format}"
    create = ("backup", "create", topic, "-b", source, "--to", location, "--format", file_format, "-o", "json")
    with Admin(bootstrap_servers=source) as admin:
        admin.create_topics([NewTopic(topic, partitions=2)])
    fill(source, topic, range(20))
    with running("moto") as address:
        run = command(address, packages)
        (first,) = json.loads(run(*create).stdout)
        fill(source, topic, range(20, 26))
        with Admin(bootstrap_servers=source) as admin:
            admin.alter_group_offsets("readers", {TopicPartition(topic, 1): 11})
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
        offsets = admin.list_group_offsets(["readers"])["readers"]
    assert offsets[TopicPartition(topic, 1)].offset == 11


def test_expired_credentials_are_an_error_that_names_the_location(packages: str) -> None:
    with running("expired") as address:
        found = command(address, packages)("backup", "list", f"s3://{BUCKET}/backups", code=1)
    assert found.stderr.startswith(f"Error: s3://{BUCKET}/backups: "), found.stderr
    assert "expired" in found.stderr.lower()
    assert "Traceback" not in found.stderr

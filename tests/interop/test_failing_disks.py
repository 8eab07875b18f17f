"""Log directories on real file systems that become full or read-only under load: nothing acknowledged is lost.

The file systems are small ones, mounted for each test. That needs root; other users skip these tests.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli import main
from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.records import Ticket
from tests.rotation import rotating

PATIENCE_S = 60.0
PARTITIONS = [TopicPartition("t", number) for number in range(4)]
Sent = dict[TopicPartition, list[tuple[bytes, Ticket]]]

VALUE = bytes(range(256)) * 16
SETTINGS = {"linger_ms": 0, "batch_size": 20_000, "delivery_timeout_ms": 4_000, "request_timeout_ms": 2_000}


class Tmpfs:
    """A tmpfs of one megabyte that grows when it is repaired.

    Args:
        path: where it is mounted; the folder is created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        _run("mount", "-t", "tmpfs", "-o", "size=1m", "none", str(path))

    def fail(self) -> None:
        """Nothing: the test fills it."""

    def repair(self) -> None:
        """Give it more space."""
        _run("mount", "-o", "remount,size=16m", str(self.path))

    def unmount(self) -> None:
        """Unmount it."""
        _run("umount", str(self.path))


class Ext4:
    """An ext4 in a file, which turns read-only at its first error, as many are set up to do.

    Args:
        path: where it is mounted; the folder is created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._image = path.with_suffix(".img")
        path.mkdir()
        with open(self._image, "wb") as image:
            image.truncate(16 << 20)
        _run("mkfs.ext4", "-q", "-b", "1024", str(self._image))
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(path))
        try:
            self._trigger()
        except OSError:
            self.unmount()
            raise

    def _trigger(self) -> Path:
        device = self.path.stat().st_dev
        name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
        trigger = Path("/sys/fs/ext4", name, "trigger_fs_error")
        if not trigger.exists():
            raise FileNotFoundError(f"{trigger} is missing")
        return trigger

    def fail(self) -> None:
        """Cause an error."""
        self._trigger().write_text("1")

    def repair(self) -> None:
        """Check it and mount it again."""
        self.unmount()
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Unmount it."""
        _run("umount", str(self.path))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


@pytest.fixture(params=rotating([Tmpfs, Ext4], 1))
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tmpfs | Ext4]:
    try:
        made = request.param(tmp_path / "disk")
    except OSError as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    yield made
    _run("umount", "--lazy", str(made.path))  # a test that failed keeps files open


def write(servers: str, numbers: Iterable[int]) -> Sent:
    """Write a record to each partition for each number, and wait until each has its result."""
    sent: Sent = {key: [] for key in PARTITIONS}
    with Producer(bootstrap_servers=servers, **SETTINGS) as producer:  # type: ignore[arg-type]
        for number in numbers:
            for key, values in sent.items():
                value = b"%06d" % number + VALUE
                values.append((value, producer.send(key.topic, value, partition=key.partition)))
        for values in sent.values():
            for _, ticket in values:
                with suppress(KafkaError):
                    ticket.result(PATIENCE_S)
    return sent


def acknowledged(sent: Sent, key: TopicPartition) -> list[bytes]:
    return [value for value, ticket in sent[key] if ticket.exception() is None]


def written(sent: Sent) -> dict[TopicPartition, list[bytes]]:
    return {key: [value for value, _ in values] for key, values in sent.items()}


def read(servers: str, key: TopicPartition) -> list[bytes | None]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        end = consumer.end_offsets([key])[key]
        consumer.assign([key])
        values: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while consumer.position(key) < end:
            assert time.monotonic() < deadline, f"{len(values)} records of {key}"
            for batch in consumer.poll(timeout=0.5).values():
                values += batch.values()
    return values


def homes(servers: str) -> dict[TopicPartition, str]:
    """Return the directory of each partition."""
    with Admin(bootstrap_servers=servers) as admin:
        (directories,) = admin.describe_log_dirs().values()
    return {key: one.path for one in directories for key in one.replicas if key.topic == "t"}


def test_a_disk_that_fails_under_load_takes_its_directory_offline_and_loses_nothing_acknowledged(
    disk: Tmpfs | Ext4, tmp_path: Path
):
    good, bad = str(tmp_path / "good"), str(disk.path / "bad")
    with EmbeddedBroker(data_dir=[good, bad]) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:  # acknowledged is synced: the file system loses what is not
            admin.create_topics([NewTopic("t", len(PARTITIONS), configs={"flush.messages": "1"})])
        home = homes(servers)
        assert set(home.values()) == {good, bad}
        sent = write(servers, range(20))
        assert all(values == acknowledged(sent, key) for key, values in written(sent).items())
        disk.fail()
        for key, more in write(servers, range(20, 180)).items():
            sent[key] += more
        for key, values in sent.items():
            errors = {type(error) for _, ticket in values if (error := ticket.exception()) is not None}
            assert bool(errors) == (home[key] == bad), (key, errors)
        told = CliRunner().invoke(main, ["log-dirs", "describe", "-b", servers, "--dirs"])
        assert "KAFKA_STORAGE_ERROR" in told.output, told.output
        assert_whole(servers, sent, [key for key in PARTITIONS if home[key] == good])
    with EmbeddedBroker(data_dir=[good, bad]) as broker:  # not repaired
        assert_whole(broker.bootstrap_servers, sent, [key for key in PARTITIONS if home[key] == good])
    disk.repair()
    with EmbeddedBroker(data_dir=[good, bad]) as broker:
        servers = broker.bootstrap_servers
        assert homes(servers) == home
        for key in PARTITIONS:
            stored, kept = read(servers, key), acknowledged(sent, key)
            assert stored[: len(kept)] == kept, f"{key} has lost acknowledged records"
            assert len(stored) == len(set(stored))
        again = write(servers, [180])
        assert all(values == acknowledged(again, key) for key, values in written(again).items())
    told = CliRunner().invoke(main, ["log", "verify", bad])
    assert told.exit_code == 0, told.output


def assert_whole(servers: str, sent: Sent, keys: list[TopicPartition]) -> None:
    """Assert that partitions took everything and still have it."""
    for key in keys:
        assert read(servers, key) == acknowledged(sent, key) == written(sent)[key]


def test_a_broker_starts_without_a_directory_that_is_read_only(tmp_path: Path):
    try:
        disk = Tmpfs(tmp_path / "disk")
    except OSError as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    good, bad = str(tmp_path / "good"), str(disk.path / "bad")
    try:
        with EmbeddedBroker(data_dir=[good, bad]) as broker:
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                admin.create_topics([NewTopic("t", len(PARTITIONS))])
            home = homes(broker.bootstrap_servers)
            sent = write(broker.bootstrap_servers, range(3))
        _run("mount", "-o", "remount,ro", str(disk.path))
        with EmbeddedBroker(data_dir=[good, bad]) as broker:
            servers = broker.bootstrap_servers
            with Admin(bootstrap_servers=servers) as admin:
                (directories,) = admin.describe_log_dirs().values()
            assert [one.error is None for one in directories] == [True, False]
            assert homes(servers) == {key: path for key, path in home.items() if path == good}
            assert_whole(servers, sent, [key for key in PARTITIONS if home[key] == good])
        for only in ([bad], [bad, str(tmp_path / "new")]):  # the broker's metadata is in none of them
            with pytest.raises(ConfigError, match="bad cannot be used as a data directory: Read-only file system"):
                EmbeddedBroker(data_dir=only).start()
        _run("mount", "-o", "remount,rw", str(disk.path))
        with EmbeddedBroker(data_dir=[good, bad]) as broker:
            assert_whole(broker.bootstrap_servers, sent, PARTITIONS)
    finally:
        disk.unmount()

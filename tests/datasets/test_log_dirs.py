"""Data sets of log directories of the embedded broker: no broker is asked, and errors say what is missing."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import RecordsGoneError, SqlSession, UnknownTopicError, UsageError, dataset
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.core.log.damage import DamagedFileError
from tests.datasets.directories import check, sorted_rows
from tests.spark import log_contents


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """A broker, its log directory, and the topics there."""
    folder = tmp_path_factory.mktemp("broker")
    with EmbeddedBroker(data_dir=folder, properties=log_contents.PROPERTIES) as broker:
        topics = log_contents.write(broker.bootstrap_servers, folder)
        yield broker.bootstrap_servers, folder, topics
        while log_contents.OPEN_PRODUCERS:
            log_contents.OPEN_PRODUCERS.pop().close(timeout=0)


def test_a_log_directory_has_what_its_broker_has(folder: tuple[str, Path, tuple[str, ...]]):
    check(*folder)


def test_a_data_set_of_a_copy_needs_no_broker_and_can_be_pickled(
    folder: tuple[str, Path, tuple[str, ...]], tmp_path: Path
):
    shutil.copytree(folder[1] / "codecs-1", tmp_path / "codecs-0")
    copied = dataset("codecs", log_dirs=tmp_path)
    parts = [part.to_table() for part in pickle.loads(pickle.dumps(copied)).split(3)]
    assert sum(part.num_rows for part in parts) == copied.count_rows() == 300
    assert "logs" not in repr(copied)


def test_a_directory_that_lacks_a_partition_or_a_topic_says_so(
    folder: tuple[str, Path, tuple[str, ...]], tmp_path: Path
):
    shutil.copytree(folder[1] / "codecs-1", tmp_path / "codecs-1")
    with pytest.raises(RecordsGoneError, match="no directory has codecs-0: add the log directories of the other"):
        dataset("codecs", log_dirs=str(tmp_path))
    with pytest.raises(UnknownTopicError, match=r"topic 'orders' is not in .*; the topics there are: codecs"):
        dataset("orders", log_dirs=str(tmp_path))
    with pytest.raises(UnknownTopicError, match=r"no topic matches 'x\.\*'"):
        dataset(re.compile("x.*"), log_dirs=str(tmp_path))
    with SqlSession(log_dirs=str(tmp_path)) as session, pytest.raises(UsageError, match="did you mean codecs"):
        session.query("SELECT * FROM codec")


def test_a_damaged_batch_names_the_file_and_what_to_do(folder: tuple[str, Path, tuple[str, ...]], tmp_path: Path):
    shutil.copytree(folder[1] / "codecs-1", tmp_path / "codecs-0")
    log = tmp_path / "codecs-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[2_000] ^= 0xFF
    log.write_bytes(data)
    found = dataset("codecs", log_dirs=str(tmp_path))
    with pytest.raises(DamagedFileError, match=r"codecs-0/0+\.log: byte \d+: .*; read another replica, or leave out"):
        found.to_table()
    with SqlSession(log_dirs=str(tmp_path)) as session, pytest.raises(DamagedFileError, match="read another replica"):
        session.query("SELECT count(*) FROM topic('codecs', value='bytes')").read_all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log_dirs": "nowhere-at-all"}, "nowhere-at-all"),
        ({"log_dirs": []}, "log_dirs names no directory"),
        ({"log_dirs": ".", "bootstrap_servers": "localhost:1"}, "bootstrap_servers cannot be combined with log_dirs"),
        ({"log_dirs": ".", "isolation_level": "some"}, "isolation_level='some' is none of"),
        ({"log_dirs": "."}, "is no log directory"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(tmp_path: Path, arguments: dict[str, object], message: str):
    with pytest.raises((UsageError, OSError), match=message):
        dataset("orders", **{**arguments, **({"log_dirs": str(tmp_path)} if arguments["log_dirs"] == "." else {})})  # type: ignore[arg-type]


def test_rows_of_a_session_over_directories_are_written_only_to_a_cluster_that_is_named(
    folder: tuple[str, Path, tuple[str, ...]],
):
    servers, path, _ = folder
    query = "COPY (SELECT count(*)::INT AS n FROM topic('codecs', value='bytes')) TO TOPIC 'empty'"
    with SqlSession(log_dirs=str(path)) as session, pytest.raises(UsageError, match="producer= names a cluster"):
        session.query(query)
    with SqlSession(log_dirs=str(path), producer={"bootstrap_servers": servers}) as session:
        assert session.query(query).read_all().to_pylist() == [{"Count": 1}]
    assert sorted_rows(dataset("empty", bootstrap_servers=servers))["value"].to_pylist() == [b'{"n": 1500}']

"""All storages keep the same promises."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaraw.broker.log import file_storage, memory_storage
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.memory_storage import INLINE_BYTES_MAX, Descriptors, MemoryStorage
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.read_only_storage import ReadOnlyStorage
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.core.log.names import LOCK_FILE
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.logs.directory import locked
from kafkaraw.net.shared_files import SharedFile
from kafkaraw.protocol import FileSlice
from kafkaraw.records import parse_header
from kafkaraw.testing.simulated_disk import SimulatedDisk
from tests.broker.support import FixedClock, batch, content_bytes


@pytest.fixture(params=["memory", "memory with descriptors", "files", "simulated disk"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if request.param == "memory with descriptors":
        monkeypatch.setattr(memory_storage, "INLINE_BYTES_MAX", 0)
    made: LogStorage
    match request.param:
        case "files":
            made = FileStorage(tmp_path / "data")
        case "simulated disk":
            made = SimulatedDisk(random.Random(1))
        case _:
            made = MemoryStorage()
    yield made
    made.close()


def test_what_is_appended_can_be_read_anywhere(storage: LogStorage):
    storage.make_folder("t-0")
    file = storage.open_file("t-0", "a.log")
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"world")))
    assert file.size_bytes == 11
    assert bytes(file.read(0, 11)) == b"hello world"
    assert bytes(file.read(4, 3)) == b"o w"
    assert bytes(file.read(6, 100)) == b"world"
    assert content_bytes(file.content(6, 5)) == b"world"
    file.close()


def test_a_truncated_file_is_appended_to_at_its_new_end(storage: LogStorage):
    storage.make_folder("t-0")
    file = storage.open_file("t-0", "a.log")
    file.append(b"keep this, lose that")
    file.truncate(9)
    file.append(b"!")
    assert bytes(file.read(0, 100)) == b"keep this!"
    file.close()


def test_a_file_opened_again_has_its_old_content(storage: LogStorage):
    storage.make_folder("t-0")
    file = storage.open_file("t-0", "a.log")
    file.append(b"old")
    file.sync()
    file.close()
    again = storage.open_file("t-0", "a.log")
    assert bytes(again.read(0, 3)) == b"old"
    again.close()


def test_folders_and_files_are_listed_in_order_and_go_when_removed(storage: LogStorage):
    for folder in ("b-0", "a-0"):
        storage.make_folder(folder)
    storage.open_file("a-0", "2.log").close()
    storage.write_text("a-0", "1.txt", "x")
    assert storage.folders() == ["a-0", "b-0"]
    assert storage.files("a-0") == ["1.txt", "2.log"]
    storage.remove_file("a-0", "2.log")
    storage.remove_file("a-0", "2.log")
    storage.rename_folder("a-0", "c-0")
    storage.remove_folder("b-0")
    storage.remove_folder("b-0")
    assert storage.folders() == ["c-0"]
    assert storage.files("c-0") == ["1.txt"]


def test_a_text_is_replaced_whole(storage: LogStorage):
    assert storage.read_text(ROOT, "meta") is None
    storage.write_text(ROOT, "meta", "a long first version\n")
    storage.write_text(ROOT, "meta", "short\n", durable=False)
    assert storage.read_text(ROOT, "meta") == "short\n"


def test_small_files_are_replaced_whole(storage: LogStorage):
    storage.make_folder("t-0")
    assert storage.read_bytes("t-0", "a.snapshot") is None
    assert storage.file_size("t-0", "a.snapshot") is None
    storage.write_bytes("t-0", "a.snapshot", b"a long first version")
    storage.write_bytes("t-0", "a.snapshot", memoryview(b"\x00\xff"), durable=False, private=True)
    assert storage.read_bytes("t-0", "a.snapshot") == b"\x00\xff"
    assert storage.file_size("t-0", "a.snapshot") == 2
    file = storage.open_file("t-0", "a.snapshot")
    assert bytes(file.read(0, 10)) == b"\x00\xff"
    file.close()
    assert storage.files("t-0") == ["a.snapshot"]


def test_a_renamed_file_replaces_the_one_of_that_name_and_stays_open(storage: LogStorage):
    storage.make_folder("t-0")
    storage.write_bytes("t-0", "a.log", b"old")
    file = storage.open_file("t-0", "a.log.swap")
    file.append(b"new")
    storage.rename_file("t-0", "a.log.swap", "a.log")
    storage.sync_folder("t-0")
    file.close()  # a storage may close the descriptor of any file, and opens it by its name
    file.append(b"er")
    assert storage.read_bytes("t-0", "a.log") == b"newer"
    assert storage.files("t-0") == ["a.log"]
    with pytest.raises(FileNotFoundError):
        storage.rename_file("t-0", "a.log.swap", "a.log")
    file.close()


def test_an_open_file_follows_its_folder_and_its_name(storage: LogStorage):
    storage.make_folder("t-0")
    file = storage.open_file("t-0", "a.log")
    storage.rename_folder("t-0", "t-0.x-delete")
    storage.rename_file("t-0.x-delete", "a.log", "a.log.deleted")
    storage.make_folder("t-0")
    other = storage.open_file("t-0", "a.log")
    other.append(b"other")
    file.append(b"renamed")
    assert storage.read_bytes("t-0", "a.log") == b"other"
    assert storage.read_bytes("t-0.x-delete", "a.log.deleted") == b"renamed"
    file.close()
    other.close()


def test_bytes_in_the_middle_are_overwritten_and_the_file_grows_at_its_end(storage: LogStorage):
    file = storage.open_file(ROOT, "a.log")
    file.append(b"0123456789")
    file.write_at(2, b"ab")
    assert bytes(file.read(0, 100)) == b"01ab456789"
    file.write_at(8, b"cdef")
    assert file.size_bytes == 12
    file.write_at(14, b"!")
    file.append(b"?")
    assert bytes(file.read(0, 100)) == b"01ab4567cdef\0\0!?"
    file.close()


def test_an_allocated_file_is_appended_to_where_it_ended_and_cut_to_its_size(storage: LogStorage):
    file = storage.open_file(ROOT, "a.log")
    file.append(b"abc")
    file.allocate(100)
    file.allocate(50)
    assert file.size_bytes == 3
    file.append(b"def")
    assert bytes(file.read(0, 100)) == b"abcdef"
    file.truncate(6)
    assert storage.file_size(ROOT, "a.log") == 6
    file.append(b"g")
    assert storage.read_bytes(ROOT, "a.log") == b"abcdefg"
    file.close()


def test_an_allocated_file_has_its_full_size_on_disk(tmp_path: Path):
    storage = FileStorage(tmp_path)
    file = storage.open_file(ROOT, "a.log")
    file.allocate(100)
    file.append(b"abc")
    file.close()
    assert storage.read_bytes(ROOT, "a.log") == b"abc" + bytes(97)
    assert storage.open_file(ROOT, "a.log").size_bytes == 100
    storage.close()


LARGE = b"x" * (INLINE_BYTES_MAX + 1)


def test_a_file_in_memory_has_a_descriptor_when_it_is_large():
    storage = MemoryStorage()
    before = descriptors()
    file = storage.open_file(ROOT, "a.log")
    file.append(b"small")
    assert content_bytes(file.content(0, 5)) == b"small"
    assert descriptors() == before
    file.append(LARGE)
    assert descriptors() == before + 1
    content = file.content(3, 100)
    assert isinstance(content, FileSlice)
    assert content_bytes(content) == b"ll" + LARGE[:98]
    file.write_at(1, b"M")
    file.truncate(7)
    assert bytes(file.read(0, 100)) == b"sMallxx"
    storage.remove_file(ROOT, "a.log")
    assert descriptors() == before


def test_a_file_written_behind_its_end_in_memory_moves_to_a_descriptor():
    file = MemoryStorage().open_file(ROOT, "a.log")
    file.append(b"abc")
    file.write_at(INLINE_BYTES_MAX, b"d")
    assert bytes(file.read(0, 4)) == b"abc\0"
    assert bytes(file.read(INLINE_BYTES_MAX, 4)) == b"d"


def test_files_in_memory_take_a_bounded_number_of_descriptors():
    storage = MemoryStorage(Descriptors(2))
    before = descriptors()
    files = [storage.open_file(ROOT, f"{number}.log") for number in range(4)]
    for number, file in enumerate(files):
        file.append(b"%d" % number + LARGE)
        file.append(b"!")
    assert descriptors() == before + 2
    for number, file in enumerate(files):
        assert content_bytes(file.content(0, file.size_bytes)) == b"%d" % number + LARGE + b"!"
    storage.remove_file(ROOT, "0.log")
    files[2].append(b"?")
    assert descriptors() == before + 2, "the descriptor of a removed file serves another one"
    storage.make_folder("t-0")
    storage.open_file("t-0", "a.log").append(LARGE)
    storage.remove_folder("t-0")
    assert descriptors() == before + 2


def test_a_file_in_memory_stays_in_the_process_when_no_descriptor_is_free(monkeypatch: pytest.MonkeyPatch):
    def no_descriptor() -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(memory_storage, "_file_without_name", no_descriptor)
    file = MemoryStorage().open_file(ROOT, "a.log")
    file.append(LARGE)
    file.append(b"end")
    assert content_bytes(file.content(len(LARGE), 3)) == b"end"


def test_without_memfd_a_file_in_memory_is_a_temporary_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = MemoryStorage().open_file(ROOT, "a.log")
    file.append(LARGE)
    assert os.listdir(tmp_path) == []
    assert bytes(file.read(0, len(LARGE))) == LARGE


def test_slices_of_a_removed_file_in_memory_stay_good_while_the_network_layer_has_it():
    storage = MemoryStorage()
    file = storage.open_file(ROOT, "a.log")
    file.append(LARGE)
    content = file.content(0, 10)
    assert isinstance(content, FileSlice)
    shared = SharedFile.of(content.fd)
    storage.remove_file(ROOT, "a.log")
    assert os.pread(shared.fileno(), 10, 0) == b"x" * 10


def test_a_copy_of_a_small_file_keeps_its_content_when_the_file_changes():
    file = MemoryStorage().open_file(ROOT, "a.log")
    file.append(b"first")
    view = file.content(0, 5)
    file.truncate(0)
    file.append(b"other")
    assert content_bytes(view) == b"first"


def test_files_are_sent_from_their_descriptor(tmp_path: Path):
    storage = FileStorage(tmp_path)
    file = storage.open_file(ROOT, "a.log")
    file.append(b"0123456789")
    content = file.content(3, 100)
    assert isinstance(content, FileSlice)
    assert (content.offset, content.size) == (3, 7)
    file.close()
    storage.close()


def test_an_append_that_fails_half_way_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = FileStorage(tmp_path)
    file = storage.open_file(ROOT, "a.log")
    file.append(b"whole")
    real_pwrite = os.pwrite
    calls = []

    def pwrite_until_full(fd: int, data: memoryview, position: int) -> int:
        calls.append(position)
        if len(calls) == 1:
            return real_pwrite(fd, data[:2], position)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", pwrite_until_full)
    with pytest.raises(OSError, match="No space"):
        file.append(b"torn")
    monkeypatch.undo()
    assert (tmp_path / "a.log").read_bytes() == b"whole"
    file.append(b"!")
    assert bytes(file.read(0, 10)) == b"whole!"
    file.close()
    storage.close()


def test_what_a_failed_write_left_is_gone_before_the_next_segment_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    storage = FileStorage(tmp_path)
    log = PartitionLog(storage, "t-0", FixedClock(), SegmentSettings(segment_bytes=200))
    log.open()
    first = bytearray(batch(b"a" * 50))
    log.append(memoryview(first), parse_header(first))
    log.flush()
    real_pwrite = os.pwrite
    written = []

    def pwrite_of_a_part(fd: int, data: memoryview, position: int) -> int:
        if written:
            raise OSError(5, "Input/output error")
        written.append(position)
        return real_pwrite(fd, data[:20], position)

    def broken(fd: int, size: int) -> None:
        raise OSError(5, "Input/output error")

    torn = bytearray(batch(b"b", base_offset=1))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite_of_a_part)
        patched.setattr(os, "ftruncate", broken)
        with pytest.raises(OSError, match="Input/output"):
            log.append(memoryview(torn), parse_header(torn))
    rolled = bytearray(batch(b"c" * 150, base_offset=1))
    log.append(memoryview(rolled), parse_header(rolled))
    assert log.segments_count == 2
    log.close()
    reopened = PartitionLog(storage, "t-0", FixedClock(), SegmentSettings(segment_bytes=200))
    reopened.open()
    assert reopened.log_end_offset == 2, "the second segment is not taken for what follows damage"
    reopened.close()
    storage.close()


def test_a_data_directory_belongs_to_one_broker_at_a_time(tmp_path: Path):
    first = FileStorage(tmp_path)
    with pytest.raises(ConfigError, match="in use by another broker"):
        FileStorage(tmp_path)
    first.close()
    FileStorage(tmp_path).close()


def test_a_path_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match=r"log\.dirs"):
        FileStorage(tmp_path / "file")


OPEN_MAX = 16


@pytest.fixture
def few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_storage, "OPEN_FILES_MAX", OPEN_MAX)
    made = FileStorage(tmp_path / "data")
    made.make_folder("t-0")
    yield made
    made.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_storage_has_a_bounded_number_of_files_open(few_open_files: FileStorage):
    before = descriptors()
    files = [few_open_files.open_file("t-0", f"{number}.log") for number in range(3 * OPEN_MAX)]
    assert descriptors() == before, "a file that is not used is not open"
    for turn in range(3):
        for number, file in enumerate(files):
            file.append(b"%02d" % number * 10)
            file.sync()
            assert descriptors() <= before + OPEN_MAX
            assert bytes(file.read(20 * turn, 20)) == b"%02d" % number * 10
    for number, file in enumerate(files):
        file.truncate(30)
        assert bytes(file.read(0, 100)) == b"%02d" % number * 15
    for file in files:
        file.close()
    assert descriptors() == before


def test_slices_of_many_files_stay_good_until_all_of_them_are_sent(few_open_files: FileStorage):
    files = [few_open_files.open_file("t-0", f"{number}.log") for number in range(3 * OPEN_MAX)]
    for number, file in enumerate(files):
        file.append(b"%02d" % number * 10)
    before = descriptors()
    contents = [file.content(2, 4) for file in files]
    assert descriptors() == before
    assert [content_bytes(content) for content in contents] == [b"%02d" % number * 2 for number in range(len(files))]
    assert sum(isinstance(content, FileSlice) for content in contents) == OPEN_MAX
    assert content_bytes(files[0].content(16, 100)) == b"0000", "no more than there is"
    for file in files:
        file.close()


def test_a_file_that_was_removed_behind_the_brokers_back_is_an_error_and_not_a_new_file(few_open_files: FileStorage):
    file = few_open_files.open_file("t-0", "a.log")
    (few_open_files.path / "t-0" / "a.log").unlink()
    with pytest.raises(FileNotFoundError):
        file.append(b"x")


ASK_AS_KAFKA = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def is_locked_for_kafka(directory: Path) -> bool:
    """Whether another process, such as Apache Kafka, is refused the lock of a directory; its lock is of fcntl."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK_AS_KAFKA, directory / LOCK_FILE], capture_output=True, check=False
    )
    assert asked.returncode == 0 or b"BlockingIOError" in asked.stderr, asked.stderr
    return asked.returncode != 0


def refused_broker(directory: Path) -> None:
    with pytest.raises(ConfigError, match="in use by another broker"):
        FileStorage(directory)


def refused_reader(directory: Path) -> None:
    with pytest.raises(ConfigError, match="in use by a broker"):
        ReadOnlyStorage(directory)


def refused_repair(directory: Path) -> None:
    with pytest.raises(UsageError, match="in use by a broker"), locked(directory, creates=True):
        pass


def copied(directory: Path) -> None:
    (directory / LOCK_FILE).read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, locks of fcntl belong to the process")
@pytest.mark.parametrize("use", [refused_broker, refused_reader, refused_repair, copied])
def test_the_lock_of_a_directory_survives_other_uses_of_it_in_the_same_process(
    use: Callable[[Path], None], tmp_path: Path
):
    storage = FileStorage(tmp_path)
    assert is_locked_for_kafka(tmp_path)
    use(tmp_path)
    assert is_locked_for_kafka(tmp_path)
    storage.close()
    assert not is_locked_for_kafka(tmp_path)
    storage = FileStorage(tmp_path)
    storage.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, locks of fcntl belong to the process")
def test_readers_of_a_directory_share_its_lock_against_brokers(tmp_path: Path):
    FileStorage(tmp_path).close()
    first, second = ReadOnlyStorage(tmp_path), ReadOnlyStorage(tmp_path)
    first.close()
    refused_broker(tmp_path)
    assert is_locked_for_kafka(tmp_path)
    second.close()
    assert not is_locked_for_kafka(tmp_path)
    FileStorage(tmp_path).close()

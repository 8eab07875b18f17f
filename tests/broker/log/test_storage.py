"""Both storages keep the same promises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.memory_chunks import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.errors import ConfigError
from kafkaraw.protocol import FileSlice
from tests.broker.support import content_bytes


@pytest.fixture(params=["memory", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path):
    made: LogStorage = MemoryStorage() if request.param == "memory" else FileStorage(tmp_path / "data")
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


def test_memory_never_splits_an_append_and_reads_across_chunks():
    storage = MemoryStorage()
    file = storage.open_file(ROOT, "a.log")
    pieces = [bytes([at]) * (CHUNK_BYTES_MIN // 3) for at in range(40)] + [b"z" * (CHUNK_BYTES_MAX + 1)]
    position = 0
    for piece in pieces:
        file.append(piece)
        assert bytes(file.content(position, len(piece))) == piece
        position += len(piece)
    assert bytes(file.read(0, position)) == b"".join(pieces)
    assert bytes(file.read(10, 2 * CHUNK_BYTES_MIN)) == b"".join(pieces)[10 : 10 + 2 * CHUNK_BYTES_MIN]


def test_memory_handed_out_keeps_its_content_whatever_happens_to_the_file():
    file = MemoryStorage().open_file(ROOT, "a.log")
    file.append(b"first")
    view = file.content(0, 5)
    file.truncate(0)
    file.append(b"other")
    assert bytes(view) == b"first"
    assert view.readonly


def test_memory_can_lose_what_was_not_synced():
    storage = MemoryStorage()
    storage.make_folder("t-0")
    file = storage.open_file("t-0", "a.log")
    file.append(b"synced")
    file.sync()
    file.append(b"not synced")
    storage.lose_unsynced()
    assert bytes(storage.open_file("t-0", "a.log").read(0, 100)) == b"synced"


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

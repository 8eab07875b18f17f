"""What a crash of the simulated disk keeps, and how it fails."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from kafkaraw.broker.log.storage import ROOT
from kafkaraw.testing.simulated_disk import SimulatedDisk

SEEDS = range(60)


def after_crash(prepare: Callable[[SimulatedDisk], object], *, keeps_names: bool = False) -> list[SimulatedDisk]:
    """What is left after crashes with many seeds."""
    disks = []
    for seed in SEEDS:
        disk = SimulatedDisk(random.Random(seed), keeps_names=keeps_names)
        prepare(disk)
        disk.lose_unsynced()
        disks.append(disk)
    return disks


def test_a_crash_keeps_what_was_synced_and_any_part_of_the_rest():
    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open_file(ROOT, "a.log")
        disk.sync_folder(ROOT)
        file.append(b"synced")
        file.sync()
        file.append(b"1111")
        file.append(b"2222")

    left = {disk.read_bytes(ROOT, "a.log") for disk in after_crash(prepare)}
    assert all(content is not None and content.startswith(b"synced") for content in left)
    assert {b"synced", b"synced1111", b"synced11112222", b"synced\0\0\0\x002222"} <= left
    assert any(content.endswith(b"\0") for content in left if content), "a torn write may leave zeros"
    assert any(len(content) not in (6, 10, 14) for content in left if content), "a torn write may end at any byte"


def test_a_file_and_a_folder_are_there_after_a_crash_only_if_their_folders_were_synced():
    def prepare(disk: SimulatedDisk) -> None:
        disk.make_folder("t-0")
        disk.sync_folder(ROOT)
        disk.open_file("t-0", "a.log").append(b"a")
        disk.sync_folder("t-0")
        file = disk.open_file("t-0", "b.log")
        file.append(b"b")
        file.sync()
        disk.make_folder("t-1")

    disks = after_crash(prepare)
    assert {tuple(disk.files("t-0")) for disk in disks} == {("a.log",), ("a.log", "b.log")}
    assert {tuple(disk.folders()) for disk in disks} == {("t-0",), ("t-0", "t-1")}
    named = after_crash(prepare, keeps_names=True)
    assert all(disk.read_bytes("t-0", "b.log") == b"b" for disk in named)


def test_a_small_file_is_replaced_in_one_step():
    def prepare(disk: SimulatedDisk) -> None:
        disk.write_text(ROOT, "a", "old")
        disk.write_text(ROOT, "a", "new")
        disk.write_text(ROOT, "b", "old")
        disk.write_text(ROOT, "b", "new", durable=False)

    disks = after_crash(prepare)
    assert {disk.read_bytes(ROOT, "a") for disk in disks} == {b"new"}
    left = {disk.read_bytes(ROOT, "b") for disk in disks}
    assert {b"old", b"new", b""} <= left, "a name can be durable before the bytes are"


def test_a_failed_sync_loses_what_it_should_have_made_durable():
    disk = SimulatedDisk(random.Random(1), kept_share=0.0, keeps_names=True)
    file = disk.open_file(ROOT, "a.log")
    file.append(b"lost")
    disk.fail_at(1)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.append(b"kept")
    file.sync()
    assert bytes(file.read(0, 8)) == b"lostkept", "the page cache has it"
    disk.lose_unsynced()
    assert disk.read_bytes(ROOT, "a.log") == b"\0\0\0\0kept"


def test_a_crash_in_the_middle_of_an_operation_ends_all_others():
    for operation in range(1, 6):
        disk = SimulatedDisk(random.Random(operation))
        crashed: list[str] = []
        disk.on_crash = crashed.append
        disk.crash_at(operation)
        with pytest.raises(OSError, match="Input/output"):
            file = disk.open_file(ROOT, "a.log")
            for _ in range(5):
                file.append(b"1234")
        assert len(crashed) == 1
        with pytest.raises(OSError, match="Input/output"):
            disk.files(ROOT)
        disk.restart()
        assert len(disk.read_bytes(ROOT, "a.log") or b"") <= 4 * operation


def test_a_full_disk_refuses_until_there_is_space_and_a_failed_append_leaves_nothing():
    disk = SimulatedDisk(random.Random(3))
    file = disk.open_file(ROOT, "a.log")
    file.append(b"1234")
    disk.refuse(errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        file.append(b"5678" * 10)
    with pytest.raises(OSError, match="No space"):
        disk.write_text(ROOT, "b", "text")
    assert file.size_bytes == 4
    assert bytes(file.read(0, 100)) == b"1234"
    disk.refuse(None)
    file.append(b"!")
    assert disk.read_bytes(ROOT, "a.log") == b"1234!"

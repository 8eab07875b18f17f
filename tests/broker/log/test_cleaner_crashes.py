"""A round of the cleaner that fails, or is killed, in each operation on the storage: no last value of a key is lost."""

from __future__ import annotations

import random
from contextlib import suppress

from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.testing.simulated_disk import SimulatedDisk
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.log.test_log_cleaner import FOLDER, Node

LAST = {b"k%d" % at: b"value %d" % (50 + at) for at in range(10)}
OPERATIONS_MAX = 400
OPERATIONS_MIN = 20
"""A round has more operations than this."""
SEGMENT_BYTES = "2000"
"""Small groups, so that there are several replacements."""


class Killed(BaseException):
    """The process was killed: each operation on the storage raises this from now on."""


def filled(storage: LogStorage) -> Node:
    """Return a node whose log is on the disk."""
    node = Node(storage, internal_segment_bytes=SEGMENT_BYTES)
    node.append_segments(3, records=20)
    node.partition.log.flush()
    storage.sync_folder(FOLDER)
    storage.sync_folder(ROOT)
    return node


def check_restart(storage: LogStorage, when: str) -> None:
    """Open the log again: nothing is missing, and it can be cleaned."""
    node = Node(storage, internal_segment_bytes=SEGMENT_BYTES)
    for is_clean in (False, True):
        records = node.records()
        assert [offset for offset, _, _ in records] == sorted({offset for offset, _, _ in records}), when
        assert {key: value for _, key, value in records} == LAST, when
        assert not [name for name in storage.files(FOLDER) if name.endswith((".cleaned", ".swap"))], when
        if not is_clean:
            node.clean()
    assert len(node.records()) == len(LAST), when


def test_a_kill_at_any_operation_is_recovered_from() -> None:
    for operation in range(1, OPERATIONS_MAX):
        inner = MemoryStorage()
        storage = FaultyStorage(inner)
        node = filled(storage)
        kill_at = storage.operations + operation

        def kill(name: str, storage: FaultyStorage = storage, kill_at: int = kill_at) -> None:
            if storage.operations >= kill_at:
                raise Killed(name)

        storage.on_attempt = kill
        try:
            node.clean()
        except Killed as killed:
            check_restart(inner, f"killed in operation {operation}, {killed}")
        else:
            assert operation > OPERATIONS_MIN, "nothing was killed"
            return
    raise AssertionError("the round never ended")


def test_a_power_cut_in_any_operation_is_recovered_from() -> None:
    for operation in range(1, OPERATIONS_MAX):
        disk = SimulatedDisk(random.Random(operation))
        node = filled(disk)
        disk.crash_at(operation)
        with suppress(OSError):
            node.clean()
        if not disk.is_crashed:
            assert operation > OPERATIONS_MIN, "there was no power cut"
            return
        disk.restart()
        check_restart(disk, f"power cut in operation {operation}")
    raise AssertionError("the round never ended")


def test_an_error_of_any_operation_leaves_a_log_that_a_restarted_broker_cleans() -> None:
    for operation in range(1, OPERATIONS_MAX):
        storage = FaultyStorage(MemoryStorage())
        node = filled(storage)
        storage.fail_at(operation)
        with suppress(OSError):
            node.clean()
        if not storage.failures:
            assert operation > OPERATIONS_MIN, "nothing has failed"
            return
        node.partition.close(sync=False)
        check_restart(storage, f"operation {operation}, {storage.failures}, has failed")
    raise AssertionError("the round never ended")

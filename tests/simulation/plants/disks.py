"""Bugs of brokers on disks that crash and fail: of syncs, of recovery, and of failed log directories."""

from __future__ import annotations

import pytest

from kafkaraw.broker.log.dir_failures import LogDirFailureChannel
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.core.log import batches, recovery
from kafkaraw.testing.simulated_disk import SimulatedDisk, SimulatedFile


def broker_does_not_sync_files(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SimulatedFile, "sync", lambda self: None)


def broker_does_not_sync_folders(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SimulatedDisk, "sync_folder", lambda self, folder: None)
    init = SimulatedDisk.__init__

    def without_names(self, rng, **settings):
        init(self, rng, **{**settings, "keeps_names": False})

    monkeypatch.setattr(SimulatedDisk, "__init__", without_names)


def broker_goes_on_after_a_failed_sync(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LogDirFailureChannel, "failed", lambda self, path, action, error: None)


def recovery_does_not_verify_checksums(monkeypatch: pytest.MonkeyPatch):
    problem_of = recovery.problem_of

    def without_checksum(data, position, header, next_offset):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(batches, "is_valid", lambda *_: True)
            return problem_of(data, position, header, next_offset)

    monkeypatch.setattr(recovery, "problem_of", without_checksum)


def recovery_keeps_a_damaged_epoch_checkpoint(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PartitionLog, "_rewrite_epochs", lambda self: None)

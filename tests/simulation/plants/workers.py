"""Bugs of workers: what they commit, which records they start, and how they end transactions."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.core.share.acknowledgements import AcknowledgeType
from kafkaraw.worker import processing
from kafkaraw.worker.schedule import PartitionWork, Schedule, State
from kafkaraw.worker.sending import Sender, TransactionalSender
from kafkaraw.worker.share_schedule import ShareSchedule


def worker_commits_unfinished_records(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PartitionWork, "committable", property(lambda self: self.position))


def worker_commits_before_results_are_acknowledged(monkeypatch: pytest.MonkeyPatch):
    send, tasks = Sender.send, set[asyncio.Task[None]]()

    async def send_later(self, records):
        task = asyncio.create_task(send(self, records))
        tasks.add(task)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())

    monkeypatch.setattr(Sender, "send", send_later)


def worker_runs_records_of_a_key_at_the_same_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processing, "lane_of", lambda record, ordering: record.offset)


def worker_releases_the_key_of_a_record_that_waits_for_its_next_call(monkeypatch: pytest.MonkeyPatch):
    retry = Schedule.retry

    def retry_and_release(self, item, ready_s):
        self._leave_lane(item)
        retry(self, item, ready_s)

    monkeypatch.setattr(Schedule, "retry", retry_and_release)


def worker_releases_the_key_before_results_are_acknowledged(monkeypatch: pytest.MonkeyPatch):
    sending = Schedule.sending

    def sending_and_release(self, item):
        sending(self, item)
        self._leave_lane(item)

    monkeypatch.setattr(Schedule, "sending", sending_and_release)


def worker_ignores_its_concurrency(monkeypatch: pytest.MonkeyPatch):
    begin = Schedule.__init__
    monkeypatch.setattr(Schedule, "__init__", lambda self, concurrency, **kwargs: begin(self, 1_000, **kwargs))


def worker_commits_transactions_without_its_generation(monkeypatch: pytest.MonkeyPatch):
    commit = TransactionalSender.commit

    async def commit_for_any_member(self, plan, member):
        await commit(self, plan, member.group_id)

    monkeypatch.setattr(TransactionalSender, "commit", commit_for_any_member)


# -- in a share group


def share_worker_accepts_records_whose_call_failed(monkeypatch: pytest.MonkeyPatch):
    def accept(self, item, at_s):
        self._leave_slot(item)
        if self._lock_of(item) is not None:
            item.move(State.QUEUED)
            item.move(State.DROPPED)
            self._answer(item, AcknowledgeType.ACCEPT)

    monkeypatch.setattr(ShareSchedule, "release_later", accept)


def share_worker_rejects_records_of_cancelled_handlers(monkeypatch: pytest.MonkeyPatch):
    answer = ShareSchedule._answer

    def reject(self, item, kind):
        answer(self, item, AcknowledgeType.REJECT if kind is AcknowledgeType.RELEASE else kind)

    monkeypatch.setattr(ShareSchedule, "_answer", reject)


def share_worker_ignores_its_concurrency(monkeypatch: pytest.MonkeyPatch):
    begin = ShareSchedule.__init__
    monkeypatch.setattr(ShareSchedule, "__init__", lambda self, concurrency, records_max: begin(self, 1_000, 1_000))

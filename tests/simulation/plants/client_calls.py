"""Bugs of calls: failures that flush, commit and close do not report, and a close that exceeds its timeout."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.groups.progress import Progress
from kafkaraw.client.sending import sender
from kafkaraw.client.sending.producer_core import ProducerCore
from kafkaraw.client.sending.sender import Sender
from kafkaraw.client.sending.transaction_calls import Transactions
from kafkaraw.client.sending.waiting import UnreportedFailures
from kafkaraw.core.fetch.cursor import RecordCursor
from kafkaraw.core.producer.transaction import Change, Phase
from kafkaraw.records import BatchPromise


def producer_accepts_records_while_it_commits(monkeypatch: pytest.MonkeyPatch):
    async def settle_first(self, deadline, what):
        if self._machine.phase in (Phase.OPEN, Phase.SETTLING):
            await self._sender.settle_all(deadline, what)
            self._machine.change(Change.SETTLES)
            self._manager.pause()

    monkeypatch.setattr(Transactions, "_settle", settle_first)


def producer_forgets_a_failure_when_a_callback_raises(monkeypatch: pytest.MonkeyPatch):
    def tell_first(self, action):
        promise = action.batch.promise
        try:
            promise.fail(action.error)
        except BaseException as error:  # noqa: BLE001 - what the bug does
            self.wakeups.raise_soon(error)
        else:
            fail(self, action)
            self.flushes.note_failure(promise, action.report)

    fail = Sender._fail
    _do_instead(monkeypatch, "_fail", tell_first)


def producer_records_a_failure_after_its_callbacks(monkeypatch: pytest.MonkeyPatch):
    def note_later(self, action):
        promise = action.batch.promise
        if self.transactions is not None:
            fail(self, action)
            return
        self._outcomes.append(lambda: promise.fail(action.error))
        asyncio.get_running_loop().call_later(0.002, self.flushes.note_failure, promise, action.report)

    fail = Sender._fail
    _do_instead(monkeypatch, "_fail", note_later)


def broken_producer_does_not_record_failures(monkeypatch: pytest.MonkeyPatch):
    def only_tell(self, batch, report, error):
        self._outcomes.append(lambda: batch.promise.fail(error))

    monkeypatch.setattr(Sender, "_fail_by_break", only_tell)


def flush_reports_a_failure_to_one_caller_only(monkeypatch: pytest.MonkeyPatch):
    report = UnreportedFailures.report

    def to_the_first(self, before, awaited):
        left = {promise: each for promise, each in awaited.items() if promise not in self._reported}
        report(self, before, left)

    monkeypatch.setattr(UnreportedFailures, "report", to_the_first)


def cancelled_flush_consumes_failures(monkeypatch: pytest.MonkeyPatch):
    begin = Sender.begin_flush

    def take_them(self, *args):
        flush = begin(self, *args)
        flush.awaited = {**flush.before, **flush.awaited}  # this call raises them, if it comes to its end
        self.flushes.failures._reported |= flush.before.keys()
        return flush

    monkeypatch.setattr(Sender, "begin_flush", take_them)


def flush_skips_a_batch_when_one_ticket_was_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(BatchPromise, "is_seen", lambda self, records_count: bool(self._seen))


def consumer_skips_a_batch_when_its_reader_is_interrupted(monkeypatch: pytest.MonkeyPatch):
    stopped = RecordCursor._stopped_by

    def forget(self, error):
        if isinstance(error, Exception):
            stopped(self, error)
        else:
            self._forget()

    monkeypatch.setattr(RecordCursor, "_stopped_by", forget)


def consumer_close_ignores_its_timeout_in_the_last_commit(monkeypatch: pytest.MonkeyPatch):
    commit = Progress.commit_processed
    monkeypatch.setattr(Progress, "commit_processed", lambda self, deadline=None: commit(self))


def producer_close_exceeds_its_timeout(monkeypatch: pytest.MonkeyPatch):
    close = ProducerCore.close

    async def with_a_second_more(self, *args, **kwargs):
        await close(self, *args, **kwargs)
        await asyncio.sleep(1)

    monkeypatch.setattr(ProducerCore, "close", with_a_second_more)


def _do_instead(monkeypatch: pytest.MonkeyPatch, name: str, instead) -> None:
    """Replace what the table of actions calls."""
    original = getattr(Sender, name)
    for action, method in sender._DOING.items():
        if method is original:
            monkeypatch.setitem(sender._DOING, action, instead)
            return
    raise AssertionError(f"no action is done by {name}")

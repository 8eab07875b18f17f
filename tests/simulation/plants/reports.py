"""Bugs of what calls report: state that is written after somebody was told, or not at all when an exception passes."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.sending import sender
from kafkaraw.client.sending.producer_core import Transactions
from kafkaraw.client.sending.sender import Sender
from kafkaraw.client.sending.waiting import UnreportedFailures
from kafkaraw.core.fetch.cursor import RecordCursor
from kafkaraw.core.producer.transaction import Change, Phase
from kafkaraw.records import BatchPromise


def producer_takes_records_while_it_settles_a_transaction(monkeypatch: pytest.MonkeyPatch):
    async def settle_first(self, deadline, what):
        if self._machine.phase in (Phase.OPEN, Phase.SETTLING):
            await self._sender.settle_all(deadline, what)
            self._machine.change(Change.SETTLES)
            self._manager.pause()

    monkeypatch.setattr(Transactions, "_settle", settle_first)


def producer_forgets_a_failure_when_a_callback_leaves(monkeypatch: pytest.MonkeyPatch):
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


def producer_notes_a_failure_after_it_has_told_of_it(monkeypatch: pytest.MonkeyPatch):
    def note_later(self, action):
        promise = action.batch.promise
        if self.transactions is not None:
            fail(self, action)
            return
        self._outcomes.append(lambda: promise.fail(action.error))
        asyncio.get_running_loop().call_later(0.002, self.flushes.note_failure, promise, action.report)

    fail = Sender._fail
    _do_instead(monkeypatch, "_fail", note_later)


def producer_breaks_without_noting_what_fails(monkeypatch: pytest.MonkeyPatch):
    def only_tell(self, batch, report, error):
        self._outcomes.append(lambda: batch.promise.fail(error))

    monkeypatch.setattr(Sender, "_fail_by_break", only_tell)


def flush_reports_a_failure_to_one_of_those_who_wait_for_it(monkeypatch: pytest.MonkeyPatch):
    report = UnreportedFailures.report

    def to_the_first(self, before, awaited):
        left = {promise: each for promise, each in awaited.items() if promise not in self._reported}
        report(self, before, left)

    monkeypatch.setattr(UnreportedFailures, "report", to_the_first)


def flush_that_is_interrupted_takes_failures_with_it(monkeypatch: pytest.MonkeyPatch):
    begin = Sender.begin_flush

    def take_them(self, *args):
        flush = begin(self, *args)
        flush.awaited = {**flush.before, **flush.awaited}  # this call raises them, if it comes to its end
        self.flushes.failures._reported |= flush.before.keys()
        return flush

    monkeypatch.setattr(Sender, "begin_flush", take_them)


def flush_leaves_a_batch_out_when_one_record_was_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(BatchPromise, "is_seen", lambda self, records_count: bool(self._seen))


def consumer_steps_over_a_batch_whose_reading_is_interrupted(monkeypatch: pytest.MonkeyPatch):
    stopped = RecordCursor._stopped_by

    def forget(self, error):
        if isinstance(error, Exception):
            stopped(self, error)
        else:
            self._forget()

    monkeypatch.setattr(RecordCursor, "_stopped_by", forget)


def _do_instead(monkeypatch: pytest.MonkeyPatch, name: str, instead) -> None:
    """Replace what the table of actions calls."""
    original = getattr(Sender, name)
    for action, method in sender._DOING.items():
        if method is original:
            monkeypatch.setitem(sender._DOING, action, instead)
            return
    raise AssertionError(f"no action is done by {name}")

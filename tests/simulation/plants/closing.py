"""Bugs of closing: steps that do not end with the time that `close` was given."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.groups.progress import Progress
from kafkaraw.client.sending.producer_core import ProducerCore


def consumer_gives_its_last_commit_a_deadline_of_its_own(monkeypatch: pytest.MonkeyPatch):
    commit = Progress.commit_processed
    monkeypatch.setattr(Progress, "commit_processed", lambda self, deadline=None: commit(self))


def producer_closes_its_connections_after_its_time_is_over(monkeypatch: pytest.MonkeyPatch):
    close = ProducerCore.close

    async def with_a_second_more(self, *args, **kwargs):
        await close(self, *args, **kwargs)
        await asyncio.sleep(1)

    monkeypatch.setattr(ProducerCore, "close", with_a_second_more)

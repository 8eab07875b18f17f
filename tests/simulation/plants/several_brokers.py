"""Bugs that show in a cluster only: in replication, in elections, and in what clients believe of leaders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaraw.broker.partitions.followers import Followers
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.core import cluster


def leader_acknowledges_before_replication(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Followers, "high_watermark", lambda self, isr, log_end_offset, now_s, is_live: log_end_offset)


def leader_drops_its_newest_batch_when_it_begins(monkeypatch: pytest.MonkeyPatch):
    begin = Partition._begin_to_lead

    def drop_first(self):
        headers = list(self.log.headers())
        if headers:
            self._truncate(headers[-1].base_offset)
        begin(self)

    monkeypatch.setattr(Partition, "_begin_to_lead", drop_first)


def node_answers_after_it_was_deposed(monkeypatch: pytest.MonkeyPatch):
    begin = Partition._begin_to_lead

    def never_forget(self):
        self.has_led = True
        begin(self)

    monkeypatch.setattr(Partition, "_begin_to_lead", never_forget)
    monkeypatch.setattr(Partition, "is_leader", property(lambda self: getattr(self, "has_led", False)))


def follower_skips_an_epoch_that_was_truncated(monkeypatch: pytest.MonkeyPatch):
    answer = Partition.answer_follower

    def without_epoch(self, fetch, wake):
        return answer(self, replace(fetch, last_epoch=-1), wake)

    monkeypatch.setattr(Partition, "answer_follower", without_epoch)


def client_takes_stale_metadata(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "_newer", lambda known, news: news)

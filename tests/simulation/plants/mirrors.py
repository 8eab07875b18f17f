"""Bugs of mirrors: positions ahead of records, batches outside the transaction, and offsets translated ahead."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

import pytest

from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.sending.producer_core import ProducerCore
from kafkaraw.errors import KafkaError
from kafkaraw.mirror import flow
from kafkaraw.mirror.copying import _offsets
from kafkaraw.mirror.flow import Flow, _Session
from kafkaraw.mirror.mapping import OffsetMapping


def mirror_commits_positions_before_records(monkeypatch: pytest.MonkeyPatch):
    commit = _Session._commit_positions

    async def positions_first(self, positions, settled, count):
        targets = {self._copies[of].target: position for of, position in positions.items() if of in self._copies}
        await self._clients.target.commit(_offsets(targets))
        await commit(self, positions, settled, count)

    monkeypatch.setattr(_Session, "_commit_positions", positions_first)


def mirror_sends_records_again_outside_the_transaction(monkeypatch: pytest.MonkeyPatch):
    """When the outcome of a transaction is unknown, its records are sent by another producer."""
    clients_of, send, commit = flow._clients_of, _Session._send, _Session._commit_positions
    runtimes, kept = {}, defaultdict(list)

    def remember_runtime(settings, given):
        made = clients_of(settings, given)
        runtimes[made.producer] = given[1]
        return made

    async def send_and_keep(self, read):
        kept[self] += [(self._copies[of].target, record) for of, batch in read.items() for record in batch]
        await send(self, read)

    async def commit_or_send_again(self, positions, settled, count):
        try:
            await commit(self, positions, settled, count)
        except KafkaError:
            limits = {"max_block_ms": 1_000, "delivery_timeout_ms": 1_000}
            with suppress(KafkaError):
                runtime = runtimes[self._clients.producer]
                async with AsyncProducer(**{**self._settings.target, **limits}, runtime=runtime) as producer:
                    for of, record in kept[self]:
                        await producer.send(of.topic, record.value, record.key, partition=of.partition)
            raise
        finally:
            kept[self].clear()

    monkeypatch.setattr(flow, "_clients_of", remember_runtime)
    monkeypatch.setattr(_Session, "_send", send_and_keep)
    monkeypatch.setattr(_Session, "_commit_positions", commit_or_send_again)


def mirror_copies_records_of_aborted_transactions(monkeypatch: pytest.MonkeyPatch):
    begin = Flow.__init__

    def read_uncommitted(self, settings, *args, **kwargs):
        begin(self, replace(settings, read_committed=False), *args, **kwargs)

    monkeypatch.setattr(Flow, "__init__", read_uncommitted)


def mirror_sends_batches_in_reverse_order(monkeypatch: pytest.MonkeyPatch):
    send = ProducerCore.send_sealed
    monkeypatch.setattr(ProducerCore, "send_sealed", lambda self, sealed: send(self, sealed[::-1]))


def mirror_translates_offsets_of_a_gap_to_its_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OffsetMapping, "_open_gap", lambda self: None)

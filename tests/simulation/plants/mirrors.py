"""Bugs of mirrors: positions ahead of records, batches outside the transaction, and offsets translated ahead."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

import pytest

from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.sending.producer_core import ProducerCore
from kafkaraw.errors import KafkaError
from kafkaraw.mirror import copy_session, copying, offset_service, translation
from kafkaraw.mirror.checkpoints import Checkpoint
from kafkaraw.mirror.copy_session import CopySession
from kafkaraw.mirror.copying import BatchCopier, _offsets
from kafkaraw.mirror.flow import Flow
from kafkaraw.mirror.mapping import OffsetMapping, Translation
from kafkaraw.mirror.offset_syncs import OffsetSync


def mirror_commits_positions_before_records(monkeypatch: pytest.MonkeyPatch):
    commit = CopySession._commit_positions

    async def positions_first(self, positions, settled, count):
        targets = {self._copies[of].target: position for of, position in positions.items() if of in self._copies}
        await self._clients.target.commit(_offsets(targets))
        await commit(self, positions, settled, count)

    monkeypatch.setattr(CopySession, "_commit_positions", positions_first)


def mirror_sends_records_again_outside_the_transaction(monkeypatch: pytest.MonkeyPatch):
    """When the outcome of a transaction is unknown, its records are sent by another producer."""
    clients_of, send, commit = copy_session.session_clients, CopySession._send, CopySession._commit_positions
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

    monkeypatch.setattr(copy_session, "session_clients", remember_runtime)
    monkeypatch.setattr(CopySession, "_send", send_and_keep)
    monkeypatch.setattr(CopySession, "_commit_positions", commit_or_send_again)


def mirror_copies_records_of_aborted_transactions(monkeypatch: pytest.MonkeyPatch):
    begin = Flow.__init__

    def read_uncommitted(self, settings, *args, **kwargs):
        begin(self, replace(settings, read_committed=False), *args, **kwargs)

    monkeypatch.setattr(Flow, "__init__", read_uncommitted)


def mirror_sends_batches_in_reverse_order(monkeypatch: pytest.MonkeyPatch):
    send = ProducerCore.send_sealed
    monkeypatch.setattr(ProducerCore, "send_sealed", lambda self, sealed: send(self, sealed[::-1]))


def at_least_once_mirror_commits_positions_before_it_sends(monkeypatch: pytest.MonkeyPatch):
    send = CopySession._send

    async def commit_first(self, read):
        positions = {self._copies[of].target: position for of, position in self._moved_positions().items()}
        await self._clients.target.commit(_offsets(positions))
        await asyncio.sleep(0.3)
        await send(self, read)

    monkeypatch.setattr(CopySession, "_send", commit_first)


def at_least_once_mirror_is_not_fenced(monkeypatch: pytest.MonkeyPatch):
    """Positions are committed outside of transactions, so an earlier process goes on beside a later one."""
    clients_of, clients = copy_session.session_clients, {}

    def remember(settings, runtimes):
        made = clients_of(settings, runtimes)
        clients[made.owner] = made
        return made

    async def nothing(*_):
        pass

    async def commit(owner, positions, group_id):
        await clients[owner].target.commit(_offsets(positions))

    monkeypatch.setattr(copy_session, "session_clients", remember)
    monkeypatch.setattr(copying, "_take_over", nothing)
    monkeypatch.setattr(copying, "settle_group", nothing)
    monkeypatch.setattr(copying, "_commit_alone", commit)


def mirror_copies_a_part_of_transactions(monkeypatch: pytest.MonkeyPatch):
    """The second batch of a transaction in a response is left out, and counts as copied."""
    send = BatchCopier.send

    def leave_out(self, read, copies):
        for batch in read.values():
            transactional = [wire for wire in batch.wires if wire[0].is_transactional and not wire[0].is_control]
            for wire in transactional[1:2]:
                batch.wires.remove(wire)
        return send(self, read, copies)

    monkeypatch.setattr(BatchCopier, "send", leave_out)


def mirror_writes_offset_syncs_of_the_next_record(monkeypatch: pytest.MonkeyPatch):
    value = OffsetSync.value.fget
    ahead = property(lambda self: value(self._replace(downstream_offset=self.downstream_offset + 1)))
    monkeypatch.setattr(OffsetSync, "value", ahead)


def mirror_writes_checkpoints_behind_the_next_record(monkeypatch: pytest.MonkeyPatch):
    value = Checkpoint.value.fget
    ahead = property(lambda self: value(self._replace(downstream_offset=self.downstream_offset + 1)))
    monkeypatch.setattr(Checkpoint, "value", ahead)


def mirror_commits_no_offsets_for_groups_that_have_some(monkeypatch: pytest.MonkeyPatch):
    """Offsets of inactive groups stay where the first commit has set them."""
    choose = offset_service.offsets_to_commit

    def only_first(checkpoints, states, committed):
        chosen = choose(checkpoints, states, committed)
        return {
            group: {of: at for of, at in offsets.items() if of not in committed.get(group, {})}
            for group, offsets in chosen.items()
        }

    monkeypatch.setattr(offset_service, "offsets_to_commit", only_first)


def failover_counts_offsets_from_the_log_start(monkeypatch: pytest.MonkeyPatch):
    """A failover translates as if the copy had the offsets of the source."""
    load = offset_service.load_present_mappings
    monkeypatch.setattr(translation, "load_present_mappings", lambda *args, **named: _shifted(load(*args, **named)))


async def _shifted(loading):
    mappings = await loading
    for mapping in filter(None, mappings.values()):
        mapping.translate = lambda offset: Translation(offset, is_exact=True)
    return mappings


def mapping_joins_a_filled_gap_with_any_next_run(monkeypatch: pytest.MonkeyPatch):
    fill = OffsetMapping.fill_gap

    def join(self, source, target, runs):
        following = next((run.target for run in self.runs() if run.source >= source.stop), target.stop)
        fill(self, source, range(target.start, max(following, target.stop)), runs)

    monkeypatch.setattr(OffsetMapping, "fill_gap", join)


def mirror_translates_offsets_of_a_gap_to_its_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OffsetMapping, "_open_gap", lambda self: None)

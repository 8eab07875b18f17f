"""`Timeline`: what follows from several snapshots: rates, the trend of lags, lags in seconds. Without I/O.

A snapshot without a part keeps the part of the last one that had it. What is kept is bounded: the last snapshot of each
part, 64 samples of each partition that a group has committed, and 16 lags of each group. Start at `Timeline.add`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.light_classes import replace
from kafkaraw.monitoring.history import EndHistory
from kafkaraw.monitoring.lag_history import LagHistory, LagSample
from kafkaraw.monitoring.rates import byte_rates_of_sizes, commit_rates, record_rates
from kafkaraw.monitoring.snapshot import GroupSnapshot, Part, Snapshot
from kafkaraw.monitoring.status import (
    ClusterStatus,
    GroupStatus,
    TimeLag,
    broker_statuses,
    lag_of,
    largest_lags,
    topic_statuses,
)
from kafkaraw.records import TopicPartition

LAGS_MAX: Final = 16
"""Lags of one group that are kept for its trend."""
TREND_MS: Final = 60_000
"""The trend is that of the last minute, or of the last two snapshots if they are further apart."""
LOOKUPS_MAX: Final = 200
"""Partitions of one round of lookups."""


class Timeline:
    """Remembers what it needs of snapshots of one cluster."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._last: Snapshot | None = None
        self._sizes: dict[TopicPartition, int] = {}
        self._record_rates: Mapping[TopicPartition, float] = {}
        self._byte_rates: Mapping[TopicPartition, float] = {}
        self._commit_rates: Mapping[str, Mapping[TopicPartition, float]] = {}
        self._history = EndHistory()
        self._lags: dict[str, LagHistory] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take the next snapshot."""
        before = self._last
        if before is not None and before.cluster_id != snapshot.cluster_id:
            self._forget()  # another cluster at the same address
            before = None
        merged = snapshot if before is None else _with_parts_of(before, snapshot)
        sizes = snapshot.leader_sizes() if Part.SIZES in snapshot.part_times_ms else self._sizes
        if before is not None:
            if merged.at_ms > before.at_ms:
                self._record_rates = record_rates(before, merged)
            if Part.SIZES in snapshot.part_times_ms:
                self._byte_rates = byte_rates_of_sizes(before, self._sizes, merged, sizes, self._record_rates)
            if Part.GROUPS in snapshot.part_times_ms:
                self._commit_rates = commit_rates(before, merged)
        self._last, self._sizes = merged, sizes
        if Part.GROUPS in snapshot.part_times_ms:
            committed = {key for group in merged.groups.values() for key in group.offsets}
            self._history.add(merged.at_ms / 1000, {key: merged.ends[key] for key in committed if key in merged.ends})
            self._add_lags(merged)

    def _add_lags(self, snapshot: Snapshot) -> None:
        for gone in self._lags.keys() - snapshot.groups.keys():
            del self._lags[gone]
        for name, group in snapshot.groups.items():
            lag = _total_lag(snapshot, group)
            if lag is None:
                self._lags.pop(name, None)
                continue
            history = self._lags.get(name)
            if history is None:
                history = self._lags[name] = LagHistory(LAGS_MAX, TREND_MS)
            history.add(LagSample(snapshot.at_ms, lag))

    def lookups(self, limit: int = LOOKUPS_MAX) -> dict[TopicPartition, int]:
        """Return the lookups that would make lags in seconds more precise: timestamps by partition, in milliseconds.

        Args:
            limit: at most so many, those of the largest lags first.
        """
        snapshot = self._last
        if snapshot is None:
            return {}
        behind = [
            (lag, key, _next_offset(snapshot, key, offset))
            for group in snapshot.groups.values()
            for key, offset in group.offsets.items()
            if (lag := lag_of(snapshot.group_ends, group, key))
        ]
        behind.sort(key=lambda each: -each[0])
        found: dict[TopicPartition, int] = {}
        for _, key, offset in behind:
            if len(found) >= limit:
                break
            if key not in found:
                at_s = self._history.next_lookup(key, offset, snapshot.at_ms / 1000)
                if at_s is not None:
                    found[key] = round(at_s * 1000)
        return found

    def found(
        self, asked: Mapping[TopicPartition, int], answers: Mapping[TopicPartition, OffsetAndTimestamp | None]
    ) -> None:
        """Take the answers to `lookups`.

        Args:
            asked: the lookups.
            answers: the first record from that time on, by partition; None if there is none. Partitions that could
                not be asked for are left out.
        """
        snapshot = self._last
        if snapshot is None:
            return
        for key, at_ms in asked.items():
            answer = answers.get(key)
            if answer is not None:
                record_s = answer.timestamp_ms / 1000 if answer.timestamp_ms >= 0 else None
                self._history.found(key, at_ms / 1000, answer.offset, record_s)
            elif key in answers and key in snapshot.ends:
                self._history.found(key, at_ms / 1000, snapshot.ends[key], None)

    def status(self) -> ClusterStatus | None:
        """Return what is known now; None before the first snapshot."""
        snapshot = self._last
        if snapshot is None:
            return None
        time_lags = self._time_lags(snapshot)
        return ClusterStatus(
            snapshot=snapshot,
            sizes=self._sizes,
            record_rates=self._record_rates,
            byte_rates=self._byte_rates,
            commit_rates=self._commit_rates,
            time_lags=time_lags,
            partition_lags=largest_lags(snapshot),
            brokers=broker_statuses(snapshot, self._record_rates, self._byte_rates),
            topics=topic_statuses(snapshot, self._sizes, self._record_rates, self._byte_rates),
            groups=tuple(
                self._group(snapshot, group, time_lags.get(name, {})) for name, group in sorted(snapshot.groups.items())
            ),
        )

    def _time_lags(self, snapshot: Snapshot) -> dict[str, dict[TopicPartition, TimeLag]]:
        now_s = snapshot.at_ms / 1000
        found: dict[str, dict[TopicPartition, TimeLag]] = {}
        for name, group in snapshot.groups.items():
            for key, offset in group.offsets.items():
                if lag_of(snapshot.group_ends, group, key):
                    age = self._history.age(key, _next_offset(snapshot, key, offset), now_s)
                    if age is not None:
                        found.setdefault(name, {})[key] = age
        return found

    def _group(
        self, snapshot: Snapshot, group: GroupSnapshot, time_lags: Mapping[TopicPartition, TimeLag]
    ) -> GroupStatus:
        lag = _total_lag(snapshot, group)
        rates = self._commit_rates.get(group.group_id)
        history = self._lags.get(group.group_id)
        growth = None if history is None else history.lag_per_s
        oldest = max(time_lags.values(), default=TimeLag(0.0, False) if lag == 0 else None)
        members = len(group.description.members) if group.description is not None else None
        if group.state in ("Empty", "Dead"):
            members = 0
        return GroupStatus(
            group_id=group.group_id,
            group_type=group.group_type,
            state=group.state,
            members=members,
            topics=len({key.topic for key in group.offsets}),
            lag=lag,
            time_lag=oldest,
            lag_per_s=growth,
            gone_in_s=lag / -growth if lag and growth is not None and growth < 0 else None,
            consumed_per_s=sum(rates.values()) if rates else None,
        )


def _with_parts_of(before: Snapshot, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with the parts that it lacks from an earlier one."""
    times = dict(snapshot.part_times_ms)
    log_dirs, groups, group_ends = snapshot.log_dirs, snapshot.groups, snapshot.group_ends
    if Part.SIZES not in times and Part.SIZES in before.part_times_ms:
        log_dirs, times[Part.SIZES] = before.log_dirs, before.part_times_ms[Part.SIZES]
    if Part.GROUPS not in times and Part.GROUPS in before.part_times_ms:
        groups, group_ends, times[Part.GROUPS] = before.groups, before.group_ends, before.part_times_ms[Part.GROUPS]
    return replace(
        snapshot,
        log_dirs=log_dirs,
        groups=groups,
        group_ends=group_ends,
        part_times_ms=times,
        took_s={**before.took_s, **snapshot.took_s},
    )


def _total_lag(snapshot: Snapshot, group: GroupSnapshot) -> int | None:
    known = [lag for key in group.offsets if (lag := lag_of(snapshot.group_ends, group, key)) is not None]
    return sum(known) if known else None


def _next_offset(snapshot: Snapshot, key: TopicPartition, offset: int) -> int:
    """Return the offset of the next record that a group can read: earlier ones may be deleted."""
    return max(offset, snapshot.starts.get(key, 0))

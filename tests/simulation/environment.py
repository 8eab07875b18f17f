"""The settings of brokers and clients for one run of a scenario, drawn from its seed before it starts."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

IDLE_NEVER_MS = 600_000


@dataclass(frozen=True)
class ShareSettings:
    """The settings of brokers about share groups.

    Attributes:
        lock_ms: how long a record stays locked for a member.
        delivery_count_limit: how often a record is delivered.
        records_in_flight_max: limit of records in flight of a share partition.
        updates_per_snapshot: updates of a state between two snapshots.
        prunes: outdated records of `__share_group_state` are deleted, and cold states written as snapshots.
        reads_committed: the group reads records of committed transactions only.
        sessions_max: limit of share sessions of a broker, and of members of a group.
    """

    lock_ms: int
    delivery_count_limit: int
    records_in_flight_max: int
    updates_per_snapshot: int
    prunes: bool
    reads_committed: bool
    sessions_max: int

    def properties(self, session_ms: int) -> dict[str, object]:
        """The properties of a broker."""
        found: dict[str, object] = {
            "group.share.min.session.timeout.ms": session_ms,
            "group.share.session.timeout.ms": session_ms,
            "group.share.min.heartbeat.interval.ms": session_ms // 6,
            "group.share.heartbeat.interval.ms": session_ms // 6,
            "group.share.assignment.interval.ms": 0,
            "group.share.initialize.retry.interval.ms": 500,
            "group.share.min.record.lock.duration.ms": self.lock_ms,
            "group.share.record.lock.duration.ms": self.lock_ms,
            "group.share.delivery.count.limit": self.delivery_count_limit,
            "group.share.partition.max.record.locks": self.records_in_flight_max,
            "group.share.max.share.sessions": self.sessions_max,
            "group.share.max.size": min(200, self.sessions_max),
            "share.coordinator.state.topic.num.partitions": 2,
            "share.coordinator.snapshot.update.records.per.snapshot": self.updates_per_snapshot,
        }
        if self.prunes:
            found["share.coordinator.state.topic.prune.interval.ms"] = 500
            found["share.coordinator.cold.partition.snapshot.interval.ms"] = 1_000
        return found


@dataclass(frozen=True)
class Environment:
    """The settings of brokers and clients.

    Attributes:
        nodes: number of brokers.
        sasl_mechanism: the SASL mechanism; None for no authentication.
        reauth_ms: connections.max.reauth.ms; 0 for no limit.
        token_lifetime_s: lifetime of an OAUTHBEARER token.
        broker_idle_ms: connections.max.idle.ms of brokers.
        client_idle_ms: connections.max.idle.ms of clients.
        metadata_max_age_ms: metadata.max.age.ms of clients.
        syncs_batches: brokers sync each batch before they acknowledge it, so a machine may crash.
        replication_delay_s: minimum and maximum delay of messages between brokers.
        lag_max_ms: replica.lag.time.max.ms.
        isr_min: min.insync.replicas.
        unclean: a replica that is not in sync may be elected.
        repeats_requests: the network may deliver a Produce request twice.
        message_max_bytes: message.max.bytes.
        transaction_version: transaction.version, 0 or 2.
        add_partitions_retry_ms: how long brokers retry to add partitions while the previous transaction ends.
        crash_probability: probability that a transactional producer crashes in a transaction.
        calm: there are no faults but slow connections and moved leaders, so no transaction may fail.
        session_ms: session timeout of group members; None if there is no group.
        keeps_names: a crash keeps the names of files, even if their folders were not synced.
        disks_fail: disks are cut off from power in the middle of an operation, become full, read-only, or break.
        first_id: id of the first broker; two clusters of a run have different ones.
        slow_coordinators: OffsetCommit sometimes takes longer than a call of a consumer.
        compacts: the cleaner runs several times a second.
        shares: settings about share groups; None if there is no share group.
    """

    nodes: int
    sasl_mechanism: str | None
    reauth_ms: int
    token_lifetime_s: float
    broker_idle_ms: int
    client_idle_ms: int
    metadata_max_age_ms: int
    syncs_batches: bool
    replication_delay_s: tuple[float, float]
    lag_max_ms: int
    isr_min: int
    unclean: bool
    repeats_requests: bool = False
    message_max_bytes: int = 1_048_588
    transaction_version: int | None = None
    add_partitions_retry_ms: int = 100
    crash_probability: float = 0.0
    calm: bool = False
    session_ms: int | None = None
    slow_coordinators: bool = False
    compacts: bool = False
    keeps_names: bool = True
    disks_fail: bool = False
    first_id: int = 0
    shares: ShareSettings | None = None

    def properties(self, node_id: int) -> dict[str, object]:
        """The properties of a broker."""
        protocol = "PLAINTEXT" if self.sasl_mechanism is None else "SASL_PLAINTEXT"
        found: dict[str, object] = {
            "node.id": node_id,
            "listeners": f"{protocol}://{host_of(node_id)}:{PORT}",
            "num.partitions": PARTITIONS,
            "default.replication.factor": min(self.nodes, 3),
            "min.insync.replicas": self.isr_min,
            "unclean.leader.election.enable": self.unclean,
            "auto.create.topics.enable": True,
            "message.max.bytes": self.message_max_bytes,
            "connections.max.idle.ms": self.broker_idle_ms,
            "replica.lag.time.max.ms": self.lag_max_ms,
        }
        if self.compacts:
            found["log.initial.task.delay.ms"] = 50
            found["log.cleaner.backoff.ms"] = 100
            found["log.cleaner.min.cleanable.ratio"] = 0.01
            found["log.roll.ms"] = 500
            found["transaction.state.log.num.partitions"] = 3
            found["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = 500
        if self.transaction_version is not None:
            found["transaction.version"] = self.transaction_version
            found["transaction.state.log.num.partitions"] = 3
            found["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = 500
            found["add.partitions.to.txn.retry.backoff.max.ms"] = self.add_partitions_retry_ms
        if self.session_ms is not None:
            found |= self._group_properties(self.session_ms)
            if self.shares is not None:
                found |= self.shares.properties(self.session_ms)
        if self.sasl_mechanism is not None:
            found["sasl.enabled.mechanisms"] = self.sasl_mechanism
            found["connections.max.reauth.ms"] = self.reauth_ms
            found["sasl.oauthbearer.unsecured.enable"] = True
        if self.syncs_batches:
            found["log.flush.interval.messages"] = 1
        return found

    def _group_properties(self, session_ms: int) -> dict[str, object]:
        return {
            "offsets.topic.num.partitions": 2,
            "group.initial.rebalance.delay.ms": 100,
            "group.min.session.timeout.ms": 100,
            "group.consumer.min.session.timeout.ms": session_ms,
            "group.consumer.session.timeout.ms": session_ms,
            "group.consumer.min.heartbeat.interval.ms": session_ms // 6,
            "group.consumer.heartbeat.interval.ms": session_ms // 6,
            "group.consumer.assignment.interval.ms": 100,
        }


SLOW_COORDINATORS = 0.4
"""The share of runs of graceful groups whose coordinators are sometimes slow to commit offsets.

Without faults only: on broken connections, a delayed commit may follow its own retry, and committed offsets go back.
"""
TOPIC = "flights"
PARTITIONS = 3
PORT = 9092
USER, PASSWORD = "ada", "opensesame"


def host_of(node_id: int) -> str:
    return f"broker-{node_id}"


def one_broker(rng: random.Random) -> Environment:
    return Environment(
        nodes=1,
        sasl_mechanism=rng.choice([None, None, "PLAIN", "OAUTHBEARER"]),
        reauth_ms=rng.choice([0, 2500, 4000]),  # a broker allows one re-authentication per second
        token_lifetime_s=rng.choice([2.5, 5.0, 3600.0]),
        broker_idle_ms=rng.choice([1000, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        client_idle_ms=rng.choice([100, 1000, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        metadata_max_age_ms=rng.choice([100, 1000, 300_000]),
        syncs_batches=rng.random() < 0.5,
        replication_delay_s=(0.0, 0.0),
        lag_max_ms=30_000,
        isr_min=1,
        unclean=False,
    )


def with_failing_disk(rng: random.Random) -> Environment:
    """One broker that syncs each batch, on a disk that crashes and fails."""
    drawn = replace(one_broker(rng), sasl_mechanism=None, syncs_batches=True, disks_fail=True)
    return replace(drawn, keeps_names=rng.random() < 0.5)


def with_failing_disks(rng: random.Random) -> Environment:
    """Three brokers on disks that crash and fail; some sync each batch, the others rely on their replicas.

    Followers of brokers that do not sync stay in sync while they lag: the last replica in sync must not crash.
    """
    drawn = replace(several_brokers(rng), nodes=3, sasl_mechanism=None, isr_min=2, disks_fail=True)
    drawn = replace(drawn, keeps_names=rng.random() < 0.5)
    return drawn if drawn.syncs_batches else replace(drawn, lag_max_ms=30_000)


def with_refused_records(rng: random.Random) -> Environment:
    """One broker without faults, whose topic refuses some records."""
    return replace(one_broker(rng), sasl_mechanism=None, transaction_version=rng.choice([0, 2]), calm=True)


def several_brokers(rng: random.Random, *, unclean: bool = False) -> Environment:
    nodes = rng.choice([3, 3, 4, 5])
    return Environment(
        nodes=nodes,
        sasl_mechanism=rng.choice([None, None, None, "PLAIN"]),
        reauth_ms=rng.choice([0, 2500]),
        token_lifetime_s=3600.0,
        broker_idle_ms=rng.choice([1000, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        client_idle_ms=rng.choice([200, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        metadata_max_age_ms=rng.choice([100, 1000, 300_000]),
        syncs_batches=rng.random() < 0.4,
        replication_delay_s=rng.choice([(0.0, 0.001), (0.001, 0.02), (0.02, 0.2)]),
        lag_max_ms=rng.choice([200, 1000, 30_000]),
        isr_min=1 if unclean else rng.choice([1, 2, 2]),
        unclean=unclean,
    )


def for_compaction(rng: random.Random) -> Environment:
    """A cluster, or one broker, whose cleaner runs all the time."""
    return replace(several_brokers(rng) if rng.random() < 0.7 else one_broker(rng), compacts=True)


def for_senders(rng: random.Random) -> Environment:
    """Brokers for many senders: mostly a cluster; some accept small batches only."""
    return replace(
        several_brokers(rng),
        nodes=rng.choice([1, 3, 3, 4]),
        isr_min=1 if rng.random() < 0.3 else 2,
        sasl_mechanism=rng.choice([None, None, None, None, "PLAIN"]),
        repeats_requests=rng.random() < 0.5,
        message_max_bytes=rng.choice([1_048_588, 1_048_588, 500]),
    )


def for_pipelining(rng: random.Random) -> Environment:
    """Brokers without faults but slowness, for transactions that begin while the previous one ends."""
    idle_ms = {"broker_idle_ms": IDLE_NEVER_MS, "client_idle_ms": IDLE_NEVER_MS, "metadata_max_age_ms": 300_000}
    return replace(for_transactions(rng), repeats_requests=False, crash_probability=0.0, calm=True, **idle_ms)


def for_groups(rng: random.Random, *, calm: bool = False) -> Environment:
    """Brokers for a consumer group; if `calm`, they are sometimes slow, and have no other faults."""
    environment = replace(
        several_brokers(rng),
        nodes=3,
        isr_min=2,
        lag_max_ms=30_000,
        sasl_mechanism=None,
        replication_delay_s=rng.choice([(0.0, 0.001), (0.001, 0.02), (0.02, 0.1)]),
        metadata_max_age_ms=rng.choice([500, 3000]),
        session_ms=rng.choice([1500, 3000]),
        slow_coordinators=calm and random.Random(f"slow coordinators {rng.getstate()}").random() < SLOW_COORDINATORS,
    )
    idle_ms = {"broker_idle_ms": IDLE_NEVER_MS, "client_idle_ms": IDLE_NEVER_MS}
    return replace(environment, calm=True, **idle_ms) if calm else environment


def for_workers(rng: random.Random) -> Environment:
    """Brokers for workers, as for groups; in some runs, the workers commit in transactions."""
    version = rng.choice([None, None, 0, 2])
    return replace(for_groups(rng), transaction_version=version)


def for_share_groups(rng: random.Random) -> Environment:
    """Brokers for a share group; in some runs, a service writes transactions to its topic."""
    environment = for_groups(rng)
    reads_committed = rng.random() < 0.5
    shares = ShareSettings(
        lock_ms=rng.choice([700, 1_500, 1_500, 4_000]),
        delivery_count_limit=rng.choice([2, 3, 5, 5, 10]),
        records_in_flight_max=rng.choice([100, 2_000]),
        updates_per_snapshot=rng.choice([0, 3, 500]),
        prunes=rng.random() < 0.5,
        reads_committed=reads_committed,
        sessions_max=rng.choice([3, 2_000, 2_000, 2_000]),
    )
    return replace(
        environment,
        repeats_requests=rng.random() < 0.3,
        transaction_version=2 if reads_committed or rng.random() < 0.3 else None,
        crash_probability=0.2,
        shares=shares,
    )


def for_share_workers(rng: random.Random) -> Environment:
    """Brokers for workers in a share group, which delivers records often enough for every kill of a run.

    Locks are renewed before a broker closes the connection: it would release the records of each handler that is slow.
    """
    shares = ShareSettings(
        lock_ms=rng.choice([4_000, 10_000]),
        delivery_count_limit=10,
        records_in_flight_max=2_000,
        updates_per_snapshot=rng.choice([0, 3, 500]),
        prunes=rng.random() < 0.5,
        reads_committed=False,
        sessions_max=2_000,
    )
    made = for_groups(rng)
    idle_ms = max(made.broker_idle_ms, shares.lock_ms)
    return replace(made, broker_idle_ms=idle_ms, transaction_version=None, crash_probability=0.2, shares=shares)


def for_transactions(rng: random.Random) -> Environment:
    """Brokers for transactional producers that crash."""
    version = rng.choice([0, 2])
    return replace(
        several_brokers(rng),
        nodes=3,
        isr_min=2,
        lag_max_ms=30_000,
        repeats_requests=version > 0 and rng.random() < 0.5,  # version 0 cannot tell repeats from new records (KIP-890)
        transaction_version=version,
        # Drawn independently, so that the draws after it do not change. With 0, clients have to retry.
        add_partitions_retry_ms=random.Random(f"patience {rng.getstate()}").choice([0, 100]),
        crash_probability=0.4,
    )


def for_mirrors(rng: random.Random) -> tuple[Environment, Environment]:
    """Two clusters with a mirror between them; producers of the first one crash."""
    source, target = [
        replace(
            for_transactions(rng),
            sasl_mechanism=None,
            replication_delay_s=rng.choice([(0.0, 0.001), (0.001, 0.02)]),
            metadata_max_age_ms=rng.choice([500, 3000]),  # a mirror has a dozen clients
            session_ms=3_000,  # few partitions of committed offsets
        )
        for _ in range(2)
    ]
    return source, replace(target, first_id=source.nodes)

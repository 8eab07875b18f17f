"""What holds for the whole of one simulated life: drawn from its seed, before anything happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

IDLE_NEVER_MS = 600_000


@dataclass(frozen=True)
class Climate:
    """The settings of brokers and clients that make a life easy or hard.

    Attributes:
        nodes: brokers.
        login: a SASL mechanism; None for no login.
        reauth_ms: how long a login lasts; 0 is for ever.
        token_lifetime_s: how long a token for OAUTHBEARER is good.
        broker_idle_ms: when brokers close idle connections.
        client_idle_ms: when clients do.
        metadata_max_age_ms: when clients renew their view.
        syncs: brokers write each batch for good before they acknowledge it, so a machine may crash.
        replication_delay_s: how long messages between brokers take, at least and at most.
        lag_max_ms: how long a follower in sync may lag.
        isr_min: min.insync.replicas.
        unclean: a replica that is not in sync may be elected.
        repeats: the network may deliver a Produce request twice.
        message_max_bytes: the largest batch that brokers take.
        transaction_version: the generation of the protocol of transactions, 0 or 2.
        join_patience_ms: how long brokers try to have partitions join a transaction while another one is carried out.
        deaths: how likely a transactional producer dies in the middle of a transaction.
        calm: nothing goes wrong, so no transaction may fail.
        session_ms: how long a member of a group may be silent; None where there is no group.
        slow_coordinators: now and then they take longer to store positions than a call of a consumer lasts.
    """

    nodes: int
    login: str | None
    reauth_ms: int
    token_lifetime_s: float
    broker_idle_ms: int
    client_idle_ms: int
    metadata_max_age_ms: int
    syncs: bool
    replication_delay_s: tuple[float, float]
    lag_max_ms: int
    isr_min: int
    unclean: bool
    repeats: bool = False
    message_max_bytes: int = 1_048_588
    transaction_version: int | None = None
    join_patience_ms: int = 100
    deaths: float = 0.0
    calm: bool = False
    session_ms: int | None = None
    slow_coordinators: bool = False

    def properties(self, node_id: int) -> dict[str, object]:
        """The properties of a broker."""
        protocol = "PLAINTEXT" if self.login is None else "SASL_PLAINTEXT"
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
        if self.transaction_version is not None:
            found["transaction.version"] = self.transaction_version
            found["transaction.state.log.num.partitions"] = 3
            found["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = 500
            found["add.partitions.to.txn.retry.backoff.max.ms"] = self.join_patience_ms
        if self.session_ms is not None:
            found |= self._group_properties(self.session_ms)
        if self.login is not None:
            found["sasl.enabled.mechanisms"] = self.login
            found["connections.max.reauth.ms"] = self.reauth_ms
            found["sasl.oauthbearer.unsecured.enable"] = True
        if self.syncs:
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
"""How many calm lives of groups have coordinators that take their time.

In others connections break: what was asked on them comes late, after what was asked again, and positions go back.
"""
TOPIC = "flights"
PARTITIONS = 3
PORT = 9092
USER, PASSWORD = "ada", "opensesame"


def host_of(node_id: int) -> str:
    return f"broker-{node_id}"


def one_broker(rng: random.Random) -> Climate:
    return Climate(
        nodes=1,
        login=rng.choice([None, None, "PLAIN", "OAUTHBEARER"]),
        reauth_ms=rng.choice([0, 2500, 4000]),  # a broker lets nobody renew more often than once a second
        token_lifetime_s=rng.choice([2.5, 5.0, 3600.0]),
        broker_idle_ms=rng.choice([1000, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        client_idle_ms=rng.choice([100, 1000, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        metadata_max_age_ms=rng.choice([100, 1000, 300_000]),
        syncs=rng.random() < 0.5,
        replication_delay_s=(0.0, 0.0),
        lag_max_ms=30_000,
        isr_min=1,
        unclean=False,
    )


def in_reports(rng: random.Random) -> Climate:
    """One broker that stays up: what fails are the records that it refuses."""
    return replace(one_broker(rng), login=None, transaction_version=rng.choice([0, 2]), calm=True)


def several_brokers(rng: random.Random, *, unclean: bool = False) -> Climate:
    nodes = rng.choice([3, 3, 4, 5])
    return Climate(
        nodes=nodes,
        login=rng.choice([None, None, None, "PLAIN"]),
        reauth_ms=rng.choice([0, 2500]),
        token_lifetime_s=3600.0,
        broker_idle_ms=rng.choice([1000, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        client_idle_ms=rng.choice([200, IDLE_NEVER_MS, IDLE_NEVER_MS]),
        metadata_max_age_ms=rng.choice([100, 1000, 300_000]),
        syncs=rng.random() < 0.4,
        replication_delay_s=rng.choice([(0.0, 0.001), (0.001, 0.02), (0.02, 0.2)]),
        lag_max_ms=rng.choice([200, 1000, 30_000]),
        isr_min=1 if unclean else rng.choice([1, 2, 2]),
        unclean=unclean,
    )


def sending(rng: random.Random) -> Climate:
    """Brokers for many senders: mostly a cluster, at times one that takes small batches only."""
    return replace(
        several_brokers(rng),
        nodes=rng.choice([1, 3, 3, 4]),
        isr_min=1 if rng.random() < 0.3 else 2,
        login=rng.choice([None, None, None, None, "PLAIN"]),
        repeats=rng.random() < 0.5,
        message_max_bytes=rng.choice([1_048_588, 1_048_588, 500]),
    )


def pipelining(rng: random.Random) -> Climate:
    """Brokers that nothing befalls but slowness, for services whose next transaction begins while the last one ends."""
    idle_ms = {"broker_idle_ms": IDLE_NEVER_MS, "client_idle_ms": IDLE_NEVER_MS, "metadata_max_age_ms": 300_000}
    return replace(transacting(rng), repeats=False, deaths=0.0, calm=True, **idle_ms)


def in_groups(rng: random.Random, *, calm: bool = False) -> Climate:
    """Brokers for a group of consumers; in a calm life they are slow at times, and no more."""
    climate = replace(
        several_brokers(rng),
        nodes=3,
        isr_min=2,
        lag_max_ms=30_000,
        login=None,
        replication_delay_s=rng.choice([(0.0, 0.001), (0.001, 0.02), (0.02, 0.1)]),
        metadata_max_age_ms=rng.choice([500, 3000]),
        session_ms=rng.choice([1500, 3000]),
        slow_coordinators=calm and random.Random(f"slow coordinators {rng.getstate()}").random() < SLOW_COORDINATORS,
    )
    idle_ms = {"broker_idle_ms": IDLE_NEVER_MS, "client_idle_ms": IDLE_NEVER_MS}
    return replace(climate, calm=True, **idle_ms) if calm else climate


def transacting(rng: random.Random) -> Climate:
    """Brokers for services that make transactions, and die."""
    version = rng.choice([0, 2])
    return replace(
        several_brokers(rng),
        nodes=3,
        isr_min=2,
        lag_max_ms=30_000,
        repeats=version > 0 and rng.random() < 0.5,  # what the first generation cannot tell from new records (KIP-890)
        transaction_version=version,
        # A draw of its own, so that those which follow stay what they were. Without patience, clients come back.
        join_patience_ms=random.Random(f"patience {rng.getstate()}").choice([0, 100]),
        deaths=0.4,
    )

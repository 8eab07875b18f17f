"""The first page of a cluster: brokers, disks, throughput, and what is wrong, in sentences.

The numbers are those of `kafkaraw.monitoring`. A large cluster takes seconds to tell them: the page shows its brokers
at once, and the rest when it is known. Start at `overview`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.admin.cluster import ClusterDescription
from kafkaraw.client.admin.transactions import TransactionListing
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import first
from kafkaraw.console.site import Site, permission_of
from kafkaraw.errors import KafkaError
from kafkaraw.monitoring import ClusterStatus, Severity, problems_of

T = TypeVar("T")

_KEPT_S: Final = 5.0
_STALE_S: Final = 120.0
_WAIT_S: Final = 0.6
"""How long the page waits for the numbers of a cluster; most tell them in a few milliseconds."""
_LONG_TRANSACTION_MS: Final = 15 * 60_000


@dataclass(frozen=True)
class State:
    """What the cluster has told.

    Attributes:
        status: its numbers; None if it has not told them.
        transactions: those that are open for long; None if that is not known.
        refused: what is not known, and why, as sentences.
    """

    status: ClusterStatus | None
    transactions: Sequence[TransactionListing] | None
    refused: tuple[str, ...]


async def overview(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the cluster."""
    described, state = await asyncio.gather(
        cluster.kept("cluster", _KEPT_S, lambda: cluster.aside(_described)),  # if this fails, there is nothing to show
        cluster.within(
            _WAIT_S, "overview", lambda: cluster.kept("overview", _KEPT_S, lambda: _asked(cluster), stale_s=_STALE_S)
        ),
    )
    facts: dict[str, Any] = {
        "described": described,
        "known": None if state is None else state.status,
        "is_partial": state is None,
        "problems": sentences(described, state),
    }
    return site.page(request, "overview.html", cluster, tab="overview", **facts)


async def _described(admin: AsyncAdmin) -> ClusterDescription:
    return await admin.describe_cluster()


async def _asked(cluster: ClusterConnection) -> State:
    refused: list[str] = []

    async def tried(what: str, work: Awaitable[T]) -> T | None:
        try:
            return await work
        except KafkaError as error:
            refused.append(f"Not shown: {what}: {permission_of(error) or str(error)[:300]}.")
            return None

    status, transactions = await asyncio.gather(
        tried("topics, groups and disks", cluster.status()),
        tried("transactions", cluster.aside(_long_transactions)),
    )
    return State(status, transactions, tuple(refused))


async def _long_transactions(admin: AsyncAdmin) -> Sequence[TransactionListing]:
    return await admin.list_transactions(states=["Ongoing"], longer_than_ms=_LONG_TRANSACTION_MS)


def sentences(described: ClusterDescription, state: State | None) -> list[tuple[str, str]]:
    """Return what is wrong, and what is not known, as pairs of "good", "bad" or "note", and a sentence."""
    brokers = len(described.brokers)
    answer = f"{brokers} broker{'s' * (brokers != 1)} answer{'s' * (brokers == 1)}"
    if state is None:
        return [("good", f"{answer}."), ("note", "Topics, groups and disks are being read.")]
    said: list[tuple[str, str]] = []
    if state.status is not None:
        if state.status.snapshot.controller_id is None:
            said.append(("bad", "The cluster names no controller: topics and configurations cannot be changed."))
        said += [("note" if each.severity is Severity.NOTE else "bad", each.text) for each in problems_of(state.status)]
    if state.transactions:
        names = first(each.transactional_id for each in state.transactions)
        said.append(
            ("bad", f"{len(state.transactions)} transactions are open for more than {_LONG_TRANSACTION_MS // 60_000} "
             f"minutes: {names}. Readers of committed records wait for their end.")
        )  # fmt: skip
    said += [("note", each) for each in state.refused]
    if not any(kind == "bad" for kind, _ in said):
        partitions = ", every partition has a leader, and every replica is in sync" if state.status is not None else ""
        said.insert(0, ("good", f"{answer}{partitions}."))
    return said

"""What commands hand in, since it is not public: the state of pipelines and of mirrors. Start at `PipelineState`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class GraphNode:
    """A dataset, topic or table of a pipeline.

    Attributes:
        kind: such as "streaming table".
        name: of the dataset, topic or table.
        topic: that it is; empty if it is none.
        flows: names of the flows into it.
        expectations: how many it has.
        keeps_state: whether a flow into it keeps state.
    """

    kind: str
    name: str
    topic: str = ""
    flows: tuple[str, ...] = ()
    expectations: int = 0
    keeps_state: bool = False


@dataclass(frozen=True)
class PipelineState:
    """What a pipeline has noted in its storage.

    Attributes:
        status: of the last run, as in its status file; None before the first one.
        is_running: whether a run has the storage.
        levels: the nodes of the graph of the last run, from left to right.
        edges: what is read, by which node, and whether as a stream.
        expectations: counts since the first run: flow, dataset, expectation, action, rows, unmet.
        balance: whether the counts of each flow add up, and the counts in words.
    """

    status: Mapping[str, Any] | None = None
    is_running: bool = False
    levels: Sequence[Sequence[GraphNode]] = ()
    edges: Sequence[tuple[GraphNode, GraphNode, bool]] = ()
    expectations: Sequence[Mapping[str, Any]] = ()
    balance: Sequence[tuple[bool, str]] = ()


@dataclass(frozen=True)
class FoundMirrors:
    """What mirrors have written into a cluster.

    Attributes:
        heartbeats: time in milliseconds by source and target.
        checkpoints: by source: group, copy, partition, offset in the source, offset here.
        positions: by the group of a flow: copy, partition, and the offset of the source up to which it is copied.
        unread: topics that could not be read, and why.
    """

    heartbeats: Mapping[tuple[str, str], int] = field(default_factory=dict)
    checkpoints: Mapping[str, Sequence[tuple[str, str, int, int, int]]] = field(default_factory=dict)
    positions: Mapping[str, Sequence[tuple[str, int, int]]] = field(default_factory=dict)
    unread: Sequence[str] = ()


class Faults(Protocol):
    """The faults of an embedded broker or of a tap."""

    @property
    def active(self) -> Sequence[Any]:
        """Those that may still happen; as text, each says what it does and how often it has."""

    def remove(self, fault: Any) -> None:  # noqa: ANN401 - of the plan
        """Remove one."""


class Mirror(Protocol):
    """A mirror with its configuration, as `kafkaraw mirror` has it."""

    @property
    def flows(self) -> Sequence[str]:
        """The names of its flows, such as `east->west`."""

    @property
    def option(self) -> str:
        """What selects it on the command line."""

    async def status(self) -> Sequence[Any]:
        """Return the state of each flow."""

    async def plan(self, flow: str, groups: Sequence[str], *, back: bool, by_timestamp: bool) -> tuple[str, str, Any]:
        """Return the aliases that groups leave and go to, and their offsets on the other side."""

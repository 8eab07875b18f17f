"""Write docs/state-machines.md: a diagram and a table for each state machine, from its transition table.

    .venv/bin/python -m docs.draw_state_machines

The page is kept in the repository so that it can be read without running anything; a test compares it with what this
script writes, and finds transition tables that it leaves out. Change the table in the code, then run this again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kafkaraw.broker.groups import states as group_states
from kafkaraw.broker.security import sasl_authenticator
from kafkaraw.broker.transactions import states as transaction_states
from kafkaraw.core import connection
from kafkaraw.core.group import states
from kafkaraw.core.producer import batches, transaction
from kafkaraw.core.sasl import conversation
from kafkaraw.core.share import member as share_member
from kafkaraw.core.share import record_states
from kafkaraw.core.telemetry import reporter
from kafkaraw.pipelines.running import flow_query
from kafkaraw.worker import schedule

OUTPUT = Path(__file__).with_name("state-machines.md")
NOTICE = "<!-- Made by docs/draw_state_machines.py from the transition tables; change those, not this page. -->"
INTRODUCTION = """\
Every state machine with a transition table, drawn from that table. A transition that is not in the table raises an
error: it is a fault in the program. Transitions with the same target from more than four states stand below the
diagram, to keep it readable; only the one from the initial state is drawn.
[Architecture](architecture.md#state-machines) says how machines and their drivers work together.
"""
DRAWN_UP_TO = 4
"""Transitions from more states than this, with the same target and trigger, stand below the diagram."""


@dataclass(frozen=True)
class Transition:
    """One transition."""

    before: Enum
    after: Enum
    trigger: str = ""


@dataclass(frozen=True)
class Machine:
    """One section of the page.

    Attributes:
        title: of the section.
        source: the module of the table, relative to the package.
        table: its name there.
        about: what the machine is for.
        transitions: as the table has them.
    """

    title: str
    source: str
    table: str
    about: str
    transitions: tuple[Transition, ...]

    @property
    def states(self) -> list[Enum]:
        """The states in the order in which they are declared; the first one is the initial one."""
        used = {state for each in self.transitions for state in (each.before, each.after)}
        return [state for state in type(self.transitions[0].before) if state in used]


def by_trigger(table: Mapping[tuple[Enum, Enum], Enum]) -> tuple[Transition, ...]:
    """Read a table from (state, trigger) to state."""
    order = {state: at for at, state in enumerate(type(next(iter(table.values()))))}
    found = [Transition(before, after, _label(trigger)) for (before, trigger), after in table.items()]
    return tuple(sorted(found, key=lambda each: (order[each.before], order[each.after], each.trigger)))


def by_state(table: Mapping[Enum, AbstractSet[Enum]]) -> tuple[Transition, ...]:
    """Read a table from a state to those that may follow it."""
    order = {state: at for at, state in enumerate(table)}
    found = [Transition(before, after) for before, following in table.items() for after in following]
    return tuple(sorted(found, key=lambda each: (order[each.before], order[each.after])))


def by_follower(table: Mapping[Enum, AbstractSet[Enum]]) -> tuple[Transition, ...]:
    """Read a table from a state to those that it may follow, as Kafka's broker has it."""
    return by_state({before: {after for after, earlier in table.items() if before in earlier} for before in table})


def _label(trigger: Enum) -> str:
    return trigger.value if isinstance(trigger.value, str) else trigger.name.lower().replace("_", " ")


MACHINES = (
    Machine(
        "Member of a group, classic protocol",
        "core/group/states.py",
        "CLASSIC_TRANSITIONS",
        "`ClassicMember`. RECONCILING, SUPERSEDED, REVOKING and FENCED wait for the application's next call to poll, "
        "which calls the rebalance listener; every other state is left without one.",
        by_trigger(states.CLASSIC_TRANSITIONS),
    ),
    Machine(
        "Member of a group, consumer protocol (KIP-848)",
        "core/group/states.py",
        "CONSUMER_TRANSITIONS",
        "`ConsumerMember`. RECONCILING and FENCED wait for the application's next call to poll.",
        by_trigger(states.CONSUMER_TRANSITIONS),
    ),
    Machine(
        "Member of a share group (KIP-932)",
        "core/share/member.py",
        "SHARE_TRANSITIONS",
        "`ShareMember`. An assignment replaces the last one at once, so there is no state for a rebalance.",
        by_trigger(share_member.SHARE_TRANSITIONS),
    ),
    Machine(
        "Group in the broker, classic protocol",
        "broker/groups/states.py",
        "MAY_FOLLOW",
        "`ClassicGroup`; the names and the table are those of Kafka's `ClassicGroupState`.",
        by_follower(group_states.MAY_FOLLOW),
    ),
    Machine(
        "Transaction in the broker",
        "broker/transactions/states.py",
        "MAY_FOLLOW",
        "A transactional id, as its coordinator sees it; names and table are those of Kafka's `TransactionState`.",
        by_follower(transaction_states.MAY_FOLLOW),
    ),
    Machine(
        "Record in a share group",
        "core/share/record_states.py",
        "MAY_FOLLOW",
        "A record, as the leader sees it for one share group; the names are those of Kafka's `RecordState`.",
        by_follower(record_states.MAY_FOLLOW),
    ),
    Machine(
        "Connection of a client",
        "core/connection.py",
        "TRANSITIONS",
        "`ConnectionMachine`, one for each connection.",
        by_state(connection.TRANSITIONS),
    ),
    Machine(
        "SASL authentication of a client",
        "core/sasl/conversation.py",
        "TRANSITIONS",
        "`SaslConversation`; the names are those of Kafka's `SaslClientAuthenticator.SaslState`.",
        by_state(conversation.TRANSITIONS),
    ),
    Machine(
        "SASL authentication in the broker",
        "broker/security/sasl_authenticator.py",
        "TRANSITIONS",
        "`SaslAuthenticator`, one for each connection.",
        by_state(sasl_authenticator.TRANSITIONS),
    ),
    Machine(
        "Partition of a producer",
        "core/producer/batches.py",
        "TRANSITIONS",
        "`PartitionQueue`: keeps the order of batches when one is sent again.",
        by_trigger(batches.TRANSITIONS),
    ),
    Machine(
        "Transaction of a producer",
        "core/producer/transaction.py",
        "TRANSITIONS",
        "`TransactionMachine`.",
        by_trigger(transaction.TRANSITIONS),
    ),
    Machine(
        "Metrics that a client pushes (KIP-714)",
        "core/telemetry/reporter.py",
        "TRANSITIONS",
        "`TelemetryReporter`, one for each client; the names are those of Kafka's `ClientTelemetryState`.",
        by_trigger(reporter.TRANSITIONS),
    ),
    Machine(
        "Flow of a pipeline",
        "pipelines/running/flow_query.py",
        "TRANSITIONS",
        "`FlowQuery`, one for each flow of a run. A materialized view is computed again after it has completed.",
        by_state(flow_query.TRANSITIONS),
    ),
    Machine(
        "Record in work",
        "worker/schedule.py",
        "TRANSITIONS",
        "`WorkItem`, one for each record that a worker has read and not committed.",
        by_state(schedule.TRANSITIONS),
    ),
)


def page() -> str:
    """Return the text of the page."""
    lines = [NOTICE, "", "# State machines", "", INTRODUCTION]
    for machine in MACHINES:
        lines += _section(machine)
    return "\n".join(lines)


def _section(machine: Machine) -> Iterator[str]:
    yield from (f"## {machine.title}", "", f"`{machine.table}` in `{machine.source}`. {machine.about}", "")
    grouped: dict[tuple[Enum, str], list[Enum]] = {}
    for each in machine.transitions:
        grouped.setdefault((each.after, each.trigger), []).append(each.before)
    yield from ("```mermaid", "stateDiagram-v2", f"    [*] --> {machine.states[0].name}")
    for (after, trigger), befores in grouped.items():
        for before in befores:
            if len(befores) <= DRAWN_UP_TO or (before is machine.states[0] and before is not after):
                yield f"    {before.name} --> {after.name}" + (f": {trigger}" if trigger else "")
    yield from ("```", "")
    rest = [(after, trigger, befores) for (after, trigger), befores in grouped.items() if len(befores) > DRAWN_UP_TO]
    if rest:
        yield from ("| to | from |", "|---|---|")
        for after, trigger, befores in rest:
            yield f"| {after.name}{trigger and f': {trigger}'} | {_sources(machine, befores)} |"
        yield ""
    if any(
        isinstance(state.value, str) and state.value.upper().replace(" ", "_") != state.name for state in machine.states
    ):
        yield from ("| state | meaning |", "|---|---|")
        yield from (f"| {state.name} | {state.value} |" for state in machine.states)
        yield ""


def _sources(machine: Machine, befores: list[Enum]) -> str:
    missing = [state.name for state in machine.states if state not in befores]
    if not missing:
        return "every state"
    if len(missing) < len(befores):
        return f"every state but {', '.join(missing)}"
    return ", ".join(state.name for state in befores)


if __name__ == "__main__":
    OUTPUT.write_text(page(), encoding="utf-8")
    print(f"wrote {OUTPUT}")

"""The exactly-once sink's own code on an embedded broker, with a scheduler that decides which process goes on.

Each process (a driver with its tasks, or one attempt of a task) is a thread that stops before each step: it looks at
the last decision, takes over a transactional id, prepares a transaction, decides, ends a transaction. Only one of them
runs at a time, so a schedule says everything. A process that is held for ever is as good as killed: it closes nothing.

Start at `run`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.errors import KafkaError
from kafkaraw.spark.writing import exactly_once
from kafkaraw.spark.writing.decisions import Decisions
from kafkaraw.spark.writing.exactly_once import commit_batch
from tests.spark.writing.query import Query, forget_clients

SLOTS = 2
STEP_MAX_S = 60.0
ALL = 1_000
STEPS_OF_ATTEMPT = 6
STEPS_OF_DRIVER = 18

Program = Callable[[Query], None]


class _ReleasedError(BaseException):
    """The run is over: a thread that was held ends."""


def _commit(query: Query, batch_id: int) -> None:
    commit_batch(query.tasks(batch_id, count=SLOTS), query.settings)


def driver(*batches: int, begins: int | None = None) -> Program:
    """A driver that writes some batches, one after the other, and then has the tasks of another one begin."""

    def program(query: Query) -> None:
        for batch_id in batches:
            _commit(query, batch_id)
        if begins is not None:
            query.tasks(begins, count=SLOTS)

    return program


def attempt(batch_id: int, slot: int) -> Program:
    """An attempt of a task that no driver waits for."""
    return lambda query: _ignore(query.task(batch_id, slot))


def _ignore(_: object) -> None:
    return


PROGRAMS: dict[str, Program] = {
    "driver of 0": driver(0),
    "driver of 0 and 1": driver(0, 1),
    "driver of 0 that begins 1": driver(0, begins=1),
    "attempt of 0.0": attempt(0, 0),
    "attempt of 0.1": attempt(0, 1),
}


@dataclass(frozen=True)
class Schedule:
    """Which processes there are, and which of them goes on for how many steps.

    Attributes:
        programs: names of `PROGRAMS`.
        turns: process and number of steps, in their order. A process that has not come to its end by then is held.
    """

    programs: tuple[str, ...]
    turns: tuple[tuple[int, int], ...]

    @classmethod
    def drawn(cls, seed: int) -> Schedule:
        """Two or three processes with up to three changes between them; some are held for ever."""
        rng = Random(seed)
        names = sorted(PROGRAMS)
        programs = tuple(rng.choice(names) for _ in range(rng.choice((1, 2, 2, 2, 2, 2, 2, 3))))
        order = list(range(len(programs)))
        rng.shuffle(order)
        if len(programs) == 2 and rng.random() < 0.5:
            at = rng.randrange(1, STEPS_OF_ATTEMPT if "attempt" in programs[order[0]] else STEPS_OF_DRIVER)
            return cls(programs, _interruption(order[0], order[1], at))
        turns = [(each, rng.choice((rng.randrange(1, 20), rng.randrange(1, 14), ALL))) for each in order[:1]]
        turns += [(each, rng.choice((rng.randrange(1, 20), ALL, ALL))) for each in order[1:]]
        turns += [(rng.choice(order), rng.randrange(1, 12)) for _ in range(rng.randrange(2))]
        rng.shuffle(order)
        turns += [(each, ALL) for each in order if rng.random() < 0.7]
        return cls(programs, tuple(turns))


def interruptions(programs: tuple[str, ...]) -> Iterator[Schedule]:
    """The first process is interrupted before each of its steps by all of the second one.

    If there is one process only, it is held for ever, before each step of its second batch.
    """
    if len(programs) == 1:
        yield from (Schedule(programs, ((0, at),)) for at in range(STEPS_OF_DRIVER - 2, STEPS_OF_DRIVER + 6))
    else:
        yield from (Schedule(programs, _interruption(0, 1, at)) for at in range(1, STEPS_OF_DRIVER + 1))


def _interruption(first: int, second: int, at: int) -> tuple[tuple[int, int], ...]:
    return (first, at), (second, ALL), (first, ALL)


class Process(threading.Thread):
    """One process: a program that goes on step by step."""

    def __init__(self, name: str, program: Program, query: Query) -> None:
        super().__init__(name=name, daemon=True)
        self.trace: list[str] = []
        self.over = False
        self.error: KafkaError | None = None
        self.fault: BaseException | None = None
        self._program, self._query = program, query
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._released = False

    def run(self) -> None:
        _current.process = self
        try:
            self.stop_before("start")
            self._program(self._query)
        except KafkaError as error:
            self.error = error
        except _ReleasedError:
            pass
        except BaseException as error:  # noqa: BLE001 - told in the main thread
            self.fault = error
        finally:
            self.over = True
            self._stopped.release()

    def stop_before(self, step: str) -> None:
        """Called by the process itself: wait for its turn."""
        if self._released:
            raise _ReleasedError
        self.trace.append(step)
        self._stopped.release()
        self._go.acquire()
        if self._released:
            raise _ReleasedError

    def wait(self) -> None:
        """Wait until it stands before its next step, or is over."""
        assert self._stopped.acquire(timeout=STEP_MAX_S), f"{self.name} hangs after {self.trace}"

    def step(self) -> None:
        """Let it do its next step."""
        if not self.over:
            self._go.release()
            self.wait()

    def release(self) -> None:
        """End it, wherever it stands."""
        self._released = True
        self._go.release()
        self.join(STEP_MAX_S)


_current = threading.local()


def _stop_before(step: str) -> None:
    process = getattr(_current, "process", None)
    if process is not None:
        process.stop_before(step)


@contextlib.contextmanager
def steps() -> Iterator[None]:
    """Have processes stop before each step."""

    def one_by_one(act: Callable[[PreparedTransaction], Any], transactions: Iterable[PreparedTransaction]) -> list[Any]:
        return [act(each) for each in transactions]

    def stopping(owner: type, method: str, step: str) -> None:
        plain = getattr(owner, method)

        def stopped(*args: Any, **named: Any) -> Any:  # whatever the method takes and gives
            _stop_before(step)
            return plain(*args, **named)

        patch.setattr(owner, method, stopped)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exactly_once, "_side_by_side", one_by_one)  # in the process's own thread
        stopping(Decisions, "look", "look")
        stopping(Producer, "init_transactions", "init")
        stopping(Producer, "prepare_transaction", "prepare")
        stopping(Decisions, "decide", "decide")
        stopping(Decisions, "end", "end")
        yield


def run(schedule: Schedule, query: Query) -> str:
    """Run the processes by their schedule, then a clean driver; returns what is wrong, or nothing.

    The clean driver repeats the batch that was decided last, as Spark does that has lost its own log of commits, and
    writes the next one. Then each row of these batches is there once, and no transaction is open.
    """
    processes = [Process(f"{number}: {name}", PROGRAMS[name], query) for number, name in enumerate(schedule.programs)]
    for process in processes:
        process.start()
        process.wait()
    try:
        for number, count in schedule.turns:
            for _ in range(count):
                if processes[number].over:
                    break
                processes[number].step()
        wrong = _finished(query)
    finally:
        for process in processes:
            process.release()
    faults = [f"{process.name}: {process.fault!r}" for process in processes if process.fault is not None]
    if not wrong and not faults:
        return ""
    told = [f"{process.name}: {' '.join(process.trace)} | {process.error!r}" for process in processes]
    return "\n".join([str(schedule), wrong, *faults, *told])


def _finished(query: Query) -> str:
    """What a clean driver finds and leaves."""
    forget_clients()
    with query.decisions() as decisions:
        last = decisions.look(query.id).last
    first = 0 if last is None else last.batch_id
    try:
        _commit(query, first)
        open_now = query.open_transactions()
        if open_now:
            return f"open after a committed batch: {open_now}"
        _commit(query, first + 1)
    except KafkaError as error:
        return f"the clean driver fails: {error!r}"
    found = query.read()
    expected = [10 * batch_id + slot for batch_id in range(first + 2) for slot in range(SLOTS)]
    return "" if found == expected else f"read {found}, expected {expected}"

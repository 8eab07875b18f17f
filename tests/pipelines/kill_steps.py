"""The steps of a run at which `kills.py` kills it, in whichever process they happen.

A step is a call of a function, or a file of Spark's checkpoint that appears; a *point* is its beginning or its end.
Every Python process of a killed run (the driver, planners of sources, workers, committers of sinks) installs hooks for
the functions; a thread of the driver watches the files. Every point that is passed is counted in a file, so that all
processes count together, and the point that was chosen kills the driver, the JVM and the process that has passed it.
Must not import the modules of the functions: `install` is called when an interpreter starts.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

FOLDER_VARIABLE = "KILLED_RUN_FOLDER"
"""Where points are counted, and where the ids of the processes are."""
POINT_VARIABLE = "KILLED_RUN_POINT"
"""The point that kills, as `Kill.text`."""
BEGIN, END = "begin", "end"
_RUNNING = "kafkaraw.pipelines.running"
_DEAD = "dead letters: "


@dataclass(frozen=True)
class Step:
    """A function whose call is a step.

    Attributes:
        name: what it does.
        module: of the function.
        function: its name, with that of its class.
        begin: whether its beginning is a point.
        end: whether its end is one.
        calls: a kill chooses one of so many calls.
    """

    name: str
    module: str
    function: str
    begin: bool = True
    end: bool = True
    calls: int = 1


STEPS = (
    Step("claim the storage", f"{_RUNNING}.storage", "Storage.claim"),
    Step("note the JVM", f"{_RUNNING}.storage", "Lock.note_jvm", begin=False),
    Step("keep the plan", f"{_RUNNING}.runner", "keep_plan"),
    Step("make a topic", "kafkaraw.pipelines.topic_admin", "_make", begin=False, calls=4),
    Step("make a generation", f"{_RUNNING}.storage", "FlowStorage.prepare", begin=False, calls=4),
    Step("keep the ids of topics", f"{_RUNNING}.storage", "FlowStorage.keep_topic_ids"),
    Step("start a query", f"{_RUNNING}.queries", "Queries.start", calls=4),
    Step("look up offsets", "kafkaraw.spark.source", "KafkaStreamReader.latestOffset", calls=4),
    Step("plan tasks", "kafkaraw.spark.source", "_StreamReader.partitions", calls=4),
    Step("micro-batch", f"{_RUNNING}.flow_query", "BatchGate.__call__", calls=4),
    Step(f"{_DEAD}micro-batch", f"{_RUNNING}.flow_query", "BatchGate.__call__"),
    Step("table: decide", "kafkaraw.pipelines.tables", "StreamingTable._decide"),
    Step("table: publish", "kafkaraw.pipelines.tables", "StreamingTable._publish"),
    Step("table: apply changes", "kafkaraw.pipelines.changes", "ChangedTable.apply"),
    Step("table: switch the version", "kafkaraw.pipelines.snapshots", "write_atomically", calls=2),
    Step("keep counts", f"{_RUNNING}.storage", "FlowStorage.keep_counts", calls=4),
    Step("sink: write a task", "kafkaraw.spark.writing.exactly_once", "write_slot", calls=4),
    Step("sink: prepare", "kafkaraw.client.blocking.producer", "Producer.prepare_transaction", calls=4),
    Step("sink: commit", "kafkaraw.spark.writing.exactly_once", "commit_batch", calls=2),
    Step(f"{_DEAD}sink: commit", "kafkaraw.spark.writing.exactly_once", "commit_batch"),
    Step("sink: decide", "kafkaraw.spark.writing.decisions", "Decisions.decide", calls=3),
    Step("sink: end a transaction", "kafkaraw.spark.writing.decisions", "Decisions.end", calls=4),
    Step("commit offsets to groups", f"{_RUNNING}.commits", "Commits._commit", calls=3),
    Step("write the counts of expectations", "kafkaraw.pipelines.balance", "CountsTable.write", begin=False, calls=2),
    Step("stop queries", f"{_RUNNING}.runner", "_Run._kill_all"),
    Step("give the storage back", f"{_RUNNING}.storage", "Lock.release"),
    Step("stop Spark", "pyspark.sql.session", "SparkSession.stop"),
)
FILES = {"offset log": "offsets", "commit log": "commits", "state": "state"}
"""Steps of the JVM: files that appear below a checkpoint. A file is written as a temporary one, which is renamed."""


def _points() -> list[tuple[str, str, int]]:
    found = []
    for step in STEPS:
        found += [(step.name, BEGIN, step.calls)] if step.begin else []
        found += [(step.name, END, step.calls)] if step.end else []
    for name in FILES:
        found += [(name, BEGIN, 4), (name, END, 4)]
    return found


POINTS = _points()
"""Name of the step, begin or end, and from how many calls a kill chooses one."""


@dataclass(frozen=True)
class Kill:
    """When a run is killed.

    Attributes:
        step: name of the step; empty for a time.
        point: begin or end of the step.
        call: which call of the step, from 1.
        first: "driver" or "jvm", what is killed first.
        after_s: for a time: seconds after the start of the run.
    """

    step: str
    point: str
    call: int
    first: str
    after_s: float = 0.0

    @property
    def text(self) -> str:
        return f"{self.step}|{self.point}|{self.call}|{self.first}|{self.after_s}"

    @classmethod
    def of(cls, text: str) -> Kill | None:
        if not text:
            return None
        step, point, call, first, after = text.split("|")
        return cls(step, point, int(call), first, float(after))

    def __str__(self) -> str:
        what = f"{self.point} of call {self.call} of '{self.step}'" if self.step else f"after {self.after_s:.1f} s"
        return f"{what}, {self.first} first"


def count(step: str, point: str) -> None:
    """Count a point, and kill the run if it is the chosen one."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    with Path(folder, "points", f"{step}, {point}").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b".")
        file.flush()
        number = file.tell()
    chosen = Kill.of(os.environ.get(POINT_VARIABLE, ""))
    if chosen is not None and (chosen.step, chosen.point, chosen.call) == (step, point, number):
        kill(chosen.first)


def kill(first: str) -> None:
    """Kill the run with SIGKILL, and this process."""
    driver, jvm = (int(each) for each in Path(os.environ[FOLDER_VARIABLE], "processes").read_text().split())
    Path(os.environ[FOLDER_VARIABLE], "killed").touch()
    if first == "jvm":
        os.kill(jvm, signal.SIGKILL)
        time.sleep(0.2)
    if os.getpid() != driver:
        os.kill(driver, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def passed(folder: Path) -> dict[str, int]:
    """Return how often each point was passed."""
    return {each.name: each.stat().st_size for each in sorted((folder / "points").iterdir())}


# -- functions


def install() -> None:
    """Install the hooks: functions are wrapped when their modules are imported."""
    if os.environ.get(FOLDER_VARIABLE):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        steps = [step for step in STEPS if step.module == fullname]
        spec = PathFinder.find_spec(fullname, path, target) if steps else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_wrap(module: ModuleType) -> None:
            load(module)
            for function in {step.function for step in steps}:
                _wrap(module, function, [step.name for step in steps if step.function == function])

        spec.loader.exec_module = load_and_wrap  # type: ignore[method-assign]
        return spec


def _wrap(module: ModuleType, function: str, names: list[str]) -> None:
    owner: object = module
    *classes, name = function.split(".")
    for each in classes:
        owner = getattr(owner, each)
    original: Callable[..., object] = getattr(owner, name)

    @wraps(original)
    def counted(*args: object, **named: object) -> object:
        step = next((each for each in names if each.startswith(_DEAD) == _is_of_dead_letters(args)), None)
        if step is None:
            return original(*args, **named)
        count(step, BEGIN)
        result = original(*args, **named)
        count(step, END)
        return result

    setattr(owner, name, counted)


def _is_of_dead_letters(args: tuple[object, ...]) -> bool:
    """Return whether a micro-batch or a commit is that of dead letters."""
    for each in args[:2]:
        storage = getattr(each, "_storage", None)
        if str(getattr(storage, "name", "")).startswith("dead_letters_of_"):
            return True
        if str(getattr(each, "topic", None) or "").endswith("-dead"):
            return True
    return False


# -- files

_IN_CREATE, _IN_MOVED_TO = 0x100, 0x80
_EVENT = struct.Struct("iIII")


class Watch(threading.Thread):
    """Counts the files that Spark writes below checkpoints.

    Args:
        folders: of the storages.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(name="watch", daemon=True)
        self._folders = folders
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._libc.inotify_init()
        self._watched: dict[int, str] = {}
        self._paths: set[Path] = set()

    def run(self) -> None:
        threading.Thread(target=self._find_folders, daemon=True).start()
        while events := os.read(self._inotify, 65_536):
            at = 0
            while at < len(events):
                descriptor, mask, _, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                name = events[at - length : at].rstrip(b"\0").decode()
                step = self._watched.get(descriptor)
                if step is not None and not name.endswith(".crc") and "." not in name.removesuffix(".delta")[1:2]:
                    is_temporary = name.startswith(".")
                    if is_temporary == bool(mask & _IN_CREATE):
                        count(step, BEGIN if is_temporary else END)

    def _find_folders(self) -> None:
        while True:
            for folder in self._folders:
                for step, name in FILES.items():
                    pattern = "*/*" if name == "state" else ""
                    for path in folder.glob(f"flows/*/*/checkpoint/{name}/{pattern}".rstrip("/")):
                        if path not in self._paths:
                            self._paths.add(path)
                            mask = _IN_CREATE | _IN_MOVED_TO
                            self._watched[self._libc.inotify_add_watch(self._inotify, bytes(path), mask)] = step
            time.sleep(0.01)

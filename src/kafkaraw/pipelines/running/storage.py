"""The files of a pipeline: who owns them, one run at a time, and what each flow keeps.

    STORAGE/pipeline.json              id and name: the storage of another pipeline is refused
    STORAGE/lock                       held by the run in progress
    STORAGE/plan.json                  the graph of the last run
    STORAGE/status.json                what the last run shows, written while it runs
    STORAGE/flows/FLOW/current         the generation of the flow's checkpoint
    STORAGE/flows/FLOW/N/start.json    where generation N starts; absent for the beginning
    STORAGE/flows/FLOW/N/topics.json   ids of the topics that it reads
    STORAGE/flows/FLOW/N/counts/       what its last micro-batches counted, with totals
    STORAGE/flows/FLOW/N/checkpoint/   Spark's; never edited here
    STORAGE/tables/TABLE/              tables
    STORAGE/log/                       what Spark prints in a run

Must not know Spark. Start at `Storage`.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.pipelines.tables import BatchId, Metrics, file_name_of, write_atomically

_COUNTS_KEPT: Final = 2
_CLAIM: Final = ".pipeline.json."
_FORMER_JVM_TIMEOUT_S: Final = 20.0
_FORMER_JVM_POLL_S: Final = 0.1


class StorageInUseError(UsageError):
    """Another run of the pipeline has the storage."""


def local_path(storage: str) -> Path:
    """Return the directory of a storage.

    Raises:
        ConfigError: it is a URI of another file system.
    """
    parts = urlsplit(storage)
    if parts.scheme not in ("", "file"):
        raise ConfigError(
            f"storage {storage!r}: kafkaraw pipelines keeps tables and checkpoints in a local directory, or one of a "
            "file system that is mounted on the driver and all workers; set `storage` in spark-pipeline.yml to a path "
            "or a file: URI"
        )
    return Path(unquote(parts.path) if parts.scheme else storage)


class Storage:
    """The storage of one pipeline.

    Args:
        root: its directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, storage: str, pipeline: str) -> Storage:
        """Return the storage of a pipeline; it is made on the first run.

        Raises:
            ConfigError: the path is not local, or belongs to another pipeline.
        """
        found = cls(local_path(storage))
        found.claim(pipeline)
        return found

    def claim(self, pipeline: str) -> str:
        """Check that the storage is the pipeline's, and return the pipeline's id, which is made on the first run.

        Raises:
            ConfigError: it belongs to another pipeline, or there is something else.
        """
        owner = self.owner()
        if owner is None:
            if not self.is_new:
                raise ConfigError(
                    f"storage {self.root}: this directory is not empty and holds no pipeline; name a new directory "
                    "in `storage` of spark-pipeline.yml"
                )
            owner = {"id": uuid.uuid4().hex, "name": pipeline}
            write_atomically(self.root / "pipeline.json", json.dumps(owner))
        if owner["name"] != pipeline:
            raise ConfigError(
                f"storage {self.root} belongs to pipeline {owner['name']!r}, not {pipeline!r}: give each pipeline a "
                f'storage of its own; if it was renamed, set "name" in {self.root / "pipeline.json"}'
            )
        return owner["id"]

    @property
    def is_new(self) -> bool:
        """Whether there is nothing yet, except for what a run has left that was killed when it claimed the storage."""
        return not self.root.is_dir() or all(each.name.startswith(_CLAIM) for each in self.root.iterdir())

    def owner(self) -> dict[str, str] | None:
        """Return id and name of the pipeline; None if the storage is new.

        Raises:
            ConfigError: the file is damaged.
        """
        path = self.root / "pipeline.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return {"id": str(found["id"]), "name": str(found["name"])}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is damaged ({error}): restore it from a backup") from None

    def table(self, name: str) -> Path:
        """Return the directory of a table."""
        return self.root / "tables" / file_name_of(name)

    def flow(self, name: str) -> FlowStorage:
        """Return what a flow keeps."""
        return FlowStorage(self.root / "flows" / file_name_of(name), name)

    def flows(self) -> list[FlowStorage]:
        """Return what all flows keep that have ever run, by name."""
        found = [
            FlowStorage(path.parent, str(json.loads(path.read_text(encoding="utf-8"))["flow"]))
            for path in (self.root / "flows").glob("*/current")
        ]
        return sorted(found, key=lambda flow: flow.name)

    @property
    def status_file(self) -> Path:
        """The file with the status of the last run."""
        return self.root / "status.json"

    def new_log(self) -> Path:
        """Return the path of a new log file."""
        path = self.root / "log" / f"run-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def lock(self) -> Lock:
        """Take the storage for one run.

        Raises:
            StorageInUseError: another run has it.
        """
        return Lock(self.root / "lock")

    def is_locked(self) -> bool:
        """Return whether a run has the storage."""
        try:
            with (self.root / "lock").open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    return True
                return False
        except FileNotFoundError:
            return False


class Lock:
    """The claim of one process on a storage; the kernel releases it when the process ends, however that happens.

    A driver that was killed leaves a JVM that needs a moment to end, and may still write until then. The lock's file
    has its process id, and the next run waits for that process.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(path)
            self._file.close()
            raise StorageInUseError(
                f"storage {path.parent} is in use by another run{holder}: stop that one first; `kafkaraw pipelines "
                "status` shows what it does"
            ) from None
        try:
            self._wait_for_former_jvm()
        except StorageInUseError:
            self._file.close()
            raise
        self._write(None)

    def note_jvm(self, pid: int) -> None:
        """Record the process that writes for this run, so that the next run can wait for its end."""
        self._write((pid, _started_at(pid)))

    def release(self) -> None:
        """Give the storage back. The JVM must write no more."""
        self._write(None)
        self._file.close()

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _write(self, jvm: tuple[int, str | None] | None) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(json.dumps({"pid": os.getpid(), "jvm": jvm}))
        self._file.flush()

    def _wait_for_former_jvm(self) -> None:
        self._file.seek(0)
        try:
            former = json.loads(self._file.read() or "{}").get("jvm")
        except ValueError:
            return
        if not former or former[1] is None:
            return
        deadline = time.monotonic() + _FORMER_JVM_TIMEOUT_S
        while _started_at(former[0]) == former[1]:
            if time.monotonic() > deadline:
                raise StorageInUseError(
                    f"the JVM of the previous run (process {former[0]}) still runs after {_FORMER_JVM_TIMEOUT_S:g} s, "
                    "and may write to the storage: end it, and run again"
                )
            time.sleep(_FORMER_JVM_POLL_S)


def _holder(path: Path) -> str:
    try:
        return f" (process {json.loads(path.read_text(encoding='utf-8'))['pid']})"
    except (OSError, ValueError, KeyError):
        return ""


def _started_at(pid: int) -> str | None:
    """Return what distinguishes a process from later ones with its id; None if it has ended, or cannot be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the micro-batches of a generation have counted.

    Args:
        batch: the last micro-batch; -1 if there is none.
        last: what that one counted.
        totals: the sums of all micro-batches up to that one.
    """

    batch: int = -1
    last: Metrics = field(default_factory=dict)
    totals: Metrics = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowStorage:
    """What one flow keeps. A generation is one checkpoint; `checkpoint fork` and `--full-refresh` make a new one.

    Args:
        path: its directory.
        name: of the flow.
    """

    path: Path
    name: str

    @property
    def generation(self) -> int:
        """The number of the current generation, from 1."""
        try:
            return int(json.loads((self.path / "current").read_text(encoding="utf-8"))["generation"])
        except FileNotFoundError:
            return 1

    def generations(self) -> list[int]:
        """Return the numbers of all generations that have files."""
        return sorted(int(each.name) for each in self.path.glob("[0-9]*") if each.is_dir())

    def folder(self, generation: int | None = None) -> Path:
        """Return the directory of a generation; of the current one if none is given."""
        return self.path / str(self.generation if generation is None else generation)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the current generation."""
        return self.folder() / "checkpoint"

    def batch(self, number: int) -> BatchId:
        """Return the identity of a micro-batch of the current generation."""
        return BatchId(self.name, self.generation, number)

    def prepare(self) -> None:
        """Make the current generation, if the flow runs for the first time."""
        self.folder().mkdir(parents=True, exist_ok=True)
        if not (self.path / "current").exists():
            self._switch_to(1)

    def begin_generation(self, start: Mapping[str, Mapping[int, int]] | None, totals: Metrics) -> int:
        """Make a new generation the current one.

        Args:
            start: offsets by topic and partition; None for where the definition starts. A topic without partitions is
                read from its beginning.
            totals: what the flow has counted up to there.

        Returns:
            its number.
        """
        number = max([self.generation if self.path.exists() else 0, *self.generations()]) + 1
        folder = self.folder(number)
        folder.mkdir(parents=True)
        if start is not None:
            write_atomically(folder / "start.json", json.dumps(start))
        if totals:
            self._write_counts(folder, Counts(-1, {}, totals))
        self._switch_to(number)
        return number

    def start_offsets(self, generation: int | None = None) -> dict[str, dict[int, int]] | None:
        """Return where a generation, by default the current one, starts; None for where the definition says."""
        try:
            found = json.loads((self.folder(generation) / "start.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return {topic: {int(each): offset for each, offset in offsets.items()} for topic, offsets in found.items()}

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics that the current generation reads."""
        try:
            found = json.loads((self.folder() / "topics.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {str(topic): str(topic_id) for topic, topic_id in found.items()}

    def keep_topic_ids(self, ids: Mapping[str, str]) -> None:
        """Keep the ids of the topics that the current generation reads."""
        write_atomically(self.folder() / "topics.json", json.dumps(dict(ids)))

    # -- counts --------------------------------------------------------------------------------------------------------

    def counts(self, generation: int | None = None) -> Counts:
        """Return what a generation has counted."""
        return self._counts_before(self.folder(generation), None)

    def keep_counts(self, batch: int, metrics: Metrics) -> Counts:
        """Keep what a micro-batch has counted. A repetition replaces the counts of its first attempt.

        Args:
            batch: the micro-batch of the current generation.
            metrics: what it counted.

        Returns:
            the counts up to this micro-batch.
        """
        folder = self.folder()
        before = self._counts_before(folder, batch)
        counts = Counts(batch, metrics, _sum(before.totals, metrics))
        self._write_counts(folder, counts)
        old = sorted((folder / "counts").glob("[0-9]*.json"))[:-_COUNTS_KEPT]
        for each in old:
            each.unlink(missing_ok=True)
        return counts

    def _counts_before(self, folder: Path, batch: int | None) -> Counts:
        for path in sorted((folder / "counts").glob("[0-9]*.json"), reverse=True):
            if batch is None or int(path.stem) <= batch:  # the number of a file is that of its batch, plus 1
                found = json.loads(path.read_text(encoding="utf-8"))
                return Counts(found["batch"], found["last"], found["totals"])
        return Counts()

    def _write_counts(self, folder: Path, counts: Counts) -> None:
        text = json.dumps({"batch": counts.batch, "last": counts.last, "totals": counts.totals})
        write_atomically(folder / "counts" / f"{counts.batch + 1:012d}.json", text)

    def _switch_to(self, generation: int) -> None:
        write_atomically(self.path / "current", json.dumps({"flow": self.name, "generation": generation}))


def _sum(totals: Metrics, metrics: Metrics) -> Metrics:
    added = {name: dict(counts) for name, counts in totals.items()}
    for name, counts in metrics.items():
        of_name = added.setdefault(name, {})
        for count, number in counts.items():
            of_name[count] = of_name.get(count, 0) + number
    return added

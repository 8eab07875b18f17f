"""Dumps of many files, in several processes if that is worth it. Start at `dump_files`; `dump` dumps one.

Each process writes the text of a file into a temporary file, and the texts are copied to the output in the order of the
files. As many files as there are processes are in work, so that no more texts than that wait.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.logs.decoders import DecoderName, decoder_named
from kafkaraw.logs.dump import DumpOptions, JsonRenderer, Mismatches, TextRenderer, dump
from kafkaraw.logs.processes import processes

if TYPE_CHECKING:
    from concurrent.futures import Future

_COPY_SIZE: Final = 1 << 20
PARALLEL_BYTES_MIN: Final = 256 << 20
"""From this size on, several processes take less time than one, though each has to start."""


@dataclass(frozen=True, slots=True)
class DumpSettings:
    """How files are dumped; it goes from process to process.

    Attributes:
        options: what is printed, without a decoder.
        decoder: the decoder; None for no content.
        as_json: print JSON lines.
    """

    options: DumpOptions
    decoder: DecoderName | None = None
    as_json: bool = False


@dataclass(slots=True)
class Dumped:
    """What became of a file, beside its text.

    Attributes:
        mismatches: where it does not fit its log.
        complaints: lines for the standard error.
        error: why it could not be read to its end; empty if it was.
    """

    mismatches: Mismatches = field(default_factory=Mismatches)
    complaints: list[str] = field(default_factory=list)
    error: str = ""


def dump_file(
    path: str, settings: DumpSettings, write: Callable[[bytes], object], advance: Callable[[int], object] | None = None
) -> Dumped:
    """Dump one file.

    Args:
        path: the file.
        settings: how.
        write: takes the text.
        advance: takes the number of bytes of the file that were read since the last call.
    """
    decoder = None if settings.decoder is None else decoder_named(settings.decoder)
    options = replace(settings.options, decoder=decoder)
    renderer = (JsonRenderer if settings.as_json else TextRenderer)(skip_record_metadata=options.skip_record_metadata)
    done = Dumped()
    try:
        dump(
            path,
            options,
            renderer,
            done.mismatches,
            lambda text: write(text.encode()),
            done.complaints.append,
            advance,
        )
    except BrokenPipeError:
        raise  # the reader of the output has ended: that is no error of the file
    except (KafkaError, OSError) as error:
        done.error = words_of(error)
    return done


def dump_files(
    files: Sequence[str],
    settings: DumpSettings,
    stream: BinaryIO,
    jobs: int,
    complain: Callable[[str], object],
    advance: Callable[[int], object],
) -> str:
    """Dump files in their order, then write where indexes do not fit their logs.

    Args:
        files: their paths.
        settings: how.
        stream: takes the text.
        jobs: number of processes; 1 for this one.
        complain: takes a line for the standard error.
        advance: takes the number of bytes of the files that were read since the last call.

    Returns:
        why a file could not be read to its end: those after it were not dumped; empty if all were.
    """
    mismatches = Mismatches()
    error = ""
    together = jobs > 1 and sum(map(size_of_file, files)) >= PARALLEL_BYTES_MIN
    results = (
        _side_by_side(files, settings, stream, jobs, advance)
        if together
        else _in_turn(files, settings, stream, advance)
    )
    for done in results:
        for line in done.complaints:
            complain(line)
        mismatches.add(done.mismatches)
        error = done.error
        if error:
            break
    stream.flush()
    if not error:
        for line in mismatches.lines():
            complain(line)
    return error


def _in_turn(
    files: Sequence[str], settings: DumpSettings, stream: BinaryIO, advance: Callable[[int], object]
) -> Iterator[Dumped]:
    for path in files:
        yield dump_file(path, settings, stream.write, advance)


def _side_by_side(
    files: Sequence[str], settings: DumpSettings, stream: BinaryIO, jobs: int, advance: Callable[[int], object]
) -> Iterator[Dumped]:
    with tempfile.TemporaryDirectory(prefix="kafkaraw-dump-") as folder, processes(jobs) as pool:
        waiting: deque[tuple[str, Path, Future[Dumped]]] = deque()
        left = deque(enumerate(files))
        while left or waiting:
            while left and len(waiting) < jobs:
                number, path = left.popleft()
                target = Path(folder, str(number))
                waiting.append((path, target, pool.submit(dump_into, path, settings, str(target))))
            path, target, future = waiting.popleft()
            done = future.result()
            with open(target, "rb") as text:
                shutil.copyfileobj(text, stream, _COPY_SIZE)
            target.unlink()
            advance(size_of_file(path))
            yield done


def dump_into(path: str, settings: DumpSettings, target: str) -> Dumped:
    """Dump one file into another one; for a process of its own."""
    with open(target, "wb") as stream:
        return dump_file(path, settings, stream.write)


def size_of_file(path: str) -> int:
    """Return the size of a file in bytes; 0 if it cannot be read."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


_HINTS: Final = {
    errno.ENOENT: "; give a file that exists",
    errno.EISDIR: "; give the files in it, as DIR/*.log",
    errno.EACCES: "; run the command as a user who may read and, for a repair, write it",
}


def words_of(error: KafkaError | OSError) -> str:
    """Return what is said of an error of a file."""
    if not isinstance(error, OSError) or isinstance(error, KafkaError) or error.filename is None:
        return str(error)
    hint = _HINTS.get(error.errno or 0, "")
    return f"{error.filename}: {error.strerror}{hint}"

"""Write the archive of an executor environment, and check it: unpack it elsewhere and import what executors import.

Start at `pack`. `environment.py` says what is in it; `described` reads the description of an archive.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.spark.launch.environment import DESCRIPTION, PYTHON, ExecutorEnvironment

ENDINGS: Final = (".tar.gz", ".tgz")
"""Of archives that `pack` writes. Spark unpacks .tar, too, but loses the permissions of programs (SPARK-38632)."""

_COMPRESSION: Final = 4  # 9 saves 2 % of the size, and takes three times as long
_CHECK_TIMEOUT_S: Final = 120.0
# What executors import, with the place of kafkaraw and which of its implementations is in use.
_CHECK: Final = """
import json, sys, pyarrow, pyspark.worker, pyspark.daemon, kafkaraw, kafkaraw.spark.source, kafkaraw.spark.sink
import kafkaraw.spark.reading.task, kafkaraw.spark.writing.task
from kafkaraw.records import IMPLEMENTATION
modules = (kafkaraw, pyarrow, pyspark.worker)
print(json.dumps([IMPLEMENTATION, "%d.%d" % sys.version_info[:2], *(module.__file__ for module in modules)]))
"""


class PackingError(KafkaError):
    """The archive was written, and executors could not use it."""


@dataclass(frozen=True, slots=True)
class Description:
    """What an archive says of itself.

    Attributes:
        python: major and minor version of its Python.
        machine: operating system and architecture.
        packages: version by name.
    """

    python: str
    machine: str
    packages: dict[str, str]


def pack(
    environment: ExecutorEnvironment,
    archive: Path,
    advance: Callable[[int], None] = lambda _: None,
    compression: int = _COMPRESSION,
) -> int:
    """Write an archive, check it, and return its size in bytes. An archive of that name is replaced when all is well.

    Args:
        environment: its content.
        archive: the file; its name ends in .tar.gz or .tgz.
        advance: called with the number of bytes that were read.
        compression: level of gzip, from 0 to 9.

    Raises:
        ConfigError: the name has another ending.
        PackingError: the packed Python cannot import what executors import.
        OSError: a file cannot be read or written.
    """
    if not archive.name.endswith(ENDINGS):
        raise ConfigError(f"{archive}: the name of the archive must end in {', '.join(ENDINGS)}")
    draft = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        _write(environment, draft, advance, compression)
        check(draft, environment)
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
    return archive.stat().st_size


def _write(environment: ExecutorEnvironment, path: Path, advance: Callable[[int], None], compression: int) -> None:
    with _stream(path, compression) as stream, tarfile.open(fileobj=stream, mode="w|", dereference=True) as tar:
        for text in environment.texts:
            content = text.text.encode()
            about = tarfile.TarInfo(text.target)
            about.size, about.mode = len(content), 0o755 if text.is_program else 0o644
            tar.addfile(about, io.BytesIO(content))
        for file in environment.files:
            about = _anonymous(tar.gettarinfo(file.source, file.target))
            with file.source.open("rb") as source:
                tar.addfile(about, source)
            advance(about.size)


def _anonymous(about: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the entry without its owner, as a plain file: the same file may have several names."""
    about.type, about.linkname = tarfile.REGTYPE, ""
    about.uid = about.gid = 0
    about.uname = about.gname = ""
    about.mode = 0o755 if about.mode & 0o111 else 0o644
    about.mtime = int(about.mtime)  # compiled modules are valid for a source of this whole second
    return about


@contextmanager
def _stream(path: Path, compression: int) -> Iterator[gzip.GzipFile]:
    with path.open("wb") as file, gzip.GzipFile("", "wb", compression, file, mtime=0) as stream:
        yield stream


def check(archive: Path, environment: ExecutorEnvironment) -> None:
    """Unpack an archive into a temporary folder, and let its own Python import what executors import.

    Raises:
        PackingError: it cannot, or takes modules from elsewhere.
    """
    with tempfile.TemporaryDirectory(prefix="kafkaraw-pack-") as folder:
        root = Path(os.path.realpath(folder))
        with tarfile.open(archive) as tar:
            tar.extractall(root, filter="data")
        done = subprocess.run(
            [root / PYTHON, "-c", _CHECK],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},  # nothing of this environment
            capture_output=True,
            text=True,
            timeout=_CHECK_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise PackingError(f"the packed Python cannot import what executors need: {done.stderr.strip()}")
        implementation, python, *places = json.loads(done.stdout)
        _check_modules(root, places)
    from kafkaraw.records import IMPLEMENTATION

    if (implementation, python) != (IMPLEMENTATION, environment.python):
        raise PackingError(
            f"the packed environment is Python {python} with the {implementation} implementation of records; here it "
            f"is Python {environment.python} with the {IMPLEMENTATION} implementation"
        )


def _check_modules(root: Path, places: list[str]) -> None:
    outside = [place for place in places if root not in Path(place).parents]
    if outside:
        raise PackingError(f"the packed Python imports modules from outside of the archive: {', '.join(outside)}")


def described(archive: Path) -> Description:
    """Return what an archive says of itself.

    Raises:
        ConfigError: there is no such file, or `kafkaraw spark pack` has not written it.
    """
    try:
        with tarfile.open(archive) as tar:
            # The description is the second entry: the rest of the archive is not read.
            for entry in tar:
                if entry.name == DESCRIPTION:
                    content = tar.extractfile(entry)
                    assert content is not None
                    return Description(**json.load(content))
                if entry.name != PYTHON:
                    break
    except (OSError, tarfile.TarError) as error:
        raise ConfigError(
            f"the archive {archive} cannot be read ({str(error).splitlines()[0]}): "
            f"make it with `kafkaraw spark pack -o {archive}`"
        ) from error
    raise ConfigError(f"{archive} is not an archive of `kafkaraw spark pack`: it has no {DESCRIPTION} in front")

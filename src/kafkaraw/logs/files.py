"""Files of log directories, on any filesystem that pyarrow or fsspec opens. Read only.

A location is a local path or a URI (`s3://bucket/backup`, `gs://`, `hdfs://`, `file://`; with fsspec also its own
schemes), and may contain `*` and `[...]`, local paths also `?`. Start at `expand` and `filesystem_of`.

Nothing here writes, creates or locks. User names, passwords and parameters of a URI are not shown in errors.
"""

from __future__ import annotations

import fnmatch
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import NamedTuple

if TYPE_CHECKING:
    import pyarrow.fs

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PATTERN: Final = re.compile(r"[*?\[]")
_PATTERN_OF_URI: Final = re.compile(r"[*\[]")

_OF_PYARROW: Final = frozenset({"file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss"})


class RangeFile(Protocol):
    """An open file."""

    def seek(self, position: int, whence: int = 0, /) -> int:
        """Set the position."""
        ...

    def readinto(self, buffer: bytearray | memoryview, /) -> int:
        """Read bytes at the position into a buffer; fewer at the end of the file."""
        ...

    def size(self) -> int:
        """Return the size of the file in bytes."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Directory(NamedTuple):
    """A directory on a filesystem.

    Attributes:
        root: what opens the filesystem: `file:///`, or the location without its path's patterns.
        path: path of the directory on it.
    """

    root: str
    path: str

    @property
    def shown(self) -> str:
        """The directory for messages, without secrets."""
        return shown_file(self.root, self.path)


def shown(location: str) -> str:
    """Return a location for messages: without user, password and parameters."""
    found = _SCHEME.match(location)
    if found is None:
        return location
    rest = location[found.end() :].partition("?")[0]
    authority, slash, path = rest.partition("/")
    return f"{found[0]}{authority.rpartition('@')[2]}{slash}{path}"


def is_local(root: str) -> bool:
    """Return whether a root is the local filesystem."""
    return root.startswith("file:")


def shown_file(root: str, path: str) -> str:
    """Return the path of a file for messages: a local path, or a URI without secrets."""
    scheme = _SCHEME.match(root)
    return path if scheme is None or is_local(root) else f"{scheme[0]}{path.lstrip('/')}"


def expand(location: str) -> list[Directory]:
    """Return the directories that a location names.

    Raises:
        UsageError: it names none, or nothing here opens its scheme.
        OSError: the filesystem cannot be reached.
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        root, path = "file:///", os.path.abspath(os.path.expanduser(location))
        pattern = _PATTERN
    else:
        uri, _, parameters = location.partition("?")
        fixed = _PATTERN_OF_URI.split(uri, maxsplit=1)[0]
        root = (fixed if fixed == uri else fixed[: fixed.rindex("/") + 1]) + (f"?{parameters}" if parameters else "")
        base = _opened(root, os.getpid())[1].rstrip("/")
        path = base + uri[len(root.partition("?")[0].rstrip("/")) :].rstrip("/")
        pattern = _PATTERN_OF_URI
    files = filesystem_of(root)
    found = _matching(files, path, pattern) if pattern.search(path) else [path]
    if not found:
        raise UsageError(f"{shown(location)} matches no directory; give the log.dirs of brokers, or copies of them")
    return [Directory(root, each) for each in found]


def _matching(files: pyarrow.fs.FileSystem, path: str, pattern: re.Pattern[str]) -> list[str]:
    import pyarrow.fs as fs

    parts = path.split("/")
    first = next(number for number, part in enumerate(parts) if pattern.search(part))
    folders = ["/".join(parts[:first])]
    for part in parts[first:]:
        if not pattern.search(part):
            folders = [f"{folder}/{part}" for folder in folders]
            continue
        folders = [
            entry.path
            for folder in folders
            for entry in files.get_file_info(fs.FileSelector(folder or "/", allow_not_found=True))
            if entry.type == fs.FileType.Directory and fnmatch.fnmatchcase(entry.base_name, part)
        ]
    kinds = files.get_file_info(folders)
    return sorted(entry.path for entry in kinds if entry.type == fs.FileType.Directory)


def filesystem_of(root: str) -> pyarrow.fs.FileSystem:
    """Return the filesystem of a root; it is opened once per process.

    Raises:
        UsageError: neither pyarrow nor fsspec opens its scheme.
        OSError: it cannot be reached.
    """
    return _opened(root, os.getpid())[0]


@lru_cache(maxsize=64)
def _opened(root: str, _process: int) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the filesystem, and the path of the root on it; a forked process opens its own."""
    import pyarrow as pa
    import pyarrow.fs as fs

    if root.partition("://")[0].lower() in _OF_PYARROW:
        try:
            opened: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(root)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"{shown(root)} cannot be opened: {str(error).replace(root, shown(root))}") from None
        return opened
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            f"{shown(root)}: pyarrow has no filesystem for this scheme; `pip install fsspec` and the package that it "
            "needs for the scheme"
        ) from None
    try:
        found, path = fsspec.core.url_to_fs(root)
    except (ValueError, ImportError) as error:
        raise UsageError(f"{shown(root)} cannot be opened: {error}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path


class Listing(NamedTuple):
    """A log directory and the folders in it.

    Attributes:
        files: name of each file of the directory itself -> its size in bytes.
        folders: name of each folder -> name of each of its files -> its size in bytes.
    """

    files: dict[str, int]
    folders: dict[str, dict[str, int]]


def listing(directory: Directory) -> Listing:
    """List a log directory and its folders, with one recursive request.

    Raises:
        UsageError: there is no such directory.
        OSError: it cannot be read.
    """
    import pyarrow.fs as fs

    files = filesystem_of(directory.root)
    try:
        entries = files.get_file_info(fs.FileSelector(directory.path, recursive=True))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{directory.shown} is no directory; give one of the broker's log.dirs") from None
    found = Listing({}, {})
    # A filesystem may return a path with or without its leading slash, so the parts at the end count.
    depth = len([part for part in directory.path.split("/") if part])
    for entry in entries:
        parts = [part for part in entry.path.split("/") if part][depth:]
        if entry.type == fs.FileType.Directory and len(parts) == 1:
            found.folders.setdefault(parts[0], {})
        elif entry.type == fs.FileType.File and len(parts) == 1:
            found.files[parts[0]] = entry.size
        elif entry.type == fs.FileType.File and len(parts) == 2:
            found.folders.setdefault(parts[0], {})[parts[1]] = entry.size
    return found


def list_folder(root: str, path: str) -> dict[str, int] | None:
    """Return the size in bytes of each file of a folder, by name; None if there is no such folder.

    Raises:
        OSError: it cannot be read.
    """
    import pyarrow.fs as fs

    try:
        entries = filesystem_of(root).get_file_info(fs.FileSelector(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return {entry.base_name: entry.size for entry in entries if entry.type == fs.FileType.File}


def read_file(root: str, path: str) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: it cannot be read.
    """
    with filesystem_of(root).open_input_file(path) as file:
        content: bytes = file.read()
        return content


def read_end(root: str, path: str, size_bytes: int) -> bytes:
    """Return the last bytes of a file.

    Raises:
        OSError: it cannot be read.
    """
    with filesystem_of(root).open_input_file(path) as file:
        size = file.size()
        content: bytes = file.read_at(min(size_bytes, size), max(size - size_bytes, 0))
        return content


def open_file(root: str, path: str) -> RangeFile:
    """Open a file to read ranges of it.

    Raises:
        OSError: it cannot be opened.
    """
    opened: RangeFile = filesystem_of(root).open_input_file(path)
    return opened

"""`BackupStore`: the files of a backup on a filesystem of fsspec. Everything that reads or writes them is here.

A location is a path or a URL that fsspec opens: `/backups/production`, `s3://bucket/production`, `memory://tests`. A
file becomes visible under its name when it is whole, as far as the filesystem can do that. Start at `BackupStore`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, Final, Protocol

from kafkaraw.broker.log.file_storage import sync_folder
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.mirror.backups.manifest import (
    IDENTITY_FILE,
    MANIFESTS_FOLDER,
    RUNS_FOLDER,
    VERSION,
    BackupError,
    DataFile,
    Manifest,
    base_path,
    check_sequence,
    manifest_path,
    numbers_of,
    read_manifest,
    those_that_count,
    write_manifest,
)

_IDENTITY: Final = f'{{"format": "kafkaraw-backup", "version": {VERSION}}}\n'.encode()
_DRAFT: Final = ".draft"
_SHOWN_MAX: Final = 3
_REMOVED_AT_ONCE: Final = 500
# They have no folders; some packages would create a bucket that does not exist.
_OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss"})


class Writable(Protocol):
    """A file that is being written."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes."""
        ...


class HashedFile:
    """Counts and hashes what is written to a file; pyarrow writes to it, too.

    Args:
        file: the file.
        where: its name, for errors.
    """

    def __init__(self, file: Any, where: str) -> None:  # noqa: ANN401 - fsspec has no types
        self._file = file
        self._where = where
        self._hash = sha256()
        self.size_bytes: int = 0
        self.closed: bool = False

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes.

        Raises:
            BackupError: they cannot be written.
        """
        view = memoryview(data)
        try:
            self._file.write(view)
        except OSError as error:
            raise BackupError(f"{self._where}: cannot be written: {error.strerror or error}") from error
        self._hash.update(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return the position."""
        return self.size_bytes

    def flush(self) -> None:
        """Nothing is kept here."""

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False

    def close(self) -> None:
        """Nothing: the store closes the file."""

    @property
    def sha256(self) -> str:
        """The checksum of everything written so far."""
        return self._hash.hexdigest()


class BackupStore:
    """The files of one backup.

    Args:
        url: a path, or a URL of fsspec.

    Raises:
        UsageError: fsspec is not installed, or cannot open the URL.
    """

    def __init__(self, url: str) -> None:
        self.url: str = url.rstrip("/")
        self._files: Any  # fsspec has no types
        root: Any
        try:
            import fsspec
            from fsspec.implementations.local import LocalFileSystem
        except ImportError as error:
            raise UsageError(f"backups need fsspec: pip install 'kafkaraw[backup]' ({error})") from error
        try:
            self._files, root = fsspec.core.url_to_fs(self.url)
        except (ValueError, ImportError, OSError) as error:
            raise UsageError(f"{self.url} cannot be opened: {error}") from error
        self._root = str(root).rstrip("/")
        self._is_local = isinstance(self._files, LocalFileSystem)
        protocols = self._files.protocol
        self._has_folders = _OBJECT_STORES.isdisjoint([protocols] if isinstance(protocols, str) else protocols)
        self._unsynced: set[str] = set()

    # -- what there is

    def manifests(self, until: int | None = None) -> list[Manifest]:
        """Return the manifests of all runs, in order.

        Args:
            until: the last run that counts; None is all.

        Raises:
            UsageError: the directory holds something else, or there is no such run.
            BackupError: a manifest is missing or damaged.
        """
        self._check_identity()
        names = those_that_count(self._names(MANIFESTS_FOLDER))
        found = [
            read_manifest(self.read(f"{MANIFESTS_FOLDER}/{name}"), f"{self.url}/{MANIFESTS_FOLDER}/{name}")
            for name in names
        ]
        base = (numbers_of(names[0]) or (0, 0)) if names else (0, 0)
        first = base[0] if base[1] else 1
        check_sequence(found, self.url, first)
        if until is not None and not first <= until < first + len(found):
            pruned = f"; those before {first} were pruned" if first > 1 else ""
            raise UsageError(f"{self.url} has no run {until}: it has {len(found)}{pruned}")
        return [manifest for manifest in found if until is None or manifest.run <= until]

    def required_manifests(self, until: int | None = None) -> list[Manifest]:
        """Return the manifests as `manifests` does.

        Raises:
            UsageError: there is no complete run.
            BackupError: as `manifests`.
        """
        found = self.manifests(until)
        if not found:
            raise UsageError(f"{self.url} has no complete run of a backup: `kafkaraw backup create` makes one")
        return found

    def _check_identity(self) -> None:
        names = self._names("")
        if names and IDENTITY_FILE not in names:
            shown = ", ".join(names[:_SHOWN_MAX])
            more = "..." if len(names) > _SHOWN_MAX else ""
            raise UsageError(f"{self.url} holds {shown}{more}, which is no backup; name another location")

    def _names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist."""
        path = f"{self._root}/{folder}".rstrip("/")
        with self._reported(folder):
            self._files.invalidate_cache()
            try:
                entries = self._files.ls(path, detail=False)
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                raise UsageError(f"{self.url} is a file; name a directory") from None
        names = {str(entry).rstrip("/").rpartition("/")[2] for entry in entries}
        return sorted(name for name in names if name and not name.endswith(_DRAFT))

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files in the folders of runs, complete or not, by path below the root.

        Raises:
            BackupError: they cannot be listed.
        """
        with self._reported(RUNS_FOLDER):
            self._files.invalidate_cache()
            found = self._files.find(f"{self._root}/{RUNS_FOLDER}", detail=True)
        marker = f"/{RUNS_FOLDER}/"
        return {
            f"{RUNS_FOLDER}/{str(path)[len(self._root) :].partition(marker)[2]}": int(entry["size"])
            for path, entry in found.items()
        }

    def run_folders(self) -> list[str]:
        """Return the folders of runs, complete or not, below the root."""
        return [f"{RUNS_FOLDER}/{name}" for name in self._names(RUNS_FOLDER)]

    # -- reading

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            BackupError: it is missing, or cannot be read.
        """
        with self._reported(path):
            data = self._files.cat_file(f"{self._root}/{path}")
        return bytes(data)

    def read_checked(self, file: DataFile) -> bytes:
        """Return the content of a file of records.

        Raises:
            BackupError: it is missing, cannot be read, or is not what the manifest says.
        """
        data = self.read(file.path)
        if len(data) != file.size_bytes:
            raise BackupError(f"{self.url}/{file.path}: has {len(data)} bytes, its manifest says {file.size_bytes}")
        found = sha256(data).hexdigest()
        if found != file.sha256:
            raise BackupError(f"{self.url}/{file.path}: its checksum is {found}, its manifest says {file.sha256}")
        return data

    # -- writing

    def begin(self) -> None:
        """Mark the location as a backup.

        Raises:
            UsageError: it holds something else.
            BackupError: it cannot be written.
        """
        self._check_identity()
        if IDENTITY_FILE not in self._names(""):
            self._replace(IDENTITY_FILE, _IDENTITY)

    @contextmanager
    def writing(self, path: str) -> Iterator[HashedFile]:
        """Write a file; it is synced at the end. If the block fails, what was written is of no use.

        Raises:
            BackupError: it cannot be written.
        """
        full = f"{self._root}/{path}"
        with self._reported(path):
            self._make_folder(full)
            file = self._files.open(full, "wb")  # some stores answer at the end only
        try:
            yield HashedFile(file, f"{self.url}/{path}")
            with self._reported(path):
                file.flush()
                if self._is_local:
                    os.fsync(file.fileno())
        finally:
            with self._reported(path):
                file.close()

    def add(self, manifest: Manifest) -> None:
        """Write the manifest of a run, after all of its files: from now on the run counts.

        Raises:
            BackupError: it cannot be written, or another process has added a run meanwhile.
        """
        path = manifest_path(manifest.run)
        with self._reported(path):
            for folder in sorted(self._unsynced):
                sync_folder(folder)
        self._unsynced.clear()
        if path.rpartition("/")[2] in self._names(MANIFESTS_FOLDER):
            raise BackupError(f"{self.url}/{path}: another process has added run {manifest.run} meanwhile; start again")
        self._replace(path, write_manifest(manifest).encode())

    def add_base(self, manifest: Manifest) -> None:
        """Write a base: from now on it counts in place of the manifests of its run and those before.

        Raises:
            BackupError: it cannot be written.
        """
        names = [numbers for name in self._names(MANIFESTS_FOLDER) if (numbers := numbers_of(name)) is not None]
        number = 1 + max((base for run, base in names if run == manifest.run), default=0)
        self._replace(base_path(manifest.run, number), write_manifest(manifest).encode())

    def superseded_manifests(self) -> list[str]:
        """Return the paths of manifests that a base has replaced."""
        names = self._names(MANIFESTS_FOLDER)
        left = set(names) - set(those_that_count(names))
        return [f"{MANIFESTS_FOLDER}/{name}" for name in sorted(left) if numbers_of(name) is not None]

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files, and folders that are empty then; files that do not exist are no error.

        Raises:
            BackupError: one cannot be removed.
        """
        at_once = 1 if self._is_local else _REMOVED_AT_ONCE
        for at in range(0, len(paths), at_once):
            chunk = paths[at : at + at_once]
            with self._reported(chunk[0]), suppress(FileNotFoundError):
                self._files.rm([f"{self._root}/{path}" for path in chunk])
        if self._is_local:
            for folder in sorted({path.rpartition("/")[0] for path in paths}, reverse=True):
                self._remove_if_empty(folder)

    def _remove_if_empty(self, folder: str) -> None:
        """Remove a folder without files, and those above it, down to one below the root."""
        while folder.count("/"):
            try:
                os.rmdir(f"{self._root}/{folder}")
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all files; one that does not exist is no error.

        Raises:
            BackupError: it cannot be removed.
        """
        with self._reported(folder):
            try:
                self._files.rm(f"{self._root}/{folder}", recursive=True)
            except FileNotFoundError:
                return

    def _replace(self, path: str, data: bytes) -> None:
        """Write a small file under another name, and rename it."""
        full = f"{self._root}/{path}"
        with self.writing(path + _DRAFT) as file:
            file.write(data)
        with self._reported(path):
            if self._is_local:
                os.replace(full + _DRAFT, full)
                sync_folder(full.rpartition("/")[0])
                self._unsynced.clear()
            else:
                self._files.mv(full + _DRAFT, full)

    def _make_folder(self, full: str) -> None:
        folder = full.rpartition("/")[0]
        if self._has_folders:
            self._files.makedirs(folder, exist_ok=True)
        while self._is_local and len(folder) >= len(self._root) and folder not in self._unsynced:
            self._unsynced.add(folder)
            folder = folder.rpartition("/")[0]

    @contextmanager
    def _reported(self, path: str) -> Iterator[None]:
        """Raise errors of the filesystem as `BackupError`, with the name of the file."""
        where = f"{self.url}/{path}" if path else self.url
        try:
            yield
        except KafkaError:
            raise
        except FileNotFoundError as error:
            hint = "" if self._has_folders else ", or its bucket: create the bucket, or check the name"
            raise BackupError(f"{where}: is missing{hint}") from error
        except OSError as error:
            raise BackupError(f"{where}: {error.strerror or error}") from error
        except Exception as error:  # the packages behind fsspec have errors of their own
            raise BackupError(f"{where}: {type(error).__name__}: {' '.join(str(error).split())}") from error

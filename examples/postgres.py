"""A PostgreSQL cluster of its own in a folder, with logical decoding, from the machine's programs.

Debian installs them as `postgresql`. The server listens on a socket in its folder only, and has no superuser but the
one that started it. Start at `private_postgres`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkaraw.errors import UsageError

DEADLINE_S = 60
SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": "",
    "fsync": "off",  # a cluster for one run
    "max_replication_slots": "4",
}


def find_programs() -> Path | None:
    """Return the folder with `initdb` and `pg_ctl`, those of the newest PostgreSQL; None if there is none."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True
    )
    found = shutil.which("initdb")
    folders = [*debian, *([Path(found).parent] if found else [])]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def _unprivileged_user() -> str | None:
    """Return the user that runs the server: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise UsageError("PostgreSQL does not run as root, and this machine has no user 'postgres' or 'nobody'")


class PrivatePostgres:
    """A cluster in a folder of its own.

    Attributes:
        connection_string: how libpq connects to its database.
    """

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self._programs = programs
        self._folder = folder
        self._user = user
        self.connection_string = f"host={folder} user=shop dbname=postgres"

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def create(self) -> None:
        """Create the cluster."""
        self._call("initdb", "--pgdata", self._data, "--auth=trust", "--username=shop", "--encoding=UTF8", "--no-sync")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        settings = " ".join(f"-c {name}='{value}'" for name, value in SETTINGS.items())
        options = f"{settings} -c unix_socket_directories={self._folder}"
        log = str(self._folder / "log")
        self._call("pg_ctl", "start", "--pgdata", self._data, "--wait", "--options", options, "--log", log)

    def stop(self) -> None:
        """Stop the server at once, as after a crash."""
        self._call("pg_ctl", "stop", "--pgdata", self._data, "--mode=immediate", "--wait")

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        # pg_ctl's server keeps the output open: a pipe would wait for its end.
        with self._folder.with_name(f"{self._folder.name}.log").open("wb+") as log:
            code = subprocess.run(
                command, stdout=log, stderr=log, cwd="/", user=self._user, timeout=DEADLINE_S, check=False
            ).returncode
            log.seek(0)
            if code != 0:
                raise UsageError(f"{program} ended with {code}: {log.read().decode(errors='replace').strip()}")


@contextmanager
def private_postgres() -> Iterator[PrivatePostgres]:
    """Start a cluster in a temporary folder. It ends and is removed afterwards.

    Raises:
        UsageError: PostgreSQL is not installed, or did not start.
    """
    programs = find_programs()
    if programs is None:
        raise UsageError("PostgreSQL is not installed: on Debian and Ubuntu, run `apt-get install postgresql`")
    user = _unprivileged_user()
    # Sockets have paths of at most 107 bytes, and an unprivileged user must be able to enter the folder.
    folder = Path(tempfile.mkdtemp(prefix="kafkaraw-pg-", dir="/tmp"))
    if user is not None:
        shutil.chown(folder, user)
    server = PrivatePostgres(programs, folder, user)
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_name(f"{folder.name}.log").unlink(missing_ok=True)

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


@contextmanager
def private_postgres() -> Iterator[str]:
    """Start a cluster in a temporary folder; yield its connection string. It ends and is removed afterwards.

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
    data = folder / "data"

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        # pg_ctl's server keeps the output open: a pipe would wait for its end.
        with (folder.parent / f"{folder.name}.log").open("wb+") as log:
            code = subprocess.run(
                command, stdout=log, stderr=log, cwd="/", user=user, timeout=DEADLINE_S, check=False
            ).returncode
            log.seek(0)
            if code != 0:
                raise UsageError(f"{program} ended with {code}: {log.read().decode(errors='replace').strip()}")

    try:
        call("initdb", "--pgdata", str(data), "--auth=trust", "--username=shop", "--encoding=UTF8", "--no-sync")
        settings = " ".join(f"-c {name}='{value}'" for name, value in SETTINGS.items())
        options = f"{settings} -c unix_socket_directories={folder}"
        call("pg_ctl", "start", "--pgdata", str(data), "--wait", "--options", options, "--log", str(folder / "log"))
        try:
            yield f"host={folder} user=shop dbname=postgres"
        finally:
            call("pg_ctl", "stop", "--pgdata", str(data), "--mode=immediate", "--wait")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_name(f"{folder.name}.log").unlink(missing_ok=True)

"""Small shell scripts that start a program.

A session needs its scripts as long as it lives, perhaps for weeks, so they are not in the folder for temporary files,
which the system cleans. They are in the user's cache, named by their content, and stay there: every session uses
the same ones. Start at `make_script`.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shlex
import shutil
import tempfile
from pathlib import Path

_log = logging.getLogger(__name__)


def make_script(name: str, text: str, **programs: str | Path) -> Path:
    """Write an executable script, unless it is there.

    Args:
        name: the script's path in a folder of its own, such as `bin/java`.
        text: the script, with `{program}` for the path that is given as `program`.
        programs: paths that the text contains.

    Returns:
        the folder. If the user's cache cannot hold programs, it is a temporary one that ends with this process.
    """
    for placeholder, path in programs.items():
        text = text.replace(f"{{{placeholder}}}", shlex.quote(str(path)))
    folder = _cache() / "scripts" / hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16]
    try:
        _write(folder / name, text)
        if os.access(folder / name, os.X_OK):
            return folder
        _log.info("%s cannot be run: a folder for temporary files has it", folder / name)
    except OSError as error:
        _log.info("%s cannot be written (%s): a folder for temporary files has it", folder / name, error)
    folder = Path(tempfile.mkdtemp(prefix="kafkaraw-"))
    atexit.register(_remove, folder, os.getpid())
    _write(folder / name, text)
    return folder


def _cache() -> Path:
    """Return the user's cache folder, see the XDG Base Directory Specification."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~"), ".cache")
    return root / "kafkaraw"


def _write(script: Path, text: str) -> None:
    """Write the script in one step, so that no other process runs a part of it."""
    if script.is_file() and script.read_text(encoding="utf-8") == text and os.access(script, os.X_OK):
        return
    script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = script.with_name(f"{script.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(script)


def _remove(folder: Path, owner: int) -> None:
    # A forked child ends, too, while its parent still needs the script.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)

"""Small shell scripts that stand in front of a program, for the life of this process."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from pathlib import Path


def make_script(name: str, text: str, program: str | Path) -> Path:
    """Write an executable script; it is gone when this process ends.

    Args:
        name: the script's path in a folder of its own, such as `bin/java`.
        text: what it does, with `{program}` for the program behind it.
        program: path of that program.

    Returns:
        the folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="kafkaraw-"))
    atexit.register(_remove, folder, os.getpid())
    script = folder / name
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text.replace("{program}", shlex.quote(str(program))), encoding="utf-8")
    script.chmod(0o755)
    return folder


def _remove(folder: Path, owner: int) -> None:
    # A forked child ends, too, while its parent still needs the script.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)

"""The choice of the hot path's implementation: the compiled modules, or plain Python.

The choice is made once, at import, by looking for the compiled files, never by trying to import them: without a
compiler, the sources of the compiled modules import without an error, but run several times slower. The environment
variable KAFKARAW_IMPL=python|native overrides the choice.
The result is in `_implementation.py`. Start at `choose`.
"""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from typing import Final

from kafkaraw.errors import ConfigError

_VARIABLE: Final = "KAFKARAW_IMPL"
_COMPILED_MODULES: Final = ("_builder", "_ticket", "_open_batches", "_reader", "_filling", "_rows")


def choose(setting: str, folder: str | os.PathLike[str]) -> str:
    """Decide between "native" and "python".

    Args:
        setting: value of KAFKARAW_IMPL; if it is empty, the files decide.
        folder: folder of the compiled modules.

    Raises:
        ConfigError: an unknown setting, or "native" without the compiled files.
    """
    if setting not in ("", "native", "python"):
        raise ConfigError(f"{_VARIABLE}={setting} is unknown; it can be python or native")
    if setting == "python":
        return "python"
    finder = FileFinder(os.fspath(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES))
    missing = [name for name in _COMPILED_MODULES if finder.find_spec(name) is None]
    if not missing:
        return "native"
    if setting == "native":
        raise ConfigError(
            f"{_VARIABLE}=native, but the compiled modules {', '.join(missing)} are not there; "
            "install with a C compiler present, or unset the variable to run in plain Python"
        )
    return "python"


IMPLEMENTATION: Final = choose(os.environ.get(_VARIABLE, ""), os.path.dirname(__file__))
"""The implementation in use: "native" or "python"."""

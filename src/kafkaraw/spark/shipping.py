"""How Spark pickles this package's classes to executors: with the check that kafkaraw is installed there.

A class of an installed package is pickled as its name, so an executor without the package fails with a bare
ModuleNotFoundError of Spark's worker. `Shipped` objects are pickled as a call of `object_on_executor`, whose code
travels with them: it names the host, its Python and the settings. Only this module is pickled by value.

The function must use the standard library only, until it imports kafkaraw. Start at `Shipped`.
"""

from __future__ import annotations

import copyreg
import importlib
import os
import socket
import sys
from typing import Final

from pyspark import cloudpickle

from kafkaraw._version import __version__

_OWN: Final = "kafkaraw."


class Shipped:
    """Base of classes whose objects Spark pickles to executors."""

    def __reduce__(self) -> tuple[object, ...]:
        """Return how an executor makes the object: by a function that first finds the class."""
        if not type(self).__module__.startswith(_OWN):  # a subclass, which executors may not be able to import by name
            return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]  # as pickle calls it
        return object_on_executor, (type(self).__module__, type(self).__qualname__, __version__), self.__dict__


def object_on_executor(module: str, name: str, version: str) -> object:
    """Return a new object of a class, without its state.

    Args:
        module: of the class.
        name: of the class.
        version: of kafkaraw on the driver.

    Raises:
        RuntimeError: this process cannot import the module, or has another version of kafkaraw. It is not an error of
            kafkaraw's own, which may be missing here.
    """
    here = f"the host {socket.gethostname()} (Python {sys.version.split()[0]}, {sys.executable}, in {os.getcwd()})"
    how = (
        "make an archive with `kafkaraw spark pack` on the driver and start the job with `kafkaraw spark submit "
        "--archive FILE`, or set spark.archives to FILE#environment and PYSPARK_PYTHON to ./environment/bin/python"
    )
    try:
        found = getattr(importlib.import_module(module), name)
        importlib.import_module("pyarrow")
        installed = importlib.import_module("kafkaraw._version").__version__
    except ImportError as error:
        raise RuntimeError(f"kafkaraw cannot be used on {here}: {error}. Executors need it, too: {how}") from error
    if installed != version:
        raise RuntimeError(f"the driver has kafkaraw {version}, and {here} has {installed}. They must be equal: {how}")
    return found.__new__(found)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

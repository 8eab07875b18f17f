"""Adds the compiled modules to what pyproject.toml says.

These modules are written in Cython's pure-Python mode. They are compiled where a compiler works; otherwise the install
succeeds and `records/_fallback` (`schemas/arrow/plain_*` for columns of schemas) does the work:
`optional=True` is for that. With KAFKARAW_COMPILED=required in the environment, as for a release, a module that cannot
be compiled ends the build, and the sources of these modules, which nothing would import, are left out of the wheel.

Why these options: docs/decisions/0052-size-of-the-compiled-modules.md.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_py import build_py

NATIVE_MODULES = (
    "kafkaraw.records._builder",
    "kafkaraw.records._ticket",
    "kafkaraw.records._batch_table",
    "kafkaraw.records._reader",
    "kafkaraw.records._filling",
    "kafkaraw.records._rows",
    "kafkaraw.records._dumping",
    "kafkaraw.records._compaction",
    "kafkaraw.schemas.arrow._decoding",
    "kafkaraw.schemas.arrow._encoding",
    "kafkaraw.schemas.arrow._json_objects",
    "kafkaraw.schemas.arrow._memory",
    "kafkaraw.schemas.serializers._avro_codec",
    "kafkaraw.records._cython_shared",
)
SHARED_MODULE = NATIVE_MODULES[-1]  # Cython writes its source; the others import it
REQUIRED = os.environ.get("KAFKARAW_COMPILED") == "required"
# Tables for unwinding are for C++ and debuggers; they are 5 % of a wheel. -O3 was no faster, and 3 % of it.
COMPILE_ARGS = ["-O2", "-g0", "-fno-asynchronous-unwind-tables"]
# Branches that Cython marks as unlikely end in an error: GCC makes them small, and the others stay as fast as they are,
# except in the module of columns that are encoded, which took 10 % more time.
COLD_BRANCHES = ["--param=builtin-expect-probability=100"] if sys.platform == "linux" else []
# Without `inline` these are 9 % smaller and as fast; records would take 10 to 20 % longer.
WITHOUT_INLINE = ("_compaction", "_dumping", "_json_objects", "_avro_codec")
NO_INLINE = ["-DCYTHON_INLINE="]
# No object of these classes is pickled, except records, which name a function for it.
DIRECTIVES = {"language_level": 3, "auto_pickle": False}


class BuildPackage(build_py):
    """Copies the modules of the package; in a release, without the sources of those that are compiled."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return (package, module, path) of the modules in one folder."""
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [each for each in found if not (REQUIRED and f"{each[0]}.{each[1]}" in NATIVE_MODULES)]


def native_extensions() -> list[Extension]:
    """The extensions, translated to C under build/."""
    sources = {name: Path("src", *name.split(".")).with_suffix(".py") for name in NATIVE_MODULES}
    sources[SHARED_MODULE] = sources[SHARED_MODULE].with_suffix(".c")
    arguments = {
        name: COMPILE_ARGS
        + COLD_BRANCHES * (not name.endswith("._encoding"))
        + NO_INLINE * name.endswith(WITHOUT_INLINE)
        for name in NATIVE_MODULES
    }
    plain = [Extension(name, [str(source)], extra_compile_args=arguments[name]) for name, source in sources.items()]
    extensions = cythonize(
        plain,
        build_dir="build/cython",
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED_MODULE,
        shared_utility_features_disabled=["MemoryView"],  # no module has a typed memoryview
    )
    for extension in extensions:  # cythonize() makes new extensions, without what it does not know
        extension.optional = not REQUIRED
    return extensions


setup(ext_modules=native_extensions(), cmdclass={"build_py": BuildPackage})

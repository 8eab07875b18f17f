"""Adds the compiled modules to what pyproject.toml says.

These modules are written in Cython's pure-Python mode. They are compiled where a compiler works; otherwise the install
succeeds and `records/_fallback` (`schemas/arrow/plain_*` for columns of schemas) does the work:
`optional=True` is for that. With KAFKARAW_COMPILED=required in the environment, as for a release, a module that cannot
be compiled ends the build.
"""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

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
)


def native_extensions() -> list[Extension]:
    """The extensions, translated to C under build/."""
    sources = {name: str(Path("src", *name.split(".")).with_suffix(".py")) for name in NATIVE_MODULES}
    plain = [Extension(name, [source], extra_compile_args=["-O3", "-g0"]) for name, source in sources.items()]
    extensions = cythonize(plain, build_dir="build/cython", language_level=3)
    for extension in extensions:  # cythonize() makes new extensions, without what it does not know
        extension.optional = os.environ.get("KAFKARAW_COMPILED") != "required"
    return extensions


setup(ext_modules=native_extensions())

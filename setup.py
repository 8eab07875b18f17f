"""Adds the compiled modules to what pyproject.toml says.

`records/_builder.py` and `records/_reader.py` are written in Cython's pure-Python mode. Each is compiled when its file
exists and a compiler works; otherwise the install succeeds and `records/_fallback.py` does the work. `optional=True` is
for the missing compiler; Cython is imported only when there is something to compile, which keeps plain installs quick.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
NATIVE_MODULES = ("kafkaraw.records._builder", "kafkaraw.records._reader")


def native_extensions() -> list[Extension]:
    """The extensions whose sources exist, translated to C under build/."""
    sources = {name: Path("src", *name.split(".")).with_suffix(".py") for name in NATIVE_MODULES}
    extensions = [
        Extension(name, [str(source)], optional=True) for name, source in sources.items() if (HERE / source).exists()
    ]
    if not extensions:
        return []
    from Cython.Build import cythonize

    return cythonize(extensions, build_dir="build/cython", language_level=3)


setup(ext_modules=native_extensions())

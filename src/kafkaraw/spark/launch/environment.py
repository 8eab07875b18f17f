"""What the archive of an executor environment contains: packages, the interpreter, and the script that starts it.

Nothing here writes an archive: `packing.py` does. Files of packages come from their records (`importlib.metadata`), and
those of editable installs from where they are imported. The interpreter is copied with its standard library, because an
executor may have none. Left out is what executors never import: Spark's jars, tests, headers, sources of compiled
modules. Start at `executor_environment`. Decision 0046 compares this with venv-pack and conda-pack.

Must not import the packages, except kafkaraw.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Final

from kafkaraw.errors import ConfigError

DESCRIPTION: Final = "kafkaraw-environment.json"
"""The file of an archive that describes it."""
PYTHON: Final = "bin/python"
"""The script of an archive that starts its Python."""

FINDERS: Final = tuple(
    f"pyspark_kafkaraw{format_}" for format_ in ("", "_delta", "_duckdb", "_iceberg", "_postgresql", "_sqlite")
)
"""The modules that Spark's own lookup of data sources imports."""

_OWN: Final = "kafkaraw"
_REQUIRED: Final = ("pyarrow", "pyspark", "py4j")
_OF_DRIVERS_ON_CLUSTERS: Final = ("pyyaml",)
"""What `kafkaraw pipelines run` imports, if it is installed: in cluster mode the archive's Python runs the driver."""
# Extras for drivers and developers. What the other extras of kafkaraw have installed here is packed.
_EXTRAS_OF_DRIVERS: Final = frozenset({"all", "demo", "dev", "docs", "java", "pipelines", "registry", "types"})

_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?", re.DOTALL)
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")

_FOLDERS_LEFT_OUT: Final = frozenset({"tests", "test", "include"})
_ENDINGS_LEFT_OUT: Final = (".a", ".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pyi", ".pyx")
_BEGINNINGS_LEFT_OUT: Final = tuple(
    f"pyspark/{name}/" for name in ("bin", "data", "examples", "jars", "licenses", "python", "sbin", "testing")
)
_FILES_LEFT_OUT: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
_LIBRARY_LEFT_OUT: Final = frozenset(
    {
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
    }
)
_MODULES_LEFT_OUT: Final = ("EXTERNALLY-MANAGED", "_tkinter.", "_test", "_ctypes_test", "_xxtest", "nis.", "xx")
_OF_C_LIBRARY: Final = re.compile(r"lib(c|dl|m|pthread|resolv|rt|util|gcc_s|stdc\+\+)\.so")
"""What every Linux with glibc has."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file of the archive.

    Attributes:
        source: where it is now.
        target: its path in the archive.
    """

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class PackedText:
    """A file of the archive that is made for it.

    Attributes:
        text: its content.
        target: its path in the archive.
        is_program: it can be executed.
    """

    text: str
    target: str
    is_program: bool = False


@dataclass(frozen=True, slots=True)
class ExecutorEnvironment:
    """The content of an archive.

    Attributes:
        python: major and minor version of its Python.
        machine: operating system and architecture, such as "Linux x86_64".
        packages: version by name.
        files: copied files.
        texts: files made for the archive.
        system_libraries: shared libraries that the executor's system must have.
    """

    python: str
    machine: str
    packages: Mapping[str, str]
    files: tuple[PackedFile, ...]
    texts: tuple[PackedText, ...]
    system_libraries: tuple[str, ...]

    @property
    def size(self) -> int:
        """The sum of the sizes of the copied files, in bytes."""
        return sum(file.source.stat().st_size for file in self.files)


def executor_environment(
    extra_packages: Iterable[str] = (),
    worker_python: str | None = None,
    archive: str = "environment.tar.gz",
    left_out: Iterable[str] = (),
) -> ExecutorEnvironment:
    """Return what an archive of this environment contains.

    Args:
        extra_packages: names of installed distributions that the job needs on executors, such as pandas.
        worker_python: path of a Python on the executors; None to pack this interpreter.
        archive: the file's name, for messages of the script that starts the packed Python.
        left_out: names of distributions that the job does not need on executors, such as duckdb; what only they
            require is left out, too.

    Raises:
        ConfigError: a package is not installed, or executors cannot work without it, or this interpreter cannot be
            packed.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    machine = f"{platform.system()} {platform.machine()}"
    found = _distributions_with_requirements(extra_packages, left_out)
    library = f"lib/python{version}"
    modules = f"{library}/site-packages" if worker_python else f"lib/python{version}/{_site_folder(version)}"
    files = list(_files_of_packages(found, modules))
    interpreter, system_libraries = ([], []) if worker_python else _interpreter_files(version, library, files)
    packages = {name: it.version for name, it in sorted(found.items())}
    about = {"python": version, "machine": machine, "packages": packages}
    texts = (
        PackedText(_start_script(version, machine, modules, worker_python, archive), PYTHON, is_program=True),
        PackedText(f"{json.dumps(about, indent=1)}\n", DESCRIPTION),
    )
    unique = {file.target: file for file in [*interpreter, *files]}
    return ExecutorEnvironment(
        version, machine, packages, tuple(unique.values()), texts, tuple(sorted(system_libraries))
    )


# -- packages


def _distributions_with_requirements(extra_packages: Iterable[str], left_out: Iterable[str]) -> dict[str, Distribution]:
    """Return kafkaraw, what it requires on executors, and the other packages with what they require, by name.

    A requirement that is not installed belongs to another platform or to an extra that is not used here.
    """
    missing = [name for name in _REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f'{", ".join(missing)} is not installed here, executors need it: pip install "kafkaraw[spark]"'
        )
    without = {normalized(name) for name in left_out}
    needed = sorted(without.intersection((_OWN, *_REQUIRED)))
    if needed:
        raise ConfigError(f"--without {needed[0]}: executors need it in every job")
    for name in without:
        _distribution(name)
    found: dict[str, Distribution] = {}
    roots = (*_REQUIRED, *_OF_DRIVERS_ON_CLUSTERS)
    waiting = [(_OWN, _extras_of_executors()), *((name, frozenset[str]()) for name in roots)]
    for name in extra_packages:
        _distribution(name)
        waiting.append((name, frozenset()))
    seen = set[tuple[str, frozenset[str]]]()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen or normalized(name) in without:
            continue
        seen.add((name, extras))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[normalized(name)] = package
        waiting += _requirements(package, extras)
    return found


def _extras_of_executors() -> frozenset[str]:
    return frozenset(_distribution(_OWN).metadata.get_all("Provides-Extra") or ()) - _EXTRAS_OF_DRIVERS


def _distribution(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        names = {normalized(each.metadata["Name"]) for each in distributions()}
        near = get_close_matches(normalized(name), names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"the package {name} is not installed here: pip install it first, then pack{hint}") from None


def _requirements(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in package.requires or ():
        match = _REQUIREMENT.match(line)
        assert match is not None, line
        of_extra = _EXTRA.search(match[3] or "")
        if of_extra is None or of_extra[1] in extras:
            wanted = frozenset(each.strip() for each in (match[2] or "").split(",") if each.strip())
            yield normalized(match[1]), wanted


def normalized(name: str) -> str:
    """Return the name of a distribution as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _files_of_packages(packages: Mapping[str, Distribution], modules: str) -> Iterator[PackedFile]:
    for name, package in packages.items():
        editable = [] if name == _OWN else _editable_modules(package)
        if name == _OWN:
            yield from _files_of_modules([_OWN, *FINDERS], modules)
        elif editable:
            yield from _files_of_modules(editable, modules)
        for entry in package.files or ():
            target = entry.as_posix()
            source = Path(str(package.locate_file(entry)))
            of_code = not re.match(r"[^/]+\.dist-info/", target)
            if of_code and (name == _OWN or editable):
                continue
            if _is_packed(target) and source.is_file():
                yield PackedFile(source, f"{modules}/{target}")
    if "pyspark" not in packages:  # a Spark that was not installed by pip
        yield from _files_of_modules(["pyspark"], modules)


def _editable_modules(package: Distribution) -> list[str]:
    """Return the modules of an editable install, whose record has none of them; empty for other installs."""
    text = package.read_text("direct_url.json")
    if text is None or not json.loads(text).get("dir_info", {}).get("editable"):
        return []
    top_level = (package.read_text("top_level.txt") or "").split()
    return top_level or [module for folder in _folders_on_path(package) for module in _modules_in(folder)]


def _folders_on_path(package: Distribution) -> Iterator[Path]:
    """Yield the folders that the .pth files of a distribution put on the path."""
    for entry in package.files or ():
        if entry.name.endswith(".pth"):
            lines = Path(str(package.locate_file(entry))).read_text(encoding="utf-8").splitlines()
            yield from (Path(line) for line in lines if Path(line).is_dir())


def _modules_in(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            yield path.stem


def _files_of_modules(names: Iterable[str], modules: str) -> Iterator[PackedFile]:
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        if spec.submodule_search_locations is None:
            yield PackedFile(origin, f"{modules}/{origin.name}")
        else:
            for path in _walk(origin.parent):
                target = f"{name}/{path.relative_to(origin.parent).as_posix()}"
                if _is_packed(target):
                    yield PackedFile(path, f"{modules}/{target}")


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        yield from (Path(parent, name) for name in sorted(files))


def _is_packed(target: str) -> bool:
    *folders, name = target.split("/")
    return not (
        target.startswith(("..", "/", "__editable__", *_BEGINNINGS_LEFT_OUT))
        or name.endswith((*_ENDINGS_LEFT_OUT, ".pth"))
        or name in _FILES_LEFT_OUT
        or (name.endswith(".pyc") and not name.endswith(f".{sys.implementation.cache_tag}.pyc"))
        or not _FOLDERS_LEFT_OUT.isdisjoint(folders)
    )


# -- the interpreter


def _site_folder(version: str) -> str:
    """Return the folder of the packages below the standard library: Debian's Python has a name of its own for it."""
    ask = "import site; print(*site.getsitepackages(['/packed']))"
    done = subprocess.run([_base_python(), "-I", "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(rf"/packed/lib/python{re.escape(version)}/(\S+)", done.stdout)
    return found[1] if found else "site-packages"


def _base_python() -> str:
    """Return the interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _interpreter_files(version: str, library: str, packages: Iterable[PackedFile]) -> tuple[list[PackedFile], set[str]]:
    """Return the files of this Python, and the names of the libraries that it and the packages take from the system.

    Shared libraries in the folder of this Python (of conda, of builds by hand) are part of it.
    """
    if platform.system() != "Linux":
        raise ConfigError(
            f"the interpreter of {platform.system()} cannot be packed for executors: pack on Linux (in a container of "
            "the executors' image, for example), or name a Python that the executors have with --worker-python"
        )
    program = Path(_base_python())
    files = [PackedFile(program, f"bin/python{version}")]
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    for root in dict.fromkeys(Path(sysconfig.get_path(name, vars=base)) for name in ("stdlib", "platstdlib")):
        files += (PackedFile(path, f"{library}/{name}") for path, name in _library_files(root))
    own, system = _shared_libraries([program, *(it.source for it in [*files, *packages] if ".so" in it.source.name)])
    return [*files, *(PackedFile(path, f"lib/{path.name}") for path in sorted(own))], system


def _library_files(root: Path) -> Iterator[tuple[Path, str]]:
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(it for it in folders if it not in _LIBRARY_LEFT_OUT and not it.startswith("config-"))
        for name in sorted(names):
            path = Path(parent, name)
            target = path.relative_to(root).as_posix()
            if path.is_file() and _is_packed(target) and not name.startswith(_MODULES_LEFT_OUT):
                yield path, target


def _shared_libraries(programs: Iterable[Path]) -> tuple[set[Path], set[str]]:
    """Return the shared libraries in the folder of this Python that programs need, and the names of all others."""
    root = Path(sys.base_prefix, "lib")
    own, system = set[Path](), set[str]()
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, timeout=120, check=False)
    for name, path in re.findall(r"^\s*(\S+) => (\S+)", done.stdout, re.MULTILINE):
        if sys.base_prefix != "/usr" and root in Path(path).parents and "site-packages" not in path:
            own.add(Path(path))
        elif path.startswith("/") and not Path(path).is_relative_to(sys.prefix) and not _OF_C_LIBRARY.match(name):
            system.add(name)
    return own, system


_START: Final = """#!/bin/sh
# Start the Python of this archive from the folder in which it was unpacked, or say what prevents it.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
fail() {
  echo "kafkaraw: the archive ARCHIVE, unpacked at $here, cannot be used on the executor host $(uname -n): $1" >&2
  exit 1
}
machine="$(uname -s) $(uname -m)"
[ "$machine" = "MACHINE" ] || fail "it was packed on MACHINE, this host is $machine. \\
Run 'kafkaraw spark pack' on a machine of the executors' architecture, and set spark.archives to that file."
"""
_START_PACKED: Final = """
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
python="$here/bin/pythonVERSION"
why=$("$python" -I -S -c pass 2>&1) || fail "its Python does not start: $why. \\
Run 'kafkaraw spark pack' on the operating system of the executors, or an older one."
exec "$python" "$@"
"""
_START_OF_WORKER: Final = """
python=PYTHON
[ -x "$python" ] || fail "there is no $python. \\
Install it, name another one with 'kafkaraw spark pack --worker-python', or pack without that option."
found=$("$python" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python does not start."
[ "$found" = "VERSION" ] || fail "$python is Python $found, the archive is for Python VERSION. \\
Name a Python VERSION with 'kafkaraw spark pack --worker-python', or pack without that option."
PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$here/MODULES"
export PYTHONPATH
exec "$python" "$@"
"""


def _start_script(version: str, machine: str, modules: str, worker_python: str | None, archive: str) -> str:
    if worker_python is not None and not worker_python.startswith("/"):
        raise ConfigError(f"--worker-python {worker_python}: give the absolute path of a Python on the executors")
    text = _START + (_START_PACKED if worker_python is None else _START_OF_WORKER)
    values = {
        "ARCHIVE": re.sub(r"[^\w.+-]", "_", archive),
        "MACHINE": machine,
        "MODULES": modules,
        "VERSION": version,
        "python=PYTHON": f"python={shlex.quote(worker_python or '')}",
    }
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text

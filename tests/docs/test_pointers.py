"""What docstrings, comments and pages point at exists: files, modules, names, and the place to start at.

Covers all Python sources of the repository and all pages, without docs/decisions: a decision names the modules of its
time. `test_state_machines.py` checks the states of diagrams, `test_docs.py` the links between pages.
"""

from __future__ import annotations

import ast
import functools
import keyword
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.test_first_change import PAGE as FIRST_CHANGE
from tests.docs.test_first_change import changes

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "kafkaraw"
SOURCES = sorted(
    file for folder in ("src", "tests", "bench", "docs", "release") for file in (ROOT / folder).rglob("*.py")
)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md")])

GLOSSARY = ROOT / "docs" / "glossary.md"

_STRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)#:? (.*)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_SOURCE_COLUMN = re.compile(r"\|[^|\n]*\|$", re.MULTILINE)  # of the glossary: names of Kafka
_QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FILE = re.compile(r"[\w./-]*\w\.(?:py|pxd|md|toml|xml|svg|java)")
_MODULE_PATH = re.compile(r"[a-z_]+(?:/[a-z_0-9]+)+/?")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
_PYTHON_NAME = re.compile(r"_*[a-z][a-z0-9]*_[a-z0-9_]*|_?[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z][A-Z0-9]*_[A-Z0-9_]+")
_START = re.compile(r"\b[Ss]tart(?:\s+reading)?\s+(?:at|with|in)\s+((?:`[^`]+`|[^.;:`]|\.(?=\w))*)")
_NO_PATHS = frozenset(
    {
        "bin/java",  # a file of a JAVA_HOME
        "id/slot",  # the key of a record
        "bench/results",  # made by the benchmarks
        "bench/results/",
        "build/site",  # made by `make site`
        "pyspark/sql/worker/plan_data_source_read.py",
        "rest/exceptions/Errors.java",  # of Confluent's registry
        "send.py",  # files of the guide on schemas
        "read.py",
        "trips.py",
        "stream.py",
        "transformations/orders.py",  # of the guide on pipelines
    }
)
_ELSEWHERE_TEXT = """
ConcurrentModificationException UnknownTopicOrPartitionException HashMap HashSet SaslClientAuthenticator
OAuthBearerUnsecuredValidatorCallbackHandler ClassicGroupState SubscribedTopicRegex SparkConf PythonDataSourceV2
PythonMicroBatchStream DataSourceV2ScanRelation DATA_SOURCE_NOT_FOUND KRB5_CLIENT_KTNAME write_into_data_source
AvailableNow cache_clear sun_path unsafe_hash
SchemaId SchemaCompatibility SchemaValidatorBuilder SchemaDiff ResolvingGrammarGenerator write_union SchemaString
RegisterSchemaResponse SchemaRegistryProtocol SchemaRegistryIdentity SchemaRegistryCoordinator KafkaGroupLeaderElector
AbstractSchemaProvider ContextFilter AliasFilter SchemaRegistrySerializer SchemaKey ConfigKey ModeKey DeleteSubjectKey
ClearSubjectKey ContextKey NoopKey RegisterSchemaRequest ConfigUpdateRequest ModeUpdateRequest KafkaSchemaRegistry
KNOWN_DEPENDENCIES AbstractSchemaRegistry SchemaRegistryConfig InMemoryCache KafkaStoreMessageHandler KafkaStore
KafkaStoreReaderThread create_batch send_batch TimeoutStopSec ConsumerRebalanceListener add_errback exactly_once_v2
AWS_SESSION_TOKEN AZURE_STORAGE_ACCOUNT_KEY AZURE_STORAGE_SAS_TOKEN azure_storage_client_id azure_storage_client_secret
azure_storage_tenant_id
"""
_ELSEWHERE = frozenset(_ELSEWHERE_TEXT.split())
"""Names of Java, Kafka, other clients, Confluent's registry, Spark, object stores and the shell that are mentioned."""
_BEGINNINGS = ("looks_like_", "read_", "_max_ms")  # parts of names


class Pointer(NamedTuple):
    """A backticked text, and the file that has it."""

    file: Path
    target: str

    def __repr__(self) -> str:
        return f"{self.file.relative_to(ROOT)}: {self.target}"


@functools.cache
def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@functools.cache
def prose(file: Path) -> tuple[str, ...]:
    """The docstrings and comments of a module; a page without its examples."""
    text = text_of(file)
    if file.suffix == ".md":
        return ((_SOURCE_COLUMN if file == GLOSSARY else _FENCED).sub("", text),)
    return (*_STRING.findall(text), "\n".join(_COMMENT.findall(_STRING.sub("", text))))


@functools.cache
def pointers() -> list[Pointer]:
    made = {change.path for change in changes()} if FIRST_CHANGE in PAGES else set()
    return [
        Pointer(file, target)
        for file in [*SOURCES, *PAGES]
        for text in prose(file)
        for target in _QUOTED.findall(text)
        if not (file == FIRST_CHANGE and target in made)
    ]


@functools.cache
def known_words() -> frozenset[str]:
    """Every word of the sources that is not in backticks, and each part of a file's name."""
    others = [ROOT / "pyproject.toml", ROOT / "Makefile", *PACKAGE.rglob("*.pxd"), *PACKAGE.rglob("*.java")]
    texts = [text_of(file) for file in [*SOURCES, *others]]
    words = {word for text in texts for word in re.findall(r"\w+", _QUOTED.sub("", text))}
    return frozenset(words | {file.stem for file in SOURCES} | {file.parent.name for file in SOURCES})


@functools.cache
def names_in_package() -> frozenset[str]:
    """Every module and folder of the package and every name that a module of it defines at its top."""
    found = {part for file in PACKAGE.rglob("*.py") for part in (file.stem, file.parent.name)}
    for file in PACKAGE.rglob("*.py"):
        found |= set(re.findall(r"^(?:class|def|async def) (\w+)", text_of(file), re.MULTILINE))
    return frozenset(found)


@functools.cache
def paths() -> frozenset[str]:
    """Each file and folder of the repository, by each ending of its path."""
    found: set[str] = set()
    tops = [*ROOT.glob("*.*"), *(each for top in ("src", "tests", "bench", "docs") for each in (ROOT / top).rglob("*"))]
    for path in tops:
        parts = path.relative_to(ROOT).parts
        found |= {"/".join(parts[at:]) for at in range(len(parts))}
    return frozenset(found)


def exists_for(file: Path, target: str) -> bool:
    """Whether a path is in the repository: for a module beside it or beside one of its folders, for a page anywhere."""
    target = target.removeprefix("./").rstrip("/")
    if file.suffix == ".md":
        return target in paths() or f"{target}.py" in paths()
    folders = [folder for folder in file.parents if folder.is_relative_to(ROOT)] + [PACKAGE]
    return any((folder / target).exists() or (folder / f"{target}.py").exists() for folder in folders)


@functools.cache
def defined_in(file: Path) -> frozenset[str]:
    """Every name that a module defines, imports or takes as an attribute."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text_of(file))):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
            case ast.alias():
                found.update((node.asname or node.name).split("."))
            case _:
                pass
    return frozenset(found)


def is_defined(file: Path, name: str) -> bool:
    """Whether a module defines, imports or takes a name; most are its classes or functions, which no tree must show."""
    if re.search(rf"^\s*(?:class|def|async def) {name}\b", text_of(file), re.MULTILINE):
        return True
    return name in defined_in(file)


def modules_named(file: Path, name: str) -> list[Path]:
    """The modules and packages of a name: beside a file, or else anywhere in the repository."""
    beside = [path for path in (file.parent / f"{name}.py", file.parent / name / "__init__.py") if path.exists()]
    return beside or [each for each in SOURCES if name in (each.stem, each.parent.name)]


def is_place(file: Path, target: str) -> bool:
    """Whether a place to start at exists: a path, a name of the module, or a module of the package and a name in it."""
    if _FILE.fullmatch(target) or "/" in target:
        return exists_for(file, target)
    first, *others = target.removesuffix("()").split(".")
    if file.suffix == ".py" and is_defined(file, first):
        return all(other in known_words() for other in others)
    modules = modules_named(file, first)
    if not others:
        return bool(modules) or (file.suffix == ".md" and first in names_in_package())
    return any(all(other == module.stem or is_defined(module, other) for other in others) for module in modules)


def _listed(pointers: list[Pointer]) -> str:
    return "\n".join(["nothing of this name exists:", *map(repr, pointers)])


def test_each_file_that_is_named_exists() -> None:
    missing = [
        pointer
        for pointer in pointers()
        if pointer.target not in _NO_PATHS
        if _FILE.fullmatch(pointer.target) or _MODULE_PATH.fullmatch(pointer.target)
        if not exists_for(*pointer)
    ]
    assert not missing, _listed(missing)


def test_each_name_of_the_package_exists() -> None:
    missing = []
    for pointer in pointers():
        if _FILE.fullmatch(pointer.target) or not _DOTTED.fullmatch(pointer.target) or pointer.target in _BEGINNINGS:
            continue
        parts = pointer.target.removesuffix("()").split(".")
        ours = len(parts) == 1 or parts[0] in names_in_package()
        unknown = [part for part in parts if part not in known_words() and part not in _ELSEWHERE]
        if ours and any(_PYTHON_NAME.fullmatch(part) for part in unknown):
            missing.append(pointer)
    assert not missing, _listed(missing)


def test_each_place_to_start_at_exists() -> None:
    places = [
        Pointer(file, target)
        for file in [*SOURCES, *PAGES]
        for text in prose(file)
        for sentence in _START.findall(text)
        for target in _QUOTED.findall(sentence)
        if not keyword.iskeyword(target) and (file.suffix == ".py" or _FILE.fullmatch(target))
    ]
    assert len(places) > 100
    missing = [place for place in places if not is_place(*place)]
    assert not missing, _listed(missing)


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("Start at `machine.py`. `ledger.py` reports.", ["machine.py"]),
        (
            "Start reading at `batch_index.BatchIndex`, then at `segment`; `log` stores.",
            ["batch_index.BatchIndex", "segment"],
        ),
        ("It starts at `offset`.", []),
    ],
)
def test_places_to_start_at_are_found_in_a_sentence(text: str, targets: list[str]) -> None:
    assert [target for sentence in _START.findall(text) for target in _QUOTED.findall(sentence)] == targets


@functools.cache
def members() -> frozenset[str]:
    """The names of all members of enums of the package: names in upper case that a class sets."""
    found = (
        re.findall(r"^    ([A-Z][A-Z0-9_]+)\b.* = ", text_of(file), re.MULTILINE) for file in PACKAGE.rglob("*.py")
    )
    return frozenset(name for names in found for name in names)


def test_each_state_of_a_diagram_or_table_exists() -> None:
    named = [
        Pointer(file, state)
        for file in [*SOURCES, *PAGES]
        for text in prose(file)
        for line in text.splitlines()
        if re.search(r"-->|\|", line)
        for part in (
            line.split("|")[1:2] if file.suffix == ".md" else re.split(r"--.*?-*>", line) if "-->" in line else []
        )
        for state in re.findall(r"(?<![`\w.])[A-Z][A-Z0-9]*_?[A-Z0-9_]{3,}(?![`\w])", part)
        if file.suffix == ".py" or "_" in state or part.strip() == state
    ]
    assert len(named) > 40
    missing = [pointer for pointer in named if pointer.target not in members()]
    assert not missing, _listed(missing)

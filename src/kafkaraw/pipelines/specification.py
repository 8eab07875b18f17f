"""Reads `spark-pipeline.yml`: Spark's own fields, and the settings of kafkaraw among the entries of `configuration`.

Spark rejects fields that it does not know, so kafkaraw's settings are entries of `configuration`, which Spark passes on
as settings of the session. Errors name the line. Start at `read_specification`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.model import Location, PipelineError, Settings, did_you_mean, raise_errors

if TYPE_CHECKING:
    from yaml import MappingNode, Node

FILE_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")

_FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
_PREFIX: Final = "kafkaraw."
_KAFKA: Final = "kafkaraw.kafka."
_REGISTRY: Final = "kafkaraw.schema.registry."
_NAMED: Final = {
    "kafkaraw.dead.letter.topic": "dead_letter_topic",
    "kafkaraw.replay.topic": "replay_topic",
    "kafkaraw.group.prefix": "group_prefix",
    "kafkaraw.trigger.interval": "trigger_interval",
    "kafkaraw.materialized.view.interval": "materialized_view_interval",
}
_VARIABLE: Final = re.compile(r"\$\{env:([^}]*)\}")
_INTERVAL: Final = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class Specification:
    """A `spark-pipeline.yml`.

    Args:
        path: of the file; its folder is the root of the pipeline.
        name: of the pipeline.
        storage: an absolute path, or a URI of another file system.
        files: of definitions, sorted by path for each library.
        settings: parsed `configuration`.
        catalog: None for the session's.
        database: None for the session's.
    """

    path: Path
    name: str
    storage: str
    files: tuple[Path, ...]
    settings: Settings
    catalog: str | None = None
    database: str | None = None


def find_specification(place: Path) -> Path:
    """Return the specification at a place.

    Args:
        place: the file itself; or a folder that has one, or that is below a folder that has one.

    Raises:
        PipelineError: there is none, or there are two in one folder.
    """
    if place.is_file():
        if place.suffix not in (".yml", ".yaml"):
            raise PipelineError(
                f"{place} is no specification: give the folder of a pipeline, or its spark-pipeline.yml"
            )
        return place.resolve()
    if not place.exists():
        raise PipelineError(f"{place} does not exist: give the folder of a pipeline, or its spark-pipeline.yml")
    start = place.resolve()
    for folder in (start, *start.parents):
        found = [folder / name for name in FILE_NAMES if (folder / name).is_file()]
        if len(found) > 1:
            raise PipelineError(f"{folder} has both {FILE_NAMES[0]} and {FILE_NAMES[1]}: remove one")
        if found:
            return found[0]
    raise PipelineError(
        f"{place} has no {FILE_NAMES[0]}, nor has a folder above it: "
        "give the folder of a pipeline, or make one with `kafkaraw pipelines init NAME`"
    )


def read_specification(
    place: Path,
    *,
    storage: Path | None = None,
    configuration: Mapping[str, str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Specification:
    """Read the specification at a place.

    Args:
        place: as for `find_specification`.
        storage: instead of the file's; for tests.
        configuration: entries that are added to the file's, or replace them; for tests and options of commands.
        environment: for values with `${env:NAME}`.

    Raises:
        PipelineError: there is none, or it is wrong; several problems are reported together.
    """
    path = find_specification(place)
    return _Reader(path, environment).specification(storage, configuration or {})


class _Reader:
    """Reads one file, and collects its problems."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self.root = path.parent
        self.environment = environment
        self.errors: list[PipelineError] = []

    def specification(self, storage: Path | None, configuration: Mapping[str, str]) -> Specification:
        fields = self._fields()
        name = self._text(fields, "name", required=True) or self.root.name
        if not _NAME.fullmatch(name):
            self._wrong(fields["name"], f"name: {name!r} must be at most 100 letters, digits, or characters of ._-")
        place = self._storage(fields) if storage is None else str(storage.absolute())
        catalog = self._text(fields, "catalog")
        database = self._text(fields, "database") or self._text(fields, "schema")
        settings = self._settings(name, fields.get("configuration"), configuration)
        files = self._files(fields.get("libraries"))
        raise_errors(name, sorted(self.errors, key=lambda error: error.location.line if error.location else 0))
        return Specification(self.path, name, place, files, settings, catalog, database)

    def _wrong(self, node: Node | None, what: str) -> None:
        line = 0 if node is None else node.start_mark.line + 1
        self.errors.append(PipelineError(what, location=Location(self.path.name, line)))

    def _fields(self) -> dict[str, Node]:
        """The fields of the file with their nodes; an error for each that Spark does not know."""
        node = self._parsed()
        known = {key: value for key, value in _entries(node) if key in _FIELDS}
        for key, value in _entries(node):
            if key not in _FIELDS:
                self._wrong(
                    value,
                    f"unknown field {key!r}{did_you_mean(key, _FIELDS)}; fields are {', '.join(_FIELDS)}, and settings "
                    "of kafkaraw are entries of configuration, such as kafkaraw.kafka.bootstrap.servers",
                )
        return known

    def _parsed(self) -> MappingNode:
        try:
            import yaml
        except ImportError as error:
            raise ConfigError('pipelines need the package pyyaml: pip install "kafkaraw[pipelines]"') from error
        try:
            node = yaml.compose(self.path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or str(error)
            at = Location(self.path.name, 0 if mark is None else mark.line + 1)
            raise PipelineError(f"is not valid YAML: {problem}", location=at) from error
        if not isinstance(node, yaml.MappingNode):
            raise PipelineError("must have fields, at least `name` and `storage`", location=Location(self.path.name))
        return node

    def _text(self, fields: Mapping[str, Node], name: str, *, required: bool = False) -> str | None:
        node = fields.get(name)
        if node is None:
            if required:
                self._wrong(None, f"the field {name!r} is missing")
            return None
        if node.id != "scalar" or not node.value:
            self._wrong(node, f"{name}: must be a text")
            return None
        return self._expanded(node)

    def _expanded(self, node: Node) -> str:
        """The value of a node, with variables of the environment in place of ${env:NAME}."""

        def value_of(match: re.Match[str]) -> str:
            value = self.environment.get(match[1])
            if value is None:
                self._wrong(node, f"{match[0]}: the environment variable {match[1]!r} is not set")
            return value or ""

        return _VARIABLE.sub(value_of, str(node.value))

    def _storage(self, fields: Mapping[str, Node]) -> str:
        text = self._text(fields, "storage", required=True) or ""
        url = urlparse(text)
        if url.scheme == "file":
            return unquote(url.path)
        return text if url.scheme else str(self.root / text)

    def _settings(self, pipeline: str, node: Node | None, more: Mapping[str, str]) -> Settings:
        entries = {name: (value, None) for name, value in more.items()}
        settings: dict[str, tuple[str, Node | None]] = {**self._configuration(node, more), **entries}
        named = {
            "dead_letter_topic": f"{pipeline}.dead-letters",
            "replay_topic": f"{pipeline}.replays",
            "group_prefix": pipeline,
        }
        kafka, registry, spark = dict[str, str](), dict[str, str](), dict[str, str]()
        for key, (text, at) in settings.items():
            if key in _NAMED:
                named[_NAMED[key]] = self._checked(key, text, at)
            elif key.startswith(_KAFKA):
                kafka[key.removeprefix(_PREFIX)] = text
            elif key.startswith(_REGISTRY):
                registry[key.removeprefix(_PREFIX)] = text
            elif key.startswith(_PREFIX):
                known = [*_NAMED, f"{_KAFKA}bootstrap.servers", f"{_REGISTRY}url"]
                hint = did_you_mean(key, known) or f"; settings are {', '.join(known)}"
                self._wrong(at, f"configuration: unknown setting {key!r}{hint}")
            else:
                spark[key] = text
        return Settings(**named, kafka=kafka, registry=registry, spark=spark)

    def _configuration(self, node: Node | None, replaced: Container[str]) -> dict[str, tuple[str, Node]]:
        """The entries of the file, with their nodes, except those that are replaced."""
        if node is not None and node.id != "mapping":
            self._wrong(node, "configuration: must be entries NAME: VALUE")
            return {}
        entries: dict[str, tuple[str, Node]] = {}
        for key, value in [] if node is None else _entries(node):
            if key in replaced:
                continue
            if value.id != "scalar":
                self._wrong(value, f"configuration: {key}: the value must be a text")
            elif value.tag != "tag:yaml.org,2002:str":
                self._wrong(value, f'configuration: {key}: the value must be a text, such as {key}: "{value.value}"')
            else:
                entries[key] = (self._expanded(value), value)
        return entries

    def _checked(self, key: str, text: str, node: Node | None) -> str:
        if key.endswith(".interval") and not _INTERVAL.fullmatch(text):
            self._wrong(node, f'configuration: {key}: {text!r} is no interval, such as "10 seconds" or "5 minutes"')
        if key.endswith(".topic") and (not _TOPIC.fullmatch(text) or text in (".", "..")):
            self._wrong(
                node,
                f"configuration: {key}: {text!r} is no name of a topic: at most 249 letters, digits, or any of ._-",
            )
        return text

    def _files(self, node: Node | None) -> tuple[Path, ...]:
        if node is None:
            self._wrong(None, "the field 'libraries' is missing: libraries: [{glob: {include: transformations/**}}]")
            return ()
        if node.id != "sequence":
            self._wrong(node, "libraries: must be a list of entries - glob: {include: transformations/**}")
            return ()
        files = dict[Path, None]()
        for entry in node.value:
            pattern = _include(entry)
            if pattern is None:
                self._wrong(entry, "libraries: an entry must have the form - glob: {include: transformations/**}")
                continue
            files |= dict.fromkeys(self._matching(entry, pattern))
        return tuple(files)

    def _matching(self, node: Node, pattern: str) -> list[Path]:
        """The files of a glob, by the rule of Spark: a path without wildcards, or a folder with /** at its end."""
        folder = pattern.removesuffix("/**")
        if glob.has_magic(folder):
            self._wrong(node, f"libraries: {pattern!r} must be the path of a file, or of a folder with /** at its end")
            return []
        if os.path.isabs(pattern):
            self._wrong(node, f"libraries: {pattern!r} must be relative to the folder of {self.path.name}")
            return []
        found = sorted(self.root.glob(f"{folder}/**/*" if folder != pattern else pattern))
        files = [each for each in found if each.is_file() and not _is_ignored(each)]
        if not files:
            self._wrong(node, f"libraries: {pattern!r} matches no file")
        for each in files:
            if each.suffix not in (".py", ".sql"):
                name = each.relative_to(self.root)
                self._wrong(
                    node, f"libraries: {name} is neither .py nor .sql: move it out of the folder of definitions"
                )
        return [each for each in files if each.suffix in (".py", ".sql")]


def _is_ignored(path: Path) -> bool:
    return path.name.startswith(".") or "__pycache__" in path.parts


def _entries(node: Node) -> list[tuple[str, Node]]:
    return [(str(key.value), value) for key, value in node.value]


def _include(entry: Node) -> str | None:
    """The value of `glob: {include: VALUE}`; None if the entry has another form."""
    for key in ("glob", "include"):
        if entry.id != "mapping" or [name for name, _ in _entries(entry)] != [key]:
            return None
        entry = entry.value[0][1]
    return str(entry.value) if entry.id == "scalar" else None

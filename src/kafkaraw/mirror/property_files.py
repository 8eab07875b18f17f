"""Reads the configuration of a mirror as names and values with their lines: `mirror.properties` or `mirror.yml`.

In YAML, fields of fields are names with dots, and a list is a value with commas: both forms have MirrorMaker's names.
Values may refer to others, as `${env:NAME}`, with the providers of Java's clients for environment variables and files.
What names mean is in `settings.py`. Start at `read_entries`.
Source: java.util.Properties; KIP-297, KIP-421, KIP-887.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.core.java_properties import parse_java_properties, read_java_properties
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple

if TYPE_CHECKING:
    from yaml import Node

_YAML: Final = (".yml", ".yaml")
_PROVIDERS: Final = "config.providers"
_KINDS: Final = {
    "EnvVarConfigProvider": "environment",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "directory",
}
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_VARIABLE: Final = re.compile(r"\$\{([^}:]+):(?:([^}]*):)?([^}:]*)\}")


class Entry(NamedTuple):
    """A property of a file.

    Attributes:
        name: with dots.
        value: text, without blanks around it.
        line: where it stands, from 1.
    """

    name: str
    value: str
    line: int


def read_entries(path: Path, environment: Mapping[str, str] = os.environ) -> list[Entry]:
    """Return the properties of a file in their order.

    Args:
        path: of a `.properties`, `.yml` or `.yaml` file.
        environment: for references to environment variables.

    Raises:
        ConfigError: the file cannot be read; it is not valid; a name has two values; a reference has none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    found = list(_yaml_entries(path, text)) if path.suffix.lower() in _YAML else _property_entries(text)
    _check_twice(path, found)
    return _resolved(path, found, environment)


def _property_entries(text: str) -> list[Entry]:
    return [Entry(each.name, each.value.strip(), each.line) for each in read_java_properties(text)]


def _yaml_entries(path: Path, text: str) -> Iterator[Entry]:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(f"{path}: YAML needs PyYAML: pip install pyyaml, or write a .properties file") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"{path}{where}: is not valid YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{path}: must have properties, at least `clusters`")
    yield from _flattened(path, "", node)


def _flattened(path: Path, name: str, node: Node) -> Iterator[Entry]:
    line = node.start_mark.line + 1
    if node.id == "mapping":
        for key, value in node.value:
            yield from _flattened(path, f"{name}.{key.value}" if name else str(key.value), value)
    elif node.id == "sequence":
        for item in node.value:
            if item.id != "scalar":
                raise ConfigError(f"{path}, line {item.start_mark.line + 1}: {name}: the items of a list must be texts")
        yield Entry(name, ",".join(str(item.value) for item in node.value), line)
    else:
        yield Entry(name, str(node.value).strip(), line)


def _check_twice(path: Path, entries: list[Entry]) -> None:
    seen: dict[str, Entry] = {}
    for entry in entries:
        before = seen.setdefault(entry.name, entry)
        if before.value != entry.value:
            raise ConfigError(
                f"{path}, line {entry.line}: {entry.name} has another value in line {before.line}: remove one of them"
            )


def _resolved(path: Path, entries: list[Entry], environment: Mapping[str, str]) -> list[Entry]:
    """Replace references in values; without providers, values are taken as they stand."""
    kinds = _providers(path, entries)
    if not kinds:
        return entries
    found = []
    for entry in entries:
        if entry.name.startswith(_PROVIDERS):
            continue
        text = entry.value
        for match in _VARIABLE.finditer(text):
            if match[1] in kinds:
                value = _looked_up(path, entry, kinds[match[1]], match, environment)
                text = text.replace(match[0], value)
        found.append(entry._replace(value=text))
    return found


def _providers(path: Path, entries: list[Entry]) -> dict[str, str]:
    given = {entry.name: entry for entry in entries}
    if _PROVIDERS not in given:
        return {}
    kinds = {}
    for name in filter(None, re.split(r"\s*,\s*", given[_PROVIDERS].value)):
        entry = given.get(f"{_PROVIDERS}.{name}.class", given[_PROVIDERS])
        kind = entry.value.removeprefix(_PACKAGE)
        if kind not in _KINDS:
            raise ConfigError(
                f"{path}, line {entry.line}: {_PROVIDERS}.{name}.class must be one of "
                f"{', '.join(_PACKAGE + known for known in _KINDS)}"
            )
        kinds[name] = _KINDS[kind]
    return kinds


def _looked_up(path: Path, entry: Entry, kind: str, match: re.Match[str], environment: Mapping[str, str]) -> str:
    place, key = match[2] or "", match[3]
    where = f"{path}, line {entry.line}: {entry.name}: {match[0]}"
    if kind == "environment":
        if key not in environment:
            raise ConfigError(f"{where}: the environment variable {key!r} is not set")
        return environment[key]
    try:
        if kind == "directory":
            return (Path(place) / key).read_text(encoding="utf-8")
        values = parse_java_properties(Path(place).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {place} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if key not in values:
        raise ConfigError(f"{where}: {place} has no property {key!r}")
    return values[key]

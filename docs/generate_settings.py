"""Writes the types of the clients' settings from their declarations, for editors and type checkers.

    python -m docs.generate_settings

The constructors of the clients take `**settings: Unpack[ProducerSettings]` and the like. Each of these TypedDicts has
the names of a configuration class, with the types of the values that the client accepts, and their text. A test
compares the modules with what this script writes. Change the declaration of a setting, then run this again.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from kafkaraw.client.settings import Setting, settings_of
from kafkaraw.light_classes import dataclass, fields
from kafkaraw.schemas.registry_config import RegistryConfig

_SOURCES: Final = Path(__file__).parents[1] / "src" / "kafkaraw"
_WIDTH: Final = 120
_KINDS: Final = {
    AdminConfig: "Admin",
    ProducerConfig: "Producer",
    ConsumerConfig: "Consumer",
    ShareConsumerConfig: "ShareConsumer",
}
_SECURITY: Final = ("security_", "sasl_", "ssl_")

_HOMES: Final = {
    "Any": "typing",
    "Assignor": "kafkaraw.core.group.assignors",
    "Awaitable": "collections.abc",
    "Callable": "collections.abc",
    "ConsumerInterceptorLike": "kafkaraw.client.interceptors",
    "DeserializerLike": "kafkaraw.client.deserializers",
    "Iterable": "collections.abc",
    "Literal": "typing",
    "Mapping": "collections.abc",
    "PartitionFunction": "kafkaraw.records",
    "PartitionerName": "kafkaraw.records",
    "ProducerInterceptorLike": "kafkaraw.client.interceptors",
    "SSLContext": "ssl",
    "Sequence": "collections.abc",
    "SerializerLike": "kafkaraw.client.serializers",
    "TypedDict": "typing",
}
"""Where the names in types come from."""

_CLIENTS_TEXT: Final = '''\
"""The settings of the clients as types: what editors complete, and type checkers check.

Written by docs/generate_settings.py from the declarations in `src/kafkaraw/client/config.py`; change those, not this
module. Programs that pass settings on use these types, too. No client imports this module when it runs.
"""
'''
_REGISTRY_TEXT: Final = '''\
"""The settings of the registry's clients as types: what editors complete, and type checkers check.

Written by docs/generate_settings.py from the declarations in `src/kafkaraw/schemas/registry_config.py`; change those,
not this module.
"""
'''


@dataclass(frozen=True)
class Declared:
    """A TypedDict to write.

    Attributes:
        name: its name.
        base: the TypedDict that it extends.
        text: its docstring.
        kind: the configuration class that declares the settings.
        names: of these settings.
    """

    name: str
    base: str
    text: str
    kind: type
    names: tuple[str, ...]

    def types(self) -> list[str]:
        """Return the types of all entries, and the base."""
        return [self.base, *(accepted_type(self.kind, name) for name in self.names)]

    def lines(self) -> Iterator[str]:
        """Yield the source."""
        yield f"class {self.name}({self.base}, total=False):"
        yield f'    """{self.text}"""'
        defaults = {field.name: field.default for field in fields(self.kind)}
        for name in self.names:
            yield ""
            yield from _entry(name, accepted_type(self.kind, name))
            yield from _text(settings_of(self.kind)[name], defaults[name])


def declared() -> dict[Path, tuple[str, list[Declared]]]:
    """Return the docstring and the TypedDicts of each module."""
    shared = settings_of(ClientConfig)
    security = tuple(name for name in shared if name.startswith(_SECURITY))
    others = tuple(name for name in shared if name not in security)
    own = {kind: tuple(name for name in settings_of(kind) if name not in shared) for kind in _KINDS}
    of_registry = tuple(name for name in settings_of(RegistryConfig) if name != "url")  # the URL is an argument
    clients = [
        Declared("SecuritySettings", "TypedDict", "Settings of TLS and authentication.", ClientConfig, security),
        Declared("ClientSettings", "SecuritySettings", "Settings that all clients share.", ClientConfig, others),
    ]
    clients += [
        Declared(f"{face}Settings", "ClientSettings", f"Settings of `{face}` and `Async{face}`.", kind, own[kind])
        for kind, face in _KINDS.items()
    ]
    text = "Settings of `Registry` and `AsyncRegistry`, besides the URL."
    registry = [Declared("RegistrySettings", "TypedDict", text, RegistryConfig, of_registry)]
    return {
        _SOURCES / "client" / "settings_types.py": (_CLIENTS_TEXT, clients),
        _SOURCES / "schemas" / "settings_types.py": (_REGISTRY_TEXT, registry),
    }


def modules() -> dict[Path, str]:
    """Return each generated module with its source."""
    return {path: _module(text, classes) for path, (text, classes) in declared().items()}


def accepted_type(kind: type, name: str) -> str:
    """Return the type of the values that a setting accepts, as text."""
    about = settings_of(kind)[name]
    if about.accepts:
        return about.accepts
    if not about.choices:
        text = next(str(field.type) for field in fields(kind) if field.name == name)
        return text.replace("ssl.SSLContext", "SSLContext")
    literals = ", ".join(f'"{choice}"' for choice in about.choices if choice is not None)
    return f"Literal[{literals}]" + (" | None" if None in about.choices else "")


def _entry(name: str, accepted: str) -> list[str]:
    line = f"    {name}: {accepted}"
    if len(line) <= _WIDTH:
        return [line]
    literals, _, rest = accepted.removeprefix("Literal[").partition("]")
    return [f"    {name}: Literal[", *(f"        {literal}," for literal in literals.split(", ")), f"    ]{rest}"]


def _text(about: Setting, default: object) -> Iterator[str]:
    quote = 'r"""' if "\\" in about.doc else '"""'
    words = textwrap.wrap(f"{about.doc}{_default(about, default)}", _WIDTH - 4 - len(quote) - 3, break_on_hyphens=False)
    yield f"    {quote}{words[0]}{quote[-3:] if len(words) == 1 else ''}"
    if len(words) > 1:
        yield from (f"    {line}" for line in words[1:])
        yield f"    {quote[-3:]}"


def _default(about: Setting, default: object) -> str:
    if default is None or default == ():
        return ""  # the text says what happens
    shown = ", ".join(map(str, default)) if isinstance(default, tuple) else repr(default)
    unit = f" {about.unit}" if about.unit and isinstance(default, int) else ""
    return f" Default: {shown}{unit}."


def _module(text: str, classes: list[Declared]) -> str:
    homes: dict[str, list[str]] = {}
    for name in sorted(
        {name for entry in classes for type_text in entry.types() for name in _names(type_text)}, key=str.lower
    ):
        homes.setdefault(_HOMES[name], []).append(name)
    ours = [home for home in homes if home.startswith("kafkaraw")]
    lines = [text, "from __future__ import annotations", ""]
    lines += [f"from {home} import {', '.join(homes[home])}" for home in sorted({*homes} - {*ours})]
    lines += ["", *(f"from {home} import {', '.join(homes[home])}" for home in sorted(ours))]
    body = "\n\n\n".join("\n".join(entry.lines()) for entry in classes)
    return "\n".join(lines).rstrip() + "\n\n\n" + body + "\n"


def _names(type_text: str) -> set[str]:
    """Return the names in a type that must be imported."""
    return {*re.findall(r"\b[A-Z]\w+", re.sub(r'"[^"]*"', "", type_text))} & {*_HOMES}


if __name__ == "__main__":
    for path, source in modules().items():
        path.write_text(source)

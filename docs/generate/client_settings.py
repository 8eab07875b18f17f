"""The page of the clients' settings, from `client/config.py` and the tables of Java's and librdkafka's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from docs.generate.tables import code, notice, sentence, table, text
from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from kafkaraw.client.java_names import other_names
from kafkaraw.client.java_spelling import java_names_of
from kafkaraw.client.librdkafka_names import differing_names, refused_names
from kafkaraw.client.settings import Setting, settings_of
from kafkaraw.schemas.registry_config import RegistryConfig

PAGE: Final = "client-settings.md"
_ABOUT: Final = """\
Settings of the clients, as keyword arguments: `Producer(bootstrap_servers="localhost:9092", linger_ms=20)`. The `Async`
classes have the same ones. A wrong name or value is a `ConfigError`, which names the nearest setting.

`from_properties()`, the command line (`-X`, `-F`) and Spark's options (`kafka.…`) take the names of Java's clients;
`from_properties()` and the command line also take those of librdkafka, which are listed where they differ from Java's.
`-` means that Java's clients have no such setting. Defaults are those of Java 4.3 but for `batch_size`.
"""
LIBRDKAFKA: Final = differing_names()


_REGISTRY: Final = """\
`Registry(url, ...)` and `AsyncRegistry(url, ...)` of `kafkaraw.schemas`; `from_config` takes the names of
confluent-kafka and of the Java serializers; see [schemas](../how-to/schemas.md).
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def _lines() -> Iterator[str]:
    yield from (notice("src/kafkaraw/client/config.py"), "", "# Client settings", "", _ABOUT)
    common = settings_of(ClientConfig)
    yield from _section("All clients", ClientConfig, common)
    kinds = (ProducerConfig, ConsumerConfig, ShareConsumerConfig, AdminConfig)
    for title, kind in zip(("Producer", "Consumer", "Share consumer", "Admin"), kinds, strict=True):
        own = {name: about for name, about in settings_of(kind).items() if name not in common}
        if own:
            yield from _section(title, kind, own)
    yield from ("## Schema registry client", "", _REGISTRY, "")
    yield from table(
        ("setting", "type and limits", "default", "meaning"),
        (described(RegistryConfig, name, about) for name, about in settings_of(RegistryConfig).items()),
    )
    yield from ("## Names of Java's clients that differ", "")
    yield from _java()
    yield from (
        "## Names of librdkafka that differ",
        "",
        "Taken by `from_properties()` and every command, beside Java's names.",
        "",
    )
    rows = ((code(name), _setting(ours) if ours else "ignored: changes nothing") for name, ours in LIBRDKAFKA.items())
    yield from table(("librdkafka", "setting"), rows)
    yield from ("## Names of librdkafka that are refused", "")
    refused = ((code(name), text(instead)) for name, instead in sorted(refused_names().items()))
    yield from table(("librdkafka", "use instead"), refused)


def _section(title: str, kind: type[ClientConfig], settings: Mapping[str, Setting]) -> Iterator[str]:
    yield from (f"## {title}", "")
    columns = ("setting", "name in Java, in librdkafka", "type and limits", "default", "meaning")
    found = (described(kind, name, about) for name, about in settings.items())
    rows = ((name, _elsewhere(name.strip("`")), *rest) for name, *rest in found)
    yield from table(columns, rows)


def described(kind: type, name: str, about: Setting) -> tuple[str, ...]:
    """Name, type with unit and limits, default, meaning."""
    declared = next(field for field in dataclasses.fields(kind) if field.name == name)
    meaning = sentence(text(about.doc)) + (" Shown nowhere." if about.secret else "")
    kind_of_value = ", ".join(filter(None, (code(about.accepts or str(declared.type)), about.unit, _limits(about))))
    return code(name), kind_of_value, _default(declared.default), meaning


def _default(value: object) -> str:
    if value in (None, ()):
        return ""
    return code(repr(value))


def _limits(about: Setting) -> str:
    if about.choices:
        return ", ".join(code(str(choice)) for choice in about.choices if choice is not None)
    if about.minimum is None and about.maximum is None:
        return ""
    if about.maximum is None:
        return f"at least {about.minimum}"
    return f"{about.minimum} to {about.maximum}"


def _elsewhere(name: str) -> str:
    """The names in the configuration of Java's clients, and below them those of librdkafka that differ."""
    javas = java_names_of(name)
    differing = [theirs for theirs, ours in LIBRDKAFKA.items() if ours in (name, *javas)]
    return "<br>".join(map(code, [*javas, *differing])) if javas else "<br>".join(["-", *map(code, differing)])


def _setting(name: str) -> str:
    return code(name.replace(".", "_"))


def _java() -> Iterator[str]:
    rows = ((code(name), text(fate)) for name, fate in sorted(other_names().items()))
    yield from table(("Java", "here"), rows)

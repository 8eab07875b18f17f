"""The page of the broker's properties: those that it acts on, those of topics, and those that it ignores or refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from docs.generate.tables import code, notice, sentence, table, text
from kafkaraw.broker.configs.config import ALIASES, BROKER_SETTINGS
from kafkaraw.broker.configs.group_settings import OF_ONE_GROUP
from kafkaraw.broker.configs.kafka_configs import BROKER_CONFIGS
from kafkaraw.broker.configs.kafka_properties import IGNORED, REFUSED
from kafkaraw.broker.configs.topic_config import BROKER_PROPERTY, TOPIC_SETTINGS
from kafkaraw.broker.settings import INT_MAX, LONG_MAX, Setting

PAGE: Final = "broker-properties.md"
_ABOUT: Final = """\
Properties of the embedded broker, by Kafka's names: `kafkaraw broker -X NAME=VALUE`, a file with
`kafkaraw broker --config FILE`, or `EmbeddedBroker(config={NAME: VALUE})`. An unknown name is an error that suggests
the nearest one. A `server.properties` of Apache Kafka 4.3 is accepted: what this broker has no use for is ignored with
a warning, and what would weaken security if it were ignored is refused.

"Can change" says how Kafka lets a running broker's configuration change: for one broker, or for the whole cluster
(`kafka-configs.sh`, `Admin.incremental_alter_configs`).
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def _lines() -> Iterator[str]:
    yield from (notice("src/kafkaraw/broker/configs"), "", "# Broker properties", "", _ABOUT)
    yield from ("## Properties that the broker acts on", "")
    yield from _settings(BROKER_SETTINGS.values())
    yield from ("Other names: " + ", ".join(f"`{old}` for `{name}`" for old, name in ALIASES.items()) + ".", "")
    yield from ("## Topic configurations", "")
    yield "The broker property sets the default for topics without a configuration of their own."
    yield ""
    columns = ("name", "broker property", "type and limits", "default", "meaning")
    yield from table(
        columns,
        (
            (
                code(setting.name),
                code(BROKER_PROPERTY.get(setting.name, "")),
                ", ".join(filter(None, (setting.kind.name.lower(), _limits(setting)))),
                _value(setting.default),
                sentence(text(setting.doc)) + ("" if setting.acted_on else " Kept and shown; without effect."),
            )
            for setting in sorted(TOPIC_SETTINGS.values(), key=lambda each: each.name)
        ),
    )
    yield from ("## Group configurations", "", "For one group; each overrides the broker property.", "")
    rows = ((code(name), code(f"group.{name}")) for name in OF_ONE_GROUP)
    yield from table(("name", "broker property"), rows)
    yield from ("## Ignored, with a warning", "")
    yield from _of_kafka(IGNORED)
    yield from ("## Refused", "")
    yield from _of_kafka(REFUSED)


def _settings(settings: Iterable[Setting]) -> Iterator[str]:
    columns = ("name", "type and limits", "default", "can change", "meaning")
    yield from table(
        columns,
        (
            (
                code(setting.name),
                ", ".join(filter(None, (setting.kind.name.lower(), _limits(setting)))),
                _value(setting.default),
                _mode(setting.name),
                sentence(text(setting.doc)),
            )
            for setting in sorted(settings, key=lambda each: each.name)
        ),
    )


def _of_kafka(names: Iterable[str]) -> Iterator[str]:
    known = ((name, BROKER_CONFIGS.get(name)) for name in sorted(names))
    rows = ((code(name), sentence(text(declared.doc)) if declared else "") for name, declared in known)
    yield from table(("name", "meaning in Kafka"), rows)


def _mode(name: str) -> str:
    declared = BROKER_CONFIGS.get(name)
    return "" if declared is None else declared.mode.value


def _value(value: object) -> str:
    if isinstance(value, bool):
        return code(str(value).lower())
    if value == LONG_MAX:
        return "unlimited"
    return code(str(value))


def _limits(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(code(choice) for choice in setting.choices if choice)
    low, high = setting.low, setting.high
    if high in (INT_MAX, LONG_MAX):
        high = None
    if low in (-LONG_MAX, None):
        return "" if high is None else f"at most {high:g}"
    limits = f"at least {low:.0f}" if high is None else f"{low:.0f} to {high:.0f}"
    return limits if setting.besides is None else f"{limits}, or {setting.besides}"

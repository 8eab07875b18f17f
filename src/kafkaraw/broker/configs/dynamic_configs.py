"""Dynamic configs: of one broker, of all brokers, of groups, and of subscriptions to client metrics.

One copy however many nodes share it; topics keep their own in the catalog. This module keeps and stores values; whether
one may be set is decided in `config_changes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.protocol.config_codes import ConfigResourceType

CONFIGS_FILE: Final = "kafkaraw-configs.json"
CONFIGS_VERSION: Final = 1
ALL_BROKERS: Final = ""
KEPT: Final = {
    ConfigResourceType.BROKER: "brokers",
    ConfigResourceType.GROUP: "groups",
    ConfigResourceType.CLIENT_METRICS: "client_metrics",
}
"""The owners whose settings are here, with their name in `CONFIGS_FILE`."""

Configs = Mapping[str, str]


class DynamicConfigs:
    """Values by what they are set for.

    Args:
        save: writes the text of `CONFIGS_FILE` for good; raises OSError when it cannot.

    Attributes:
        versions: for each kind of owner, a number that grows with each change.
    """

    def __init__(self, save: Callable[[str], None]) -> None:
        self._save = save
        self.versions: dict[ConfigResourceType, int] = dict.fromkeys(KEPT, 0)
        self._values: dict[ConfigResourceType, dict[str, Configs]] = {kind: {} for kind in KEPT}

    def of(self, kind: ConfigResourceType, name: str) -> Configs:
        """What is set for a broker (by its id as text, `ALL_BROKERS` for all), a group or a subscription."""
        return self._values[kind].get(name, {})

    def names(self, kind: ConfigResourceType) -> list[str]:
        """For what of that kind anything is set, sorted."""
        return sorted(self._values[kind])

    def put(self, kind: ConfigResourceType, name: str, configs: Configs) -> None:
        """Set exactly these values for something.

        Raises:
            OSError: they cannot be written; nothing is changed.
        """
        changed = {other: dict(values) for other, values in self._values.items()}
        changed[kind].pop(name, None)
        if configs:
            changed[kind][name] = dict(configs)
        self._save(configs_text(changed))
        self._values = changed
        self.versions[kind] += 1

    def load(self, text: str) -> None:
        """Take over what was saved.

        Raises:
            ConfigError: the text is damaged, or of a newer version.
        """
        try:
            content = json.loads(text)
            if content["version"] != CONFIGS_VERSION:
                raise ConfigError(f"{CONFIGS_FILE}: version {content['version']} is not known, only {CONFIGS_VERSION}")
            self._values = {
                kind: {str(name): {str(key): str(value) for key, value in configs.items()} for name, configs in rows}
                for kind, rows in ((kind, content[key].items()) for kind, key in KEPT.items())
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{CONFIGS_FILE} in the data directory is damaged: {error}") from error


def configs_text(values: Mapping[ConfigResourceType, Mapping[str, Configs]]) -> str:
    """Return what `DynamicConfigs.load` reads, for settings by the type and name of their owner."""
    rows = {key: values.get(kind, {}) for kind, key in KEPT.items()}
    return json.dumps({"version": CONFIGS_VERSION, **rows}, indent=1) + "\n"

"""Features of the cluster: the levels in force, which clients change with UpdateFeatures.

`transaction.version` tells producers which generation of transactions to use (KIP-890), `share.version` whether there
are share groups (KIP-932), and `streams.version` whether there are streams groups (KIP-1071). A level that a client has
set is stored, and overrides the property of the same name.
Source: KIP-584, KIP-932, KIP-1022, KIP-1071; org.apache.kafka.controller.FeatureControlManager.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple

FEATURES_FILE: Final = "kafkaraw-features.json"
FORMAT_VERSION: Final = 1
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
LEVELS: Final = {SHARE_VERSION: (0, 1), STREAMS_VERSION: (0, 1), TRANSACTION_VERSION: (0, 2)}
"""The lowest and the highest level of each feature."""
FIRST_EPOCH: Final = 1
UPGRADE: Final = 1
_UPGRADE_TYPES: Final = frozenset((UPGRADE, 2, 3))


class FeatureChange(NamedTuple):
    """A change of a feature's level; the upgrade type is 1 for an upgrade, 2 and 3 for downgrades."""

    feature: str
    level: int
    upgrade_type: int


class Features:
    """The levels in force.

    Args:
        levels: those of the configuration.
        save: stores the text of all levels; may raise OSError.

    Attributes:
        levels: the level of each feature.
        epoch: incremented when a level changes.
    """

    def __init__(self, levels: Mapping[str, int], save: Callable[[str], None]) -> None:
        self.levels: dict[str, int] = dict(levels)
        self.epoch: int = FIRST_EPOCH
        self._save = save

    @property
    def has_share_groups(self) -> bool:
        """Whether share groups are enabled (KIP-932)."""
        return self.levels[SHARE_VERSION] > 0

    def load(self, text: str) -> None:
        """Take the levels that were stored.

        Raises:
            ConfigError: the text is damaged, or of a newer version.
        """
        try:
            content = json.loads(text)
            if content["version"] != FORMAT_VERSION:
                raise ConfigError(f"{FEATURES_FILE}: version {content['version']} is not known, {FORMAT_VERSION} is")
            stored = {str(name): int(level) for name, level in content["levels"].items()}
            self.epoch = int(content["epoch"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{FEATURES_FILE} in the data directory is damaged: {error}") from error
        self.levels.update((name, level) for name, level in stored.items() if name in LEVELS)

    def problem(self, changes: Iterable[FeatureChange], node_id: int) -> str | None:
        """Return Kafka's message about the first change that is not valid; None if all are.

        Args:
            changes: the changes.
            node_id: the id of the controller, for the message.
        """
        for change in changes:
            reason = self._reason(change, node_id)
            if reason is not None:
                return (
                    "The update failed for all features since the following feature had an error: Invalid update "
                    f"version {change.level} for feature {change.feature}. {reason}"
                )
        return None

    def _reason(self, change: FeatureChange, node_id: int) -> str | None:
        if change.upgrade_type not in _UPGRADE_TYPES:
            return "The controller does not support the given upgrade type."
        if change.level < 0:
            return "A feature version cannot be less than 0."
        if change.feature not in LEVELS:
            missing = f"Feature {change.feature} not found."
            return f"Local controller {node_id} does not support this feature." if change.level else missing
        low, high = LEVELS[change.feature]
        if not low <= change.level <= high:
            return f"Local controller {node_id} only supports versions {low}-{high}"
        if change.level < self.levels[change.feature] and change.upgrade_type == UPGRADE:
            return (
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
                "unsafe downgrade."
            )
        return None

    def change(self, changes: Iterable[FeatureChange]) -> None:
        """Set and store levels, for changes without a `problem`.

        Raises:
            OSError: they cannot be stored; nothing is changed.
        """
        levels = {**self.levels, **{change.feature: change.level for change in changes}}
        if levels == self.levels:
            return
        content = {"version": FORMAT_VERSION, "epoch": self.epoch + 1, "levels": levels}
        self._save(json.dumps(content) + "\n")
        self.levels = levels
        self.epoch += 1

"""Features of the cluster for the admin client: levels in force, levels that brokers support, changes; API versions.

Source: KIP-584, KIP-778, KIP-1022; Kafka's Admin.describeFeatures and updateFeatures.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from kafkaraw._version import __version__
from kafkaraw.client.admin.calls import Calls, failure, milliseconds
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


class UpgradeType(IntEnum):
    """How the level of a feature may change; the numbers are those of UpdateFeatures requests.

    Attributes:
        UPGRADE: to a higher level only.
        SAFE_DOWNGRADE: to a lower level, if no metadata is lost.
        UNSAFE_DOWNGRADE: to a lower level, even if metadata is lost.
    """

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class VersionRange(NamedTuple):
    """Levels of a feature, from `min` to `max`."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """The features of a cluster.

    Attributes:
        finalized: the levels in force, by feature.
        finalized_epoch: incremented at each change of the levels in force; None if the broker does not return it.
        supported: the levels that the broker which answered supports, by feature.
    """

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int | None
    supported: Mapping[str, VersionRange]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A change of a feature's level.

    Attributes:
        max_version_level: the new level; 0 removes the feature, which needs a downgrade.
        upgrade_type: how the level may change.
    """

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class FeatureAdmin:
    """The operations on features.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_features(self, *, timeout: float | None = None) -> FeatureMetadata:
        deadline = self._calls.deadline(timeout)
        request = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version=__version__)

        async def once() -> FeatureMetadata:
            answer = await self._calls.ask_any(request, deadline)
            if answer.error_code:
                raise failure(answer.error_code, None, "describe the features")
            epoch = answer.finalized_features_epoch
            return FeatureMetadata(
                {
                    one.name: VersionRange(one.min_version_level, one.max_version_level)
                    for one in answer.finalized_features
                },
                epoch if epoch >= 0 else None,
                {one.name: VersionRange(one.min_version, one.max_version) for one in answer.supported_features},
            )

        return await self._calls.retry(once, deadline)

    async def describe_api_versions(self, *, timeout: float | None = None) -> dict[int, dict[int, VersionRange]]:
        deadline = self._calls.deadline(timeout)
        request = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version=__version__)
        found: dict[int, dict[int, VersionRange]] = {}

        async def ask(node_id: int) -> KafkaError | None:
            answer = await self._calls.ask_node(node_id, request, deadline)
            if answer.error_code:
                return failure(answer.error_code, None, f"describe the API versions of broker {node_id}")
            found[node_id] = {one.api_key: VersionRange(one.min_version, one.max_version) for one in answer.api_keys}
            return None

        await self._calls.each_broker(ask, deadline)
        return dict(sorted(found.items()))

    async def update_features(
        self,
        updates: Mapping[str, int | FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        if not isinstance(updates, Mapping):
            raise UsageError(f"update_features({updates!r}): give levels by feature, as in {{'group.version': 1}}")
        wanted = {
            name: given if isinstance(given, FeatureUpdate) else FeatureUpdate(given) for name, given in updates.items()
        }
        for name, update in wanted.items():
            if type(update.max_version_level) is not int:
                raise UsageError(f"update_features: the level {update.max_version_level!r} of {name!r} is no number")
        deadline = self._calls.deadline(timeout)

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            request = UpdateFeaturesRequest(
                timeout_ms=milliseconds(deadline),
                feature_updates=[_update(name, wanted[name]) for name in names],
                validate_only=validate_only,
            )
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                what = f"update {', '.join(map(repr, names))}"
                error = failure(answer.error_code, answer.error_message, what, operation="ALTER")
                return dict.fromkeys(names, error)
            return {
                one.feature: failure(one.error_code, one.error_message, f"update {one.feature!r}", operation="ALTER")
                for one in answer.results
                if one.error_code
            }

        await self._calls.each(wanted, once, deadline)


def _update(name: str, update: FeatureUpdate) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=update.max_version_level, upgrade_type=update.upgrade_type)

"""The API versions that brokers of older Kafka releases support.

`max_versions="2.4"` makes a node of ours offer those, the ones that Kafka 4.0 removed (KIP-896) among them. Records are
of magic 2 in all versions: Produce 0 to 2 and Fetch 0 to 3, which carry older ones, are offered and refused. The
facts are tested against a captured answer of a 2.4 broker and against another client's table.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.protocol.apis import Api
from kafkaraw.protocol.declare import NO_VERSIONS, VersionRange

NOT_OFFERED: Final = -1
# fmt: off
MAX_VERSIONS: Final[dict[str, tuple[int, ...]]] = {
    "0.11": (
        3, 5, 2, 4, 0, 0, 3, 1, 3, 3, 1, 2, 1, 1, 1, 1, 1, 0, 1, 2,
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ),
    "1.0": (
        5, 6, 2, 5, 1, 0, 4, 1, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1, 1, 2,
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ),
    "2.0": (
        6, 8, 3, 6, 1, 0, 4, 1, 4, 4, 2, 3, 2, 2, 2, 2, 2, 1, 2, 3,
        2, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 2, 1, 1, 1, 0, 1, 1, 1,
        1, 1, 1,
    ),
    "2.4": (
        8, 11, 5, 9, 4, 2, 6, 3, 8, 6, 3, 6, 4, 4, 4, 5, 3, 1, 3, 5,
        4, 1, 2, 3, 1, 1, 1, 0, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1,
        1, 1, 2, 2, 1, 0, 0, 0,
    ),
    "2.8": (
        9, 12, 6, 11, 5, 3, 7, 3, 8, 7, 3, 7, 4, 4, 5, 5, 4, 1, 3, 7,
        6, 2, 4, 4, 3, 3, 3, 1, 3, 2, 2, 2, 4, 2, 2, 2, 2, 3, 2, 2,
        2, 2, 2, 2, 1, 0, 0, 0, 1, 1, 0, 0, -1, -1, -1, -1, 0, 0, -1, -1,
        0, 0,
    ),
    "3.0": (
        9, 12, 7, 11, 5, 3, 7, 3, 8, 8, 4, 7, 4, 4, 5, 5, 4, 1, 3, 7,
        6, 2, 4, 4, 3, 3, 3, 1, 3, 2, 2, 2, 4, 2, 2, 2, 2, 3, 2, 2,
        2, 2, 2, 2, 1, 0, 0, 0, 1, 1, 0, 0, -1, -1, -1, -1, 0, 0, -1, -1,
        0, 0, -1, -1, -1, 0, 0, 0,
    ),
    "3.9": (
        11, 17, 9, 12, 7, 4, 8, 3, 9, 9, 6, 9, 4, 5, 5, 5, 5, 1, 4, 7,
        6, 2, 5, 4, 5, 4, 4, 1, 4, 3, 3, 3, 4, 2, 2, 4, 2, 3, 3, 2,
        2, 3, 2, 2, 1, 0, 0, 0, 1, 1, 0, 0, -1, -1, -1, -1, 3, 1, 0, -1,
        1, 0, -1, -1, -1, 0, 1, 0, 0, 0,
    ),
}
# fmt: on
"""Release -> largest version by API key."""


class Offer:
    """The API versions that a node supports.

    Args:
        release: the release that it poses as; None is the newest.
        unstable: offer the versions that no release has enabled, too (`unstable.api.versions.enable`).

    Raises:
        ConfigError: the release is not one of those that are known.
    """

    def __init__(self, release: str | None = None, *, unstable: bool = False) -> None:
        if release is not None and release not in MAX_VERSIONS:
            raise ConfigError(f"max_versions: {release!r} is not a known release; known are {', '.join(MAX_VERSIONS)}")
        self._unstable = unstable
        self._largest = None if release is None else MAX_VERSIONS[release]

    def versions(self, api: Api) -> VersionRange:
        """The versions of one API; none when that release and ours have no version of it in common."""
        if self._largest is None:
            return VersionRange(api.supported.min, api.versions.max) if self._unstable else api.supported
        largest = self._largest[api.key] if api.key < len(self._largest) else NOT_OFFERED
        versions = VersionRange(api.versions.min, min(api.supported.max, largest))
        return versions if versions.min <= versions.max else NO_VERSIONS

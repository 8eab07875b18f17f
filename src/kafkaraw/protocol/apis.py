"""The APIs that are declared: one line each, by key; their modules are imported on first use.

A new API is one file in `messages/` and one line here. This module must not know anything else about messages.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from kafkaraw.protocol.declare import VersionRange, header_of

MESSAGES: Final = "kafkaraw.protocol.messages"


@dataclass(frozen=True)
class Api:
    """One API: a request and its response.

    Attributes:
        key: its number on the wire.
        name: Kafka's name for it.
        module: the module under `messages` that declares it.
    """

    key: int
    name: str
    module: str

    @cached_property
    def request(self) -> type[object]:
        """The class of the request."""
        return self._load("Request")

    @cached_property
    def response(self) -> type[object]:
        """The class of the response."""
        return self._load("Response")

    @cached_property
    def versions(self) -> VersionRange:
        """Every version that is declared, old and unstable ones too."""
        return header_of(self.request).versions

    @cached_property
    def supported(self) -> VersionRange:
        """The versions that a broker of Kafka 4.3 offers, and so does ours."""
        header = header_of(self.request)
        low = max(self.versions.min, header.removed.max + 1)
        high = header.unstable.min - 1 if header.unstable.max >= header.unstable.min else self.versions.max
        return VersionRange(low, high)

    def is_flexible(self, version: int) -> bool:
        """Whether that version has compact lengths and tagged fields (KIP-482)."""
        return header_of(self.request).flexible.includes(version)

    def _load(self, suffix: str) -> type[object]:
        module = importlib.import_module(f"{MESSAGES}.{self.module}")
        cls: type[object] = getattr(module, self.name + suffix)
        return cls


API_TABLE: Final = (
    Api(0, "Produce", "produce"),
    Api(1, "Fetch", "fetch"),
    Api(2, "ListOffsets", "list_offsets"),
    Api(3, "Metadata", "metadata"),
    Api(8, "OffsetCommit", "offset_commit"),
    Api(9, "OffsetFetch", "offset_fetch"),
    Api(10, "FindCoordinator", "find_coordinator"),
    Api(18, "ApiVersions", "api_versions"),
    Api(19, "CreateTopics", "create_topics"),
    Api(20, "DeleteTopics", "delete_topics"),
    Api(22, "InitProducerId", "init_producer_id"),
)
API_BY_KEY: Final[dict[int, Api]] = {api.key: api for api in API_TABLE}
API_BY_NAME: Final[dict[str, Api]] = {api.name: api for api in API_TABLE}


def api_of(message: object) -> Api:
    """The API of a request or response, given the message or its class.

    Raises:
        TypeError: it is neither.
    """
    cls = message if isinstance(message, type) else type(message)
    api = API_BY_KEY.get(header_of(cls).api_key)
    if api is None:
        raise TypeError(f"{cls.__name__} is not a request or response")
    return api

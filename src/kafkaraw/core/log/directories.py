"""Whether log directories may be used: the identity in each `meta.properties`, and what else lies there.

`check_directories` looks at the listings of all directories of a broker before any of them is changed.
Source: org.apache.kafka.metadata.properties.MetaPropertiesEnsemble.verify, LogManager.loadLogs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.metadata_files import MetaProperties, read_meta_properties
from kafkaraw.core.log.names import LOCK_FILE, META_PROPERTIES_FILE, parse_folder
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid

CLUSTER_FILE: Final = "kafkaraw-cluster.json"
"""The file at the root of the data directory of a cluster of several nodes."""
_OF_NO_BROKER: Final = frozenset(("lost+found",))  # mkfs.ext4 makes it in every new volume
_BEFORE_THE_IDENTITY: Final = frozenset((LOCK_FILE, f"{META_PROPERTIES_FILE}.tmp"))
_SHOWN_MAX: Final = 3


class Listing(NamedTuple):
    """What lies in a directory.

    Attributes:
        path: the directory, for errors.
        folders: the names of the folders in it.
        files: the names of the files in it.
        meta: the text of its `meta.properties`; None if it has none.
    """

    path: str
    folders: Sequence[str]
    files: Sequence[str]
    meta: str | None


def check_directories(
    listings: Sequence[Listing], node_id: int, cluster_id: str | None = None
) -> list[MetaProperties | None]:
    """Check that a broker may use its directories, all together.

    Args:
        listings: its directories.
        node_id: its id.
        cluster_id: its cluster; None if the directories say which.

    Returns:
        the identity of each directory; None for one that has to be formatted.

    Raises:
        ConfigError: a directory belongs to another node or cluster, has the format of a newer version or files of
            something else, or two of them are copies of each other.
    """
    found = [_identity(listing) for listing in listings]
    for listing, meta in zip(listings, found, strict=True):
        _check_content(listing)
        if meta is None:
            continue
        if meta.node_id != node_id:
            raise ConfigError(
                f"node.id: the data directory {listing.path} belongs to node {meta.node_id}, not {node_id}; set "
                f"node.id to {meta.node_id}, or choose another directory"
            )
        if cluster_id is not None and meta.cluster_id != cluster_id:
            raise ConfigError(
                f"log.dirs: {listing.path} belongs to cluster {meta.cluster_id}, the broker to cluster {cluster_id}; "
                "choose another directory"
            )
    _check_together([(listing.path, meta) for listing, meta in zip(listings, found, strict=True) if meta])
    return found


def _identity(listing: Listing) -> MetaProperties | None:
    if listing.meta is None:
        return None
    try:
        return read_meta_properties(listing.meta, f"{listing.path}/{META_PROPERTIES_FILE}")
    except DamagedFileError as error:
        raise ConfigError(f"log.dirs: {error}") from error


def _check_content(listing: Listing) -> None:
    if CLUSTER_FILE in listing.files:
        raise ConfigError(
            f"log.dirs: {listing.path} is the directory of a cluster of several nodes; start it with --nodes, or give "
            "the folder of one node"
        )
    foreign = [name for name in listing.folders if parse_folder(name) is None and name not in _OF_NO_BROKER]
    if listing.meta is None:
        foreign += [name for name in listing.files if name not in _BEFORE_THE_IDENTITY]
    if foreign:
        shown = ", ".join(repr(name) for name in sorted(foreign)[:_SHOWN_MAX])
        more = f" and {len(foreign) - _SHOWN_MAX} more" if len(foreign) > _SHOWN_MAX else ""
        raise ConfigError(
            f"log.dirs: {listing.path} has {shown}{more}, which is not a broker's; give an empty directory, or one "
            "that only a broker uses"
        )


def _check_together(found: Sequence[tuple[str, MetaProperties]]) -> None:
    ids: dict[Uuid, str] = {}
    for path, meta in found:
        first_path, first = found[0]
        if meta.cluster_id != first.cluster_id:
            raise ConfigError(
                f"log.dirs: {first_path} belongs to cluster {first.cluster_id}, {path} to cluster {meta.cluster_id}; "
                "the directories of a broker belong to one cluster"
            )
        if meta.directory_id is None:
            continue
        other = ids.setdefault(meta.directory_id, path)
        if other != path:
            raise ConfigError(
                f"log.dirs: {other} and {path} have the same directory.id {meta.directory_id}: one is a copy of the "
                "other; remove one of them"
            )

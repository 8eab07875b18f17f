"""The small text files of a log directory: `meta.properties`, `partition.metadata`, `.kafka_cleanshutdown`.

Source: org.apache.kafka.metadata.properties.MetaProperties, org.apache.kafka.storage.internals.checkpoint.
{PartitionMetadataFile, CleanShutdownFileHandler}.
"""

from __future__ import annotations

import json
from typing import Final

from kafkaraw.core.java_properties import parse_java_properties
from kafkaraw.core.log.damage import DamagedFileError, whole_number
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, PARTITION_METADATA_FILE
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid

META_VERSION: Final = 1
NO_BROKER_EPOCH: Final = -1
_FORMAT: Final = "restore it from a copy, or format the directory again with Kafka's StorageTool"


class MetaProperties(NamedTuple):
    """The identity of a log directory.

    Attributes:
        cluster_id: the cluster that it belongs to.
        node_id: the node that it belongs to.
        directory_id: its own id; None in directories that Kafka before 3.7 wrote.
    """

    cluster_id: str
    node_id: int
    directory_id: Uuid | None


def write_meta_properties(meta: MetaProperties) -> str:
    """The text of `meta.properties`."""
    lines = ["#", f"node.id={meta.node_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={meta.directory_id}")
    return "\n".join((*lines, f"version={META_VERSION}", f"cluster.id={meta.cluster_id}", ""))


def read_meta_properties(text: str, file: str = META_PROPERTIES_FILE) -> MetaProperties:
    """Read `meta.properties`.

    Raises:
        DamagedFileError: it is damaged, or of another version.
    """
    found = parse_java_properties(text)
    if whole_number(found.get("version", "")) != META_VERSION:
        version = found.get("version")
        raise DamagedFileError(file, 0, f"version {version!r} is unknown, only {META_VERSION} is", _FORMAT)
    node_id = whole_number(found.get("node.id", ""))
    cluster_id = found.get("cluster.id", "")
    if node_id is None or not cluster_id:
        raise DamagedFileError(file, 0, f"node.id={node_id} and cluster.id={cluster_id!r} must both be set", _FORMAT)
    try:
        directory_id = Uuid.parse(found["directory.id"]) if "directory.id" in found else None
    except ValueError as error:
        raise DamagedFileError(file, 0, f"directory.id: {error}", _FORMAT) from None
    return MetaProperties(cluster_id, node_id, directory_id)


def write_partition_metadata(topic_id: Uuid) -> str:
    """The text of `partition.metadata`."""
    return f"version: 0\ntopic_id: {topic_id}"


def read_partition_metadata(text: str, file: str = PARTITION_METADATA_FILE) -> Uuid:
    """Return the topic id of a partition's folder.

    Raises:
        DamagedFileError: it is damaged, or of another version.
    """
    remedy = "restore it from another replica's folder of the topic"
    values: dict[str, str] = {}
    for line, row in enumerate(text.splitlines(), 1):
        name, colon, value = row.partition(":")
        if not colon:
            raise DamagedFileError(file, line, f"{row!r} is not a name and a value", remedy, unit="line")
        values[name.strip()] = value.strip()
    if values.get("version") != "0":
        raise DamagedFileError(file, 1, f"version {values.get('version')!r} is unknown, only 0 is", remedy, unit="line")
    try:
        return Uuid.parse(values.get("topic_id", ""))
    except ValueError as error:
        raise DamagedFileError(file, 2, f"topic_id: {error}", remedy, unit="line") from None


def write_clean_shutdown(broker_epoch: int) -> str:
    """The text of the marker that a broker leaves when it stops gracefully."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))


def read_clean_shutdown(text: str, file: str = CLEAN_SHUTDOWN_FILE) -> int:
    """Return the broker epoch of the marker; -1 if it has none, as in files of Kafka before 3.8.

    Raises:
        DamagedFileError: it is damaged.
    """
    if not text:
        return NO_BROKER_EPOCH
    try:
        found = json.loads(text)
        return int(found["brokerEpoch"])
    except (ValueError, KeyError, TypeError) as error:
        remedy = "remove the file: the broker then recovers its logs as after a crash"
        raise DamagedFileError(file, 0, f"{text!r} has no broker epoch: {error}", remedy) from None

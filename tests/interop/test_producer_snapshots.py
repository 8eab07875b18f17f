"""What we write down of producers is read by Apache Kafka's own tool, and what it writes by us."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.core.log.producer_snapshot import ProducerSnapshot, decode_snapshot, encode_snapshot, file_name
from tests.interop.apache_kafka import why_missing
from tests.interop.java_tools import run_tool

DUMP = "org.apache.kafka.tools.DumpLogSegments"


def test_kafka_dump_log_reads_our_files(tmp_path: Path) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    producers = [
        ProducerSnapshot(7, 3, 41, 1041, 4, 1_700_000_000_000, 5, -1),
        ProducerSnapshot(8, 4, -1, -1, 0, 1_700_000_000_001, -1, 900),
    ]
    file = tmp_path / file_name(1042)
    file.write_bytes(encode_snapshot(producers))
    said = run_tool(DUMP, "--files", str(file))
    lines = [line for line in said.splitlines() if line.startswith("producerId")]
    shown = [line.split(" lastTimestamp")[0] for line in lines]
    assert shown == [
        "producerId: 7 producerEpoch: 3 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty",
        "producerId: 8 producerEpoch: 4 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[900]",
    ]
    assert "firstSequence: 37 lastSequence: 41 lastOffset: 1041 offsetDelta: 4" in lines[0]
    assert decode_snapshot(file.read_bytes()) == producers

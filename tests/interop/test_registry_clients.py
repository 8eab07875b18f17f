"""Registry clients of other languages against our registry: franz-go's (Go) and that of KafkaJS (JavaScript).

Both are downloaded from their registries of packages into the user's cache, once. Without Go, Node or a network, the
tests are skipped.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kafkaraw.schemas import EmbeddedRegistry
from tests.interop.downloaded_clients import COMMAND_SECONDS_MAX, prepare, prepare_go

SOURCES = Path(__file__).parent / "registry_clients"
FRANZ_GO = "github.com/twmb/franz-go/pkg/sr@v1.8.0"
KAFKAJS = "@kafkajs/confluent-schema-registry@3.9.0"
RUN_S = 60


def output_of(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
LONGER = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":0}]}'


@pytest.mark.timeout(COMMAND_SECONDS_MAX * 2 + RUN_S)
def test_every_method_of_franz_gos_client(schema_registry: EmbeddedRegistry) -> None:
    client = prepare_go("franz-go-registry", SOURCES / "client.go.txt", FRANZ_GO)
    lines = [line.rpartition(" ") for line in output_of(client.parent, "./client", schema_registry.url).splitlines()]
    assert [(name, json.loads(value)) for name, _, value in lines] == [
        ("SupportedTypes", ["AVRO", "PROTOBUF", "JSON"]),  # in its own order
        ("CreateSchema", ["s", 1, 1]),
        ("RegisterSchema", 2),
        ("RegisterSchema incompatible", 40901),
        ("CreateSchema referrer", [{"name": "R", "subject": "s", "version": 1}]),
        ("Subjects", ["h", "s"]),
        ("SchemaByID", RECORD),
        ("SchemaTextByID", RECORD),
        ("SubjectsByID", ["s"]),
        ("SchemaVersionsByID", [{"subject": "s", "version": 1}]),
        ("SubjectVersions", [1, 2]),
        ("SchemaByVersion", [2, 2]),
        ("SchemaTextByVersion", RECORD),
        ("SchemaByGUID", LONGER),
        ("SchemaIDsByGUID", [{"context": ".", "id": 2}]),
        ("AllSchemas", 3),
        ("LookupSchema", 2),
        ("LookupSchema missing", 40403),
        ("SchemaReferences", 1),
        ("SchemaUsagesByID", 1),
        ("SetCompatibility", "FULL"),
        ("Compatibility", "BACKWARD"),
        ("Compatibility", "FULL"),
        ("CheckCompatibility", [False, False]),  # it asks without `verbose`
        ("ResetCompatibility", None),
        ("SetMode", "READONLY"),
        ("Mode", "READWRITE"),
        ("Mode", "READONLY"),
        ("ResetMode", None),
        ("DeleteSubject referenced", 42206),
        ("DeleteSubject soft", [1]),
        ("DeleteSubject hard", [1]),
        ("DeleteSchema", None),
        ("RegisterSchema in a context", 1),
        ("Contexts", [".", ".c"]),
    ]


@pytest.mark.timeout(COMMAND_SECONDS_MAX + RUN_S)
def test_the_javascript_client_registers_encodes_and_decodes(schema_registry: EmbeddedRegistry) -> None:
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", KAFKAJS]
    folder = prepare("npm", "kafkajs", SOURCES / "client.js", install)
    found = json.loads(output_of(folder, "node", "client.js", schema_registry.url))
    assert "Schema being registered is incompatible with an earlier schema" in found.pop("refused")
    assert found == {
        "id": 1,
        "encoded": "0000000001" + "02" + "02" + "02" + "78",
        "decoded": {"a": 1, "b": "x"},
        "latest": 1,
        "byVersion": 1,
        "bySchema": 1,
    }

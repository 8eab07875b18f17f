"""Random messages as a broker would write them: small ids, known error codes, names that people choose.

`random_message` of the protocol tests looks for what breaks; these look like traffic, to measure guesses with.
"""

from __future__ import annotations

import random
import re
import uuid

from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, Spec, StructOf, spec_of
from kafkaraw.protocol.error_codes import ERROR_TABLE
from kafkaraw.protocol.types import BOOLEAN, BYTES, FLOAT64, RECORDS, STRING, UUID, ZERO_UUID, Primitive, Uuid
from kafkaraw.records import encode_batch

WORDS = ("orders", "payments", "clicks", "user-events", "__consumer_offsets", "dead.letters", "audit_log", "flights")
HOSTS = ("broker-1.kafka.internal", "10.0.3.17", "localhost", "kafka-0.kafka-headless.default.svc.cluster.local")
NAMES = (
    (r"host$", HOSTS),
    (r"rack", ("eu-west-1a", "rack7", "b")),
    (r"message", ("The topic does not exist.", "Not authorized to access this resource.")),
    (r"cluster_id", ("Some8vvlQ9yTcQxNo8ZmUw",)),
    (r"member_id|group_instance_id", ("consumer-1-7f5a5a1c-3f0e-4b6e-9b7e-0f2d8b1c2d3e", "worker-3")),
    (r"client_id|client_software", ("kafkaraw", "rdkafka", "apache-kafka-java", "4.1.0")),
    (r"client_host", ("/10.0.3.21", "/127.0.0.1")),
    (r"protocol_type", ("consumer",)),
    (r"protocol|assignor", ("range", "cooperative-sticky", "uniform")),
    (r"state", ("Stable", "Empty", "PreparingRebalance", "Ongoing")),
    (r"mechanism", ("PLAIN", "SCRAM-SHA-256", "GSSAPI")),
    (r"principal|user", ("User:alice", "User:ANONYMOUS")),
    (r"^value$|default", ("604800000", "delete", "producer", "true")),
)


def realistic_message(cls: type[object], version: int, rng: random.Random) -> object:
    """A message with values as they are met."""
    spec = spec_of(cls)
    return _structure(spec, version, spec.header.flexible.includes(version), rng)


def _structure(spec: Spec, version: int, flexible: bool, rng: random.Random) -> object:
    values = {
        field.name: _field(field, version, flexible, rng) if field.versions.includes(version) else _zero(field)
        for field in spec.fields
    }
    return spec.cls(**values)


def _zero(field: FieldSpec) -> object:
    if field.default is None:
        return None
    if isinstance(field.kind, ArrayOf):
        return []
    return field.kind.cls() if isinstance(field.kind, StructOf) else field.default


def _field(field: FieldSpec, version: int, flexible: bool, rng: random.Random) -> object:
    if field.nullable.includes(version) and rng.random() < 0.3:
        return None
    if field.is_tagged(version) and rng.random() < 0.8:
        return _zero(field)
    return _value(field.name, field.kind, version, flexible, rng)


def _value(name: str, kind: Kind, version: int, flexible: bool, rng: random.Random) -> object:
    if isinstance(kind, StructOf):
        return _structure(spec_of(kind.cls), version, flexible, rng)
    if isinstance(kind, ArrayOf):
        count = rng.choice((0, 1, 1, 1, 2, 3, 6))
        return [_value(name, kind.element, version, flexible, rng) for _ in range(count)]
    return _primitive(name, kind, rng)


def _primitive(name: str, kind: Primitive, rng: random.Random) -> object:
    if kind is STRING:
        return _text(name, rng)
    if kind is BYTES:
        return rng.randbytes(rng.choice((0, 16, 60)))
    if kind is RECORDS:
        return records(rng)
    if kind is UUID:
        return Uuid(uuid.UUID(int=rng.getrandbits(128), version=4).bytes) if rng.random() < 0.9 else ZERO_UUID
    if kind is FLOAT64:
        return float(rng.choice((1_048_576, 50.5, 200)))
    if kind is BOOLEAN:
        return rng.random() < 0.3
    return _number(name, kind, rng)


def records(rng: random.Random, codec: str | None = None) -> bytes:
    """One batch."""
    now = 1_700_000_000_000 + rng.randrange(10**9)
    rows = [(now + i, None, b'{"amount": %d}' % rng.randrange(1000), []) for i in range(rng.randrange(1, 6))]
    chosen = codec or rng.choice(("none", "gzip", "lz4", "snappy", "zstd"))
    return bytes(encode_batch(rows, codec=chosen, base_offset=rng.randrange(10_000)))


def _text(name: str, rng: random.Random) -> str:
    for pattern, choices in NAMES:
        if re.search(pattern, name):
            return rng.choice(choices)
    return rng.choice(WORDS)


def _number(name: str, kind: Primitive, rng: random.Random) -> int:
    if name.endswith("error_code"):
        return 0 if rng.random() < 0.85 else rng.choice([code for code in ERROR_TABLE if code >= 0])
    if name == "port":
        return rng.choice((9092, 9093, 19092, 29092, 32400))
    if name == "throttle_time_ms":
        return 0 if rng.random() < 0.95 else rng.randrange(1, 2000)
    if name == "api_key":
        return rng.choice(list(API_BY_KEY))
    if name.endswith("authorized_operations"):
        return rng.choice((-(1 << 31), 3576, 264))
    if re.search(r"timestamp(_ms)?$|append_time_ms$|start_time_ms$", name):
        return rng.choice((-1, 1_700_000_000_000 + rng.randrange(10**10)))
    if kind.size == 8:
        return rng.choice((-1, 0, rng.randrange(100), rng.randrange(10**6), rng.randrange(10**9)))
    if kind.size == 1:
        return rng.randrange(0, 4)
    if name.endswith("_ms"):
        return rng.choice((0, 5000, 30_000, 300_000))
    return rng.choice((-1, 0, 0, 1, 1, 2, 3, rng.randrange(20), rng.randrange(300))) if kind.name[0] == "i" else 9092

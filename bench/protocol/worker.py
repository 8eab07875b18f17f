"""One codec measured in a process of its own: `python -m bench.protocol.worker CODEC` with the cases on standard input.

Reads one JSON array of {name, module, version, hex}, prints one JSON object: for each case the CPU microseconds of one
decode and of one encode, the median of several rounds. It imports no other codec than the one that it measures.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

ROUNDS = 7
ROUND_SECONDS = 0.05


class Codec(NamedTuple):
    """How one library decodes and encodes one message in one version."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    make_ready: Callable[[Any], None] = lambda message: None  # what a decoded message needs before it is encoded


def kafkaraw_codec(name: str, module: str, version: int) -> Codec:
    """Ours."""
    from kafkaraw.protocol import decode_message, encode_message
    from kafkaraw.protocol.apis import API_BY_NAME

    api = API_BY_NAME[re.sub("(Request|Response)$", "", name)]
    cls = api.request if name.endswith("Request") else api.response
    return Codec(lambda data: decode_message(cls, version, data), lambda message: encode_message(message, version))


def kafka_python_codec(name: str, module: str, version: int) -> Codec:
    """kafka-python's own."""
    cls = getattr(importlib.import_module(f"kafka.protocol.{module}"), name)

    def make_ready(message: Any) -> None:  # noqa: ANN401 -- one of kafka-python's messages
        message._header = None  # noqa: SLF001 -- encoding looks at it, decoding leaves it unset

    return Codec(
        lambda data: cls.decode(data, version=version), lambda message: message.encode(version=version), make_ready
    )


def kio_codec(name: str, module: str, version: int) -> Codec:
    """kio's, whose readers are compiled."""
    from kio.serial import entity_reader, entity_writer  # type: ignore[import-not-found]

    stem, direction = re.fullmatch("(.*)(Request|Response)", name).groups()  # type: ignore[union-attr]
    folder = re.sub(r"(?<!^)(?=[A-Z])", "_", stem).lower()
    found = importlib.import_module(f"kio.schema.{folder}.v{version}.{direction.lower()}")
    read, write = entity_reader(getattr(found, name)), entity_writer(getattr(found, name))

    def encode(message: object) -> bytes:
        out = io.BytesIO()
        write(out, message)
        return out.getvalue()

    return Codec(lambda data: read(data, 0)[0], encode)


CODECS = {"kafkaraw": kafkaraw_codec, "kafka-python": kafka_python_codec, "kio": kio_codec}


def cpu_microseconds(call: Callable[[], object]) -> float:
    """CPU of one call: the median of rounds, each long enough for the clock."""
    call()
    started = time.process_time()
    call()
    count = max(1, int(ROUND_SECONDS / max(time.process_time() - started, 1e-7)))
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(count):
            call()
        rounds.append((time.process_time() - started) / count * 1e6)
    return statistics.median(rounds)


def main(codec_name: str) -> None:
    """Measure every case and print the numbers."""
    measured = []
    for case in json.load(sys.stdin):
        data = bytes.fromhex(case["hex"])
        codec = CODECS[codec_name](case["name"], case["module"], case["version"])
        message = codec.decode(data)
        codec.make_ready(message)
        same = bytes(codec.encode(message)) == data  # before anything is timed: all codecs do the same work
        decode = cpu_microseconds(lambda codec=codec, data=data: codec.decode(data))  # type: ignore[misc]
        encode = cpu_microseconds(lambda codec=codec, message=message: codec.encode(message))  # type: ignore[misc]
        measured.append({"decode": decode, "encode": encode, "same_bytes": same})
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

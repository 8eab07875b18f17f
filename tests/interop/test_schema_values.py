"""Apache Avro's and Google's Java classes read what our serializers write, and resolve schemas as our reader does."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw.schemas.framing import read_frame
from kafkaraw.schemas.serializers.avro_codec import codec
from kafkaraw.schemas.serializers.avro_nodes import UnresolvableError, decoder, encoder
from tests.interop.apache_kafka import compile_java, fetch_artifact, why_missing
from tests.interop.avro_oracle import _jars, why_no_avro_oracle
from tests.java_options import QUICK_JVM
from tests.schemas.serializers import avro_cases
from tests.schemas.serializers.protobuf_cases import classes_of, files, fill

SOURCE = Path(__file__).with_name("ValueOracle.java")
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    missing = why_no_avro_oracle() or why_missing()
    if missing is not None:
        pytest.skip(missing)
    jars = [*(_jars() or ()), str(fetch_artifact("com.google.protobuf", "protobuf-java", "4.32.1"))]
    classes = compile_java(SOURCE, tuple(jars))
    command = ["java", "-Xmx256M", *QUICK_JVM, "-cp", ":".join([*jars, str(classes)]), SOURCE.stem]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def question(data: bytes, **more: Any) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"data": base64.b64encode(data).decode(), **more}) + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            if "data" in answer:
                answer["data"] = base64.b64decode(answer["data"])
            return answer

        yield question
        process.stdin.close()


def parsed(schema: object) -> Any:
    return fastavro.parse_schema(json.loads(json.dumps(schema)), _write_hint=False)


@RELAXED
@given(data=st.data())
def test_java_reads_our_avro(ask: Ask, data: st.DataObject) -> None:
    schema = parsed(data.draw(avro_cases.schemas()))
    value = data.draw(avro_cases.values(schema))
    text = json.dumps(schema)
    made = codec.encode(encoder(schema), value, b"")
    answer = ask(made, writer=text, reader=text)
    node = decoder(schema)
    assert codec.decode(node, answer.get("data", str(answer).encode())) == codec.decode(node, made)


CHANGES = {"int": ["long", "double", "string", ["null", "int"]], "long": ["float", "double", "int"],
           "float": ["double"], "string": ["bytes", ["null", "string"], ["int", "string"]],
           "bytes": ["string", "long"]}  # fmt: skip


def changed(draw: st.DrawFn, schema: Any) -> Any:
    """Return a schema that may read what the given one wrote: other types, other order, other fields."""
    if isinstance(schema, list):
        made = [branch for branch in schema if draw(st.integers(0, 5))] or schema
        return made[0] if len(made) == 1 and draw(st.booleans()) else made
    if isinstance(schema, str):
        return draw(st.sampled_from(CHANGES[schema])) if schema in CHANGES and not draw(st.integers(0, 3)) else schema
    kind = schema["type"]
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {**schema, part: changed(draw, schema[part])}
    if kind == "enum" and draw(st.booleans()):
        symbols = [symbol for symbol in schema["symbols"] if draw(st.integers(0, 3))] or schema["symbols"]
        return {**schema, "symbols": symbols, **({"default": symbols[0]} if draw(st.booleans()) else {})}
    if kind != "record":
        return schema
    fields = [{**field, "type": changed(draw, field["type"])} for field in schema["fields"]]
    if fields and not draw(st.integers(0, 3)):
        plain = [field for field in fields if isinstance(field["type"], str) and field["type"] in avro_cases.PRIMITIVES]
        fields = [field for field in fields if field not in plain[:1]]  # others may define types that are used later
    if not draw(st.integers(0, 2)):
        fields.append({"name": "added", "type": ["null", "string"], "default": None})
    if not draw(st.integers(0, 3)):
        fields.append({"name": "more", "type": {"type": "array", "items": "bytes"}, "default": ["\u00ff"]})
    return {**schema, "fields": fields}


def comparable(value: object) -> str:
    """A text that differs for values that differ, also for NaN; the order of a map's keys is not told."""
    if isinstance(value, dict):
        return repr(sorted((key, comparable(each)) for key, each in value.items()))
    return f"[{', '.join(map(comparable, value))}]" if isinstance(value, list) else repr(value)


def has_no_items(value: object) -> bool:
    """Whether an array or a map in a value is empty."""
    if isinstance(value, dict):
        return not value or any(map(has_no_items, value.values()))
    return isinstance(value, list | tuple) and (not value or any(map(has_no_items, value)))


def without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_logical_types(part) for part in schema]
    if isinstance(schema, dict):
        kept = {key: part for key, part in schema.items() if key not in ("logicalType", "precision", "scale")}
        return {
            key: without_logical_types(part) if key in ("type", "items", "values", "fields") else part
            for key, part in kept.items()
        }
    return schema


@RELAXED
@given(data=st.data())
def test_a_readers_schema_resolves_as_in_java(ask: Ask, data: st.DataObject) -> None:
    drawn = without_logical_types(data.draw(avro_cases.schemas()))
    writer = parsed(drawn)
    try:
        reader = parsed(changed(data.draw, drawn))
    except Exception:  # noqa: BLE001 - such as a union with two equal branches
        return
    data_of_value = codec.encode(encoder(writer), data.draw(avro_cases.values(writer)), b"")
    answer = ask(data_of_value, writer=json.dumps(writer), reader=json.dumps(reader))
    if "Invalid default" in answer.get("error", ""):  # a union has lost the branch of its default
        return
    try:
        node = decoder(writer, reader)
    except UnresolvableError as error:  # Java refuses items of arrays and maps only when there is one
        assert "error" in answer or has_no_items(codec.decode(decoder(writer), data_of_value)), (str(error), answer)
        return
    try:
        ours = codec.decode(node, data_of_value)
    except codec.AvroMismatchError as error:
        if "error" not in answer:  # Java's string that was bytes keeps them, and may be no UTF-8
            with pytest.raises(codec.AvroMismatchError, match="is not UTF-8"):
                codec.decode(decoder(reader), answer["data"])
            assert "is not UTF-8" in str(error)
        return
    assert "error" not in answer, (answer, ours)
    assert comparable(codec.decode(decoder(reader), answer["data"])) == comparable(ours)


@RELAXED
@given(data=st.data())
def test_java_reads_our_protobuf(ask: Ask, data: st.DataObject) -> None:
    from kafkaraw.client.serializers import SerializationContext
    from kafkaraw.schemas.serializers.protobuf import ProtobufSerializer
    from tests.schemas.serializers.registries import FakeRegistry

    pool, file = data.draw(files())
    kind = data.draw(st.sampled_from(classes_of(pool, file.name)))
    value = fill(data.draw, kind)
    made = ProtobufSerializer(FakeRegistry(), kind)(value, SerializationContext("orders", "value", []))
    assert isinstance(made, bytes)
    frame = read_frame(made, with_indexes=True)
    text = base64.b64encode(file.SerializeToString()).decode()
    answer = ask(bytes(frame.payload), file=text, indexes=list(frame.message_indexes or ()))
    assert kind.FromString(answer.get("data", str(answer).encode())) == value

"""`python -m bench.schemas_registry`: versions registered under BACKWARD_TRANSITIVE, and the cost of cached look-ups.

Each version differs from all before it in the ninth field, and the registry compares it with all of them. Client, HTTP
server, registry and broker are in this process; the state is in the topic `_schemas`. The goals are of
wall-clock time; the CPU time of the whole process is beside it, for busy machines. Start at `registered` and `cached`.
"""

from __future__ import annotations

import json
import time
import timeit
from collections.abc import Callable
from typing import Final

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.report import WIDTH, Goal
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.schemas import CompatibilityLevel, EmbeddedRegistry, Registry, Schema, SchemaType

FIELDS: Final = ("id", "name", "quantity", "placed", "price", "city", "street", "paid")
REGISTER_GOAL: Final = Goal(30, 10, less_is_better=True, unit=" s")
_TURNS: Final = 20
LOOKUP_GOAL: Final = Goal(1, 0.5, less_is_better=True, unit=" µs")


def avro(number: int) -> Schema:
    """Return version `number`: eight fields and an optional one."""
    fields: list[object] = [{"name": name, "type": "string"} for name in FIELDS]
    fields.append({"name": f"extra{number}", "type": ["null", "string"], "default": None})
    return Schema(json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields}))


def json_schema(number: int) -> Schema:
    """Return version `number`: eight properties, and one whose texts may be a character longer than before."""
    properties: dict[str, object] = {name: {"type": "string"} for name in FIELDS}
    properties["extra"] = {"type": "string", "maxLength": 10 + number}
    return Schema(json.dumps({"type": "object", "title": "Order", "properties": properties}), SchemaType.JSON)


def protobuf(number: int) -> Schema:
    """Return version `number`: eight fields and one with a number of its own."""
    lines = [f"  string {name} = {index};" for index, name in enumerate(FIELDS, 1)]
    lines.append(f"  string extra{number} = {100 + number};")
    text = "\n".join(['syntax = "proto3";', "package shop;", "message Order {", *lines, "}"])
    return Schema(text, SchemaType.PROTOBUF)


LANGUAGES: Final[dict[str, Callable[[int], Schema]]] = {"Avro": avro, "Protobuf": protobuf, "JSON Schema": json_schema}


def registered(registry: Registry, language: str, versions: int) -> tuple[float, float]:
    """Return the seconds in which versions of one subject are registered, and those of CPU."""
    subject, made = f"{language}-value".replace(" ", ""), LANGUAGES[language]
    registry.set_compatibility(CompatibilityLevel.BACKWARD_TRANSITIVE, subject)
    began, began_cpu = time.perf_counter(), time.process_time()
    for number in range(versions):
        registry.register(subject, made(number))
    taken = time.perf_counter() - began, time.process_time() - began_cpu
    assert list(registry.versions(subject)) == list(range(1, versions + 1))
    return taken


def microseconds(call: Callable[[], object], count: int) -> float:
    """Return the microseconds of one call, in the best of 20 turns."""
    return min(timeit.repeat(call, number=count // _TURNS, repeat=_TURNS)) / (count // _TURNS) * 1e6


def cached(registry: Registry) -> dict[str, Callable[[], object]]:
    """Return look-ups that the client answers from its cache."""
    schema = avro(0)
    return {
        "cached look-up by id": lambda: registry.schema_by_id(1),
        "cached look-up of a version": lambda: registry.version("Avro-value", 1),
        "cached registration": lambda: registry.register("Avro-value", schema),
    }


@click.command()
@click.option("--versions", default=1_000, show_default=True, help="Versions of each subject.")
@click.option("--lookups", default=200_000, show_default=True, help="Look-ups of each kind.")
def main(versions: int, lookups: int) -> None:
    """Register versions of one subject, and look one of them up."""
    table = Table(box=SIMPLE, title=f"A registry on an embedded broker, {versions} versions, BACKWARD_TRANSITIVE")
    for heading in ("", "kafkaraw", "CPU", "must", "aim"):
        table.add_column(heading, justify="left" if not heading else "right")
    missed = False

    def row(name: str, got: float, goal: Goal, cpu: str = "") -> None:
        nonlocal missed
        missed |= goal.verdict(got) == "missed"
        table.add_row(name, f"{got:.2f}{goal.unit}", cpu, str(goal), f"<= {goal.aim:g}{goal.unit}")

    with (
        EmbeddedBroker() as broker,
        EmbeddedRegistry(broker.bootstrap_servers) as server,
        Registry(server.url) as client,
    ):
        for language in LANGUAGES:
            taken, cpu = registered(client, language, versions)
            row(f"{language}: register", taken, REGISTER_GOAL, f"{cpu:.2f} s")
        for name, call in cached(client).items():
            row(name, microseconds(call, lookups), LOOKUP_GOAL)
    Console(width=WIDTH).print(table)
    if missed:
        raise SystemExit("a number is beyond what it must be")


if __name__ == "__main__":
    main()

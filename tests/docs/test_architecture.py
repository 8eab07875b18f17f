"""The pictures of docs/architecture.md: they are what their script draws, and a record passes what they show."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from docs import draw_architecture as drawing
from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker

REMEDY = "run `python -m docs.draw_architecture` (or `make docs`)"
PAGE = drawing.ROOT / "docs" / "architecture.md"
TRACED = Path(__file__).with_name("traced_client.py")
MOST_MODULES = {"send": 17, "poll": 13}
TIMEOUT_S = 60
VERBS = {"receive", "actions", "deadline_ms", "tick"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("walks", 1, 1)])
        yield broker.bootstrap_servers


def traced(servers: str, walk: str) -> list[tuple[str, str]]:
    """(module, function) of each call and return in a client, while one record is sent or read.

    The compiled modules are not seen by Python's profiler, so the client runs with their twins in plain Python.
    """
    child = subprocess.Popen(
        [sys.executable, str(TRACED), servers, walk],
        env=os.environ | {"KAFKARAW_IMPL": "python"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            assert child.stdout is not None
            if walk == "poll" and child.stdout.readline():
                with Producer(bootstrap_servers=servers) as producer:
                    producer.send("walks", b"read", key=b"k").result(timeout=10)
            printed, complaints = child.communicate(timeout=TIMEOUT_S)
        finally:
            child.kill()
    assert child.returncode == 0, complaints
    return [(module, function) for module, function in json.loads(printed)]


def twin(module: str) -> str:
    """The plain form of a compiled module."""
    return re.sub(r"^records/_(?=[a-z])", "records/_fallback/", module)


def test_pictures_are_what_their_script_draws() -> None:
    assert drawing.LAYERS_PICTURE.read_text(encoding="utf-8") == drawing.draw_layers(), REMEDY
    assert drawing.WALKS_PICTURE.read_text(encoding="utf-8") == drawing.draw_walks(), REMEDY


def test_page_shows_both_pictures() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert shown == [drawing.LAYERS_PICTURE.name, drawing.WALKS_PICTURE.name]


def test_every_package_is_in_the_picture_and_in_the_table_of_the_page() -> None:
    exported = {
        path.stem for path in drawing.PACKAGE.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"
    }
    drawn = {box.name for box in drawing.boxes()}
    assert drawn == {name for name in exported if not name.startswith("_")} == set(drawing.PACKAGES)
    table = PAGE.read_text(encoding="utf-8").partition("## The layers")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == drawn


def test_every_import_of_the_picture_points_down() -> None:
    height = {name: number for number, row in enumerate(drawing.layers()) for name in row}
    wrong = [(name, other) for name, imported in drawing.imports().items() for other in imported]
    assert wrong
    assert [(name, other) for name, other in wrong if height[other] <= height[name]] == []


def test_boxes_do_not_overlap_and_hold_their_texts() -> None:
    for one, other in combinations(drawing.boxes(), 2):
        apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
        apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_x or apart_y, (one.name, other.name)
    for box in drawing.boxes():
        assert (len(box.lines) + 1) * drawing.LINE <= box.height, box.name
    for step in (*drawing.SEND, *drawing.POLL):
        assert len(drawing._wrapped(step.does, drawing.DOES_WIDE, drawing.TEXT_SIZE)) <= 2, step.does


@pytest.mark.parametrize("walk", ["send", "poll"])
def test_record_passes_the_functions_of_the_picture_in_their_order(servers: str, walk: str) -> None:
    steps = {"send": drawing.SEND, "poll": drawing.POLL}[walk]
    seen = traced(servers, walk)
    rest = iter(seen)
    for number, step in enumerate(steps, start=1):
        expected = (twin(step.module), step.function)
        assert expected in rest, f"step {number}, {step.module}: {step.function}, is not after step {number - 1}"
    assert len({step.module for step in steps}) <= MOST_MODULES[walk]


def test_each_file_of_the_table_is_in_its_layer() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The layers")[2].partition("\n## ")[0]
    missing = []
    for row in table.splitlines():
        if not row.startswith("| `"):
            continue
        _, names, _, starts, _ = row.split("|")
        folders = [drawing.PACKAGE, *(drawing.PACKAGE / name for name in re.findall(r"`(\w+)`", names))]
        starting = re.findall(r"`([^`]+)`", starts)
        missing += [path for path in starting if not any((folder / path).exists() for folder in folders)]
    assert missing == []


def test_each_machine_with_four_verbs_has_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## State machines") :]
    sentence = section[: section.index("have the same four verbs")]
    modules = re.findall(r"`([a-z_/]+\.py)`", sentence)
    assert len(modules) >= 4
    for module in modules:
        tree = ast.parse((drawing.PACKAGE / module).read_text(encoding="utf-8"))
        methods = [
            {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        ]
        assert any(names >= VERBS for names in methods), module

"""Runs tests on both implementations of the hot path, in one process.

`implementation` is to be imported by a conftest: every test below it runs once for each implementation that is here.
Modules of the records layer and of its tests hold names of the one that was chosen at import; for the time of a test
module they are given the other's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from kafkaraw.records import _implementation

NAMES = {
    "_builder": ("BatchBuilder", "as_bytes", "encode_headers"),
    "_ticket": ("Outcome", "Ticket"),
    "_batch_table": ("BatchTable", "SendFastPath", "TopicBatches"),
    "_reader": ("Record", "read_acquired", "read_batches", "read_records", "read_values"),
    "_filling": ("fill", "fill_batches"),
    "_rows": ("Rows",),
    "_dumping": ("render_records",),
    "_compaction": ("OffsetMap",),
}
PLAIN_NAMES = {
    "_fallback.builder": ("BatchBuilder", "as_bytes", "encode_headers"),
    "_fallback.batch_table": ("BatchTable", "SendFastPath", "TopicBatches"),
    "_fallback.ticket": ("Outcome", "Ticket"),
    "_fallback.reader": ("read_acquired", "read_batches", "read_records", "read_values", "fill", "fill_batches"),
    "_fallback.rows": ("Rows",),
    "_fallback.dumping": ("render_records",),
    "_fallback.compaction": ("OffsetMap",),
    "record": ("Record",),
}
IMPLEMENTATIONS = (
    "python",
    *(["native"] if _implementation.IMPLEMENTATION == "native" else []),
)
PATCHED = ("kafkaraw.records", "kafkaraw.core", "tests.records", "tests.property")


def things_of(implementation: str) -> dict[str, object]:
    """What the implementation offers, by name."""
    modules = PLAIN_NAMES if implementation == "python" else NAMES
    return {
        name: getattr(import_module(f"kafkaraw.records.{module}"), name)
        for module, names in modules.items()
        for name in names
    }


def _modules() -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if module is not None and name.startswith(PATCHED)]


@pytest.fixture(params=IMPLEMENTATIONS, scope="module", autouse=True)
def implementation(request: pytest.FixtureRequest) -> Iterator[str]:
    """The implementation that runs: "python" or "native"."""
    wanted = things_of(request.param)
    others = {id(thing): name for one in IMPLEMENTATIONS for name, thing in things_of(one).items()}
    own = {"kafkaraw.records._fallback", *(f"kafkaraw.records.{module}" for module in NAMES)}
    with pytest.MonkeyPatch.context() as patch:
        for module in {*_modules(), request.module}:
            if module.__name__ in own or module.__name__.startswith("kafkaraw.records._fallback."):
                continue
            for attribute, value in list(vars(module).items()):
                name = others.get(id(value))
                if name is not None:
                    patch.setattr(module, attribute, wanted[name])
        yield request.param

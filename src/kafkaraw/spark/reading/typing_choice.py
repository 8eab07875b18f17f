"""The choice between bytes and typed columns: what only typed columns need is imported only for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.spark.reading.typed_columns import Decoding, TypedColumns


@contextmanager
def typing_for(decoding: Decoding | None, topic: str, partition: int) -> Iterator[TypedColumns | None]:
    """Return the decoder of a partition's columns, with a registry of this process; None if all are bytes."""
    if decoding is None:
        yield None
        return
    from kafkaraw.spark.reading.typed_columns import TypedColumns, registries

    with registries.borrow(decoding.registry) as registry:
        yield TypedColumns(decoding, registry, topic, partition)

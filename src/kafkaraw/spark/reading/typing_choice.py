"""The choice between bytes and typed columns: what only typed columns need is imported only for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.ranges.rows import Typing
    from kafkaraw.spark.reading.json_values import JsonValues
    from kafkaraw.spark.reading.typed_columns import Decoding


@contextmanager
def typing_for(decoding: Decoding | JsonValues | None) -> Iterator[Typing | None]:
    """Return the decoder of the columns, the same for all partitions; None for bytes.

    If it needs a registry, that is one of this process.
    """
    if decoding is None:
        yield None
        return
    from kafkaraw.spark.reading.json_values import JsonValues

    if isinstance(decoding, JsonValues):
        yield decoding.decoder()
        return
    from kafkaraw.spark.reading.typed_columns import TypedColumns, registries

    with registries.borrow(decoding.registry) as registry:
        yield TypedColumns(decoding, registry)

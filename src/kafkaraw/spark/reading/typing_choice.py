"""The choice between bytes and typed columns: what only typed columns need is imported only for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.spark.reading.arrow import Typing
    from kafkaraw.spark.reading.json_values import JsonValues
    from kafkaraw.spark.reading.typed_columns import Decoding


@contextmanager
def typing_for(decoding: Decoding | JsonValues | None) -> Iterator[Callable[[str, int], Typing] | None]:
    """Return what makes the decoder of a partition's columns, by topic and partition; None for bytes.

    If a decoder needs a registry, it is one of this process. Partitions may share a decoder.
    """
    if decoding is None:
        yield None
        return
    from kafkaraw.spark.reading.json_values import JsonValues

    if isinstance(decoding, JsonValues):
        decoder = decoding.decoder()
        yield lambda topic, partition: decoder
        return
    from kafkaraw.spark.reading.typed_columns import TypedColumns, registries

    with registries.borrow(decoding.registry) as registry:
        yield cache(lambda topic, partition: TypedColumns(decoding, registry, topic, partition))

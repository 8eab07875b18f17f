"""Brokers that tell clients who led a while ago, as Kafka's do until they have heard of a change.

Only Metadata answers are old: what a broker does itself, it knows. The brokers here share one copy of the facts, so a
copy of a copy has to be made for the one that is to lag.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from kafkaraw.broker.handlers.registration import load_handlers
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Catalog

METADATA_KEY = 3


class OldNews:
    """Which brokers have not heard of what has changed."""

    def __init__(self) -> None:
        self._catalogs: dict[BrokerState, Catalog] = {}

    def tell(self, state: BrokerState) -> Callable[[], None]:
        """Have a broker tell what is known now, until the returned function is called."""
        if state in self._catalogs:
            return lambda: None
        self._catalogs[state] = copy.deepcopy(state.catalog)
        return lambda: self._catalogs.pop(state, None)

    @contextmanager
    def in_effect(self) -> Iterator[None]:
        """While this lasts, brokers answer so."""
        handle = load_handlers()[METADATA_KEY]

        def handle_as_known(state, context, request):
            catalog = self._catalogs.get(state)
            if catalog is not None:
                state, request = copy.copy(state), replace(request, allow_auto_topic_creation=False)
                state.controller = copy.copy(state.controller)
                state.controller.catalog = catalog
            return handle(state, context, request)

        load_handlers()[METADATA_KEY] = handle_as_known
        try:
            yield
        finally:
            load_handlers()[METADATA_KEY] = handle

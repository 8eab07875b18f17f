"""All scenarios."""

from __future__ import annotations

from tests.interop.connectors import batches, losses, options, sinks, streams

SCENARIOS = (*options.SCENARIOS, *batches.SCENARIOS, *streams.SCENARIOS, *losses.SCENARIOS, *sinks.SCENARIOS)

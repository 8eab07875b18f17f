"""Every test of the records layer runs on both implementations."""

from __future__ import annotations

from tests.records.twins import implementation

__all__ = ["implementation"]

"""A plugin for pytest: every event loop is one of uvloop's, those of embedded brokers and blocking clients included.

.venv/bin/python -m pytest -p tests.on_uvloop tests/net tests/client/test_against_embedded_broker.py
"""

from __future__ import annotations

import asyncio

import uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

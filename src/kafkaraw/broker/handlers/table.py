"""The handlers of all APIs: this module imports every file of the package, and each registers its API by `@handles`.

Each API is one file, and no other list of APIs exists. Start at `registration.handles`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

from kafkaraw.broker import handlers
from kafkaraw.broker.handlers.chunked_requests import in_chunks
from kafkaraw.broker.handlers.registration import REGISTERED, AnyHandler

for _module in pkgutil.iter_modules(handlers.__path__, f"{handlers.__name__}."):
    importlib.import_module(_module.name)

HANDLERS: Final[dict[int, AnyHandler]] = {
    key: in_chunks(served.api.name, served.handle, served.divided) if served.divided else served.handle
    for key, served in sorted(REGISTERED.items())
}
"""API key -> handler, wrapped by its authorization, called with parts of a large request.

Each handler takes the request class of its API.
"""

"""A web site of this repository's documentation, which sends each page view to Kafka, and browsers that visit it.

A cookie identifies each visitor. Start at `Site` and `visit`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LOAD_TIMEOUT_S = 60
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)[^)]*\)")


def find_browser() -> str | None:
    """Return the path of a browser that runs without a screen; None if there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def page_of(text: str) -> bytes:
    """Return a page of the documentation as HTML, with its links."""
    body = _LINK.sub(lambda link: f'<a href="{link[2]}">{link[1]}</a>', escape(text, quote=False))
    return f"<!doctype html><meta charset=utf-8><link rel=icon href='data:,'><pre>{body}</pre>".encode()


class Site:
    """The site.

    Args:
        send: gets the JSON of each view.
    """

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self.views: list[dict[str, Any]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Write nothing."""

        self._send = send
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request, and send the view."""
        cookie = SimpleCookie(request.headers.get("Cookie", "")).get("visitor")
        visitor = cookie.value if cookie is not None else uuid.uuid4().hex
        file = (DOCS / request.path.lstrip("/")).resolve()
        found = file.suffix == ".md" and file.is_relative_to(DOCS) and file.is_file()
        content = page_of(file.read_text(encoding="utf-8")) if found else b"There is no such page."
        self._view(request, visitor, 200 if found else 404)
        request.send_response(200 if found else 404)
        request.send_header("Content-Type", "text/html; charset=utf-8")
        request.send_header("Content-Length", str(len(content)))
        request.send_header("Set-Cookie", f"visitor={visitor}; Max-Age=86400")
        request.end_headers()
        request.wfile.write(content)

    def _view(self, request: BaseHTTPRequestHandler, visitor: str, status: int) -> None:
        view = {
            "visitor": visitor,
            "page": request.path,
            "referrer": request.headers.get("Referer"),
            "agent": request.headers.get("User-Agent", ""),
            "status": status,
        }
        with self._lock:
            view["at"] = datetime.now(UTC).isoformat()
            self.views.append(view)
            self._send(json.dumps(view).encode())

    def close(self) -> None:
        """Stop the site."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def visit(browser: str, profile: Path, address: str) -> str:
    """Open a page in a browser with a profile, whose cookies stay; return its document."""
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
    done = subprocess.run(
        [browser, *arguments, "--dump-dom", address], capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=True
    )
    return done.stdout

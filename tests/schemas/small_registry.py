"""A registry of subjects and versions over HTTP, in memory: as much of Confluent's API as readers and writers call."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

USER = "ada:Sesam-5-registry"


class SmallRegistry:
    """Serves until `close`; `asked` has the paths of all requests."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.reply(None)

            def do_POST(self) -> None:
                self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def reply(self, body: Any) -> None:
                path = unquote(urlsplit(self.path).path)
                registry.asked.append(path)
                status, content = registry.answer(path.strip("/").split("/"), body)
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """Register a schema; return its id."""
        given = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if given not in self.schemas:
            self.schemas.append(given)
        number = self.schemas.index(given) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, path: list[str], body: Any) -> tuple[int, Any]:
        match path:
            case ["schemas", "ids", number]:
                if not 1 <= int(number) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, self.schemas[int(number) - 1]
            case ["subjects", subject, "versions"] if body is not None:
                return 200, {"id": self.register(subject, body["schema"])}
            case ["subjects", subject, *rest] if subject not in self.subjects and rest:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case ["subjects", subject, "versions", "latest"]:
                return 200, self._version(subject, len(self.subjects[subject]))
            case ["subjects", subject, "versions", version] if int(version) <= len(self.subjects[subject]):
                return 200, self._version(subject, int(version))
            case ["subjects", subject] if body is not None:
                number = next((at for at, each in enumerate(self.schemas, 1) if each["schema"] == body["schema"]), 0)
                if number in self.subjects.get(subject, []):
                    return 200, self._version(subject, self.subjects[subject].index(number) + 1)
                return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 40402, "message": f"Version {path[-1]} not found."}

    def _version(self, subject: str, version: int) -> dict[str, Any]:
        number = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": number, **self.schemas[number - 1]}

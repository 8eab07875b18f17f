"""The part of S3's HTTP interface that reads need, over a folder: ListObjectsV2, HEAD, and GET of ranges.

Signatures are not verified. `Handler` is made with the folder that has the buckets.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, *arguments: Any) -> None:
        self._folder = folder
        super().__init__(*arguments)

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if "list-type" in query:
            return self._list(bucket, query["prefix"][0] if "prefix" in query else "", "delimiter" in query)
        return self._send_object(self._folder / bucket / key, body=True)

    def do_HEAD(self) -> None:
        self._send_object(self._folder / unquote(urlsplit(self.path).path).lstrip("/"), body=False)

    def _send_object(self, path: Path, *, body: bool) -> None:
        if not path.is_file():
            return self._send(HTTPStatus.NOT_FOUND, b"", "application/xml")
        content = path.read_bytes()
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked is None:
            return self._send(HTTPStatus.OK, content, "application/octet-stream", body=body)
        part = content[int(asked[1]) : int(asked[2]) + 1]
        where = f"bytes {asked[1]}-{int(asked[1]) + len(part) - 1}/{len(content)}"
        return self._send(HTTPStatus.PARTIAL_CONTENT, part, "application/octet-stream", body=body, where=where)

    def _list(self, bucket: str, prefix: str, by_folder: bool) -> None:
        root = self._folder / bucket
        keys = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        keys = [key for key in keys if key.startswith(prefix)]
        folders: set[str] = set()
        if by_folder:
            folders = {prefix + key[len(prefix) :].split("/")[0] + "/" for key in keys if "/" in key[len(prefix) :]}
            keys = [key for key in keys if "/" not in key[len(prefix) :]]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-23T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;0&quot;</ETag><Size>{(root / key).stat().st_size}</Size></Contents>"
            for key in keys
        )
        rows += "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys) + len(folders)}</KeyCount>"
            f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        )
        self._send(HTTPStatus.OK, text.encode(), "application/xml")

    def _send(self, status: HTTPStatus, content: bytes, kind: str, *, body: bool = True, where: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", "Mon, 23 Nov 2026 00:00:00 GMT")
        self.send_header("ETag", '"0"')
        if where:
            self.send_header("Content-Range", where)
        self.end_headers()
        if body:
            self.wfile.write(content)

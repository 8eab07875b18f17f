"""Which addresses a configuration may have tokens fetched from (CVE-2025-27817 read files and internal hosts).

Only https, and http to this machine when it is asked for by name; no other scheme, no user name inside. With an
allow-list only what stands in it, letter by letter, as with Kafka's org.apache.kafka.sasl.oauthbearer.allowed.urls;
what is listed may be plain http, too.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine: `localhost` and names below it, 127.0.0.0/8, ::1."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def url_fault(url: str, allowed: Sequence[str]) -> str:
    """Why tokens may not be fetched from there; an empty string when they may."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in ("https", "http") or not host:
        return "it must begin with https:// and name a host"
    if parts.username is not None or parts.password is not None:
        return "a user name or password inside a URL ends up in logs: use the client id and secret"
    if allowed:
        return "" if url in allowed else "it is not in sasl_oauthbearer_allowed_urls"
    if parts.scheme == "http" and not is_loopback(host):
        return "the client's secret would travel in the clear: use https, or list it in sasl_oauthbearer_allowed_urls"
    return ""

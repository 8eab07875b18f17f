"""TLS contexts: where a private key is while Python loads it."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile

import pytest
import trustme

from kafkaraw.errors import ConfigError
from kafkaraw.net.tls import server_context


def issued() -> tuple[str, str]:
    """A certificate and its key, as PEM text."""
    made = trustme.CA().issue_cert("localhost")
    return made.cert_chain_pems[0].bytes().decode(), made.private_key_pem.bytes().decode()


def files_in_memory() -> list[str]:
    """Return the links of this process's open files in memory that keys are loaded from."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of listdir itself, or one of another thread
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [name for name in names if name.partition(" ")[0] == "/memfd:kafkaraw"]  # brokers have others


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the system has no files in memory")
def test_a_private_key_is_on_no_disk_while_it_is_loaded(monkeypatch: pytest.MonkeyPatch):
    def no_file(*_: object, **__: object) -> None:
        raise AssertionError("a temporary file was made")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", no_file)
    certificate, key = issued()
    assert isinstance(
        server_context(certificate=certificate, key=key, client_auth="none"),
        ssl.SSLContext,
    )
    with pytest.raises(ConfigError, match="cannot be used"):
        server_context(certificate=certificate, key=issued()[1], client_auth="none")
    assert not files_in_memory()


def test_a_system_without_files_in_memory_gets_a_temporary_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    certificate, key = issued()
    assert isinstance(
        server_context(certificate=certificate, key=key, client_auth="none"),
        ssl.SSLContext,
    )

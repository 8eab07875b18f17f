"""TLS of captured connections, decrypted with the session keys that either end has logged (`SSLKEYLOGFILE`).

TLS 1.2 and 1.3 with AES-GCM and ChaCha20-Poly1305; the package `cryptography` has the ciphers. A session is followed
from its ClientHello. With a hole, or without its keys, the rest of a direction stays encrypted. Start at `TlsSession`;
`KeyLog` reads the keys.

Source: RFC 8446, RFC 5246, RFC 7905; the key log's format is that of NSS (draft-ietf-tls-keylogfile).
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from enum import Enum
from typing import Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import NamedTuple, dataclass, field

RECORD_HEAD: Final = struct.Struct(">BHH")
RECORD_SIZE_MAX: Final = (1 << 14) + 2048
CHANGE_CIPHER, HANDSHAKE, APPLICATION = 20, 22, 23
CLIENT_HELLO, SERVER_HELLO, KEY_UPDATE = 1, 2, 24
SUPPORTED_VERSIONS: Final = 43
TLS_1_3: Final = 0x0304
RETRY: Final = hashlib.sha256(b"HelloRetryRequest").digest()
KEY_LOG_BYTES_MAX: Final = 64 << 20


class _Suite(NamedTuple):
    cipher: str
    key_size: int
    digest: str


_GCM_128, _GCM_256, _CHACHA = (
    _Suite("AESGCM", 16, "sha256"),
    _Suite("AESGCM", 32, "sha384"),
    _Suite("ChaCha20Poly1305", 32, "sha256"),
)
SUITES: Final = {
    0x1301: _GCM_128,
    0x1302: _GCM_256,
    0x1303: _CHACHA,
    **dict.fromkeys((0x009C, 0x009E, 0xC02B, 0xC02F), _GCM_128),
    **dict.fromkeys((0x009D, 0x009F, 0xC02C, 0xC030), _GCM_256),
    **dict.fromkeys((0xCCA8, 0xCCA9, 0xCCAA), _CHACHA),
}


class KeyLog:
    """Secrets of TLS sessions.

    Args:
        text: lines of LABEL, client random and secret, the last two in hex.
    """

    def __init__(self, text: bytes = b"") -> None:
        self._secrets: dict[tuple[str, bytes], bytes] = {}
        self.add(text)

    def add(self, text: bytes) -> None:
        """Take more lines; those that are not in the format are comments."""
        for line in text[:KEY_LOG_BYTES_MAX].splitlines():
            words = line.split()
            if len(words) == 3 and not line.startswith(b"#"):
                try:
                    key = words[0].decode("ascii"), bytes.fromhex(words[1].decode("ascii"))
                    self._secrets[key] = bytes.fromhex(words[2].decode("ascii"))
                except ValueError:
                    continue

    def secret(self, label: str, client_random: bytes) -> bytes | None:
        """Return a secret; None if it was not logged."""
        return self._secrets.get((label, client_random))

    def __bool__(self) -> bool:
        return bool(self._secrets)


class _Phase(Enum):
    PLAIN = "before encryption"
    HANDSHAKE = "keys of the handshake"
    APPLICATION = "keys of the application"
    LOST = "not decrypted"


@dataclass(slots=True, eq=False)
class _Keys:
    """The keys of a direction, with the number of the next record."""

    cipher: Any
    iv: bytes
    is_1_3: bool
    number: int = 0

    def opened(self, head: bytes, data: bytes) -> tuple[int, bytes] | None:
        """Return the content type and the content of a record; None if these are not its keys."""
        from cryptography.exceptions import InvalidTag

        kind = head[0]
        number = self.number.to_bytes(8)
        if self.is_1_3 or len(self.iv) == 12:
            nonce = bytes(a ^ b for a, b in zip(self.iv, number.rjust(12, b"\0"), strict=True))
        else:
            nonce, data = self.iv + data[:8], data[8:]
        more = head if self.is_1_3 else number + head[:3] + max(len(data) - 16, 0).to_bytes(2)
        try:
            content: bytes = self.cipher.decrypt(nonce, data, more)
        except (InvalidTag, ValueError):
            return None
        self.number += 1
        if self.is_1_3:
            content = content.rstrip(b"\0")
            kind, content = (content[-1], content[:-1]) if content else (0, b"")
        return kind, content


@dataclass(slots=True, eq=False)
class _Side:
    name: str
    buffer: bytearray = field(default_factory=bytearray)
    phase: _Phase = _Phase.PLAIN
    keys: _Keys | None = None
    secret: bytes = b""

    @property
    def is_lost(self) -> bool:
        """Whether the rest stays encrypted."""
        return self.phase is _Phase.LOST


class TlsSession:
    """One TLS connection.

    Args:
        key_log: the secrets; it may grow while the session is read.

    Attributes:
        problem: why it is not decrypted, in words; empty while it is.
    """

    def __init__(self, key_log: KeyLog) -> None:
        self.problem: str = ""
        self._key_log = key_log
        self._sides = {True: _Side("CLIENT"), False: _Side("SERVER")}
        self._client_random = b""
        self._server_random = b""
        self._suite: _Suite | None = None
        self._is_1_3 = False

    def feed(self, from_client: bool, data: bytes) -> bytes:
        """Take bytes of a direction; return what they say, as far as it is application data."""
        side = self._sides[from_client]
        if side.is_lost:
            return b""
        side.buffer += data
        out = bytearray()
        while len(side.buffer) >= RECORD_HEAD.size and not side.is_lost:
            kind, version, size = RECORD_HEAD.unpack_from(side.buffer)
            if not CHANGE_CIPHER <= kind <= APPLICATION + 1 or version >> 8 != 3 or size > RECORD_SIZE_MAX:
                self._lose(side, "its records cannot be read")
                break
            end = RECORD_HEAD.size + size
            if len(side.buffer) < end:
                break
            record = bytes(side.buffer[:end])
            del side.buffer[:end]
            out += self._record(side, kind, record)
        return bytes(out)

    def hole(self, from_client: bool) -> None:
        """Pass over bytes that the capture does not have: the rest of the direction cannot be decrypted."""
        self._lose(self._sides[from_client], "the capture does not have all of its bytes")

    def _lose(self, side: _Side, why: str) -> None:
        side.phase = _Phase.LOST
        side.buffer.clear()
        self.problem = self.problem or why

    def _record(self, side: _Side, kind: int, record: bytes) -> bytes:
        content = record[RECORD_HEAD.size :]
        if kind == CHANGE_CIPHER:
            if not self._is_1_3 and side.phase is _Phase.PLAIN:
                self._start_1_2(side)
            return b""
        if side.phase is _Phase.PLAIN:
            if kind == HANDSHAKE:
                self._hello(side, content)
                return b""
            if kind != APPLICATION or not self._is_1_3:
                return b""
            self._start(side, _Phase.HANDSHAKE, f"{side.name}_HANDSHAKE_TRAFFIC_SECRET")
        opened = self._opened(side, record)
        if opened is None:
            return b""
        kind, content = opened
        if self._is_1_3 and kind == HANDSHAKE and content[:1] == bytes([KEY_UPDATE]):
            side.secret = self._expanded(side.secret, "traffic upd", len(side.secret))
            side.keys = self._keys(side.secret)
        return content if kind == APPLICATION else b""

    def _opened(self, side: _Side, record: bytes) -> tuple[int, bytes] | None:
        head, data = record[: RECORD_HEAD.size], record[RECORD_HEAD.size :]
        opened = side.keys.opened(head, data) if side.keys is not None else None
        if opened is None and side.phase is _Phase.HANDSHAKE:
            self._start(side, _Phase.APPLICATION, f"{side.name}_TRAFFIC_SECRET_0")
            opened = side.keys.opened(head, data) if side.keys is not None else None
        if opened is None and not side.is_lost:
            self._lose(side, "the key log has no key that fits")
        return opened

    def _hello(self, side: _Side, content: bytes) -> None:
        """Take the randoms, the version and the cipher suite from the hellos."""
        if len(content) < 39:
            return
        random = content[6:38]
        if content[0] == CLIENT_HELLO:
            self._client_random = random
        elif content[0] == SERVER_HELLO and random != RETRY:
            self._server_random = random
            at = 39 + content[38]
            (number,) = struct.unpack_from(">H", content.ljust(at + 5, b"\0"), at)
            self._is_1_3 = _chosen_version(content, at + 3) == TLS_1_3
            self._suite = SUITES.get(number)
            if self._suite is None:
                for one in self._sides.values():
                    self._lose(one, f"its cipher suite {number:#06x} is not known here")

    def _start(self, side: _Side, phase: _Phase, label: str) -> None:
        secret = self._key_log.secret(label, self._client_random)
        side.phase = phase
        if secret is None or self._suite is None:
            if phase is _Phase.APPLICATION:
                self._lose(side, "the key log does not have its keys")
            side.keys = None
            return
        side.secret = secret
        side.keys = self._keys(secret)

    def _keys(self, secret: bytes) -> _Keys:
        assert self._suite is not None
        key = self._expanded(secret, "key", self._suite.key_size)
        return _Keys(_cipher(self._suite, key), self._expanded(secret, "iv", 12), is_1_3=True)

    def _expanded(self, secret: bytes, label: str, size: int) -> bytes:
        """HKDF-Expand-Label of RFC 8446, without a context."""
        assert self._suite is not None
        name = b"tls13 " + label.encode()
        info = size.to_bytes(2) + bytes([len(name)]) + name + b"\0"
        out, block, number = b"", b"", 1
        while len(out) < size:
            block = hmac.digest(secret, block + info + bytes([number]), self._suite.digest)
            out, number = out + block, number + 1
        return out[:size]

    def _start_1_2(self, side: _Side) -> None:
        master = self._key_log.secret("CLIENT_RANDOM", self._client_random)
        if master is None or self._suite is None:
            self._lose(side, "the key log does not have its keys")
            return
        size, iv_size = self._suite.key_size, 12 if self._suite is _CHACHA else 4
        seed = b"key expansion" + self._server_random + self._client_random
        block, last = b"", seed
        while len(block) < 2 * (size + iv_size):
            last = hmac.digest(master, last, self._suite.digest)
            block += hmac.digest(master, last + seed, self._suite.digest)
        number = 0 if side.name == "CLIENT" else 1
        key = block[number * size : (number + 1) * size]
        iv = block[2 * size + number * iv_size : 2 * size + (number + 1) * iv_size]
        side.keys = _Keys(_cipher(self._suite, key), iv, is_1_3=False)
        side.phase = _Phase.APPLICATION


def _chosen_version(hello: bytes, at: int) -> int:
    """Return the version of the extension of a ServerHello; 0 without one."""
    at += 2
    while at + 4 <= len(hello):
        kind, size = struct.unpack_from(">HH", hello, at)
        if kind == SUPPORTED_VERSIONS and size == 2:
            return int.from_bytes(hello[at + 4 : at + 6])
        at += 4 + size
    return 0


def _cipher(suite: _Suite, key: bytes) -> Any:  # noqa: ANN401 - of cryptography, which is imported late
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        raise UsageError("decrypting TLS needs the package cryptography: pip install 'kafkaraw[wire]'") from None
    return getattr(aead, suite.cipher)(key)

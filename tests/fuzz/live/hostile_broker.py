"""A broker that answers wrongly: a proxy in front of a real one, which spoils some answers on their way.

The real broker advertises the proxy's address, so a client comes back to it whatever it looks up. One coroutine of
`MISCHIEFS` decides what becomes of an answer; a new one is one function and one line. Everything is on 127.0.0.1.
Start at `HostileBroker`.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafkaraw.errors import ProtocolError
from kafkaraw.net.listener import stop_accepting
from kafkaraw.protocol import ResponseHeader, decode_response, encode_response
from kafkaraw.protocol.apis import API_BY_KEY, Api
from kafkaraw.protocol.declare import ArrayOf, StructOf, spec_of
from kafkaraw.protocol.types import RECORDS
from tests.fuzz.live.broker_attacks import GREETINGS
from tests.fuzz.live.hostile_values import Hostile, encoded, old_bomb
from tests.fuzz.live.wire import SIZE, framed

HOST = "127.0.0.1"
FLOOD_BYTES = 200 << 20
ODD_HOSTS = ("", "\0", "a" * 250, "a..b", f"{'b' * 64}.invalid.", "127.0.0.1\n", "[::1", "256.256.256.256.")
CODES = (-1, 1, 2, 3, 5, 6, 7, 10, 14, 15, 16, 22, 25, 27, 29, 35, 41, 47, 51, 58, 74, 89, 100, 110, 999, -32768)
READ_BYTES = 1 << 16
HELD_S = 30.0


@dataclass
class Answer:
    """An answer on its way to the client.

    Attributes:
        frame: its bytes, without size.
        api, version: of the request.
        correlation_id: of the request.
        number: how many answers the connection had before.
        write: sends bytes to the client.
        close: ends the connection; with a reset if asked to.
    """

    frame: bytes
    api: Api
    version: int
    correlation_id: int
    number: int
    write: Callable[[bytes], Awaitable[None]]
    close: Callable[[bool], None]

    async def deliver(self, frame: bytes | None = None) -> None:
        """Send the frame, or another one, as it should be."""
        await self.write(framed(self.frame if frame is None else frame))

    def message(self) -> Any:
        """The answer, decoded; None when it cannot be."""
        with suppress(ProtocolError):
            return decode_response(self.frame, self.api.key, self.version)[1]
        return None

    async def deliver_message(self, message: Any) -> None:
        """Send another message in its place; the answer itself when that cannot be written."""
        header = ResponseHeader(self.correlation_id)
        await self.deliver(encoded(message, lambda one: encode_response(header, one, self.version)) or self.frame)


@dataclass
class Mischief:
    """What the current round does to answers.

    Attributes:
        name: of the function in `MISCHIEFS`.
        rng: decides everything.
        share: of the answers that are spoiled.
        spared: so many answers of each connection are left alone first.
        silent: the address of a listener that never answers.
        held: an answer that was kept back.
    """

    name: str
    rng: random.Random
    share: float
    spared: int
    silent: tuple[str, int]
    hostile: Hostile = field(init=False)
    held: bytes | None = None

    def __post_init__(self) -> None:
        self.hostile = Hostile(self.rng, size_max_bytes=1 << 20)

    @classmethod
    def of(cls, name: str, seed: int, silent: tuple[str, int]) -> Mischief:
        rng = random.Random(f"{name} {seed}")
        return cls(name, rng, rng.choice((0.3, 1.0)), rng.choice((0, 1, 2, 4, 8)), silent)

    async def treat(self, answer: Answer) -> None:
        """Deliver the answer, or do to it what the round does."""
        if answer.number < self.spared or self.rng.random() >= self.share:
            await answer.deliver()
        else:
            await MISCHIEFS[self.name](self, answer)


async def nothing(mischief: Mischief, answer: Answer) -> None:
    """Leave the answer as it is."""
    await answer.deliver()


async def sizes(mischief: Mischief, answer: Answer) -> None:
    """Announce another size than comes."""
    right = len(answer.frame)
    size = mischief.rng.choice((0, 1, 3, -1, -(2**31), 2**31 - 1, 300 << 20, right - 1, right + 1, right + 100))
    await answer.write(SIZE.pack(size) + answer.frame)


async def correlation_ids(mischief: Mischief, answer: Answer) -> None:
    """Answer another request than was asked."""
    other = mischief.rng.choice((answer.correlation_id + 1, answer.correlation_id - 1, 0, -1, 2**31 - 1))
    await answer.deliver(struct.pack(">i", max(-(2**31), min(other, 2**31 - 1))) + answer.frame[4:])


async def other_versions(mischief: Mischief, answer: Answer) -> None:
    """Answer in another version, or with other ranges of versions."""
    message = answer.message()
    if answer.api.name == "ApiVersions" and message is not None:
        for one in message.api_keys:
            if mischief.rng.random() < 0.3:
                one.min_version, one.max_version = mischief.rng.choice(
                    ((-1, -1), (5, 2), (0, 0), (30_000, 32_767), (-5, 99))
                )
        del message.api_keys[mischief.rng.randrange(len(message.api_keys) + 1) :]
        await answer.deliver_message(message)
        return
    versions = answer.api.versions
    header = ResponseHeader(answer.correlation_id)
    version = mischief.rng.randint(versions.min, versions.max)
    await answer.deliver(encoded(message, lambda one: encode_response(header, one, version)) if message else None)


async def mutated_fields(mischief: Mischief, answer: Answer) -> None:
    """Hostile values in place of some."""
    message = answer.message()
    if message is None:
        await answer.deliver()
        return
    mischief.hostile.mutate(message, answer.version, mischief.rng.choice((1, 1, 2, 5)))
    for owner in _structures(message):
        for name in ("host", "v0_host"):  # nothing beyond this machine is looked up or dialled
            if getattr(owner, name, None):
                setattr(owner, name, mischief.rng.choice((HOST, HOST, *ODD_HOSTS)))
    await answer.deliver_message(message)


def _structures(message: Any) -> list[Any]:
    found = [message]
    for one in spec_of(type(message)).fields:
        value = getattr(message, one.name)
        if isinstance(one.kind, StructOf) and value is not None:
            found += _structures(value)
        elif isinstance(one.kind, ArrayOf) and isinstance(one.kind.element, StructOf) and value:
            for element in value[:1] if value[0] is value[-1] else value:
                found += _structures(element)
    return found


async def spoiled_bytes(mischief: Mischief, answer: Answer) -> None:
    """Bytes of the answer changed, cut off or added."""
    await answer.deliver(answer.frame[:4] + mischief.hostile.spoiled(answer.frame[4:]))


async def error_codes(mischief: Mischief, answer: Answer) -> None:
    """Error codes, known and unknown ones, where there were none."""
    message = answer.message()
    if message is None:
        await answer.deliver()
        return
    for owner in _structures(message):
        if hasattr(owner, "error_code") and mischief.rng.random() < 0.6:
            owner.error_code = mischief.rng.choice(CODES)
    await answer.deliver_message(message)


async def rich_answers(mischief: Mischief, answer: Answer) -> None:
    """One element of an array, as often as fits into some megabytes."""
    message = answer.message()
    arrays = [
        (owner, one.name)
        for owner in _structures(message or ())
        for one in spec_of(type(owner)).fields
        if isinstance(one.kind, ArrayOf) and getattr(owner, one.name)
    ] if message else []  # fmt: skip
    if arrays:
        owner, name = mischief.rng.choice(arrays)
        setattr(owner, name, [getattr(owner, name)[0]] * mischief.rng.choice((1_000, 50_000)))
        await answer.deliver_message(message)
    else:
        await answer.deliver()


async def _other_records(mischief: Mischief, answer: Answer, make: Callable[[], bytes]) -> None:
    message = answer.message()
    if answer.api.name == "Fetch" and message is not None:
        for owner in _structures(message):
            if any(one.kind is RECORDS for one in spec_of(type(owner)).fields):
                owner.records = make()
        await answer.deliver_message(message)
    else:
        await answer.deliver()


async def damaged_batches(mischief: Mischief, answer: Answer) -> None:
    """Record batches that are damaged, claim too many records, or are no batches."""
    hostile, rng = mischief.hostile, mischief.rng
    await _other_records(
        mischief,
        answer,
        lambda: rng.choice((hostile.damaged_batch, hostile.damaged_batch, hostile.claims, lambda: rng.randbytes(99)))(),
    )


async def bombs(mischief: Mischief, answer: Answer) -> None:
    """Record batches that decompress to very much, of today's format and of the old ones."""
    hostile, rng = mischief.hostile, mischief.rng
    await _other_records(mischief, answer, lambda: old_bomb() if rng.random() < 0.5 else hostile.bomb(64 << 20))


async def half_answers(mischief: Mischief, answer: Answer) -> None:
    """A part of the answer, and then nothing, or the end."""
    whole = framed(answer.frame)
    await answer.write(whole[: mischief.rng.randrange(len(whole))])
    if mischief.rng.random() < 0.5:
        answer.close(mischief.rng.random() < 0.5)
    else:
        await asyncio.sleep(HELD_S)


async def trickles(mischief: Mischief, answer: Answer) -> None:
    """The answer byte by byte, and where it is large, without ever ending."""
    for at in range(len(framed(answer.frame))):
        await answer.write(framed(answer.frame)[at : at + 1])
        await asyncio.sleep(0.02)


async def silence(mischief: Mischief, answer: Answer) -> None:
    """No answer, on a connection that stays."""
    await asyncio.sleep(HELD_S)


async def hang_ups(mischief: Mischief, answer: Answer) -> None:
    """The end of the connection, or a reset, in place of the answer."""
    answer.close(mischief.rng.random() < 0.5)


async def out_of_order(mischief: Mischief, answer: Answer) -> None:
    """Hold an answer back, and send it behind a later one; or behind one of another connection."""
    held, mischief.held = mischief.held, answer.frame
    if held is not None:
        await answer.deliver()
        await answer.deliver(held)
        mischief.held = None


async def unasked(mischief: Mischief, answer: Answer) -> None:
    """The answer, and more that nobody asked for."""
    await answer.deliver()
    for _ in range(mischief.rng.choice((1, 3))):
        more = mischief.rng.choice(
            (answer.frame, mischief.rng.randbytes(20), struct.pack(">i", answer.correlation_id + 1))
        )
        await answer.deliver(more)


async def redirects(mischief: Mischief, answer: Answer) -> None:
    """Send the client to addresses that are silent, closed, or none."""
    message = answer.message()
    for owner in _structures(message) if message is not None else ():
        if hasattr(owner, "host") and hasattr(owner, "port"):
            closed = (HOST, mischief.rng.choice((1, 0, -1, 65_536, 2**31 - 1)))
            odd = (mischief.rng.choice(ODD_HOSTS), 9_092)
            owner.host, owner.port = mischief.rng.choice((mischief.silent, mischief.silent, closed, odd))
    await (answer.deliver_message(message) if message is not None else answer.deliver())


async def other_protocols(mischief: Mischief, answer: Answer) -> None:
    """Bytes of other protocols in place of the answer."""
    await answer.write(mischief.rng.choice((*GREETINGS, mischief.rng.randbytes(500))))


async def scram_iterations(mischief: Mischief, answer: Answer) -> None:
    """A server's first message of SCRAM that asks for very much work."""
    message = answer.message()
    if answer.api.name == "SaslAuthenticate" and message is not None and b"i=" in bytes(message.auth_bytes):
        count = mischief.rng.choice((b"2147483647", b"50000000", b"0", b"-1", b"9" * 5_000))
        message.auth_bytes = bytes(message.auth_bytes).rpartition(b"i=")[0] + b"i=" + count
        await answer.deliver_message(message)
    else:
        await answer.deliver()


async def flood(mischief: Mischief, answer: Answer) -> None:
    """An answer of 200 MB that comes as fast as it is taken."""
    await answer.write(SIZE.pack(FLOOD_BYTES) + answer.frame[:4])
    junk = bytes(1 << 20)
    for _ in range(FLOOD_BYTES >> 20):
        await answer.write(junk)


MISCHIEFS: dict[str, Callable[[Mischief, Answer], Awaitable[None]]] = {
    "nothing": nothing,
    "sizes": sizes,
    "correlation-ids": correlation_ids,
    "other-versions": other_versions,
    "mutated-fields": mutated_fields,
    "spoiled-bytes": spoiled_bytes,
    "error-codes": error_codes,
    "rich-answers": rich_answers,
    "damaged-batches": damaged_batches,
    "bombs": bombs,
    "half-answers": half_answers,
    "trickles": trickles,
    "silence": silence,
    "hang-ups": hang_ups,
    "out-of-order": out_of_order,
    "unasked": unasked,
    "redirects": redirects,
    "other-protocols": other_protocols,
    "scram-iterations": scram_iterations,
    "flood-before-login": flood,
}
WITH_LOGINS = {"scram-iterations": 2, "flood-before-login": 0}
"""Mischiefs that only clients meet that log in, with the number of answers to spare."""


class HostileBroker:
    """The proxy, on a loop and a thread of its own.

    Args:
        port: where to listen.
        upstream: the real broker's address.
    """

    def __init__(self, port: int, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._silent = socket.create_server((HOST, 0))
        self.mischief = Mischief.of("nothing", 0, self._silent.getsockname())
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server = self._call(asyncio.start_server(self._serve, HOST, port))

    def begin(self, name: str, seed: int) -> None:
        """From now on do this to answers; connections of before are ended."""
        mischief = Mischief.of(name, seed, self._silent.getsockname())
        if name in WITH_LOGINS:
            mischief.share, mischief.spared = 1.0, WITH_LOGINS[name]
        self.mischief = mischief
        self._call(self._hang_up())

    def close(self) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._silent.close()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _stop(self) -> None:
        await stop_accepting([sock.fileno() for sock in self._server.sockets])
        self._server.close()
        await asyncio.sleep(0)  # a connection that was accepted just now has its handler started
        await self._hang_up()
        await asyncio.sleep(0)  # connections that were closed are closed in this turn

    async def _hang_up(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await _Connection(self.mischief, reader, writer).run(self._upstream)
        except (OSError, asyncio.IncompleteReadError):
            pass  # either side hung up
        except asyncio.CancelledError:
            writer.transport.abort()  # the round is over: the client need not read what is unsent
        finally:
            self._tasks.discard(task)
            writer.close()


class _Connection:
    """One client's connection, and the one to the real broker behind it."""

    def __init__(self, mischief: Mischief, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._mischief = mischief
        self._reader, self._writer = reader, writer
        self._asked: deque[tuple[int, int, int]] = deque()
        self._answered = 0

    async def run(self, upstream: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*upstream)
        try:
            async with asyncio.TaskGroup() as group:
                requests = group.create_task(self._requests(writer))
                await self._answers(reader)
                requests.cancel()
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _requests(self, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await _frame(self._reader)
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            acks_nothing = key == 0 and _acks(frame, version) == 0
            if not acks_nothing:
                self._asked.append((key, version, correlation_id))
            writer.write(framed(frame))
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader) -> None:
        while True:
            frame = await _frame(reader)
            key, version, correlation_id = self._asked.popleft()
            answer = Answer(frame, API_BY_KEY[key], version, correlation_id, self._answered, self._write, self._close)
            self._answered += 1
            await self._mischief.treat(answer)

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def _close(self, reset: bool) -> None:
        if reset:
            self._writer.transport.abort()
        self._writer.close()
        raise ConnectionAbortedError("the mischief of this round")


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = SIZE.unpack(await reader.readexactly(4))
    return await reader.readexactly(size)


def _acks(frame: bytes, version: int) -> int:
    from kafkaraw.protocol import decode_request

    with suppress(ProtocolError):
        return int(decode_request(frame)[1].acks)  # type: ignore[attr-defined]
    return -1

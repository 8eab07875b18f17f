"""Programs that run under `python -O`, which removes assertions: results are compared by `expect`, which raises.

    python -O -m tests.optimized.programs asyncio|uvloop

The loop is that of the asyncio clients, of the blocking clients' loop thread and of the embedded broker. Each program
prints its name when it has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path

import trustme

from kafkaraw import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    UsageError,
)
from kafkaraw.broker import EmbeddedBroker

VALUES = [b"%d" % number * 40 for number in range(3_000)]
PASSWORD = "opensesame-4711"
Settings = dict[str, object]


def expect(found: object, wanted: object, what: str) -> None:
    """Compare; an assertion would be removed."""
    if found != wanted:
        raise RuntimeError(f"{what}: {found!r:.200} instead of {wanted!r:.200}")


async def topic(settings: Settings, name: str) -> TopicPartition:
    async with AsyncAdmin(**settings) as admin:
        await admin.create_topics([NewTopic(name, 1)])
        expect(name in [each.name for each in await admin.list_topics()], True, "the topic is listed")
    return TopicPartition(name, 0)


async def values_of(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async for record in consumer:
        values.append(record.value)
        if len(values) == count:
            break
    return values


async def produce_and_consume(settings: Settings) -> None:
    """Records, compressed, with headers, and refused ones, by the asyncio clients."""
    where = await topic(settings, "plain")
    async with AsyncProducer(**settings, compression_type="lz4", linger_ms=2) as producer:
        tickets = [await producer.send("plain", value, headers=[("n", b"1")]) for value in VALUES]
        expect((await tickets[-1]).offset, len(VALUES) - 1, "the last offset")
        try:
            await producer.send("plain", "text")
        except UsageError as error:
            expect("value_serializer" in str(error), True, "a refused value")
        else:
            raise RuntimeError("text was taken for a value")
    async with AsyncConsumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        expect(await values_of(consumer, len(VALUES)), VALUES, "values")
        consumer.seek(where, 7)
        expect(await values_of(consumer, 1), [VALUES[7]], "the value at offset 7")
        expect(await consumer.end_offsets([where]), {where: len(VALUES)}, "the end")


async def groups(settings: Settings) -> None:
    """Membership of both protocols, commits, and what the next member reads."""
    where = await topic(settings, "grouped")
    async with AsyncProducer(**settings) as producer:
        for value in VALUES[:100]:
            await producer.send("grouped", value)
    for protocol in ("classic", "consumer"):
        given = {**settings, "group_id": protocol, "group_protocol": protocol, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(**given, enable_auto_commit=False) as consumer:
            consumer.subscribe(["grouped"])
            expect(await values_of(consumer, 60), VALUES[:60], f"{protocol}: the first values")
            await consumer.commit({where: OffsetAndMetadata(60, "sixty")})
            committed = (await consumer.committed([where]))[where]
            expect(committed and committed[:2], (60, "sixty"), f"{protocol}: the committed position")
        async with AsyncConsumer(**given) as successor:
            successor.subscribe(["grouped"])
            expect(await values_of(successor, 40), VALUES[60:100], f"{protocol}: the other values")


async def transactions(settings: Settings) -> None:
    """One that is committed with offsets, one that is aborted, and a producer that is fenced."""
    where = await topic(settings, "transacted")
    async with AsyncProducer(**settings, transactional_id="tx") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for value in VALUES[:50]:
                await producer.send("transacted", value)
            await producer.send_offsets_to_transaction({where: 50}, "transacted")
        await producer.begin_transaction()
        for value in VALUES[50:60]:
            await producer.send("transacted", value)
        await producer.flush()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("transacted", b"last")
    reading = {**settings, "group_id": "transacted", "isolation_level": "read_committed"}
    async with AsyncConsumer(**reading, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning()
        expect(await values_of(consumer, 51), [*VALUES[:50], b"last"], "committed values")
        committed = (await consumer.committed([where]))[where]
        expect(committed and committed.offset, 50, "the position of the transaction")


async def blocking(settings: Settings) -> None:
    """The blocking clients, on a thread of their own as in a web service."""
    await topic(settings, "blocking")

    def use() -> None:
        with Producer(**settings) as producer:
            for value in VALUES:
                producer.send("blocking", value, partition=0)
            producer.flush(20)
        with Consumer(**settings, group_id="blocking", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["blocking"])
            expect([next(consumer).value for _ in VALUES], VALUES, "values of the blocking consumer")
            consumer.commit()

    await asyncio.to_thread(use)


PROGRAMS: tuple[Callable[[Settings], Coroutine[object, None, None]], ...] = (
    produce_and_consume,
    groups,
    transactions,
    blocking,
)


def pem(*blobs: trustme.Blob) -> str:
    return "".join(blob.bytes().decode() for blob in blobs)


def main(loop: str) -> None:
    """Run every program without TLS and a login, and again, on a broker of its own, with both."""
    if loop == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    secured = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": pem(*certificate.cert_chain_pems),
        "ssl.keystore.key": pem(certificate.private_key_pem),
    }
    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "ssl_cadata": pem(authority.cert_pem)}
    credentials = {"sasl_username": "ada", "sasl_password": PASSWORD}
    at_once = {
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 100,
    }
    with contextlib.ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        plain = running.enter_context(EmbeddedBroker(properties=at_once))
        safe = running.enter_context(
            EmbeddedBroker(data_dir=folder, properties={**at_once, **secured}, users={"ada": PASSWORD})
        )
        for name, settings in (
            ("plaintext", {"bootstrap_servers": plain.bootstrap_servers}),
            ("TLS and SASL", {"bootstrap_servers": safe.bootstrap_servers, **login, **credentials}),
        ):
            for program in PROGRAMS:
                asyncio.run(asyncio.wait_for(program(settings), 30))
                print(f"{program.__name__}, {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""Mistakes with the command line, with embedded brokers, and with event loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from kafkaraw import ConfigError, KafkaError, NetworkError, UsageError
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from tests.mistakes.mistake import T0, CommandError, Desk, Mistake, constructed

ONE_FACE = ("blocking",)


def command(what: str, arguments: str, stage: str, value: str, remedy: str, seconds: float = 2.0) -> Mistake:
    def call(on: Desk) -> object:
        return on.command(*arguments.split(), given=b"x\n")

    return Mistake(f"kafkaraw {what}", call, CommandError, stage, value, remedy, seconds, ONE_FACE)


COMMANDS = (
    command("produce: no cluster", "produce t", "no cluster given", "-b HOST:PORT", "KAFKARAW_BOOTSTRAP_SERVER"),
    command("consume: no cluster", "consume t", "no cluster given", "-b HOST:PORT", "KAFKARAW_BOOTSTRAP_SERVER"),
    command("groups: no cluster", "groups list", "no cluster given", "-b HOST:PORT", "KAFKARAW_BOOTSTRAP_SERVER"),
    command("produce: no broker", "produce -b <closed> t", "cannot connect", "<closed>", "check host and port"),
    command("consume: no broker", "consume -b <closed> t -e", "cannot connect", "<closed>", "check host and port"),
    command("groups: no broker", "groups list -b <closed>", "cannot connect", "<closed>", "check host and port"),
    command("doctor: no broker", "doctor -b <closed>", "FAIL  connect", "<closed>", "try   check that the broker runs"),
    command("produce: no port", "produce -b localhost t", "bootstrap.servers", "'localhost' has no port",
            "did you mean 'localhost:9092'?"),
    command("produce: no topic", "produce -b <plain>", "Usage:", "TOPIC", "--help"),
    command("produce: a value that does not fit", "produce -b <plain> t -X acks=two", "acks", "'two'", "must be 'all'"),
    command("produce: a property that there is not", "produce -b <plain> t -X lingerms=2", "unknown property",
            "'lingerms'", "did you mean 'linger.ms'?"),
    command("produce: a property without a value", "produce -b <plain> t -X linger", "-X", "'linger'",
            "PROPERTY=VALUE"),
    command("produce: a file that is not there", "produce -b <plain> t -F /no/such/file", "--config", "/no/such/file",
            "does not exist"),
    command("produce: an option that there is not", "produce -b <plain> t --no-such", "No such option", "--no-such",
            "--help"),
    command("consume: an offset that is none", "consume -b <plain> t --offset begin", "-o", "begin",
            "must be one of beginning, end"),
    command("consume: a partition that there is not", "consume -b <plain> t -p 99 -e", "topic 't'", "99",
            "has partitions 0 to 2"),
    command("consume: text for a partition", "consume -b <plain> t -p x -e", "--partition", "'x'", "integer range"),
    command("groups: a group that does not exist", "groups describe missing -b <plain>", "Consumer group", "'missing'",
            "does not exist"),
    command("a command that there is not", "prodcue t", "No such command", "'prodcue'", "--help"),
    command("wire decode: a file that is not there", "wire decode /no/such/file", "[FILE]", "/no/such/file",
            "No such file"),
    command("broker: a port out of range", "broker --port 99999", "--port", "99999", "0<=x<=65535"),
)  # fmt: skip


def broker(
    what: str, make: Callable[[Desk], object], stage: str, value: str, remedy: str,
    error: type[BaseException] = ConfigError, seconds: float = 2.0,
) -> Mistake:  # fmt: skip
    return Mistake(f"broker: {what}", lambda on: constructed(lambda: make(on)), error, stage, value, remedy, seconds,
                   ONE_FACE)  # fmt: skip


def port_of(on: Desk) -> int:
    return int(on.places.plain.rpartition(":")[2])


def second_in_one_folder(on: Desk, *, process: bool = False) -> None:
    folder = on.places.folder / "data"
    with EmbeddedBroker(data_dir=folder):
        EmbeddedBroker(data_dir=folder, process=process).start()


def started_twice(_: Desk) -> None:
    with EmbeddedBroker() as one:
        one.start()


BROKERS = (
    broker("a port in use", lambda on: EmbeddedBroker(port=port_of(on)).start(), "cannot listen", "<plain>",
           "choose another port (0 takes a free one)", NetworkError),
    broker("a port in use, in a process", lambda on: EmbeddedBroker(port=port_of(on), process=True).start(),
           "cannot listen", "<plain>", "choose another port", KafkaError, 15.0),
    broker("a port out of range", lambda _: EmbeddedBroker(port=99_999), "port", "99999", "from 0 to 65535"),
    broker("text for a port", lambda _: EmbeddedBroker(port="x"), "port", "'x'", "a whole number"),
    broker("properties for a port", lambda _: EmbeddedBroker({"num.partitions": 3}), "port", "num.partitions",
           "a whole number"),
    broker("a property that there is not", lambda _: EmbeddedBroker(properties={"num.partitoins": 3}),
           "unknown broker property", "'num.partitoins'", "did you mean 'num.partitions'?"),
    broker("a property of the wrong type", lambda _: EmbeddedBroker(properties={"num.partitions": "three"}),
           "num.partitions", "three", "Not a number of type INT"),
    broker("a property out of range", lambda _: EmbeddedBroker(properties={"num.partitions": 0}), "num.partitions",
           "0", "at least 1"),
    broker("a list for properties", lambda _: EmbeddedBroker(properties=["num.partitions=3"]), "properties",
           "not list", "properties={'num.partitions': 4}"),
    broker("a number for a property's name", lambda _: EmbeddedBroker(properties={5: 3}), "properties", "5",
           "must be text"),
    broker("a list for users", lambda _: EmbeddedBroker(users=["ada"]), "users", "not list", "{'ada': 'password'}"),
    broker("a file for a folder", lambda on: EmbeddedBroker(data_dir=on.places.folder / "text").start(), "log.dirs",
           "text", "cannot be used as a data directory: Not a directory"),
    broker("a number for a folder", lambda _: EmbeddedBroker(data_dir=5), "data_dir", "5", "the path of a folder"),
    broker("a folder in use", second_in_one_folder, "log.dirs", "data is in use by another broker", "stop it first"),
    broker("a listener of no protocol", lambda _: EmbeddedBroker(properties={"listeners": "PLAIN://127.0.0.1:0"}),
           "listeners", "'PLAIN://127.0.0.1:0'", "choose one of PLAINTEXT, SSL"),
    broker("a listener without a name", lambda _: EmbeddedBroker(properties={"listeners": "127.0.0.1:0"}),
           "listeners", "'127.0.0.1:0'", "NAME://host:port"),
    broker("listeners and a port", lambda _: EmbeddedBroker(5, properties={"listeners": "PLAINTEXT://127.0.0.1:0"}),
           "listeners", "host and port", "give either"),
    broker("TLS without a certificate", lambda _: EmbeddedBroker(properties={"listeners": "SSL://127.0.0.1:0"}).start(),
           "a listener speaks TLS", "certificate", "ssl.keystore.location"),
    broker("a release that there is not", lambda _: EmbeddedBroker(max_versions="9.9"), "max_versions", "'9.9'",
           "known are"),
    broker("a release in a process", lambda _: EmbeddedBroker(max_versions="2.4", process=True), "max_versions",
           "needs a broker in this process", "without process=True", UsageError),
    broker("an address before the start", lambda _: EmbeddedBroker().bootstrap_servers, "the broker", "is not running",
           "call start()", UsageError),
    broker("faults in a process", lambda _: EmbeddedBroker(process=True).faults, "faults",
           "need a broker in this process", "without process=True", UsageError),
    broker("started twice", started_twice, "the broker", "is running", "already", UsageError),
    broker("a cluster without nodes", lambda _: EmbeddedCluster(0), "a cluster", "0", "at least one node"),
    broker("text for nodes", lambda _: EmbeddedCluster("3"), "nodes", "'3'", "a whole number"),
    broker("one id for all nodes", lambda _: EmbeddedCluster(3, properties={"node.id": 3}), "node.id",
           "cannot be the same for all nodes", "each node's own"),
)  # fmt: skip


def on_two_loops(what: str, kind: str, use: Callable[[object], object], remedy: str) -> Mistake:
    """An asyncio client is used on one loop, and then on another one."""

    async def call(on: Desk) -> object:
        return await asyncio.to_thread(twice, on)

    def twice(on: Desk) -> None:
        client = getattr(on, kind)(bootstrap_servers=on.places.plain)
        first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
        try:
            first.run_until_complete(use(client))
            second.run_until_complete(use(client))
        finally:
            second.close()
            with contextlib.suppress(KafkaError):
                first.run_until_complete(client.close())
            first.close()

    return Mistake(f"two loops: {what}", call, UsageError, "event loop", "another", remedy, faces=("asyncio",))


async def sent(producer: object) -> None:
    await producer.send("t", b"v")
    await producer.flush()


async def polled(consumer: object) -> None:
    consumer.assign([T0])
    await consumer.poll(0.05)


async def waited(on: Desk) -> object:
    """Wait for a ticket on the loop that has to deliver the record."""

    async def on_its_loop(producer: object) -> object:
        ticket = await on.of(producer.send("t", b"v"))
        return ticket.result(1)

    return await on.produce(on_its_loop)


LOOPS = (
    on_two_loops("a producer", "Producer", sent, "make one for each"),
    on_two_loops("a consumer", "Consumer", polled, "make one for each"),
    on_two_loops("an admin client", "Admin", lambda admin: admin.list_topics(), "make one for each"),
    Mistake("Ticket.result() on the producer's loop", waited, UsageError, "Ticket.result()", "would block the loop",
            "`await` the ticket", faces=("asyncio",)),
)  # fmt: skip

MISTAKES = (*COMMANDS, *BROKERS, *LOOPS)

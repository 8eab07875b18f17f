"""What happens to clients when their process forks, exits or is interrupted. Each case is a program of its own.

Every program runs with warnings as errors, and may write nothing to standard error but what the test expects: no
"never awaited", no unclosed transport, no destroyed task.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from kafkaraw import Consumer
from kafkaraw.broker import EmbeddedBroker
from tests.rotation import rotating

# Python 3.12 warns about every fork of a process with threads; that it works here is what is being tested.
STRICT = ["-X", "dev", "-W", "error", "-W", "ignore:This process .* is multi-threaded:DeprecationWarning"]

FORK = """
def in_child(act, leave=os._exit):
    pid = os.fork()
    if not pid:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stderr.flush()
        leave(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with {status}"
"""

BEGIN = """
import asyncio, logging, os, signal, sys, threading, traceback
from kafkaraw import *
logging.getLogger("asyncio").setLevel(logging.ERROR)  # a busy machine makes callbacks slow, which is a mere warning
bootstrap = sys.argv[1]
"""


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as running:
        yield running


def run_program(code: str, bootstrap: str) -> subprocess.CompletedProcess[str]:
    program = BEGIN + FORK + dedent(code)
    return subprocess.run(
        [sys.executable, *STRICT, "-c", program, bootstrap], capture_output=True, text=True, timeout=60, check=False
    )


def run_quietly(code: str, bootstrap: str) -> None:
    done = run_program(code, bootstrap)
    assert done.stderr == ""
    assert done.returncode == 0


def values(broker: EmbeddedBroker, topic: str) -> list[bytes | None]:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        count = sum(consumer.end_offsets(partitions).values())
        return [record.value for _, record in zip(range(count), consumer, strict=False)]


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_a_child_goes_on_with_the_producer_as_a_new_one(broker, leave):
    topic = f"fork-{leave}"
    run_quietly(
        f"""
        producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000, request_timeout_ms=900)
        producer.send("{topic}", b"before")
        producer.flush()
        open_ticket = producer.send("{topic}", b"open at the fork")

        def child():
            try:
                open_ticket.result(10)
            except ForkedError as error:
                assert "parent process delivers it" in str(error)
            else:
                raise AssertionError("the child cannot know")
            producer.send("{topic}", b"child")
            producer.close()

        in_child(child, {leave})
        assert not open_ticket.done
        producer.close()
        assert open_ticket.result(0).offset > 0
        """,
        broker.bootstrap_servers,
    )
    assert sorted(values(broker, topic)) == [b"before", b"child", b"open at the fork"]


def test_a_process_may_end_while_a_fetch_is_under_way(broker):
    run_quietly(
        """
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("left-open", b"v").result(10)
        consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=60_000)
        consumer.assign(consumer.partitions_for("left-open"))
        assert next(consumer).value == b"v"
        assert consumer.poll(0) == {}
        """,
        broker.bootstrap_servers,
    )


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_consumers_and_admins_stay_with_the_parent_and_new_ones_work_in_the_child(broker, leave):
    run_quietly(
        f"""
        def refused(call):
            try:
                call()
            except ForkedError:
                return
            raise AssertionError("a child may not use this")

        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("stays-{leave}", b"v").result(10)
        consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        consumer.assign(consumer.partitions_for("stays-{leave}"))
        assert next(consumer).value == b"v"
        admin = Admin(bootstrap_servers=bootstrap)
        admin.list_topics()

        def child():
            refused(lambda: consumer.poll(1))
            refused(lambda: consumer.seek_to_beginning())
            refused(admin.list_topics)
            with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as own:
                own.assign(own.partitions_for("stays-{leave}"))
                assert next(own).value == b"v"
            with Admin(bootstrap_servers=bootstrap) as own:
                own.list_topics()

        in_child(child, {leave})
        assert consumer.poll(0.1) == {{}}
        admin.list_topics()
        consumer.close()
        admin.close()
        """,
        broker.bootstrap_servers,
    )


def test_an_async_client_stays_with_the_parent(broker):
    run_quietly(
        """
        async def main():
            async with (
                AsyncProducer(bootstrap_servers=bootstrap) as producer,
                AsyncConsumer(bootstrap_servers=bootstrap) as consumer,
                AsyncAdmin(bootstrap_servers=bootstrap) as admin,
            ):
                await (await producer.send("async", b"before"))
                consumer.assign(await consumer.partitions_for("async"))
                ticket = await producer.send("async", b"open at the fork")

                def child():
                    calls = (
                        lambda: producer.send("async", b"child"),
                        producer.flush,
                        consumer.poll,
                        admin.list_topics,
                        lambda: waited(ticket),
                    )
                    for call in calls:
                        try:
                            asyncio.run(call())
                        except ForkedError:
                            continue
                        raise AssertionError(call)

                in_child(child)
                assert (await ticket).offset == 1

        async def waited(ticket):
            return await ticket

        asyncio.run(main())
        """,
        broker.bootstrap_servers,
    )


def test_a_fork_while_other_threads_send_leaves_both_sides_working(broker):
    run_quietly(
        """
        producer = Producer(bootstrap_servers=bootstrap, batch_size=500, buffer_memory=5000)
        producer.send("busy", b"before").result(10)
        stop = threading.Event()
        tickets = []

        def send():
            while not stop.is_set():
                tickets.append(producer.send("busy", b"parent"))

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            in_child(lambda: producer.send("busy", b"child").result(10))
        stop.set()
        for thread in threads:
            thread.join()
        producer.close()
        assert len({(ticket.result(0).partition, ticket.result(0).offset) for ticket in tickets}) == len(tickets)
        """,
        broker.bootstrap_servers,
    )
    assert values(broker, "busy").count(b"child") == 5


def test_what_was_sent_is_delivered_at_exit_even_without_close(broker):
    done = run_program(
        """
        producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
        producer.send("exit", b"left open")
        """,
        broker.bootstrap_servers,
    )
    assert "ResourceWarning: Producer was not closed" in done.stderr
    assert done.returncode == 0
    assert values(broker, "exit") == [b"left open"]


def test_a_client_that_is_left_open_does_not_hold_up_the_exit(broker):
    run_quietly(
        """
        consumer = Consumer(bootstrap_servers=bootstrap)
        consumer.assign(consumer.partitions_for("left-open"))
        consumer.poll(0.1)
        unused = Producer(bootstrap_servers=bootstrap)
        """,
        broker.bootstrap_servers,
    )


@pytest.fixture(scope="module")
def broker_to_stop():
    """A broker that SIGSTOP keeps from answering: it has a process of its own."""
    with EmbeddedBroker(process=True) as running:
        try:
            yield running
        finally:
            os.kill(running.process_id, signal.SIGCONT)  # a program may have ended before it did so


UNACKNOWLEDGED = re.compile(
    r"a producer was left open, and at exit: records sent before were not acknowledged: (\d+) records? for t\d+-0 .*\n"
)


INTERRUPTED = [
    ("t1", "consumer.poll(50)"),
    ("t2", "next(consumer)"),
    ("t3", "send(b'v').result(50)"),
    ("t4", "send(b'v'); producer.flush(50)"),
    ("t5", "[send(bytes(1000)) for _ in range(1000)]"),
    ("t6", "send(b'v'); producer.close()"),
    ("t7", "admin.list_topics()"),
    ("t8", "consumer.end_offsets(consumer.assignment(), 50)"),
]
"""A topic of its own for each call; a third of them is this commit's."""


@pytest.mark.parametrize(("topic", "call"), rotating(INTERRUPTED, 3))
def test_ctrl_c_ends_every_wait_at_once_and_every_record_is_written_or_reported(broker_to_stop, topic, call):
    # At the exit the broker answers again. An interrupted close() delivers nothing any more, but an acknowledgement may
    # come before the connection is closed: so a record that is not reported must be in the log, whichever came first.
    done = run_program(
        f"""
        sent = 0

        def send(value):
            global sent
            ticket = producer.send("{topic}", value)
            sent += 1
            return ticket

        consumer = Consumer(bootstrap_servers=bootstrap)
        consumer.assign(consumer.partitions_for("{topic}"))
        producer = Producer(bootstrap_servers=bootstrap, buffer_memory=10_000)
        send(b"v").result(10)
        admin = Admin(bootstrap_servers=bootstrap)
        os.kill({broker_to_stop.process_id}, signal.SIGSTOP)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted after", sent)
        finally:
            os.kill({broker_to_stop.process_id}, signal.SIGCONT)
        if not {"close" in call}:
            producer.close()
        """,
        broker_to_stop.bootstrap_servers,
    )
    assert done.returncode == 0
    interrupted = re.fullmatch(r"interrupted after (\d+)\n", done.stdout)
    assert interrupted, done.stdout
    report = UNACKNOWLEDGED.fullmatch(done.stderr)
    assert not done.stderr or (report and "close()" in call), done.stderr
    reported = int(report[1]) if report else 0
    assert len(values(broker_to_stop, topic)) + reported >= int(interrupted[1])


def test_clients_of_a_failed_loop_thread_raise_closed_error_and_can_be_closed(broker):
    done = run_program(
        """
        from kafkaraw.net.loop_thread import client_loop_thread
        partition = TopicPartition("fault", 0)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for _ in range(5):
                producer.send("fault", b"v")
        consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        consumer.assign([partition])
        assert consumer.poll(10, 1)
        member = Consumer(bootstrap_servers=bootstrap, group_id="fault", auto_offset_reset="earliest")
        member.subscribe(["fault"])
        assert member.poll(30, 1)
        admin = Admin(bootstrap_servers=bootstrap)
        admin.list_topics()
        unused = Admin(bootstrap_servers=bootstrap)
        logging.getLogger("kafkaraw").setLevel(logging.CRITICAL + 1)
        selector = client_loop_thread()._running.descriptors()[0]
        os.dup2(os.open(os.devnull, os.O_RDONLY), selector)
        client_loop_thread().call_soon(lambda: None)
        while client_loop_thread()._running.fault is None:
            threading.Event().wait(0.01)
        calls = {
            "poll": lambda: consumer.poll(10), "columns": lambda: consumer.poll_arrow(timeout=10),
            "seek": lambda: consumer.seek(partition, 0), "end_offsets": lambda: consumer.end_offsets([partition], 10),
            "iteration": lambda: list(consumer), "commit": lambda: member.commit(timeout=10),
            "unsubscribe": lambda: member.unsubscribe(10), "list_topics": lambda: admin.list_topics(),
        }
        for name, call in calls.items():
            try:
                call()
            except ClosedError as error:
                assert "has ended because of an error; make a new one" in str(error), error
            else:
                print(name, "raised nothing")
        for client in (consumer, member, admin):
            client.close()
            client.close()
        unused.list_topics()
        unused.close()
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as other:
            other.assign([partition])
            print(sum(batch.records_count for batch in other.poll(10).values()))
        """,
        broker.bootstrap_servers,
    )
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr

"""Members of one group that come, go, die and are replaced while records keep coming; what they read is counted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from kafkaraw import Admin, Consumer, GroupState, NewTopic, Producer, TopicPartition
from tests.interop.group_members import Member

PATIENCE_S = 60.0
START_S = 300.0
PACE_S = 0.005


class Load:
    """Writes a record every few milliseconds, to one partition after the other.

    Args:
        servers: of the broker.
        topic: that there is.
        partitions: of the topic.
        values: of the records, one after the other, again and again.
    """

    def __init__(self, servers: str, topic: str, partitions: int, values: Sequence[bytes] = (b"v",)) -> None:
        self._servers, self._topic, self._partitions, self._values = servers, topic, partitions, values
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failures: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Write no more; everything is acknowledged."""
        self._end.set()
        self._thread.join(PATIENCE_S)
        assert not self._failures, self._failures

    def _run(self) -> None:
        number = 0
        try:
            with Producer(bootstrap_servers=self._servers) as producer:
                while not self._end.wait(PACE_S):
                    value = self._values[number % len(self._values)]
                    producer.send(self._topic, value, partition=number % self._partitions)
                    number += 1
                producer.flush(PATIENCE_S)
        except BaseException as failure:
            self._failures.append(failure)
            raise


class Fleet:
    """Members of one group, by place: whoever goes is replaced.

    Args:
        servers: of the broker.
        topic: to make and to read; the group has its name.
        partitions: of the topic.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.servers, self.topic, self.partitions = servers, topic, partitions
        self._members: dict[int, Member] = {}
        self._gone: list[Member] = []
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members.values():
            member.kill()

    def put(self, place: int, client: str, strategy: str) -> None:
        """Have a member there."""
        assert place not in self._members
        self._members[place] = Member(client, self.servers, self.topic, self.topic, strategy)

    def remove(self, place: int, *, kill: bool = False) -> None:
        """Have whoever is there go, in good order or not."""
        member = self._members.pop(place)
        self._gone.append(member)
        (member.kill if kill else member.leave)()

    def settle(self) -> None:
        """Wait until the members have all partitions, each one of them, nobody has none, and the group knows it."""
        deadline = time.monotonic() + START_S
        while not all(member.is_up for member in self._members.values()):
            assert time.monotonic() < deadline, f"a program did not start within {START_S:g} s"
            time.sleep(0.02)
        deadline = time.monotonic() + PATIENCE_S
        with Admin(bootstrap_servers=self.servers) as admin:
            while not self._is_settled(admin):
                assert time.monotonic() < deadline, f"not shared out within {PATIENCE_S:g} s: {self._told()}"
                time.sleep(0.02)

    def _told(self) -> str:
        """What the members have and had to say. Ends them."""
        members = list(self._members.values())
        owned = [sorted(member.owned) for member in members]
        for place in list(self._members):
            self.remove(place, kill=True)
        return "\n".join([str(owned), *(member.log for member in members)])

    def _is_settled(self, admin: Admin) -> bool:
        owned = [member.owned for member in self._members.values()]
        if not all(owned) or not sum(map(len, owned)) == len(set().union(*owned)) == self.partitions:
            return False
        return admin.describe_groups([self.topic])[self.topic].state is GroupState.STABLE

    def read_everything(self) -> int:
        """Wait until everything that was written was read, and committed; how many records those are."""
        with Admin(bootstrap_servers=self.servers) as admin:
            ends = _end_offsets(self.servers, self.topic, self.partitions)
            written = {(number, offset) for number, end in enumerate(ends) for offset in range(end)}
            deadline = time.monotonic() + PATIENCE_S
            while (missing := written - set(self._offsets())) or self._committed(admin) != ends:
                told = f"{len(missing)} of {len(written)} records, such as {sorted(missing)[:5]}, were read by nobody"
                assert time.monotonic() < deadline, f"{told}; committed are {self._committed(admin)} of {ends}"
                time.sleep(0.05)
        return len(written)

    def read_twice(self) -> str:
        """Which records were read more than once, by whom, and what those had to say; empty for none. Ends them all."""
        for place in list(self._members):
            self.remove(place)
        twice = {found for found, times in Counter(self._offsets()).items() if times > 1}
        told = [
            f"the one that left as number {number} read {sorted(twice & set(member.offsets))}, and said:\n{member.log}"
            for number, member in enumerate(self._gone)
            if twice & set(member.offsets)
        ]
        return f"{sorted(twice)}\n" + "\n".join(told) if twice else ""

    def _offsets(self) -> list[tuple[int, int]]:
        return [found for member in [*self._gone, *self._members.values()] for found in member.offsets]

    def _committed(self, admin: Admin) -> list[int]:
        positions = admin.list_group_offsets([self.topic])[self.topic]
        by_number = {partition.partition: position.offset for partition, position in positions.items()}
        return [by_number.get(number, 0) for number in range(self.partitions)]


def _end_offsets(servers: str, topic: str, partitions: int) -> list[int]:
    with Consumer(bootstrap_servers=servers) as consumer:
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        ends = consumer.end_offsets(wanted)
        return [ends[partition] for partition in wanted]

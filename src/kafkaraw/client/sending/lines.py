"""`Lines`: the order of records that wait for their topic's metadata or for memory, which is that of their `send`s.

What they wait for ends for all at once, and the event loop wakes their tasks in any order. So the record of a task that
is woken is appended behind those that came before it, whose tasks find it done. Records that are taken at once, which
are most, do not come here. Must not wait. Start at `Lines.append`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from kafkaraw.records import AppendStatus, Headers, Ticket

RecordArguments: TypeAlias = tuple[str, object, object, Headers | None, int | None, int | None]
"""The arguments of `RecordAccumulator.append`."""
Append: TypeAlias = Callable[..., tuple[AppendStatus, Ticket | None]]


class WaitingRecord:
    """A record that could not be appended yet.

    Attributes:
        arguments: of `append`.
        ticket: its ticket, once it is appended.
        error: why it is refused.
    """

    __slots__ = ("arguments", "error", "ticket")

    def __init__(self, arguments: RecordArguments) -> None:
        self.arguments: RecordArguments = arguments
        self.ticket: Ticket | None = None
        self.error: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Whether the record was appended or refused."""
        return self.ticket is not None or self.error is not None


class Lines:
    """The waiting records of each topic, in the order of their `send`s; on one loop.

    Args:
        append: `RecordAccumulator.append`.
        is_known: whether the partition count of a topic is known.
    """

    def __init__(self, append: Append, is_known: Callable[[str], bool]) -> None:
        self._append = append
        self._is_known = is_known
        self._lines: dict[str, OrderedDict[WaitingRecord, None]] = {}

    def join(self, arguments: RecordArguments) -> WaitingRecord:
        """Take the last place of a topic's line."""
        record = WaitingRecord(arguments)
        self._lines.setdefault(arguments[0], OrderedDict())[record] = None
        return record

    def leave(self, record: WaitingRecord) -> None:
        """Give up the place, if the record still has one."""
        topic = record.arguments[0]
        line = self._lines.get(topic)
        if line is not None:
            line.pop(record, None)
            if not line:
                del self._lines[topic]

    def append(self, topic: str, last: WaitingRecord | None) -> AppendStatus:
        """Append the records of a line, up to and including `last`, or all, as long as there is room.

        A record for a partition that the topic does not have keeps no other one back.

        Returns:
            the last result: what `last` has to wait for, unless it is over.
        """
        line = self._lines.get(topic)
        if line is None or (last is not None and last.is_over):
            return AppendStatus.OK
        over = []
        status = AppendStatus.OK
        for record in line:
            status = self._append_one(record)
            if record.is_over:
                over.append(record)
            elif status is AppendStatus.FULL or not self._is_known(topic):
                break
            if record is last:
                break
        for record in over:
            self.leave(record)
        return status

    def _append_one(self, record: WaitingRecord) -> AppendStatus:
        try:
            status, record.ticket = self._append(*record.arguments)
        except Exception as error:  # noqa: BLE001 - raised in the task that sends the record
            record.error = error
            return AppendStatus.OK
        return status

"""What a read_committed consumer is given of the batches that a broker sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.fetch.fetcher import without_aborted
from kafkaraw.protocol.messages.fetch import AbortedTransaction
from kafkaraw.records import Batch, ControlType, batches_of, encode_batch, encode_control_batch


class Log:
    """Batches one after the other, and what a reader who waits for outcomes should see of them."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0
        self.open: dict[int, tuple[int, list[bytes]]] = {}
        self.committed: list[tuple[int, bytes]] = []
        self.offsets: dict[bytes, int] = {}
        self.aborted: list[AbortedTransaction] = []

    def send(self, producer_id: int, *values: bytes, transactional: bool = True, codec: str = "none") -> None:
        self.data += encode_batch(
            [(0, None, value, ()) for value in values],
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
            codec=codec,
        )
        for index, value in enumerate(values):
            self.offsets[value] = self.end + index
        if transactional:
            self.open.setdefault(producer_id, (self.end, []))[1].extend(values)
        else:
            self.committed.extend((self.offsets[value], value) for value in values)
        self.end += len(values)

    def decide(self, producer_id: int, kind: ControlType) -> None:
        self.data += encode_control_batch(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=self.end
        )
        self.end += 1
        first, values = self.open.pop(producer_id, (-1, []))
        if kind is ControlType.COMMIT:
            self.committed.extend((self.offsets[value], value) for value in values)
        elif first >= 0:
            self.aborted.append(AbortedTransaction(producer_id=producer_id, first_offset=first))

    def read(self) -> list[bytes | None]:
        data = without_aborted(batches_of(memoryview(self.data)), self.aborted)
        batch = Batch("t", 0, data, start_offset=0)
        assert not self.data or batch.next_offset == self.end
        return [record.value for record in batch]


def test_aborted_records_are_left_out_and_the_position_still_moves_on() -> None:
    log = Log()
    log.send(1, b"a", b"b", codec="gzip")
    log.send(2, b"c")
    log.decide(1, ControlType.ABORT)
    log.send(1, b"d")
    log.decide(2, ControlType.COMMIT)
    log.send(3, b"e", transactional=False)
    log.decide(1, ControlType.COMMIT)
    assert log.read() == [b"c", b"d", b"e"]


def test_without_aborted_transactions_nothing_is_copied() -> None:
    log = Log()
    log.send(1, b"a")
    log.decide(1, ControlType.COMMIT)
    data = batches_of(memoryview(log.data))
    assert without_aborted(data, ()) is data


def test_batches_that_belong_to_no_transaction_are_kept_whoever_wrote_them() -> None:
    log = Log()
    log.send(1, b"a")
    log.send(1, b"plain", transactional=False)
    log.decide(1, ControlType.ABORT)
    assert log.read() == [b"plain"]


def test_an_abort_that_lies_beyond_what_was_sent_counts_as_well() -> None:
    log = Log()
    log.send(1, b"a")
    data = without_aborted(batches_of(memoryview(log.data)), [AbortedTransaction(producer_id=1, first_offset=0)])
    headers = [header for header, _ in data]
    assert [(header.records_count, header.next_offset) for header in headers] == [(0, 1)]


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["send", "plain", "commit", "abort"]), st.integers(1, 3)), max_size=40
)


@given(STEPS)
def test_what_is_read_is_what_was_committed(steps: list[tuple[int, str, int]]) -> None:
    log = Log()
    for number, (producer_id, what, count) in enumerate(steps):
        if what in ("send", "plain"):
            values = [b"%d-%d" % (number, index) for index in range(count)]
            log.send(producer_id, *values, transactional=what == "send")
        else:
            log.decide(producer_id, ControlType.COMMIT if what == "commit" else ControlType.ABORT)
    for producer_id in list(log.open):  # brokers send nothing that is undecided
        log.decide(producer_id, ControlType.COMMIT)
    assert log.read() == [value for _, value in sorted(log.committed)]

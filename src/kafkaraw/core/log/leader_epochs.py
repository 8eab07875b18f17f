"""The leader epochs of a log: rows of (epoch, first offset), oldest first.

A follower compares these rows with its leader's to find the log divergence (KIP-101, KIP-279). The batch headers have
the same epochs, except for epochs without batches; Kafka's `leader-epoch-checkpoint` stores the rows.
Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from kafkaraw.core.log.checkpoint_text import checkpoint_error, read_checkpoint, write_checkpoint
from kafkaraw.core.log.damage import whole_number
from kafkaraw.light_classes import dataclass

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The end offset of an epoch.

    Attributes:
        epoch: the epoch; -1 if the requested epoch is unknown.
        end_offset: the first offset after that epoch; -1 if unknown.
    """

    epoch: int
    end_offset: int


UNKNOWN_END: Final = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """The rows of one log. Both columns grow from row to row."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def copy(self) -> LeaderEpochs:
        """The same rows, to be changed apart from these."""
        copied = LeaderEpochs()
        copied._epochs, copied._starts = self._epochs.copy(), self._starts.copy()
        return copied

    @property
    def rows(self) -> list[tuple[int, int]]:
        """(epoch, first offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        """The newest epoch; -1 when there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote (or will write) an offset; -1 when it is before all rows."""
        row = bisect_right(self._starts, offset) - 1
        return self._epochs[row] if row >= 0 else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add the first offset of an epoch. Return whether it was unknown."""
        if epoch <= self.latest:
            return False
        while self._starts and self._starts[-1] >= start_offset:  # an epoch in which nothing was written
            self._drop_last()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The newest known epoch that is not newer than `epoch`, and where it ends."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return UNKNOWN_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        newer = bisect_right(self._epochs, epoch)
        return EpochEnd(self._epochs[newer - 1] if newer else epoch, self._starts[newer])

    def cut_end(self, log_end_offset: int) -> bool:
        """Remove rows after a truncation of the log. Return whether a row was removed."""
        before = len(self._starts)
        while self._starts and self._starts[-1] >= log_end_offset:
            self._drop_last()
        return len(self._starts) != before

    def cut_start(self, log_start_offset: int) -> bool:
        """Adjust rows after the log start offset has increased. Return whether a row was removed or changed."""
        row = bisect_right(self._starts, log_start_offset) - 1
        if row < 0 or (self._starts[row] == log_start_offset and row == 0):
            return False
        del self._epochs[:row], self._starts[:row]
        self._starts[0] = log_start_offset
        return True

    def clear(self) -> None:
        """Forget all rows."""
        self._epochs.clear()
        self._starts.clear()

    def _drop_last(self) -> None:
        self._epochs.pop()
        self._starts.pop()

    def text(self) -> str:
        """The text of `leader-epoch-checkpoint`."""
        return write_checkpoint(f"{epoch} {start}" for epoch, start in self.rows)

    def load(self, text: str, file: str = EPOCHS_FILE) -> None:
        """Take the rows of a `leader-epoch-checkpoint`.

        Args:
            text: content of the file.
            file: its name, for errors.

        Raises:
            DamagedFileError: it is damaged.
        """
        for line, (epoch, start) in enumerate(read_checkpoint(text, file, 2), 3):
            numbers = whole_number(epoch), whole_number(start)
            if numbers[0] is None or numbers[1] is None or numbers[0] < 0 or numbers[1] < 0:
                raise checkpoint_error(file, line, f"{epoch} {start} is not an epoch and an offset")
            if not self.assign(numbers[0], numbers[1]):
                raise checkpoint_error(file, line, f"epoch {epoch} does not come after {self.latest}")

"""The error of a file in a log directory that cannot be read as what its name says."""

from __future__ import annotations

from kafkaraw.errors import KafkaError


class DamagedFileError(KafkaError, ValueError):
    """A file of a log directory is damaged, or has a version that is not known.

    Args:
        file: name or path of the file.
        position: byte (of binary files) or line, counted from 1 (of text files), at which it is damaged.
        problem: what is wrong there, with the value found.
        remedy: what to do.
        unit: what `position` counts.

    Attributes:
        file: as given.
        position: as given.
        problem: as given.
        remedy: as given.
    """

    def __init__(self, file: str, position: int, problem: str, remedy: str, *, unit: str = "byte") -> None:
        super().__init__(f"{file}: {unit} {position}: {problem}; {remedy}")
        self.file = file
        self.position = position
        self.problem = problem
        self.remedy = remedy
        self._unit = unit

    def __reduce__(self) -> tuple[object, ...]:
        return (_damaged, (self.file, self.position, self.problem, self.remedy, self._unit))


def _damaged(file: str, position: int, problem: str, remedy: str, unit: str) -> DamagedFileError:
    return DamagedFileError(file, position, problem, remedy, unit=unit)


def whole_number(text: str) -> int | None:
    """Read the digits of a number, with a minus sign or without; None for anything else that `int` takes."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None  # int64 has 19 digits

"""What happens after a flow has failed: which errors are worth another attempt, and when it starts.

Spark passes on errors of workers and of the JVM as text. `sort_error` finds the exception that started it all, by the
names of classes and of Spark's error conditions in that text, and sorts it:

- RETRY: the same micro-batch may succeed later: brokers, networks, disks, processes that were killed;
- HUMAN: it fails until the definition, a setting, a permission or the storage changes;
- RECORD: it fails until the definition can handle one record (or the record is gone): a failed expectation, a cast.

An unknown error is RETRY: it costs some attempts, while the opposite mistake ends a flow that would have recovered.
Pure. Start at `sort_error` and `Backoff`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from kafkaraw import errors
from kafkaraw.errors import (
    AuthenticationError,
    AuthorizationError,
    BatchTooLargeError,
    CorruptBatchError,
    DeserializationError,
    InternalError,
    KafkaError,
    LogTruncationError,
    RecordTooLargeError,
    RetriableError,
    SerializationError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.model import PipelineError
from kafkaraw.spark.errors import DataLossError


class Remedy(Enum):
    """What helps against an error."""

    RETRY = "retry"
    HUMAN = "needs a human"
    RECORD = "this record"


@dataclass(frozen=True, slots=True)
class Failure:
    """A sorted error.

    Args:
        remedy: what helps.
        text: the error in one line, with its own remedy if it has one.
    """

    remedy: Remedy
    text: str

    def __str__(self) -> str:
        return f"{self.text} [{self.remedy.value}]"


_TEXT_MAX: Final = 2_000

_RECORD_ERRORS: Final = (
    RecordTooLargeError,
    DeserializationError,
    SerializationError,
    CorruptBatchError,
    BatchTooLargeError,
)
_HUMAN_ERRORS: Final = (
    UsageError,
    AuthenticationError,
    AuthorizationError,
    DataLossError,
    LogTruncationError,
    UnsupportedVersionError,
    InternalError,
    PipelineError,
    errors.UnknownTopicError,
)

# Conditions and exceptions of Spark that one row's values cause. ANSI mode, the default, raises them.
_RECORD_CONDITIONS: Final = re.compile(
    r"\[(USER_RAISED_EXCEPTION|CAST_INVALID_INPUT|CAST_OVERFLOW\w*|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|ARITHMETIC_OVERFLOW"
    r"|BINARY_ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE[\w.]*|NUMERIC_OUT_OF_SUPPORTED_RANGE|INVALID_ARRAY_INDEX\w*"
    r"|MAP_KEY_DOES_NOT_EXIST|DATETIME_OVERFLOW|CANNOT_PARSE_\w+|MALFORMED_\w+|CONVERSION_INVALID_INPUT"
    r"|INVALID_JSON_\w+|FAILED_EXECUTE_UDF|NOT_NULL_ASSERT_VIOLATION|DUPLICATED_MAP_KEY|VARIANT_\w+)[\].]"
)
# What no later attempt changes: definitions, columns of state stores and checkpoints that do not fit them.
_HUMAN_CONDITIONS: Final = re.compile(
    r"AnalysisException|ParseException|\[(UNRESOLVED_\w+|TABLE_OR_VIEW_NOT_FOUND|STATE_STORE_\w*SCHEMA\w*"
    r"|STATE_STORE_\w*NOT_COMPATIBLE\w*|STREAMING_STATEFUL_OPERATOR_\w+|STDS_\w+|STATEFUL_PROCESSOR_\w+|STREAM_FAILED_SCHEMA"
    r"|INVALID_CHECKPOINT\w*|CANNOT_LOAD_CHECKPOINT\w*|PATH_NOT_FOUND|DATA_SOURCE_NOT_FOUND|UNSUPPORTED_\w+"
    r"|FAILED_READ_FILE\.(FILE_NOT_EXIST|PARQUET_COLUMN_DATA_TYPE_MISMATCH)|DATATYPE_MISMATCH\w*"
    r"|PYTHON_DATA_SOURCE_ERROR\.NOT_FOUND)[\].]"
)
# Exceptions of Python that mean "not now" wherever they come from.
_PASSING_EXCEPTIONS: Final = re.compile(
    r"\b(ConnectionError|ConnectionRefusedError|ConnectionResetError|BrokenPipeError|TimeoutError|EOFError|OSError"
    r"|BlockingIOError|MemoryError|InterruptedError)\b"
)
_PYTHON_EXCEPTION: Final = re.compile(
    r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Warning|Exit)\w*)(?::|$)", re.MULTILINE
)
_MOVED: Final = re.compile(r"Wrong basePath (\S+) for the root path: (\S+)")
_DAMAGED: Final = re.compile(r"Checksum error: \S+")
_TRACEBACK: Final = "Traceback (most recent call last)"
_OF_THIS_PACKAGE: Final = re.compile(r"\bkafkaraw(?:\.\w+)*\.(\w+Error)\b:? ?([^\n]*)")


def sort_error(error: BaseException) -> Failure:
    """Sort an error of a flow."""
    text = _whole_text(error)
    if isinstance(error, PipelineError) and _is_passing(error.__cause__):
        return Failure(Remedy.RETRY, _shortened(str(error)))
    known = error if isinstance(error, KafkaError) else None
    if known is not None:
        return Failure(_remedy_of_class(type(known)), _shortened(str(known)))
    found = _OF_THIS_PACKAGE.search(text)
    kind = None if found is None else _class_named(found[1])
    if found is not None and kind is not None:
        return Failure(_remedy_of_class(kind), _shortened(found[2] or found[1]))
    if moved := _MOVED.search(text):
        remedy = (
            "the storage was moved, and the checkpoint of a flow that reads a table as a stream has the paths of its "
            "files: move the storage back, or compute the flow's table again with --full-refresh"
        )
        return Failure(Remedy.HUMAN, f"{moved[1]} was {moved[2]} before: {remedy}")
    if damaged := _DAMAGED.search(text):
        remedy = (
            "this file of the storage is damaged: restore the storage from a backup, begin a new checkpoint with "
            "`kafkaraw pipelines checkpoint rewind`, or compute the table again with --full-refresh"
        )
        return Failure(Remedy.HUMAN, f"{damaged[0]}: {remedy}")
    if _RECORD_CONDITIONS.search(text):
        return Failure(Remedy.RECORD, _shortened(_condition_line(text, _RECORD_CONDITIONS)))
    if _HUMAN_CONDITIONS.search(text):
        return Failure(Remedy.HUMAN, _shortened(_condition_line(text, _HUMAN_CONDITIONS)))
    if _TRACEBACK in text:
        return _of_user_code(text)
    return Failure(Remedy.RETRY, _shortened(_first_line(text)))


def _is_passing(cause: BaseException | None) -> bool:
    """Return whether a function of the pipeline failed, when it was evaluated, for a reason that passes."""
    return isinstance(cause, (OSError, RetriableError)) and not isinstance(cause, FileNotFoundError)


def _of_user_code(text: str) -> Failure:
    """Sort an exception that a Python function of the pipeline has raised, or Python itself in a worker."""
    lines = _PYTHON_EXCEPTION.findall(text[text.index(_TRACEBACK) :])
    name = lines[-1] if lines else "an exception"
    position = text.rfind(name)
    line = text[position:].splitlines()[0] if position >= 0 else name
    if _PASSING_EXCEPTIONS.search(line):
        return Failure(Remedy.RETRY, _shortened(line))
    remedy = "wrap the function in kafkaraw.pipelines.map_records, which makes such records dead letters"
    return Failure(Remedy.RECORD, _shortened(f"a Python function raised {line}: correct it, or {remedy}"))


def _remedy_of_class(kind: type[KafkaError]) -> Remedy:
    if issubclass(kind, _RECORD_ERRORS):
        return Remedy.RECORD
    if issubclass(kind, RetriableError):
        return Remedy.RETRY
    return Remedy.HUMAN if issubclass(kind, _HUMAN_ERRORS) else Remedy.RETRY


def _class_named(name: str) -> type[KafkaError] | None:
    found = {"DataLossError": DataLossError, "PipelineError": PipelineError, "PipelineErrors": PipelineError}.get(
        name, getattr(errors, name, None)
    )
    return found if isinstance(found, type) and issubclass(found, KafkaError) else None


def _whole_text(error: BaseException) -> str:
    texts, seen = list[str](), set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        texts.append(f"{type(each).__name__}: {each}")
        each = each.__cause__
    return "\n".join(texts)


def _condition_line(text: str, pattern: re.Pattern[str]) -> str:
    found = pattern.search(text)
    assert found is not None
    start = text.rfind("\n", 0, found.start()) + 1
    return (
        text[start:].splitlines()[0][max(found.start() - start, 0) :] if found[0].startswith("[") else _first_line(text)
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "an error without text")


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."


@dataclass(slots=True)
class Backoff:
    """When a failed flow starts again: after 1, 2, 4... seconds, at most `max_s`, less a random part.

    Args:
        first_s: delay after the first failure.
        max_s: the longest delay.
        attempts_max: failures in a row after which there is no further attempt; None for no limit.
        failures: in a row so far.
    """

    first_s: float = 1.0
    max_s: float = 60.0
    attempts_max: int | None = None
    failures: int = 0

    def failed(self, random: float) -> float | None:
        """Count a failure.

        Args:
            random: a number from 0 to 1, which spreads the restarts of several flows.

        Returns:
            seconds until the next attempt; None if there is none.
        """
        self.failures += 1
        if self.attempts_max is not None and self.failures >= self.attempts_max:
            return None
        delay = min(self.first_s * 2.0 ** min(self.failures - 1, 30), self.max_s)
        return delay * (1 - 0.3 * random)

    def succeeded(self) -> None:
        """Note that a micro-batch was finished: the next failure is the first in a row."""
        self.failures = 0

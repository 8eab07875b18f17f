"""Regular expressions that consumers subscribe with, matched against the names of all topics.

Kafka uses RE2. Here it is Python's `re`, where what RE2 does not have is refused; see docs/decisions/0018.
Source: org.apache.kafka.coordinator.group.modern.consumer.TopicRegexResolver; KIP-848.
"""

from __future__ import annotations

import re
from typing import Final

from kafkaraw.broker.refusal import Refusal
from kafkaraw.protocol.error_codes import ErrorCode

# Looking around, atomic groups, conditions, references back, possessive repetitions; an even number of \ before it.
_NOT_RE2: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!>(#]|<[=!]|P=)|\\[1-9]|[*+?}]\+)")


def compile_regex(text: str) -> re.Pattern[str]:
    """Check and compile an expression.

    Raises:
        Refusal: INVALID_REGULAR_EXPRESSION.
    """
    found = _NOT_RE2.search(text)
    problem = "" if found is None else f"{found.group()!r} is not in RE2"
    if not problem:
        try:
            return re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            problem = str(error)
    raise Refusal(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text}` is not a valid regular expression: {problem}.",
    )

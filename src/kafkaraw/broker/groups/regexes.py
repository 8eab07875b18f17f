"""Regular expressions that consumers subscribe with, matched against the names of topics.

As in Kafka, RE2 matches them (docs/decisions/0018). Kafka matches on a thread of its own; this broker matches on its
event loop, so the work for the regexes of one group is limited. Start at `compile_regex`.
Source: org.apache.kafka.coordinator.group.Utils.throwIfRegularExpressionIsInvalid and
org.apache.kafka.coordinator.group.GroupMetadataManager.refreshRegularExpressions; KIP-848.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.core.linear_regex import InvalidRegexError, LinearRegex, compile_linear
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.error_codes import ErrorCode

REGEXES_PER_GROUP_MAX: Final = 32
"""Different regexes of one group's members. Usually it is one, or two while an application is upgraded."""
WORK_MAX: Final = 100_000_000
"""The limit for sum(size of a regex) * sum(length of a topic name) of one group.

RE2 takes at most 2.5 ns per unit (measured with patterns that exhaust its cache of states), mostly a tenth of that: a
group's regexes take 250 ms at worst. With 10,000 topics of 30 characters, the regexes may have 333 instructions:
`orders-.*` has 19.
"""


def compile_regex(text: str) -> LinearRegex:
    """Compile the regex of a member.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        return compile_linear(text)
    except (InvalidRegexError, ConfigError) as error:
        raise _invalid(text, str(error)) from error


def check_work(text: str, others: Iterable[str], names: Iterable[str]) -> None:
    """Check that a group may have one more regex.

    Args:
        text: the regex.
        others: the other regexes of the group.
        names: the topics to match.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    known = [other for other in others if other != text]
    if len(known) >= REGEXES_PER_GROUP_MAX:
        raise _invalid(text, f"the group's members have {len(known)} others, the limit is {REGEXES_PER_GROUP_MAX}")
    size = sum(compile_regex(each).size for each in (text, *known))
    length = sum(map(len, names))
    if size * length > WORK_MAX:
        raise _invalid(
            text,
            f"the regexes of the group have {size} instructions, and the names of the topics have {length} characters; "
            f"the product may be {WORK_MAX}; simplify the regexes, or subscribe by names",
        )


def _invalid(text: str, problem: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text}` is not a valid regular expression: {problem}.",
    )

"""Faults as text, as `Produce topic=flights nth=3: answer NOT_LEADER_OR_FOLLOWER`. Start at `add_rule`."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from kafkaraw.broker.faults import Fault, Faults, Trigger
from kafkaraw.errors import UsageError
from kafkaraw.inspect.frames import api_named
from kafkaraw.protocol.error_codes import ErrorCode

ANY_API: Final = "any"
FORM: Final = "a fault is API [name=value ...]: ACTION, as 'Produce topic=flights nth=3: answer NOT_LEADER_OR_FOLLOWER'"
_NAMES: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "client": ("client_id", str),
    "topic": ("topic", str),
    "partition": ("partition", int),
    "broker": ("node", int),
    "version": ("version", int),
    "nth": ("nth", int),
    "every": ("every", int),
    "times": ("times", int),
}
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kM]?)B/s")
_FACTORS: Final = {"": 1, "k": 1000, "M": 1_000_000}


def add_rule(faults: Faults, text: str) -> Fault:
    """Add a fault to a plan. Without `times`, it applies as long as the plan.

    Args:
        faults: the plan.
        text: the fault.

    Raises:
        UsageError: the text is no fault; says what is wrong with it.
    """
    where, colon, action = text.partition(":")
    words = where.split()
    if not colon or not words or not action.strip():
        raise UsageError(f"{text!r}: {FORM}")
    conditions: dict[str, Any] = {"times": None}
    for word in words[1:]:
        name, value = _condition(word, text)
        conditions[name] = value
    api = None if words[0].lower() == ANY_API else api_named(words[0]).key
    return _with_action(faults.on(api, **conditions), action.split(), text)


def _condition(word: str, text: str) -> tuple[str, object]:
    name, equals, value = word.partition("=")
    if name not in _NAMES or not equals:
        raise UsageError(f"{text!r}: {word!r} is no condition; there are {', '.join(f'{known}=' for known in _NAMES)}")
    known, convert = _NAMES[name]
    try:
        return known, convert(value)
    except ValueError:
        raise UsageError(f"{text!r}: {name} is a number, not {value!r}") from None


def _with_action(trigger: Trigger, words: list[str], text: str) -> Fault:
    match words:
        case ["answer", name]:
            return trigger.answer(_code(name, text))
        case ["delay", *time]:
            return trigger.delay(_time(" ".join(time), text))
        case ["limit", *rate]:
            return trigger.limit(_rate(" ".join(rate), text))
        case ["close"]:
            return trigger.close()
        case ["close", "handled"]:
            return trigger.close(handled=True)
        case ["swallow"]:
            return trigger.swallow()
        case ["swallow", "handled"]:
            return trigger.swallow(handled=True)
        case ["cut", count] if count.isdecimal():
            return trigger.cut(int(count))
        case ["corrupt"]:
            return trigger.corrupt()
    raise UsageError(
        f"{text!r}: {' '.join(words)!r} is no action; there are answer CODE, delay TIME, limit RATE, close [handled], "
        "swallow [handled], cut BYTES, corrupt"
    )


def _code(name: str, text: str) -> ErrorCode:
    try:
        return ErrorCode(int(name)) if name.lstrip("-").isdecimal() else ErrorCode[name.upper()]
    except (KeyError, ValueError):
        near = get_close_matches(name.upper(), [code.name for code in ErrorCode], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"{text!r}: {name!r} is no error code{hint}") from None


def _time(value: str, text: str) -> float:
    found = _TIME.fullmatch(value)
    if found is None:
        raise UsageError(f"{text!r}: {value!r} is no time; write 500ms or 2s")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def _rate(value: str, text: str) -> float:
    found = _RATE.fullmatch(value)
    if found is None:
        raise UsageError(f"{text!r}: {value!r} is no rate; write 500kB/s or 2MB/s")
    return float(found[1]) * _FACTORS[found[2]]

"""The broker's loggers and their levels, under Kafka's names: `root` stands for `kafkaraw`, from which all others hang.

Levels live in Python's `logging`, so they are shared by all brokers of a process, and are not kept over a restart.
Source: KIP-412; org.apache.kafka.server.logger.{LoggingController, RuntimeLoggerManager} of Kafka 4.3.
"""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "root"
_PACKAGE: Final = "kafkaraw"
TRACE: Final = 5
"""Kafka's level below DEBUG; Python has none of that name, but takes any number."""

LEVELS: Final[dict[str, int]] = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}


def levels() -> dict[str, str]:
    """The level in force of each logger, by its name."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith(f"{_PACKAGE}.")]
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in (ROOT, *sorted(names))}


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger that there is; None makes it follow the one above it."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_PACKAGE if name == ROOT else name)


def _name_of(level: int) -> str:
    """Kafka's name for the level; for one between two of them, that of the lower one."""
    below = [(number, name) for name, number in LEVELS.items() if number <= level]
    return max(below)[1] if below else "TRACE"

"""Text from the other end of the wire, for logs: it stays on one line, and sends no commands to a terminal.

For messages that quote such text, as those of errors do; a value by itself is logged with `%r`.
"""

from __future__ import annotations


def printable(text: object) -> str:
    """Return the text with line breaks, escapes and other unprintable characters written as Python writes them."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown)

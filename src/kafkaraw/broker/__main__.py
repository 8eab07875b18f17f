"""`python -m kafkaraw.broker`: the child process of `EmbeddedBroker(process=True)`.

Users start `kafkaraw broker`. This process takes its properties and users as JSON in the first line of its input, logs
to standard error, and stops with its parent.
"""

from __future__ import annotations

import json
import logging
import sys

from kafkaraw.broker.foreground import ERROR_LINE, run_broker
from kafkaraw.errors import KafkaError


def main() -> int:
    """Run until the parent closes standard input, or a signal comes."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    given = json.loads(sys.stdin.readline() or "{}")
    try:
        run_broker(given.get("properties"), end_with_stdin=True, users=given.get("users"))
    except (KafkaError, OSError) as error:
        sys.stdout.write(f"{ERROR_LINE}{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

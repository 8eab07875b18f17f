"""A driver that starts streaming queries, each of which stops at a step of its first micro-batch, and waits.

Run as a script by the tests, which kill it. Its one argument is JSON: servers, and a list of cases.
"""

from __future__ import annotations

import json
import sys
import threading

from kafkaraw.spark import session
from tests.spark import stalling
from tests.spark.kill_case import KillCase


def main() -> None:
    job = json.loads(sys.argv[1])
    cases = [KillCase(**case) for case in job["cases"]]
    spark = session("to be killed", master=f"local[{2 * len(cases)}]")
    spark.sparkContext.setLogLevel("OFF")
    stalling.register(spark)
    for case in cases:
        case.start(spark, job["servers"])
    threading.Event().wait()


if __name__ == "__main__":
    main()

"""One measurement in a process of its own: `python -m bench.produce.worker WORK SETTINGS BOOTSTRAP TOPIC`.

Prints one line of JSON. CPU is that of the whole process, all threads.
"""

from __future__ import annotations

import json
import sys
import time

from bench.produce import others, ours
from bench.settings import Settings


def main(name: str, settings_json: str, bootstrap_servers: str, topic: str) -> None:
    """Run one measurement and print it."""
    make = ours.WORKS.get(name) or others.WORKS[name]
    work = make(Settings.from_json(settings_json), bootstrap_servers, topic)
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    times = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps(times | found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

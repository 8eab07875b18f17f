"""One measurement in a process of its own: `python -m bench.worker WORKLOAD CLIENT SETTINGS BOOTSTRAP TOPIC`.

Prints one line of JSON. Imports, connecting and a first record come before the watch is started; the watch stops when
everything is acknowledged, or read, and the client has let go. CPU is that of the whole process, all threads.
"""

from __future__ import annotations

import json
import sys
import time

from bench.settings import Settings
from bench.workloads import WORKLOADS


def main(workload: str, client: str, settings_json: str, bootstrap_servers: str, topic: str) -> None:
    """Run one measurement and print it."""
    settings = Settings.from_json(settings_json)
    work = WORKLOADS[workload].prepare[client](settings, bootstrap_servers, topic)
    wall, cpu = time.perf_counter(), time.process_time()
    records = work()
    measured = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu, "records": records}
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

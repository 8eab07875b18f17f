"""What the progress bars and the screen get to know, and what stays off the screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafkaraw.demo.spark_run import QueryMeter, _stderr_to


def progress(batch_id: int, rows: int, *, dropped: int = 0, kept: int = 0) -> Any:
    operators = [SimpleNamespace(numRowsDroppedByWatermark=dropped, numRowsTotal=kept)]
    return SimpleNamespace(
        batchId=batch_id, numInputRows=rows, processedRowsPerSecond=rows * 2.0, stateOperators=operators
    )


def query(*reports: Any) -> Any:
    return SimpleNamespace(recentProgress=list(reports))


def test_each_micro_batch_counts_once_however_often_it_is_seen():
    meter = QueryMeter("q")
    meter.update(query(progress(0, 100)))
    meter.update(query(progress(0, 100), progress(1, 50)))
    meter.update(query(progress(0, 100), progress(1, 50), progress(1, 0)))
    assert (meter.rows, meter.rows_per_s) == (150, 100.0)


def test_late_rows_add_up_and_the_highest_state_is_kept():
    meter = QueryMeter("q")
    meter.update(query(progress(0, 1, dropped=2, kept=5), progress(1, 1, dropped=3, kept=9), progress(2, 1, kept=4)))
    assert (meter.late_rows, meter.state_rows_max) == (5, 9)


def test_what_a_child_says_on_standard_error_goes_to_the_log(tmp_path: Path, capfd: Any):
    log = tmp_path / "log"
    talk = [sys.executable, "-c", "import sys; print('noise', file=sys.stderr)"]
    with _stderr_to(log):
        subprocess.run(talk, check=True, timeout=60)
    sys.stderr.write("ours\n")
    sys.stderr.flush()
    assert log.read_text() == "noise\n"
    assert capfd.readouterr().err == "ours\n"

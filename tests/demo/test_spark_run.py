"""What the progress bars and the screen get to know, and what stays off the screen."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaraw.demo.spark_run import QueryMeter, SparkRun, _stderr_to, reason_of
from tests.interrupting import interrupted_elsewhere


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


WORKER_FAILED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown:
Traceback (most recent call last):
  File "selector_events.py", line 674, in _sock_connect_cb
    raise OSError(err, f'Connect call failed {address}')
ConnectionRefusedError: [Errno 111] Connect call failed

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "dial.py", line 152, in _connect_any
    raise NetworkError(
kafkaraw.errors.NetworkError: cannot connect to 127.0.0.1:1: nothing listens there
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 1, runId = 2]
"""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError(WORKER_FAILED), "cannot connect to 127.0.0.1:1: nothing listens there"),
        (RuntimeError('Traceback:\n  File "x.py", line 1\nValueError: 7 SQLSTATE: 38000'), "ValueError: 7"),
        (RuntimeError("[PATH_NOT_FOUND] no such path.\n\tat org.apache.spark"), "[PATH_NOT_FOUND] no such path."),
        (RuntimeError(""), "RuntimeError"),
    ],
)
def test_of_a_traceback_in_spark_s_message_only_what_went_wrong_is_told(error: Exception, reason: str):
    assert reason_of(error) == reason


def test_ctrl_c_ends_the_wait_for_spark_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    go_on = threading.Event()
    monkeypatch.setattr(SparkRun, "_start", lambda _: go_on.wait(60))
    monkeypatch.setattr(SparkRun, "_stop", lambda _: None)
    spark = SparkRun(tmp_path, log_kept=False)
    spark.start()
    with interrupted_elsewhere():
        spark.wait_until_started()
    go_on.set()
    spark.stop()

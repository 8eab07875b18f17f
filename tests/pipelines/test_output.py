"""What a run shows never blocks it: a slow reader misses progress, never an error, and a gone one is noticed."""

from __future__ import annotations

import os
import threading
import time

import pytest

from kafkaraw.pipelines.running.output import Output
from kafkaraw.pipelines.running.reports import JsonLines

LINE = "x" * 1_000 + "\n"


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for each in ends:
        try:
            os.close(each)
        except OSError:
            continue


def read_all(descriptor: int) -> str:
    content = b""
    while data := os.read(descriptor, 65_536):
        content += data
    return content.decode()


def test_texts_are_written_in_their_order(pipe):
    output = Output(pipe[1])
    for number in range(50):
        output.write(f"{number}\n")
    output.close()
    assert read_all(pipe[0]).split() == [str(number) for number in range(50)]


def test_a_reader_that_does_not_read_misses_progress_but_no_error(pipe):
    output = Output(pipe[1])
    report = JsonLines(output)
    started = time.monotonic()
    for _ in range(2_000):
        output.write(LINE)
    with output.kept():
        output.write("an error\n")
    report.started(pipeline="p")
    for _ in range(2_000):
        output.write(LINE)
    assert time.monotonic() - started < 5
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(read_all(pipe[0])))
    reader.start()
    output.close()
    reader.join(10)
    lines = found[0].splitlines()
    assert 100 < len(lines) < 1_000
    assert "an error" in lines
    assert any('"event": "started"' in each for each in lines)


def test_closing_gives_up_if_nobody_reads(pipe, monkeypatch):
    monkeypatch.setattr("kafkaraw.pipelines.running.output._CLOSE_TIMEOUT_S", 0.2)
    output = Output(pipe[1])
    for _ in range(200):
        output.write(LINE)
    started = time.monotonic()
    output.close()
    assert time.monotonic() - started < 5


def test_a_reader_that_has_gone_is_noticed_without_an_error(pipe):
    os.close(pipe[0])
    output = Output(pipe[1])
    report = JsonLines(output)
    report.started(pipeline="p")
    deadline = time.monotonic() + 10
    while not report.is_broken:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    report.started(pipeline="p")
    output.close()

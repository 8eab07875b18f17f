"""The guide about Wireshark, Kaitai and ImHex: its commands print what it shows, and its programs run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.inspect.sample_frames import prefixed
from tests.protocol_exports.kaitai import compiled, why_no_kaitai
from tests.protocol_exports.packets import Conversation, write_capture
from tests.protocol_exports.tshark import why_no_tshark

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "see-kafka-in-other-tools.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)\n((?:(?!```|\$ ).*\n)*)", PAGE, re.MULTILINE)
PROGRAMS = re.findall(r"```python\n(.*?)```(?:\n\nThis prints\n\n```\n(.*?)```)?", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the guide reads."""
    asked = encode_request(
        RequestHeader(3, 12, 1, "shop"), MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    )
    missing = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="orders", partitions=[])
    answer = encode_response(ResponseHeader(1), MetadataResponse(brokers=[], controller_id=1, topics=[missing]), 12)
    beat = HeartbeatRequest(group_id="billing", generation_id=3, member_id="m")
    told = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    sent = [
        (True, prefixed(asked)),
        (False, prefixed(answer)),
        (True, prefixed(encode_request(RequestHeader(12, 4, 2, "shop"), beat))),
        (False, prefixed(encode_response(ResponseHeader(2), told, 4))),
    ]
    made = tmp_path_factory.mktemp("guide")
    write_capture(made / "capture.pcap", [Conversation(sent=sent)])
    (made / "requests.bin").write_bytes(prefixed(asked))
    (made / "response.bin").write_bytes(answer)
    return made


def run(command: list[str] | str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        shell=isinstance(command, str),
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(why_no_tshark() is not None, reason=why_no_tshark() or "")
def test_commands_print_what_the_guide_shows(folder: Path) -> None:
    assert len(COMMANDS) == 7
    for command, shown in COMMANDS:
        printed = run(command, folder)
        for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE):
            assert part.rstrip() in printed, command


def test_programs_print_what_the_guide_shows(folder: Path) -> None:
    missing = why_no_kaitai()
    if missing is not None:
        pytest.skip(missing)
    compiled([API_BY_NAME["Metadata"]], folder)
    for command, _ in COMMANDS:
        if "json-schema" in command:
            run(command, folder)
    assert len(PROGRAMS) == 2
    for number, (program, output) in enumerate(PROGRAMS):
        (folder / f"program_{number}.py").write_text(program)
        assert run([sys.executable, f"program_{number}.py"], folder) == output

"""Java's own assignors, asked through a pipe (see JavaAssignors.java): what ours are held against."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafkaraw.core.group.assignors import Topics
from kafkaraw.core.group.consumer_protocol import MemberSubscription
from kafkaraw.records import TopicPartition
from tests.interop.java_tools import java_command

SOURCE = Path(__file__).with_name("JavaAssignors.java")


class JavaAssignors:
    """A Java process that assigns."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command(SOURCE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def assign(
        self, name: str, topics: Topics, members: Mapping[str, MemberSubscription]
    ) -> dict[str, set[TopicPartition]]:
        """What each member gets from Java's assignor."""
        answer = self._ask(
            {
                "assignor": name,
                "topics": {topic: [sorted(racks) for racks in partitions] for topic, partitions in topics.items()},
                "members": {
                    member_id: {
                        "topics": member.topics,
                        "owned": member.owned_partitions,
                        "userData": None if member.user_data is None else member.user_data.hex(),
                        "generation": member.generation_id,
                        "instance": member.group_instance_id,
                        "rack": member.rack_id,
                    }
                    for member_id, member in members.items()
                },
            }
        )
        return {member_id: {TopicPartition(*pair) for pair in given} for member_id, given in answer.items()}

    def user_data(self, name: str, partitions: list[TopicPartition], generation_id: int) -> bytes | None:
        """What Java's assignor adds to the subscription of a member that was given these partitions."""
        answer = self._ask({"assignor": name, "given": partitions, "generation": generation_id})["userData"]
        return None if answer is None else bytes.fromhex(answer)

    def read_subscription(self, metadata: bytes, version: int) -> tuple[bytes, int, str | None]:
        """Have Java read a subscription: what it writes again, the generation and the rack that it understood."""
        answer = self._ask({"read": metadata.hex(), "version": version})
        return bytes.fromhex(answer["written"]), answer["generation"], answer["rack"]

    def _ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert isinstance(answer, dict)
        assert "!failed" not in answer, f"Java says of {question}: {answer}"
        return answer

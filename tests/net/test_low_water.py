"""The loop is woken for large pieces of a large frame, and at once for everything else."""

from __future__ import annotations

import select
import socket
import sys

import pytest

from kafkaraw.net.transport import PIECE_BYTES, WORTH_BYTES, LowWater

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="marks are set on Linux only")


class SocketOfMarks:
    """Remembers what was set."""

    def __init__(self) -> None:
        self.marks: list[int] = []

    def setsockopt(self, level: int, name: int, value: int, /) -> None:
        assert (level, name) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.marks.append(value)


class ClosedSocket(SocketOfMarks):
    def setsockopt(self, level: int, name: int, value: int, /) -> None:
        super().setsockopt(level, name, value)
        raise OSError("bad file descriptor")


def test_a_large_frame_comes_in_pieces_and_the_last_one_is_what_is_left() -> None:
    sock = SocketOfMarks()
    low_water = LowWater(sock)
    for missing in (3 * PIECE_BYTES, 2 * PIECE_BYTES, PIECE_BYTES + 5, 5, 0, 0):
        low_water.wait_for(missing)
    assert sock.marks == [PIECE_BYTES, 5, 1]


def test_a_piece_that_came_in_parts_is_waited_for_once_more() -> None:
    sock = SocketOfMarks()
    low_water = LowWater(sock)
    for missing in (PIECE_BYTES - 1, PIECE_BYTES // 2, 0):
        low_water.wait_for(missing)
    assert sock.marks == [PIECE_BYTES - 1, PIECE_BYTES // 2, 1]


def test_short_frames_set_no_mark() -> None:
    sock = SocketOfMarks()
    low_water = LowWater(sock)
    for missing in (0, 10, WORTH_BYTES - 1, 1, 0):
        low_water.wait_for(missing)
    assert sock.marks == []


def test_a_socket_that_refuses_a_mark_is_not_asked_again() -> None:
    sock = ClosedSocket()
    low_water = LowWater(sock)
    for missing in (PIECE_BYTES, 5, 0):
        low_water.wait_for(missing)
    assert len(sock.marks) == 1


def test_the_kernel_says_nothing_before_a_piece_is_there_but_does_when_the_other_side_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with receiver, select.epoll() as epoll:
        LowWater(receiver).wait_for(WORTH_BYTES)
        epoll.register(receiver, select.EPOLLIN)
        with sender:
            sender.sendall(bytes(WORTH_BYTES - 1))
            assert not epoll.poll(0)
        assert epoll.poll(30)
        assert len(receiver.recv(WORTH_BYTES)) == WORTH_BYTES - 1

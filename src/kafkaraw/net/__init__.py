"""Input and output: the only package that knows sockets, threads and asyncio's transports.

It moves frames and translates the operating system's errors; it decides nothing. Start at `link` (what a connection
is), then `network` (how one is made).
"""

from kafkaraw.net.clock import Clock as Clock
from kafkaraw.net.clock import SystemClock as SystemClock
from kafkaraw.net.link import Link as Link
from kafkaraw.net.link import LinkHandler as LinkHandler
from kafkaraw.net.link import Segments as Segments
from kafkaraw.net.loop_thread import LoopThread as LoopThread
from kafkaraw.net.loop_thread import client_loop_thread as client_loop_thread
from kafkaraw.net.network import AsyncioNetwork as AsyncioNetwork
from kafkaraw.net.network import Network as Network

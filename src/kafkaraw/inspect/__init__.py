"""Read the wire: any bytes of the protocol as a tree with offsets, values and meanings.

Start at `annotate`; `read_bytes` reads bytes in the forms that users paste. Must not open sockets.
"""

from kafkaraw.inspect.annotation import Annotation as Annotation
from kafkaraw.inspect.annotation import Problem as Problem
from kafkaraw.inspect.annotation import annotate as annotate
from kafkaraw.inspect.annotation import split_frames as split_frames
from kafkaraw.inspect.text_input import read_bytes as read_bytes
from kafkaraw.protocol.annotate import Node as Node

"""Bytes to values and back, for every message of the Kafka protocol. Pure: no I/O, no clock, no threads.

Start at `frames` for whole requests and responses, at `declare` for the language in which messages are written down,
and at `messages/` for the messages themselves.
"""

from kafkaraw.protocol.declare import VersionRange as VersionRange
from kafkaraw.protocol.frames import REQUEST_HEADER_SIZE_MIN as REQUEST_HEADER_SIZE_MIN
from kafkaraw.protocol.frames import FrameReader as FrameReader
from kafkaraw.protocol.frames import RequestHeader as RequestHeader
from kafkaraw.protocol.frames import ResponseHeader as ResponseHeader
from kafkaraw.protocol.frames import Segment as Segment
from kafkaraw.protocol.frames import decode_in_steps as decode_in_steps
from kafkaraw.protocol.frames import decode_message as decode_message
from kafkaraw.protocol.frames import decode_request as decode_request
from kafkaraw.protocol.frames import decode_request_header as decode_request_header
from kafkaraw.protocol.frames import decode_response as decode_response
from kafkaraw.protocol.frames import encode_message as encode_message
from kafkaraw.protocol.frames import encode_request as encode_request
from kafkaraw.protocol.frames import encode_request_segments as encode_request_segments
from kafkaraw.protocol.frames import encode_response as encode_response
from kafkaraw.protocol.frames import encode_response_in_steps as encode_response_in_steps
from kafkaraw.protocol.frames import encode_response_segments as encode_response_segments
from kafkaraw.protocol.frames import segments_size as segments_size
from kafkaraw.protocol.types import ZERO_UUID as ZERO_UUID
from kafkaraw.protocol.types import FileSlice as FileSlice
from kafkaraw.protocol.types import Uuid as Uuid

"""Turn (message class, version) into flat encode and decode functions.

The source is generated on first use by `decoder_source` and `encoder_source`, and compiled; `source_of` prints it.
Generated code is optimistic: it keeps no field path and does not catch Python's own errors. The callers in `frames`
turn those into a `ProtocolError` by walking the message once more with `annotate` or `explain`.
This module must not read sockets, frames or headers. Start at `compile_decoder` and `compile_encoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from kafkaraw.protocol.decoder_source import DecoderWriter
from kafkaraw.protocol.encoder_source import EncoderWriter

Decoder: TypeAlias = Callable[[Any, int], tuple[Any, int]]
Encoder: TypeAlias = Callable[[Any, Callable[[Any], None]], None]
StepDecoder: TypeAlias = Callable[[Any, int], Generator[None, None, tuple[Any, int]]]
StepEncoder: TypeAlias = Callable[[Any, Callable[[Any], None]], Generator[None, None, None]]

_DECODERS: dict[tuple[type[object], int], Decoder] = {}
_ENCODERS: dict[tuple[type[object], int], Encoder] = {}
_STEP_DECODERS: dict[tuple[type[object], int], StepDecoder] = {}
_PART_DECODERS: dict[tuple[type[object], type[object], int], Decoder] = {}
_PART_STEP_DECODERS: dict[tuple[type[object], type[object], int], StepDecoder] = {}
_STEP_ENCODERS: dict[tuple[type[object], int], StepEncoder] = {}


def compile_decoder(cls: type[object], version: int) -> Decoder:
    """Make `decode(buffer, at) -> (message, position after it)` for one version of a message.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
    """
    decoder = _DECODERS.get((cls, version))
    if decoder is None:
        decoder = _DECODERS[cls, version] = DecoderWriter(cls, version).build("decode")
    return decoder


def compile_encoder(cls: type[object], version: int) -> Encoder:
    """Make `encode(message, write)`, which calls `write` with pieces of bytes, for one version of a message.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
    """
    encoder = _ENCODERS.get((cls, version))
    if encoder is None:
        encoder = _ENCODERS[cls, version] = EncoderWriter(cls, version).build("encode")
    return encoder


def compile_step_decoder(cls: type[object], version: int) -> StepDecoder:
    """The same as `compile_decoder`, as a generator that stops after each element of an array.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
    """
    decoder = _STEP_DECODERS.get((cls, version))
    if decoder is None:
        decoder = _STEP_DECODERS[cls, version] = DecoderWriter(cls, version, in_steps=True).build("decode")
    return decoder


def compile_part_decoder(cls: type[object], message: type[object], version: int) -> Decoder:
    """The same as `compile_decoder`, for a structure inside of a message.

    Raises:
        UnsupportedVersionError: the message does not declare that version.
    """
    decoder = _PART_DECODERS.get((cls, message, version))
    if decoder is None:
        decoder = DecoderWriter(cls, version, message=message).build("decode")
        _PART_DECODERS[cls, message, version] = decoder
    return decoder


def compile_part_step_decoder(cls: type[object], message: type[object], version: int) -> StepDecoder:
    """The same as `compile_part_decoder`, as a generator that stops after each element of an array.

    Raises:
        UnsupportedVersionError: the message does not declare that version.
    """
    decoder = _PART_STEP_DECODERS.get((cls, message, version))
    if decoder is None:
        decoder = DecoderWriter(cls, version, in_steps=True, message=message).build("decode")
        _PART_STEP_DECODERS[cls, message, version] = decoder
    return decoder


def compile_step_encoder(cls: type[object], version: int) -> StepEncoder:
    """The same as `compile_encoder`, as a generator that stops after each element of an array.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
    """
    encoder = _STEP_ENCODERS.get((cls, version))
    if encoder is None:
        encoder = _STEP_ENCODERS[cls, version] = EncoderWriter(cls, version, in_steps=True).build("encode")
    return encoder


def source_of(cls: type[object], version: int) -> str:
    """Return the generated source of both functions of one version, for people to read."""
    return DecoderWriter(cls, version).source() + "\n\n" + EncoderWriter(cls, version).source()

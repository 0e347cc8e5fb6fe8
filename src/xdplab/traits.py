"""Traits in Python: the key/value store of bpf/traits.bpf.h as bytes and as a dict.

For AF_XDP receivers, whose packets come with the bytes in front of their data, for senders that
set something before a program runs, and for tests. Values are bytes of length 2, 4 or 8, as they
lie in memory: a number is in the byte order of the machine that wrote it, little-endian on all that
xdplab supports.

The encoding: a header of two u64 words, high and low, and the values in order of keys without gaps.
Bit k of (high, low) codes key k: 00 unset, 01 two bytes, 10 four, 11 eight.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from xdplab.errors import TraitsError

KEYS = 64
"""Keys are 0 to 63."""

HEADER_BYTES = 16
"""Two u64 words; the smallest area there can be."""

VALUE_BYTES = (2, 4, 8)
"""Lengths that a value can have; a length's place, from 1 on, is its code."""

_HEADER = struct.Struct("<QQ")


def include_folder() -> Path:
    """The folder with traits.bpf.h, for a compiler's -I:

    `clang -target bpf -I$(python -c 'import xdplab.traits as t; print(t.include_folder())') ...`
    """
    return Path(__file__).resolve().parent / "bpf"


def encode(values: Mapping[int, bytes], area_bytes: int | None = None) -> bytes:
    """The area that holds these values, zeros behind them.

    `area_bytes` is its whole length, by default the least that metadata can have: a multiple of
    4. TraitsError for a key above 63, a value of another length, and where they do not fit.
    """
    high = low = 0
    body = b""
    for key in sorted(values):
        value = values[key]
        if not 0 <= key < KEYS:
            raise TraitsError(f"key {key} was to be set; keys are 0 to {KEYS - 1}")
        if len(value) not in VALUE_BYTES:
            raise TraitsError(
                f"key {key} was to be set to {len(value)} bytes; a value has 2, 4 or 8"
            )
        code = VALUE_BYTES.index(len(value)) + 1
        high |= (code >> 1) << key
        low |= (code & 1) << key
        body += value
    used_bytes = HEADER_BYTES + len(body)
    room_bytes = -(-used_bytes // 4) * 4 if area_bytes is None else area_bytes
    if used_bytes > room_bytes:
        raise TraitsError(
            f"{len(values)} values with their header take {used_bytes} bytes, "
            f"and the area has {room_bytes}; leave some out, or take a larger area"
        )
    return (_HEADER.pack(high, low) + body).ljust(room_bytes, b"\0")


def decode(area: bytes | bytearray | memoryview) -> dict[int, bytes]:
    """The values of an area by key, in order of keys; what lies behind the last one is ignored.

    `area` begins where the store does (xdp_md.data_meta). How long it is must be known: an AF_XDP
    descriptor does not tell, so sender and receiver agree on what traits_init is given. TraitsError
    where it is too short for its header, or for the values that its header tells of.
    """
    data = bytes(area)
    if len(data) < HEADER_BYTES:
        raise TraitsError(
            f"{len(data)} bytes cannot hold traits: their header alone has {HEADER_BYTES}. "
            "Does the program call traits_init, and is the area where it is looked for?"
        )
    high, low = _HEADER.unpack_from(data)
    values = {}
    at = HEADER_BYTES
    for key in range(KEYS):
        code = (high >> key & 1) << 1 | (low >> key & 1)
        if code:
            length = VALUE_BYTES[code - 1]
            values[key] = data[at : at + length]
            at += length
    if at > len(data):
        raise TraitsError(
            f"these {len(data)} bytes are no traits, or not all of them: their header "
            f"(high {high:#x}, low {low:#x}) tells of {at} bytes. The area has the length that "
            "traits_init was given and ends where the packet's data begins"
        )
    return values

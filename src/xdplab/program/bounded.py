"""Reads from bytes that nobody vouches for: every access is checked, every text is paid for.

An object file may be cut short, hostile or random. The two classes here are the only
way in which the ELF and BTF readers touch its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from xdplab.errors import ObjectError

_LONGEST_STRING = 4096


class Region:
    """A part of a file, known to error messages as `what`; little-endian."""

    __slots__ = ("data", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what

    def __len__(self) -> int:
        return len(self.data)

    def take(self, offset: int, size: int, what: str) -> bytes:
        """`size` bytes from `offset`; ObjectError where the region does not hold them."""
        if offset < 0 or size < 0 or offset + size > len(self.data):
            raise ObjectError(
                f"{self.what} is truncated or damaged: {what} would be bytes {offset} to "
                f"{offset + size} of {len(self.data)}"
            )
        return self.data[offset : offset + size]

    def unpack(self, layout: struct.Struct, offset: int, what: str) -> tuple[Any, ...]:
        """One record of `layout` at `offset`; ObjectError where it does not fit."""
        if offset < 0 or offset + layout.size > len(self.data):
            self.take(offset, layout.size, what)
        return layout.unpack_from(self.data, offset)

    def records(
        self, layout: struct.Struct, offset: int, count: int, what: str
    ) -> Iterator[tuple[Any, ...]]:
        """`count` adjacent records of `layout` from `offset`."""
        return layout.iter_unpack(self.take(offset, count * layout.size, what))


class StringTable:
    """NUL-terminated strings by offset.

    All strings together may take twice the table's size (strings share tails), so that no
    number of references into one long text can exhaust memory.
    """

    __slots__ = ("_budget", "_known", "_region")

    def __init__(self, region: Region) -> None:
        self._region = region
        self._known: dict[int, str] = {}
        self._budget = 2 * len(region) + 16 * _LONGEST_STRING

    def at(self, offset: int) -> str:
        """The string at `offset`; bytes that are not UTF-8 come as U+FFFD."""
        known = self._known.get(offset)
        if known is not None:
            return known
        data = self._region.data
        if not 0 <= offset < len(data):
            raise ObjectError(
                f"{self._region.what} has {len(data)} bytes, but a name at {offset} is asked for"
            )
        end = data.find(b"\0", offset, offset + _LONGEST_STRING)
        if end < 0:
            raise ObjectError(f"{self._region.what} has no end for the string at {offset}")
        self._budget -= end - offset
        if self._budget < 0:
            raise ObjectError(f"{self._region.what} is damaged: its strings overlap without end")
        text = data[offset:end].decode(errors="replace")
        self._known[offset] = text
        return text

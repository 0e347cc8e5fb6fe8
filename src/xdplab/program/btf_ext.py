"""Which source line an instruction comes from: reads section .BTF.ext.

The layout is that of libbpf's struct btf_ext_header and of the kernel's bpf_line_info:
after the header, each part begins with the size of its records, then has a
block for each code section.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from xdplab.errors import ObjectError
from xdplab.program.bounded import Region
from xdplab.program.btf import MAX_SIZE, Btf

MAX_LINES = 1 << 16

_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_CORE_PART = struct.Struct("<II")
_WORD = struct.Struct("<I")
_BLOCK = struct.Struct("<II")
_LINE = struct.Struct("<IIII")


class Line(NamedTuple):
    """A line info whose instruction is at `offset` bytes of its code section."""

    offset: int
    file: str
    line: int
    column: int
    text: str


class BtfExt:
    """Lines and CO-RE relocations by code section; lines in the order of their offsets.

    `core_offsets` holds the byte offsets of the instructions that CO-RE adapts.
    """

    def __init__(self, region: Region, btf: Btf) -> None:
        if len(region) > MAX_SIZE:
            raise ObjectError(f"{region.what} has {len(region)} bytes; at most {MAX_SIZE} are read")
        self._region = region
        header = region.unpack(_HEADER, 0, "the BTF.ext header")
        magic, _, _, header_size, _, _, line_offset, line_size = header
        if magic != _MAGIC:
            raise ObjectError(f"{region.what} does not begin with BTF's magic number")
        self.lines: dict[str, list[Line]] = {}
        self.core_offsets: dict[str, list[int]] = {}
        self._left = MAX_LINES
        for section, record in self._records(header_size + line_offset, line_size, btf):
            offset, file, text, position = _LINE.unpack_from(record)
            line = Line(
                offset,
                # clang puts ./ before a header that is beside its source.
                btf.strings.at(file).removeprefix("./"),
                position >> 10,
                position & 0x3FF,
                btf.strings.at(text).strip(),
            )
            self.lines.setdefault(section, []).append(line)
        for lines in self.lines.values():
            lines.sort(key=lambda line: line.offset)
        # Headers of before 2020 end without the CO-RE part.
        if header_size >= _HEADER.size + _CORE_PART.size:
            core_offset, core_size = region.unpack(_CORE_PART, _HEADER.size, "the CO-RE header")
            for section, record in self._records(header_size + core_offset, core_size, btf):
                (offset,) = _WORD.unpack_from(record)
                self.core_offsets.setdefault(section, []).append(offset)
        for offsets in self.core_offsets.values():
            offsets.sort()

    def _records(self, start: int, size: int, btf: Btf) -> Iterator[tuple[str, bytes]]:
        if size == 0:
            return
        end = start + size
        (record_size,) = self._region.unpack(_WORD, start, "the size of records")
        if not _LINE.size <= record_size <= 1024:
            raise ObjectError(f"{self._region.what} has records of {record_size} bytes")
        start += _WORD.size
        while start < end:
            name, count = self._region.unpack(_BLOCK, start, "a block of records")
            start += _BLOCK.size
            self._left -= count + 1
            if self._left < 0:
                raise ObjectError(f"{self._region.what} has more than {MAX_LINES} records")
            section = btf.strings.at(name)
            for index in range(count):
                yield (
                    section,
                    self._region.take(start + index * record_size, record_size, "a record"),
                )
            start += count * record_size

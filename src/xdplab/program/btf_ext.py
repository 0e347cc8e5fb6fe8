"""Source lines and CO-RE relocations of instructions: reads section .BTF.ext.

The layout is that of libbpf's struct btf_ext_header and of the kernel's bpf_line_info:
after the header, each part begins with the size of its records, then has a
block for each code section.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from xdplab.errors import ObjectError
from xdplab.program.bounded import Region
from xdplab.program.btf import MAX_SIZE, STRUCT, UNION, Btf

MAX_LINES = 1 << 16

_KNOWN_BYTES: Mapping[str, int] = {
    "arphdr": 8,
    "bpf_cpumap_val": 8,
    "bpf_devmap_val": 8,
    "bpf_fib_lookup": 64,
    "bpf_sock_tuple": 36,
    "ethhdr": 14,
    "frag_hdr": 8,
    "gre_base_hdr": 4,
    "icmp6hdr": 8,
    "icmphdr": 8,
    "in6_addr": 16,
    "in_addr": 4,
    "iphdr": 20,
    "ipv6_opt_hdr": 2,
    "ipv6hdr": 40,
    "sctphdr": 12,
    "tcp_word_hdr": 20,
    "tcphdr": 20,
    "udphdr": 8,
    "vlan_ethhdr": 18,
    "vlan_hdr": 4,
}
"""Structures that are laid out alike by every kernel, for they are on the wire or in its UAPI, with
their sizes (linux/if_ether.h, ip.h, bpf.h, ...)."""

_XDP_MD = (
    *("data", "data_end", "data_meta"),
    *("ingress_ifindex", "rx_queue_index", "egress_ifindex"),
)
"""Members of struct xdp_md (linux/bpf.h) in their order; each has four bytes."""

_CORE_LAYOUT = frozenset((0, 1, 3, 4, 5, 9))
"""Of enum bpf_core_relo_kind (linux/bpf.h), what a layout decides: a field's offset, size, sign and
shifts, a type's size."""

_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_CORE_PART = struct.Struct("<II")
_WORD = struct.Struct("<I")
_BLOCK = struct.Struct("<II")
_LINE = struct.Struct("<IIII")
_CORE = struct.Struct("<IIII")


class Line(NamedTuple):
    """A line info whose instruction is at `offset` bytes of its code section."""

    offset: int
    file: str
    line: int
    column: int
    text: str


class BtfExt:
    """Lines and CO-RE relocations by code section; lines in the order of their offsets.

    `core_offsets` holds the byte offsets of the instructions that CO-RE adapts. `core_misfits` has
    those, with the structure's name, whose structure is known and declared in another layout, as by
    a source that declares the members that it uses and no others.
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
        self.core_misfits: dict[str, list[tuple[int, str]]] = {}
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
                offset, type_number, _, kind = _CORE.unpack_from(record)
                self.core_offsets.setdefault(section, []).append(offset)
                misfit = _misfit(btf, type_number) if kind in _CORE_LAYOUT else ""
                if misfit:
                    self.core_misfits.setdefault(section, []).append((offset, misfit))
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


def _misfit(btf: Btf, type_number: int) -> str:
    """The name of a known structure that is declared otherwise, "" for all other types."""
    found = btf.resolve(type_number)
    if found is None or found.kind not in (STRUCT, UNION):
        return ""
    declared = btf.name(found)
    # What follows three underscores tells flavours of one type apart.
    name = declared.partition("___")[0]
    if name == "xdp_md":
        members = btf.members(found)
        fits = all(
            member.name in _XDP_MD and member.offset_bytes == 4 * _XDP_MD.index(member.name)
            for member in members
        )
    else:
        fits = found.target == _KNOWN_BYTES.get(name, found.target)
    return "" if fits else declared

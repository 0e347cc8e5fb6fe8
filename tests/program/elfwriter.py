"""Builds ELF objects byte by byte, sound or not: what no compiler would write."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

PROGBITS, SYMTAB, STRTAB, NOBITS, REL = 1, 2, 3, 8, 9
ALLOC, EXEC = 0x2, 0x4
FUNC, GLOBAL = 2, 1 << 4
EXIT_0 = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)


@dataclass
class SectionData:
    """One section; `size` and `offset` override what its data say."""

    name: str
    type: int = PROGBITS
    flags: int = 0
    data: bytes = b""
    link: int = 0
    info: int = 0
    size: int | None = None
    offset: int | None = None


@dataclass
class ElfWriter:
    """Sections from number 1 on; the symbol table and both string tables come last.

    `symbols` are (name, st_info, section number, value, size), from number 1 on.
    """

    sections: list[SectionData] = field(default_factory=list)
    symbols: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    machine: int = 247
    kind: int = 1
    byte_order: int = 1
    word_size: int = 2
    section_names: bytes | None = None
    symbol_names: bytes | None = None

    def program(self, name: str = "prog", section: str = "xdp") -> ElfWriter:
        """Adds `return 0` as a program in a section of its own."""
        self.sections.append(SectionData(section, PROGBITS, ALLOC | EXEC, EXIT_0))
        self.symbols.append((name, GLOBAL | FUNC, len(self.sections), 0, len(EXIT_0)))
        return self

    def build(self) -> bytes:
        """The whole file."""
        names, symbols = bytearray(b"\0"), bytearray(24)
        for name, info, home, value, size in self.symbols:
            symbols += struct.pack("<IBBHQQ", len(names), info, 0, home, value, size)
            names += name.encode() + b"\0"
        count = len(self.sections)
        sections = [
            SectionData(""),
            *self.sections,
            SectionData(".symtab", SYMTAB, data=bytes(symbols), link=count + 2),
            SectionData(".strtab", STRTAB, data=self.symbol_names or bytes(names)),
            SectionData(".shstrtab", STRTAB),
        ]
        section_names = bytearray()
        name_offsets = []
        for section in sections:
            name_offsets.append(len(section_names))
            section_names += section.name.encode() + b"\0"
        sections[-1].data = self.section_names or bytes(section_names)
        body, headers = bytearray(64), b""
        for section, name_offset in zip(sections, name_offsets, strict=True):
            headers += struct.pack(
                "<IIQQQQIIQQ",
                name_offset,
                section.type,
                section.flags,
                0,
                len(body) if section.offset is None else section.offset,
                len(section.data) if section.size is None else section.size,
                section.link,
                section.info,
                1,
                0,
            )
            body += section.data
        identity = b"\x7fELF" + bytes([self.word_size, self.byte_order, 1]) + bytes(9)
        body[:64] = struct.pack(
            "<16sHHIQQQIHHHHHH",
            identity,
            self.kind,
            self.machine,
            1,
            0,
            0,
            len(body),
            0,
            64,
            0,
            0,
            64,
            len(sections),
            len(sections) - 1,
        )
        return bytes(body) + headers


def btf_section(types: bytes, strings: bytes = b"\0") -> SectionData:
    """Section .BTF of these types and strings."""
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    return SectionData(".BTF", data=header + types + strings)


def btf_type(
    kind: int, name: int = 0, count: int = 0, target: int = 0, extra: bytes = b""
) -> bytes:
    """One BTF type with what follows it."""
    return struct.pack("<III", name, kind << 24 | count, target) + extra

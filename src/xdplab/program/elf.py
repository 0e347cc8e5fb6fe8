"""The ELF container: sections, symbols and relocations of a little-endian BPF object.

Layouts are those of elf(5) for ELFCLASS64. Counts are capped well above what a compiler
makes and low enough that no file takes more than a second or 200 MB to read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from xdplab.errors import ObjectError
from xdplab.program.bounded import Region, StringTable

EM_BPF = 247

SHT_PROGBITS = 1
SHT_SYMTAB = 2
SHT_NOBITS = 8
SHT_REL = 9
SHF_ALLOC = 0x2
SHF_EXECINSTR = 0x4

SHN_UNDEF = 0
STT_FUNC = 2
STB_LOCAL = 0
STB_WEAK = 2
STV_HIDDEN = 2

# How an instruction or a word refers to a symbol; numbers as in LLVM's ELFRelocs/BPF.def.
R_BPF_64_64 = 1
R_BPF_64_ABS64 = 2
R_BPF_64_ABS32 = 3
R_BPF_64_NODYLD32 = 4
R_BPF_64_32 = 10

MAX_SECTIONS = 4096
MAX_SYMBOLS = 1 << 16
MAX_RELOCATIONS = 1 << 16

_ET_REL = 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QII")


class Section(NamedTuple):
    """One section header, the `number`th; `type`, `flags`, `link` and `info` as in Elf64_Shdr."""

    number: int
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int


class Symbol(NamedTuple):
    """One symbol; `section` is a section's index, SHN_UNDEF for externs.

    `visibility` is STV_*: what is hidden is nobody's outside the object.
    """

    name: str
    type: int
    binding: int
    section: int
    value: int
    size: int
    visibility: int


class ElfRelocation(NamedTuple):
    """An Elf64_Rel: at `offset` bytes of its section, `type` (R_BPF_*), to symbol `symbol`."""

    offset: int
    type: int
    symbol: int


class ElfFile:
    """Sections and symbols are read at once, contents on demand.

    Raises ObjectError, here and from every method, where the file is not what its headers
    say.
    """

    def __init__(self, raw: bytes) -> None:
        self._file = Region(raw, "the file")
        _check_identity(raw)
        header = self._file.unpack(_HEADER, 0, "the ELF header")
        (_, kind, machine, _, _, _, table, _, _, _, _, entry, count, names) = header
        if machine != EM_BPF:
            raise ObjectError(
                f"it is compiled for machine {machine}, not for BPF ({EM_BPF}). "
                "Compile it with -target bpf"
            )
        if kind != _ET_REL:
            raise ObjectError(f"it is an ELF file of type {kind}, not a relocatable object (1)")
        if entry != _SECTION.size or not 0 < count <= MAX_SECTIONS:
            raise ObjectError(
                f"it has {count} section headers of {entry} bytes; 1 to {MAX_SECTIONS} of "
                f"{_SECTION.size} are expected"
            )
        self.sections = self._read_sections(table, count, names)
        self.symbols = self._read_symbols()
        self._relocations_left = MAX_RELOCATIONS
        self._relocation_sections: dict[int, list[Section]] = {}
        for section in self.sections:
            if section.type == SHT_REL:
                self._relocation_sections.setdefault(section.info, []).append(section)

    def content(self, section: Section) -> Region:
        """The bytes of a section; ObjectError for one that the file holds no bytes of."""
        what = f"section {section.name or section.number}"
        if section.type == SHT_NOBITS:
            raise ObjectError(f"{what} has no bytes in the file, but must have some")
        return Region(self._file.take(section.offset, section.size, what), what)

    def find(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def relocations(self, target: Section) -> list[ElfRelocation]:
        """The relocations that apply to `target`; each symbol index is a valid one."""
        found = []
        for section in self._relocation_sections.get(target.number, ()):
            region = self.content(section)
            count = len(region) // _RELOCATION.size
            self._relocations_left -= count
            if self._relocations_left < 0:
                raise ObjectError(f"it has more than {MAX_RELOCATIONS} relocations")
            for offset, kind, symbol in region.records(_RELOCATION, 0, count, "relocations"):
                if symbol >= len(self.symbols):
                    raise ObjectError(
                        f"{region.what} refers to symbol {symbol} of {len(self.symbols)}"
                    )
                found.append(ElfRelocation(offset, kind, symbol))
        return found

    def _read_sections(self, table: int, count: int, names: int) -> Sequence[Section]:
        headers = list(self._file.records(_SECTION, table, count, "the section headers"))
        if names >= count:
            raise ObjectError(f"its section names would be in section {names} of {count}")
        start, size = headers[names][4:6]
        strings = StringTable(
            Region(self._file.take(start, size, "the section names"), "the table of section names")
        )
        return [
            Section(index, strings.at(name), kind, flags, offset, size, link, info)
            for index, (name, kind, flags, _, offset, size, link, info, _, _) in enumerate(headers)
        ]

    def _read_symbols(self) -> Sequence[Symbol]:
        table = next((section for section in self.sections if section.type == SHT_SYMTAB), None)
        if table is None:
            raise ObjectError("it has no symbol table. Do not strip it (llvm-strip -g is fine)")
        if table.link >= len(self.sections):
            raise ObjectError(f"its symbol names would be in section {table.link}")
        strings = StringTable(self.content(self.sections[table.link]))
        region = self.content(table)
        count = len(region) // _SYMBOL.size
        if count > MAX_SYMBOLS:
            raise ObjectError(f"it has {count} symbols; at most {MAX_SYMBOLS} are read")
        return [
            Symbol(strings.at(name), info & 0xF, info >> 4, section, value, size, other & 0x3)
            for name, info, other, section, value, size in region.records(
                _SYMBOL, 0, count, "the symbols"
            )
        ]


def _check_identity(raw: bytes) -> None:
    if len(raw) == 0:
        raise ObjectError("it is empty")
    if raw[:4] != b"\x7fELF":
        raise ObjectError("it is not an ELF file. A program's source must be named NAME.bpf.c")
    if len(raw) < _HEADER.size:
        raise ObjectError(f"it is truncated: {len(raw)} bytes are less than an ELF header")
    if raw[4] != 2:
        raise ObjectError("it is not a 64-bit ELF file. Compile it with -target bpf")
    if raw[5] == 2:
        raise ObjectError("it is big-endian. Compile it with -target bpfel")
    if raw[5] != 1:
        raise ObjectError(f"its byte order {raw[5]} is neither little- nor big-endian")

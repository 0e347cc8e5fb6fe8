"""Functions of an object: their instructions, lines, and what these refer to."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from xdplab.errors import ObjectError
from xdplab.program import elf
from xdplab.program.btf_ext import BtfExt
from xdplab.program.elf import ElfFile, ElfRelocation, Section, Symbol
from xdplab.program.spec import (
    INSN_SIZE,
    GlobalSpec,
    LineInfo,
    MapSpec,
    ProgramSpec,
    Relocation,
)

# As many as the kernel takes in one program.
MAX_INSNS = 1_000_000

_CALL = 0x85
_PSEUDO_CALL = 1
_LD_IMM64 = 0x18


class _Function(NamedTuple):
    name: str
    section: Section
    start: int
    end: int
    is_subprogram: bool


class FunctionReader:
    """Reads the functions of every code section; see `read`."""

    def __init__(
        self,
        file: ElfFile,
        btf_ext: BtfExt | None,
        maps: Mapping[str, MapSpec],
        variables: Mapping[str, GlobalSpec],
    ) -> None:
        self._elf = file
        self._btf_ext = btf_ext
        self._maps = maps
        self._variables: dict[str, list[tuple[int, int, str]]] = {}
        for name, spec in variables.items():
            extent = (spec.offset_bytes, spec.offset_bytes + spec.size_bytes, name)
            self._variables.setdefault(spec.section, []).append(extent)
        for extents in self._variables.values():
            extents.sort()
        sections = [
            section
            for section in file.sections
            if section.type == elf.SHT_PROGBITS and section.flags & elf.SHF_EXECINSTR
        ]
        if sum(section.size for section in sections) > MAX_INSNS * INSN_SIZE:
            raise ObjectError(f"it has more than {MAX_INSNS} instructions")
        self._code = {section.number: file.content(section).data for section in sections}
        self._local_calls_left = elf.MAX_RELOCATIONS
        self._functions = self._find_functions()
        self._by_start = {
            (function.section.number, function.start): function.name for function in self._functions
        }

    def read(self) -> tuple[dict[str, ProgramSpec], dict[str, ProgramSpec]]:
        """Entry programs and subprograms by name; ObjectError where the code is damaged."""
        programs: dict[str, ProgramSpec] = {}
        subprograms: dict[str, ProgramSpec] = {}
        relocations = {
            index: sorted(self._elf.relocations(self._elf.sections[index])) for index in self._code
        }
        for function in self._functions:
            index = function.section.number
            mine = _within(relocations[index], function.start, function.end)
            spec = ProgramSpec(
                name=function.name,
                section=function.section.name,
                insns=self._code[index][function.start : function.end],
                line_info=tuple(self._line_info(function)),
                relocations=tuple(
                    sorted(
                        [*self._relocate(function, mine), *self._local_calls(function, mine)],
                        key=lambda relocation: relocation.insn_index,
                    )
                ),
                is_subprogram=function.is_subprogram,
                has_core_relocations=self._has_core_relocations(function),
                core_misfit=self._core_misfit(function),
            )
            (subprograms if function.is_subprogram else programs)[function.name] = spec
        return programs, subprograms

    def _find_functions(self) -> list[_Function]:
        symbols = sorted(
            (
                symbol
                for symbol in self._elf.symbols
                if symbol.type == elf.STT_FUNC and symbol.section in self._code
            ),
            key=lambda symbol: (symbol.section, symbol.value, -symbol.size, symbol.name),
        )
        found: list[_Function] = []
        names: set[str] = set()
        for position, symbol in enumerate(symbols):
            section = self._elf.sections[symbol.section]
            following = symbols[position + 1] if position + 1 < len(symbols) else None
            end = symbol.value + symbol.size
            # Assembly may leave the size out: the function then goes on to the next one.
            if symbol.size == 0:
                same = following is not None and following.section == symbol.section
                end = following.value if same and following else len(self._code[symbol.section])
            name = symbol.name
            if name in names:
                # Two files linked into one object may each have a static of that name.
                name = f"{name}@{section.name}+{symbol.value}"
            names.add(name)
            function = _Function(
                name,
                section,
                symbol.value,
                end,
                section.name == ".text" or symbol.binding == elf.STB_LOCAL,
            )
            self._check(function, found[-1] if found else None)
            found.append(function)
        return found

    def _check(self, function: _Function, previous: _Function | None) -> None:
        size = len(self._code[function.section.number])
        if not 0 <= function.start < function.end <= size:
            raise ObjectError(
                f"function {function.name} would be bytes {function.start} to {function.end} of "
                f"section {function.section.name}, which has {size}"
            )
        if function.start % INSN_SIZE or function.end % INSN_SIZE:
            raise ObjectError(f"function {function.name} has a part of an instruction")
        if previous and previous.section == function.section and previous.end > function.start:
            raise ObjectError(f"functions {previous.name} and {function.name} overlap")

    def _line_info(self, function: _Function) -> Iterator[LineInfo]:
        if self._btf_ext is None:
            return
        lines = self._btf_ext.lines.get(function.section.name, [])
        first = bisect.bisect_left(lines, function.start, key=lambda line: line.offset)
        for position in range(first, len(lines)):
            line = lines[position]
            if line.offset >= function.end:
                return
            index = (line.offset - function.start) // INSN_SIZE
            yield LineInfo(index, line.file, line.line, line.column, line.text)

    def _has_core_relocations(self, function: _Function) -> bool:
        if self._btf_ext is None:
            return False
        offsets = self._btf_ext.core_offsets.get(function.section.name, [])
        first = bisect.bisect_left(offsets, function.start)
        return first < len(offsets) and offsets[first] < function.end

    def _core_misfit(self, function: _Function) -> str:
        misfits = self._btf_ext.core_misfits if self._btf_ext else {}
        return next(
            (
                name
                for offset, name in misfits.get(function.section.name, [])
                if function.start <= offset < function.end
            ),
            "",
        )

    def _relocate(
        self, function: _Function, relocations: list[ElfRelocation]
    ) -> Iterator[Relocation]:
        code = self._code[function.section.number]
        for relocation in relocations:
            where = f"instruction {relocation.offset // INSN_SIZE} of {function.section.name}"
            if relocation.offset % INSN_SIZE:
                raise ObjectError(f"a relocation is within {where}")
            opcode = code[relocation.offset]
            symbol = self._elf.symbols[relocation.symbol]
            index = (relocation.offset - function.start) // INSN_SIZE
            if relocation.type == elf.R_BPF_64_32 and opcode == _CALL:
                if symbol.section == elf.SHN_UNDEF:
                    yield self._extern(index, symbol, where)
                else:
                    # The in-place value is relative to the next instruction, in slots.
                    target = symbol.value + (_imm(code, relocation.offset) + 1) * INSN_SIZE
                    yield self._call(index, symbol.section, target, where, "call")
            elif relocation.type == elf.R_BPF_64_64 and opcode == _LD_IMM64:
                yield self._load(index, symbol, _imm(code, relocation.offset), where)
            else:
                raise ObjectError(
                    f"{where} (opcode {opcode:#04x}) has a relocation of type {relocation.type}, "
                    "which no loader knows"
                )

    def _load(self, index: int, symbol: Symbol, addend: int, where: str) -> Relocation:
        if symbol.section == elf.SHN_UNDEF:
            return self._extern(index, symbol, where)
        if symbol.section in self._code:
            return self._call(index, symbol.section, symbol.value + addend, where, "func")
        if symbol.section >= len(self._elf.sections):
            raise ObjectError(f"{where} refers to section {symbol.section}, which does not exist")
        section = self._elf.sections[symbol.section].name
        if section == ".maps":
            if symbol.name not in self._maps:
                raise ObjectError(f"{where} refers to {symbol.name!r}, which is no map")
            return Relocation(index, symbol.name, section, 0, "map")
        offset = symbol.value + addend
        return Relocation(index, self._variable_at(section, offset), section, offset, "data")

    def _extern(self, index: int, symbol: Symbol, where: str) -> Relocation:
        if not symbol.name:
            raise ObjectError(f"{where} refers to a symbol without a name")
        return Relocation(index, symbol.name, "", 0, "extern")

    def _variable_at(self, section: str, offset: int) -> str:
        extents = self._variables.get(section, [])
        position = bisect.bisect_right(extents, offset, key=lambda extent: extent[0]) - 1
        if position < 0 or offset >= extents[position][1]:
            return ""
        return extents[position][2]

    def _call(self, index: int, section: int, target: int, where: str, kind: str) -> Relocation:
        name = self._by_start.get((section, target))
        if name is None:
            raise ObjectError(f"{where} calls offset {target} of a section, where no function is")
        home = self._elf.sections[section].name
        return Relocation(index, name, home, 0, "call" if kind == "call" else "func")

    def _local_calls(
        self, function: _Function, relocations: list[ElfRelocation]
    ) -> Iterator[Relocation]:
        """Calls within one section need no relocation, but are listed like the others."""
        code = self._code[function.section.number]
        relocated = {relocation.offset for relocation in relocations}
        opcodes = code[function.start : function.end : INSN_SIZE]
        index = opcodes.find(_CALL)
        while index >= 0:
            position = function.start + index * INSN_SIZE
            if code[position + 1] >> 4 == _PSEUDO_CALL and position not in relocated:
                self._local_calls_left -= 1
                if self._local_calls_left < 0:
                    raise ObjectError(f"it has more than {elf.MAX_RELOCATIONS} calls")
                target = position + (_imm(code, position) + 1) * INSN_SIZE
                where = f"instruction {position // INSN_SIZE} of {function.section.name}"
                yield self._call(index, function.section.number, target, where, "call")
            index = opcodes.find(_CALL, index + 1)


def _imm(code: bytes, offset: int) -> int:
    return int.from_bytes(code[offset + 4 : offset + 8], "little", signed=True)


def _within(relocations: list[ElfRelocation], start: int, end: int) -> list[ElfRelocation]:
    first = bisect.bisect_left(relocations, start, key=lambda relocation: relocation.offset)
    last = bisect.bisect_left(relocations, end, key=lambda relocation: relocation.offset)
    return relocations[first:last]

"""Object file to ObjectSpec: puts together what the ELF and BTF readers find."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path

from xdplab.errors import ObjectError
from xdplab.program import elf, maps
from xdplab.program.bounded import Region
from xdplab.program.btf import Btf, Variable
from xdplab.program.btf_ext import BtfExt
from xdplab.program.elf import ElfFile, Section
from xdplab.program.functions import FunctionReader
from xdplab.program.spec import ExternKind, ExternSpec, GlobalSpec, MapSpec, ObjectSpec

MAX_FILE_BYTES = 16 << 20
MAX_DATA_BYTES = 16 << 20

_EXTERN_SECTIONS: dict[str, ExternKind] = {".ksyms": "ksym", ".kconfig": "kconfig"}
_WORD = struct.Struct("<I")
# LLVM writes the former for variables of read-only sections, the latter for all others.
_BTF_RELOCATIONS = (elf.R_BPF_64_ABS32, elf.R_BPF_64_NODYLD32)


def read_object(source: Path | bytes, name: str | None = None) -> ObjectSpec:
    """Read a BPF object: a relocatable, little-endian ELF file for machine BPF.

    `source` is a path or the file's bytes. `name` defaults to the file's name without
    `.bpf.o` or `.o`. Objects without BTF have no line info and no variables, and can have
    no maps. Takes less than a second and 200 MB whatever the input.

    Raises ObjectError, and nothing else, where the file is missing, too large,
    damaged, of another machine, has maps in the legacy section, or has no program.
    """
    if isinstance(source, bytes):
        shown, raw = name or "an object", source
    else:
        shown = str(source)
        name = name or source.name.removesuffix(".o").removesuffix(".bpf")
        raw = _read_file(source)
    try:
        if len(raw) > MAX_FILE_BYTES:
            raise ObjectError(f"it has {len(raw)} bytes; at most {MAX_FILE_BYTES} are read")
        return _Reader(raw).read(name or "object")
    except ObjectError as error:
        raise ObjectError(f"Reading {shown}: {error}") from None


def _read_file(path: Path) -> bytes:
    try:
        # A pipe or a device would be read for ever, and opening a pipe would wait (hence
        # the opener, which Path.open does not take): only files have a size to check.
        with open(path, "rb", opener=_open_nonblocking) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ObjectError(f"Reading {path}: it is not a regular file. Give a .bpf.o file")
            if status.st_size > MAX_FILE_BYTES:
                raise ObjectError(
                    f"Reading {path}: it has {status.st_size} bytes; at most "
                    f"{MAX_FILE_BYTES} are read. Strip its DWARF (llvm-strip -g) if it is real"
                )
            return file.read(MAX_FILE_BYTES + 1)
    except IsADirectoryError:
        raise ObjectError(f"Reading {path}: it is a directory. Give a .bpf.o file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ObjectError(f"Reading {path}: {reason}. Check the path and its permissions") from None


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._elf = ElfFile(raw)
        if self._elf.find("maps") is not None:
            raise ObjectError(
                "its maps are in the legacy section `maps`, which libbpf 1.0 dropped. "
                'Define them with BTF in SEC(".maps") and compile it again'
            )
        btf_section = self._elf.find(".BTF")
        self._btf = self._read_btf(btf_section) if btf_section else None
        ext_section = self._elf.find(".BTF.ext")
        self._btf_ext = (
            BtfExt(self._elf.content(ext_section), self._btf) if ext_section and self._btf else None
        )
        self._variables = self._btf.data_sections() if self._btf else {}

    def read(self, name: str) -> ObjectSpec:
        sections = self._read_sections()
        variables = self._read_globals(sections)
        read_maps = self._read_maps()
        functions = FunctionReader(self._elf, self._btf_ext, read_maps, variables)
        programs, subprograms = functions.read()
        if not programs:
            raise ObjectError(
                "it has no program: no function is in a section of its own. "
                'Mark one with SEC("xdp")'
            )
        return ObjectSpec(
            name=name,
            raw=self._raw,
            license=self._read_license(),
            byte_order="little",
            programs=programs,
            subprograms=subprograms,
            maps=read_maps,
            globals=variables,
            sections=sections,
            externs=self._read_externs(),
        )

    def _read_btf(self, section: Section) -> Btf:
        """BTF with the offsets of variables put in, which are left to relocations."""
        region = self._elf.content(section)
        data = bytearray(region.data)
        for relocation in self._elf.relocations(section):
            symbol = self._elf.symbols[relocation.symbol]
            if relocation.type not in _BTF_RELOCATIONS or symbol.section == elf.SHN_UNDEF:
                continue
            (inside,) = region.unpack(_WORD, relocation.offset, "a relocated word")
            _WORD.pack_into(data, relocation.offset, (inside + symbol.value) & 0xFFFFFFFF)
        return Btf(Region(bytes(data), "section .BTF"))

    def _read_license(self) -> str:
        section = self._elf.find("license")
        if section is None:
            return ""
        return self._elf.content(section).data[:128].split(b"\0")[0].decode(errors="replace")

    def _read_sections(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        left = MAX_DATA_BYTES
        for section in self._elf.sections:
            if not _is_data(section):
                continue
            left -= section.size
            if left < 0:
                raise ObjectError(
                    f"its data sections have more than {MAX_DATA_BYTES} bytes, "
                    f"with {section.size} in {section.name}"
                )
            found[section.name] = (
                bytes(section.size)
                if section.type == elf.SHT_NOBITS
                else self._elf.content(section).data
            )
        return found

    def _read_globals(self, sections: Mapping[str, bytes]) -> dict[str, GlobalSpec]:
        found: dict[str, GlobalSpec] = {}
        for section, data in sections.items():
            left = len(data)
            for variable in self._variables.get(section, ()):
                spec = self._read_global(section, data, variable)
                left -= spec.size_bytes
                if left < 0:
                    raise ObjectError(f"the variables of its section {section} overlap")
                key = spec.name
                if key in found:
                    # Two functions may each have a static `count`.
                    key = f"{key}@{section}+{spec.offset_bytes}"
                found[key] = spec
        return found

    def _read_global(self, section: str, data: bytes, variable: Variable) -> GlobalSpec:
        assert self._btf is not None
        size = variable.size_bytes
        content = Region(data, f"section {section}")
        encoding = self._btf.encoding(variable.type)
        # Damaged or unusual BTF may give a number any size; such a one is handled as bytes.
        if self._btf.size_bytes(variable.type) != size or (encoding != "bytes" and size > 16):
            encoding = "bytes"
        return GlobalSpec(
            name=variable.name,
            section=section,
            offset_bytes=variable.offset_bytes,
            size_bytes=size,
            type_name=self._btf.spelling(variable.type),
            encoding=encoding,
            initial=content.take(variable.offset_bytes, size, f"variable {variable.name}"),
        )

    def _read_maps(self) -> dict[str, MapSpec]:
        section = self._elf.find(".maps")
        if section is None:
            return {}
        if self._btf is None:
            raise ObjectError("its maps are described by BTF, which it lacks. Compile it with -g")
        slots = [
            (relocation.offset, self._elf.symbols[relocation.symbol].name)
            for relocation in self._elf.relocations(section)
            if relocation.type in (elf.R_BPF_64_64, elf.R_BPF_64_ABS64)
        ]
        return maps.read_maps(self._btf, self._variables.get(".maps", []), slots)

    def _read_externs(self) -> dict[str, ExternSpec]:
        known: dict[str, ExternKind] = {}
        for section, kind in _EXTERN_SECTIONS.items():
            for variable in self._variables.get(section, ()):
                known[variable.name] = "kfunc" if variable.is_function else kind
        return {
            symbol.name: ExternSpec(
                symbol.name, known.get(symbol.name, "unknown"), symbol.binding == elf.STB_WEAK
            )
            for symbol in self._elf.symbols
            if symbol.section == elf.SHN_UNDEF and symbol.name
        }


def _is_data(section: Section) -> bool:
    kinds = (elf.SHT_PROGBITS, elf.SHT_NOBITS)
    if section.type not in kinds or not section.flags & elf.SHF_ALLOC:
        return False
    base = "." + section.name.removeprefix(".").split(".")[0]
    return section.name.startswith(".") and base in (".data", ".rodata", ".bss")

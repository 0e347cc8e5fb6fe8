"""A linked program as a kernel takes it: instructions in which only numbers of one boot are left.

libbpf relocates for the kernel that it runs on. A guest is another one, so that what depends on it
stays a list of fixups, which the runner in the guest works off: descriptors of maps, numbers of
kfuncs. Programs with functions need BTF, which no kernel takes as the compiler wrote it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from xdplab.errors import MissingFeatureError, ObjectError
from xdplab.program import ObjectSpec, btf
from xdplab.program.elf import STV_HIDDEN, ElfFile
from xdplab.program.insn import (
    CALL_HELPER,
    CALL_KFUNC,
    CALL_LOCAL,
    PSEUDO_FUNC,
    PSEUDO_MAP_FD,
    PSEUDO_MAP_VALUE,
    Insn,
    encode,
)
from xdplab.user.link import DataRef, ExternRef, FunctionRef, LinkedProgram, MapRef, link

_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")


class FixupKind(IntEnum):
    """What the runner puts into an instruction; numbers as in runner.c."""

    MAP = 1
    KFUNC = 2
    KFUNC_ADDRESS = 3


@dataclass(frozen=True, slots=True)
class Fixup:
    """Slot `slot` wants the number of `name`: a map, a data section or a kfunc (`weak`: if any)."""

    slot: int
    kind: FixupKind
    name: str
    weak: bool = False


@dataclass(frozen=True, slots=True)
class RelocatedProgram:
    """`insns` is `struct bpf_insn[]`; `func_info` pairs of slot and BTF type, or empty.

    `btf` is the object's BTF as kernels take it, b"" for a program that loads without.
    """

    name: str
    insns: bytes
    fixups: tuple[Fixup, ...]
    func_info: tuple[tuple[int, int], ...]
    btf: bytes
    takes_frags: bool


def relocate(spec: ObjectSpec, program: str) -> RelocatedProgram:
    """The program with all that it calls.

    NotPossibleError where it needs what nobody can know before the boot (CO-RE of kernel types,
    kernel configuration), ObjectError where the object is damaged.
    """
    linked = link(spec, program)
    insns = list(linked.insns)
    fixups: list[Fixup] = []
    for slot, reference in linked.references.items():
        insn = insns[slot]
        match reference:
            case MapRef(name):
                insns[slot] = replace(insn, src=PSEUDO_MAP_FD, imm=0)
                fixups.append(Fixup(slot, FixupKind.MAP, name))
            case DataRef(section, offset_bytes):
                insns[slot] = replace(insn, src=PSEUDO_MAP_VALUE, imm=0)
                insns[slot + 1] = Insn(0, imm=offset_bytes)
                fixups.append(Fixup(slot, FixupKind.MAP, section))
            case FunctionRef(start):
                kind = PSEUDO_FUNC if insn.is_wide else CALL_LOCAL
                insns[slot] = replace(insn, src=kind, imm=start - slot - 1)
            case ExternRef(name, weak):
                fixups.append(_extern(spec, linked, slot, name, weak))
                src = CALL_HELPER if insn.is_wide else CALL_KFUNC
                insns[slot] = replace(insn, src=src, off=0, imm=0)
                if insn.is_wide:
                    insns[slot + 1] = Insn(0)
    # A function that is not static is verified once and for itself, but only with BTF.
    has_functions = len(linked.functions) > 1
    blob, func_info = _btf_of(spec, linked) if has_functions else (b"", ())
    return RelocatedProgram(
        program, encode(insns), tuple(fixups), func_info, blob, spec.programs[program].takes_frags
    )


def _extern(spec: ObjectSpec, linked: LinkedProgram, slot: int, name: str, weak: bool) -> Fixup:
    declared = spec.externs.get(name)
    if declared is not None and declared.kind != "kfunc":
        raise MissingFeatureError(
            name,
            f"relocating {linked.place(slot)}: it uses {name}, a {declared.kind} that is looked up "
            "in a running kernel. Run it on the kernel engine",
        )
    is_address = linked.insns[slot].is_wide
    return Fixup(slot, FixupKind.KFUNC_ADDRESS if is_address else FixupKind.KFUNC, name, weak)


def _btf_of(spec: ObjectSpec, linked: LinkedProgram) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    file = ElfFile(spec.raw)
    section = file.find(".BTF")
    if section is None:
        raise ObjectError(
            f"{linked.name} of {spec.name} has functions, for which kernels want BTF, and the "
            "object has none. Compile it with -g"
        )
    hidden = {symbol.name for symbol in file.symbols if symbol.visibility == STV_HIDDEN}
    blob, functions = acceptable_btf(file.content(section).data, hidden)
    known = [(one.start, functions.get(one.name)) for one in linked.functions]
    lost = [one.name for one in linked.functions if one.name not in functions]
    if lost:
        raise ObjectError(f"the BTF of {spec.name} does not have the function {lost[0]}")
    return blob, tuple((start, number) for start, number in known if number is not None)


def acceptable_btf(data: bytes, hidden: Collection[str]) -> tuple[bytes, Mapping[str, int]]:
    """BTF that a kernel takes, and the numbers of its functions by name.

    Functions whose symbols are `hidden` become static, as libbpf has it: they are verified where
    they are called, and may be handed to helpers. A kernel refuses what is for the linker alone:
    data sections whose sizes are open, their variables, functions that are elsewhere, and what is
    said of these. No function's type has them in it: pointers to void take their places, so that
    all others keep their numbers.
    """
    if len(data) < _HEADER.size:
        raise ObjectError(f"its BTF has {len(data)} bytes, less than a header")
    magic, version, flags, header, type_at, type_bytes, text_at, text_bytes = _HEADER.unpack_from(
        data
    )
    strings = data[header + text_at : header + text_at + text_bytes]
    types = data[header + type_at : header + type_at + type_bytes]
    kept, functions = bytearray(), {}
    for number, (kind, record) in enumerate(_records(types), 1):
        name_at, info, proto = _TYPE.unpack_from(record)
        is_elsewhere = kind == btf.FUNC and info & 0xFFFF == 2  # BTF_FUNC_EXTERN
        if kind in {btf.VAR, btf.DATASEC, btf.DECL_TAG} or is_elsewhere:
            kept += _TYPE.pack(0, btf.PTR << 24, 0)
            continue
        if kind == btf.FUNC:
            name = strings[name_at : strings.index(b"\0", name_at)].decode()
            functions[name] = number
            if name in hidden:
                record = _TYPE.pack(name_at, btf.FUNC << 24, proto)  # noqa: PLW2901 - the same type
        kept += record
    sizes = (_HEADER.size, 0, len(kept), len(kept), len(strings))
    return _HEADER.pack(magic, version, flags, *sizes) + bytes(kept) + strings, functions


def _records(types: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(types):
        if at + _TYPE.size > len(types):
            raise ObjectError("its BTF ends in the middle of a type")
        _, info, _ = _TYPE.unpack_from(types, at)
        kind = info >> 24 & 0x1F
        size = _TYPE.size + btf.FIXED_EXTRA.get(kind, 0)
        size += btf.MEMBER_EXTRA.get(kind, 0) * (info & 0xFFFF)
        yield kind, types[at : at + size]
        at += size

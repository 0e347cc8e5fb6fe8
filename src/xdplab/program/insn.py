"""The eBPF instruction set: encoding and the names of its parts, up to v4.

Numbers are those of RFC 9669 and of the kernel's include/uapi/linux/bpf.h. An opcode byte is
    class | source | op      arithmetic and jumps: 3 bits, 1 bit, 4 bits
    class | size | mode      loads and stores:     3 bits, 2 bits, 3 bits
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdplab.errors import ObjectError
from xdplab.program.spec import INSN_SIZE

# Classes.
LD, LDX, ST, STX, ALU, JMP, JMP32, ALU64 = range(8)

# Source of arithmetic and jumps: the immediate, or a register.
K, X = 0x00, 0x08

# Operations of ALU and ALU64.
ADD, SUB, MUL, DIV, OR, AND, LSH, RSH = 0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70
NEG, MOD, XOR, MOV, ARSH, END = 0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0

# Operations of JMP and JMP32.
JA, JEQ, JGT, JGE, JSET, JNE, JSGT, JSGE = 0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70
CALL, EXIT, JLT, JLE, JSLT, JSLE, JCOND = 0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0, 0xE0

# Sizes of loads and stores.
W, H, B, DW = 0x00, 0x08, 0x10, 0x18
SIZE_BYTES = {B: 1, H: 2, W: 4, DW: 8}

# Modes of loads and stores.
IMM, ABS, IND, MEM, MEMSX, ATOMIC = 0x00, 0x20, 0x40, 0x60, 0x80, 0xC0

# Atomic operations, in the immediate; FETCH is added to those of ADD, OR, AND and XOR.
FETCH = 0x01
XCHG, CMPXCHG = 0xE1, 0xF1
LOAD_ACQUIRE, STORE_RELEASE = 0x100, 0x110

# What the source register's number says of a 64-bit load and of a call.
PSEUDO_MAP_FD, PSEUDO_MAP_VALUE, PSEUDO_BTF_ID, PSEUDO_FUNC = 1, 2, 3, 4
PSEUDO_MAP_INDEX, PSEUDO_MAP_INDEX_VALUE = 5, 6
CALL_HELPER, CALL_LOCAL, CALL_KFUNC = 0, 1, 2

LD_IMM64 = LD | DW | IMM

# A register move with this offset changes address space (arena pointers).
ADDRESS_SPACE_CAST = 1

_LAYOUT = struct.Struct("<BBhi")


@dataclass(frozen=True, slots=True)
class Insn:
    """One slot, `struct bpf_insn`: `dst` and `src` are 0 to 15, `off` s16, `imm` s32."""

    code: int
    dst: int = 0
    src: int = 0
    off: int = 0
    imm: int = 0

    @property
    def insn_class(self) -> int:
        """LD, LDX, ST, STX, ALU, JMP, JMP32 or ALU64."""
        return self.code & 0x07

    @property
    def op(self) -> int:
        """Operation of an ALU or JMP class: ADD, ..., END or JA, ..., JCOND."""
        return self.code & 0xF0

    @property
    def has_register_source(self) -> bool:
        """Whether an ALU or JMP class takes its operand from `src`, not from `imm`."""
        return bool(self.code & X)

    @property
    def size(self) -> int:
        """Size code of a load or store: B, H, W or DW."""
        return self.code & 0x18

    @property
    def mode(self) -> int:
        """Mode of a load or store: IMM, ABS, IND, MEM, MEMSX or ATOMIC."""
        return self.code & 0xE0

    @property
    def is_wide(self) -> bool:
        """Whether this is the first slot of a 64-bit load, which has two."""
        return self.code == LD_IMM64


def decode(insns: bytes) -> tuple[Insn, ...]:
    """One Insn for each 8-byte slot, the second ones of 64-bit loads too.

    Any slot decodes, valid or not; ObjectError where `insns` is not whole slots.
    """
    if len(insns) % INSN_SIZE:
        raise ObjectError(
            f"Decoding instructions: {len(insns)} bytes are no multiple of {INSN_SIZE}"
        )
    return tuple(
        Insn(code, registers & 0xF, registers >> 4, off, imm)
        for code, registers, off, imm in _LAYOUT.iter_unpack(insns)
    )


def encode(insns: Iterable[Insn]) -> bytes:
    """The inverse of `decode`; ObjectError where a field does not fit."""
    parts = []
    for insn in insns:
        try:
            if not (0 <= insn.dst <= 15 and 0 <= insn.src <= 15):
                raise ObjectError(f"Encoding {insn}: a register is not from 0 to 15")
            parts.append(_LAYOUT.pack(insn.code, insn.dst | insn.src << 4, insn.off, insn.imm))
        except struct.error as error:
            raise ObjectError(f"Encoding {insn}: {error}") from None
    return b"".join(parts)


def wide_immediate(first: Insn, second: Insn) -> int:
    """The unsigned 64-bit value of a 64-bit load's two slots."""
    return first.imm & 0xFFFFFFFF | (second.imm & 0xFFFFFFFF) << 32


def subprogram_starts(insns: bytes) -> Sequence[int]:
    """Instruction offsets at which subprograms begin: 0 and every target of a pseudo call."""
    # BPF_PSEUDO_CALL is 1 in a call, BPF_PSEUDO_FUNC 4 in a 64-bit load.
    return sorted(
        {0}
        | {
            slot + 1 + insn.imm
            for slot, insn in enumerate(decode(insns))
            if (insn.code == 0x85 and insn.src == 1) or (insn.is_wide and insn.src == 4)
        }
    )

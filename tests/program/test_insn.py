"""Decoding and disassembling: every operation has its text, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.errors import ObjectError
from xdplab.program import Insn, ObjectSpec, decode, disassemble, encode
from xdplab.program import insn as isa
from xdplab.program.insn import subprogram_starts, wide_immediate

ALU_TEXTS = [
    (isa.ADD, "+="),
    (isa.SUB, "-="),
    (isa.MUL, "*="),
    (isa.DIV, "/="),
    (isa.OR, "|="),
    (isa.AND, "&="),
    (isa.LSH, "<<="),
    (isa.RSH, ">>="),
    (isa.MOD, "%="),
    (isa.XOR, "^="),
    (isa.MOV, "="),
    (isa.ARSH, "s>>="),
]
JUMP_TEXTS = [
    (isa.JEQ, "=="),
    (isa.JGT, ">"),
    (isa.JGE, ">="),
    (isa.JSET, "&"),
    (isa.JNE, "!="),
    (isa.JSGT, "s>"),
    (isa.JSGE, "s>="),
    (isa.JLT, "<"),
    (isa.JLE, "<="),
    (isa.JSLT, "s<"),
    (isa.JSLE, "s<="),
]


def text(code: int, dst: int = 1, src: int = 0, off: int = 0, imm: int = 0) -> str:
    """The line of one instruction."""
    (line,) = disassemble([Insn(code, dst, src, off, imm)])
    return line


@given(st.binary(max_size=800))
def test_any_slots_round_trip_and_have_a_line(data: bytes) -> None:
    data = data[: len(data) // 8 * 8]
    insns = decode(data)
    assert encode(insns) == data
    assert len(disassemble(insns)) == len(insns)


@given(
    st.builds(
        Insn,
        st.integers(0, 255),
        st.integers(0, 15),
        st.integers(0, 15),
        st.integers(-(1 << 15), (1 << 15) - 1),
        st.integers(-(1 << 31), (1 << 31) - 1),
    )
)
def test_any_insn_round_trips(insn: Insn) -> None:
    assert decode(encode([insn])) == (insn,)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ObjectError, match="9 bytes are no multiple of 8"):
        decode(bytes(9))
    for insn in (
        Insn(256),
        Insn(0, 16),
        Insn(0, 0, -1),
        Insn(0, off=1 << 15),
        Insn(0, imm=1 << 31),
    ):
        with pytest.raises(ObjectError, match="Encoding"):
            encode([insn])


@pytest.mark.parametrize(("op", "symbol"), ALU_TEXTS)
def test_arithmetic(op: int, symbol: str) -> None:
    assert text(isa.ALU64 | isa.K | op, imm=-5) == f"r1 {symbol} -5"
    assert text(isa.ALU64 | isa.X | op, src=2) == f"r1 {symbol} r2"
    assert text(isa.ALU | isa.K | op, imm=5) == f"w1 {symbol} 5"
    assert text(isa.ALU | isa.X | op, src=2) == f"w1 {symbol} w2"


@pytest.mark.parametrize(("op", "symbol"), JUMP_TEXTS)
def test_conditional_jumps(op: int, symbol: str) -> None:
    assert text(isa.JMP | isa.K | op, off=3, imm=5) == f"if r1 {symbol} 0x5 goto pc+3"
    assert text(isa.JMP | isa.X | op, src=2, off=-1) == f"if r1 {symbol} r2 goto pc-1"
    assert text(isa.JMP32 | isa.K | op, imm=-1) == f"if w1 {symbol} 0xffffffff goto pc+0"
    assert text(isa.JMP32 | isa.X | op, src=2) == f"if w1 {symbol} w2 goto pc+0"


# Opcode bytes are written out here, as a check of the constants.
@pytest.mark.parametrize(
    ("insn", "line"),
    [
        (Insn(0x87, 1), "r1 = -r1"),
        (Insn(0x84, 1), "w1 = -w1"),
        (Insn(0x37, 1, 0, 1, 3), "r1 s/= 3"),
        (Insn(0x3C, 1, 2, 1), "w1 s/= w2"),
        (Insn(0x9F, 1, 2, 1), "r1 s%= r2"),
        (Insn(0xBF, 1, 2, 8), "r1 = (s8)r2"),
        (Insn(0xBF, 1, 2, 32), "r1 = (s32)r2"),
        (Insn(0xBC, 1, 2, 16), "w1 = (s16)w2"),
        (Insn(0xBF, 1, 2, 1, 1 << 16), "r1 = addr_space_cast(r2, 1, 0)"),
        (Insn(0xD4, 1, 0, 0, 16), "r1 = le16 r1"),
        (Insn(0xDC, 1, 0, 0, 32), "r1 = be32 r1"),
        (Insn(0xD7, 1, 0, 0, 64), "r1 = bswap64 r1"),
        (Insn(0x05, off=-4), "goto pc-4"),
        (Insn(0x06, imm=70000), "gotol pc+70000"),
        (Insn(0x0D, 3), "gotox r3"),
        (Insn(0xE5, off=2), "may_goto pc+2"),
        (Insn(0xE5, src=1, off=2), "goto_or_nop pc+2"),
        (Insn(0x85, imm=44), "call helper#44"),
        (Insn(0x85, src=1, imm=-1), "call pc-1"),
        (Insn(0x85, src=2, imm=99), "call kernel-function#99"),
        (Insn(0x8D, 6), "callx r6"),
        (Insn(0x95), "exit"),
        (Insn(0x71, 1, 2, 0), "r1 = *(u8 *)(r2 +0)"),
        (Insn(0x69, 1, 2, 4), "r1 = *(u16 *)(r2 +4)"),
        (Insn(0x61, 1, 2, 4), "r1 = *(u32 *)(r2 +4)"),
        (Insn(0x79, 1, 10, -8), "r1 = *(u64 *)(r10 -8)"),
        (Insn(0x91, 1, 2, 1), "r1 = *(s8 *)(r2 +1)"),
        (Insn(0x81, 1, 2, 1), "r1 = *(s32 *)(r2 +1)"),
        (Insn(0x7B, 10, 1, -8), "*(u64 *)(r10 -8) = r1"),
        (Insn(0x62, 10, 0, -4, 7), "*(u32 *)(r10 -4) = 7"),
        (Insn(0xDB, 1, 2, 0, 0x00), "lock *(u64 *)(r1 +0) += r2"),
        (Insn(0xC3, 1, 2, 0, 0x50), "lock *(u32 *)(r1 +0) &= r2"),
        (Insn(0xDB, 1, 2, 0, 0x41), "r2 = atomic64_fetch_or((u64 *)(r1 +0), r2)"),
        (Insn(0xC3, 1, 2, 8, 0xA1), "r2 = atomic_fetch_xor((u32 *)(r1 +8), r2)"),
        (Insn(0xDB, 1, 2, 0, 0xE1), "r2 = atomic64_xchg((u64 *)(r1 +0), r2)"),
        (Insn(0xC3, 1, 2, 0, 0xF1), "r0 = atomic_cmpxchg((u32 *)(r1 +0), r0, r2)"),
        (Insn(0xD3, 1, 2, 0, 0x100), "r1 = load_acquire((u8 *)(r2 +0))"),
        (Insn(0xCB, 1, 2, 0, 0x110), "store_release((u16 *)(r1 +0), r2)"),
        (Insn(0x30, imm=14), "r0 = *(u8 *)skb[14]"),
        (Insn(0x48, src=3, imm=2), "r0 = *(u16 *)skb[r3 + 2]"),
    ],
)
def test_the_rest_of_the_instruction_set(insn: Insn, line: str) -> None:
    assert disassemble([insn]) == [line]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (0, "r1 = 0x200000007"),
        (isa.PSEUDO_MAP_FD, "r1 = map[fd:7]"),
        (isa.PSEUDO_MAP_VALUE, "r1 = map[fd:7][0]+2"),
        (isa.PSEUDO_BTF_ID, "r1 = btf[id:7]"),
        (isa.PSEUDO_FUNC, "r1 = func[pc+7]"),
        (isa.PSEUDO_MAP_INDEX, "r1 = map[idx:7]"),
        (isa.PSEUDO_MAP_INDEX_VALUE, "r1 = map[idx:7][0]+2"),
        (9, "unknown 64-bit load of kind 9"),
    ],
)
def test_64_bit_loads(kind: int, line: str) -> None:
    assert disassemble([Insn(isa.LD_IMM64, 1, kind, 0, 7), Insn(0, imm=2)]) == [line, ""]


def test_wide_immediate_is_unsigned() -> None:
    assert wide_immediate(Insn(isa.LD_IMM64, imm=-1), Insn(0, imm=-1)) == (1 << 64) - 1


@pytest.mark.parametrize(
    "insn",
    [
        Insn(isa.LD_IMM64),
        Insn(0xE7),
        Insn(0xF5),
        Insn(0xD7, imm=8),
        Insn(0xBF, off=7),
        Insn(0x07, off=1),
        Insn(0x85, src=3),
        Insn(0x99, 1, 2),
        Insn(0xDB, imm=0x77),
        Insn(0xD3, imm=0x00),
        Insn(0x96),
    ],
)
def test_what_is_no_instruction_is_said_so(insn: Insn) -> None:
    assert disassemble([insn]) == [f"unknown opcode {insn.code:#04x}"]


def test_compiled_code_is_all_known(everything: ObjectSpec) -> None:
    for spec in (*everything.programs.values(), *everything.subprograms.values()):
        assert not [line for line in disassemble(decode(spec.insns)) if "unknown" in line]


def test_subprograms_begin_where_calls_and_callbacks_point() -> None:
    insns = [
        Insn(isa.LD_IMM64, 1, 4, imm=5),  # slot 0: the address of slot 0 + 1 + 5
        Insn(0, imm=0),
        Insn(isa.JMP | isa.CALL, src=1, imm=1),  # slot 2: slot 2 + 1 + 1
        Insn(isa.JMP | isa.CALL, imm=7),  # a helper's number is no place
        Insn(isa.LD_IMM64, 1, 1, imm=9),  # nor is a map's
        Insn(0, imm=0),
        Insn(isa.JMP | isa.EXIT),
    ]
    assert subprogram_starts(encode(insns)) == [0, 4, 6]
    assert subprogram_starts(encode(insns[3:4])) == [0]
